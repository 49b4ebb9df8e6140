#include "weft/server/server.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "weft/base/check.h"
#include "weft/base/entropy.h"
#include "weft/base/hash.h"
#include "weft/cluster/view_json.h"
#include "weft/fabric/meshes.h"
#include "weft/server/address.h"

namespace weft {

namespace {

constexpr int kControlStepMs = 20;

// What two nodes must have in common beside the name of their cluster.
Agreement agreement_of(const ServerOptions& options) {
  const Options& o = options.spec.options;
  Agreement agreement;
  agreement.cluster = options.cluster;
  agreement.terms = {
      {"hash_seed", o.hash_seed},
      {"protocol", hash_bytes(o.protocol.data(), o.protocol.size(), 0)},
      {"lease_ms", options.lease_ns / 1'000'000},
      {"limits.inflight", o.limits.inflight},
      {"limits.key_bytes_max", o.limits.key_bytes_max},
      {"limits.value_bytes_max", o.limits.value_bytes_max},
      {"limits.txn_keys_max", o.limits.txn_keys_max},
      {"limits.txn_bytes_max", o.limits.txn_bytes_max},
      {"limits.credit_bytes", o.limits.credit_bytes},
      {"tables", options.spec.tables.size()},
  };
  for (const TableSpec& table : options.spec.tables) {
    agreement.terms.emplace_back("table " + table.name + " capacity", table.capacity);
    agreement.terms.emplace_back("table " + table.name + " value_bytes_max", table.value_bytes_max);
  }
  return agreement;
}

// A view to wait with for one that has a place for this node: it is older than any that will come.
View before_joining(View view, NodeId self) {
  std::erase_if(view.members, [&](const Member& m) { return m.node == self; });
  view.epoch = Epoch(1);
  return view;
}

}  // namespace

Server::Server(const ServerOptions& options, Membership* membership, Clock* clock)
    : options_(options), membership_(membership), clock_(clock) {}

Result<std::unique_ptr<Server>> Server::create(const ServerOptions& options, Membership* membership, Clock* clock) {
  if (auto legal = check_spec(options.spec); !legal) return legal.error();
  std::unique_ptr<Server> server(new Server(options, membership, clock));
  if (auto bound = server->bind_clients(); !bound) return bound.error();
  if (auto made = server->start_mesh(); !made) return made.error();
  return server;
}

Server::~Server() {
  for (const auto& thread : threads_) thread->stop();
}

uint64_t Server::seed(NodeId node, WorkerId worker) {
  return mix64(self_.token ^ (size_t{node.value} << 8 | worker.value));
}

Result<void> Server::start_mesh() {
  self_.node = options_.node;
  self_.token = entropy();
  MeshOptions options;
  options.kind = options_.fabric;
  options.node = options_.node;
  options.workers = options_.spec.options.workers;
  options.listen = options_.listen;
  options.tls = options_.tls;
  options.agreement = agreement_of(options_);
  auto mesh = make_mesh(options, &regions_, clock_);
  if (!mesh) return mesh.error();
  mesh_ = std::move(*mesh);
  self_.address = options_.advertise.empty() ? mesh_->address() : options_.advertise;
  return {};
}

Result<void> Server::bind_clients() {
  if (options_.clients.empty()) return {};
  const Result<HostPort> at = parse_host_port(options_.clients);
  if (!at) return Error{Code::kBadOption, "clients on " + options_.clients + ": " + at.error().detail};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(at->port);
  if (const int failed = getaddrinfo(at->host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    return Error{Code::kBadOption, "clients on " + options_.clients + ": " + gai_strerror(failed)};
  }
  client_socket_ = Fd(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int one = 1;
  setsockopt(client_socket_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const bool bound = bind(client_socket_.get(), found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  if (!bound) return Error{Code::kBadOption, "clients on " + options_.clients + ": " + strerrordesc_np(errno)};
  return {};
}

bool Server::in(const View& view) const {
  const Member* member = view.find(self_.node);
  return member != nullptr && member->token == self_.token;
}

Result<Server::End> Server::run(int stop_fd) {
  membership_->announce(self_);
  pollfd stop{stop_fd, POLLIN, 0};
  while (poll(&stop, 1, 0) == 0) {
    membership_->control_step();
    if (why_ = membership_->ended(); !why_.empty()) return End::kMembershipEnded;
    const std::shared_ptr<const View> view = membership_->latest();
    if (view != nullptr && node_ == nullptr) {
      if (auto started = start(*view); !started) return started.error();
    }
    if (view != nullptr && view != followed_) follow(view);
    if (node_ != nullptr && agent_->retired()) {
      why_ = "the view is without this node";
      return End::kRemoved;
    }
    for_each_node(cut_.exchange(0), [&](NodeId peer) { lose(peer); });
    mesh_->control_step();
    hear_mesh();
    if (node_ != nullptr) say_what_changed();
    wait(stop_fd, kControlStepMs);
  }
  return End::kStopped;
}

void Server::wait(int stop_fd, int timeout_ms) const {
  pollfd fds[3] = {{stop_fd, POLLIN, 0}, {mesh_->control_fd(), POLLIN, 0}, {membership_->control_fd(), POLLIN, 0}};
  poll(fds, membership_->control_fd() >= 0 ? 3 : 2, timeout_ms);
}

// A founder may miss the first view, if others join at once. Nothing can have been written to its partitions without
// it, and no later view is active without it: it comes to the newest one like a node that joins, and what it has,
// nothing, is what a whole replica has.
Result<void> Server::start(const View& view) {
  const bool joins = !in(view) || view.epoch != Epoch(1);
  ClusterSpec spec = options_.spec;
  spec.recovers = true;
  auto node = Node::create(self_.node, spec, joins ? before_joining(view, self_.node) : view, this, joins);
  if (!node) return node.error();
  node_ = std::move(*node);
  AgentOptions agent;
  agent.lease_ns = options_.lease_ns;
  agent.self = self_;
  agent_ = std::make_unique<Agent>(agent, node_.get(), membership_);
  const auto workers = static_cast<size_t>(node_->workers());
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const size_t threads =
      spec.options.threads > 0 ? static_cast<size_t>(spec.options.threads) : std::min(workers, cores);
  for (size_t t = 0; t < std::min(threads, workers); ++t) threads_.push_back(std::make_unique<Thread>(clock_));
  for (size_t w = 0; w < workers; ++w) {
    const WorkerId id(static_cast<uint8_t>(w));
    thread_of(w).add(node_->worker(id));
    bells_.push_back(std::make_unique<MeshBell>(mesh_.get(), id));
    thread_of(w).add_bell(bells_.back().get());
    if (!client_socket_) continue;
    const NodeHooks hooks = {[this] { return status(); },
                             [this](NodeId peer) { cut_.fetch_or(uint64_t{1} << peer.value); }};
    fronts_.push_back(std::make_unique<Front>(options_.front, Fd(dup(client_socket_.get())), node_->engine(id), hooks));
    node_->worker(id)->set_clients(fronts_.back().get());
    thread_of(w).add_bell(fronts_.back().get());
  }
  node_->set_wake([this] { wake_workers(); });
  follow(membership_->latest());
  for (size_t t = 0; t < threads_.size(); ++t) {
    threads_[t]->start(spec.options.pin_threads ? static_cast<int>(t % cores) : -1);
  }
  return {};
}

void Server::wake_workers() {
  for (const auto& thread : threads_) thread->wake();
}

// The connections are those of the newest view, at once: what a removed member sends is not heard any more.
void Server::follow(const std::shared_ptr<const View>& view) {
  followed_ = view;
  if (in(*view) && incarnation_ == 0) {
    incarnation_ = view->find(self_.node)->incarnation;
    mesh_->set_incarnation(incarnation_);
  }
  if (incarnation_ != 0) {
    for (uint8_t n = 0; n < kNodesMax; ++n) {
      const Member* member = in(*view) ? view->find(NodeId(n)) : nullptr;
      const uint32_t wanted = member == nullptr || member->node == self_.node ? 0 : member->incarnation;
      if (joined_[n] == wanted) continue;
      if (joined_[n] != 0) mesh_->leave(NodeId(n));
      if (wanted != 0) mesh_->join({member->node, member->incarnation, member->address});
      joined_[n] = wanted;
    }
  }
  if (agent_ != nullptr) agent_->nudge();
  wake_workers();
}

// Members are always fully connected: of two that have lost each other one must go.
void Server::lose(NodeId peer) {
  if (node_ == nullptr || joined_[peer.value] == 0) return;
  mesh_->leave(peer);
  node_->peer_closed(peer, joined_[peer.value]);
  agent_->nudge();
  wake_workers();
}

void Server::hear_mesh() {
  for (const MeshEvent& event : mesh_->take_events()) {
    if (event.kind == MeshEvent::Kind::kUp) continue;
    const bool member = event.peer.value < kNodesMax && joined_[event.peer.value] == event.incarnation;
    if (event.kind == MeshEvent::Kind::kDown && member) lose(event.peer);
    std::fprintf(stderr, "weft: node %d: %s %d incarnation %u: %s\n", self_.node.value,
                 event.kind == MeshEvent::Kind::kDown ? "lost node" : "refused node", event.peer.value,
                 event.incarnation, event.why.c_str());
  }
}

// On a worker's thread.
std::string Server::status() const {
  const std::shared_ptr<const View> view = node_->published() != nullptr ? node_->published() : node_->shared_view();
  nlohmann::json status;
  status["cluster"] = options_.cluster;
  status["node"] = self_.node.value;
  status["pid"] = getpid();
  status["fabric"] = mesh_->name();
  status["membership"] = membership_->state();
  status["protocol"] = node_->protocol().name;
  status["whole"] = view->whole() && view->members.size() >= static_cast<size_t>(options_.founders);
  status["stopped"] = agent_->lost();
  status["view"] = nlohmann::json::parse(to_json(*view));
  return status.dump();
}

void Server::say_what_changed() {
  std::string lost = agent_->lost();
  if (lost == said_) return;
  said_ = std::move(lost);
  if (!said_.empty()) std::fprintf(stderr, "weft: node %d: stopped: %s\n", self_.node.value, said_.c_str());
}

}  // namespace weft
