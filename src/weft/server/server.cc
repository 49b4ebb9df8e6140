#include "weft/server/server.h"

#include <fcntl.h>
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
constexpr int kBacklog = 512;
constexpr uint64_t kKnockNs = 100'000'000;  // between two rounds of questions, at first, and at last
constexpr uint64_t kKnockNsMax = 2'000'000'000;
constexpr uint64_t kRefusalsSaid = 10;  // a second

int partitions_of(const Options& options) { return options.partitions > 0 ? options.partitions : options.nodes; }

ClusterSpec spec_that_recovers(ClusterSpec spec) {
  spec.recovers = true;
  return spec;
}

// What two nodes must have in common beside the name of their cluster.
Agreement agreement_of(const ServerOptions& options) {
  const Options& o = options.spec.options;
  Agreement agreement;
  agreement.cluster = options.cluster;
  agreement.terms = {
      {"cluster.nodes", static_cast<uint64_t>(o.nodes)},
      {"cluster.replicas", static_cast<uint64_t>(o.replicas)},
      {"cluster.partitions", static_cast<uint64_t>(partitions_of(o))},
      {"workers", static_cast<uint64_t>(o.workers)},
      {"hash_seed", o.hash_seed},
      {"protocol " + o.protocol, 1},
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
    : options_(options), spec_(spec_that_recovers(options.spec)), membership_(membership), clock_(clock) {}

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
  // It listens at once: two processes may bind the same port, but only one can listen. Who comes before the node is
  // active waits in the backlog.
  const bool listens =
      bind(client_socket_.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(client_socket_.get(), kBacklog) == 0;
  freeaddrinfo(found);
  if (!listens) return Error{Code::kBadOption, "clients on " + options_.clients + ": " + strerrordesc_np(errno)};
  return {};
}

bool Server::in(const View& view) const {
  const Member* member = view.find(self_.node);
  return member != nullptr && member->token == self_.token;
}

// Before it is in a view, as a founder or by joining: from then on the others wait for its leases.
Result<void> Server::make_tables() {
  const int partitions = partitions_of(options_.spec.options);
  auto tables = Node::make_tables(spec_, partitions, partitions);
  if (!tables) return tables.error();
  tables_ = std::move(*tables);
  return {};
}

Result<Server::End> Server::run(int stop_fd) {
  if (auto made = make_tables(); !made) return made.error();
  membership_->announce(self_);
  pollfd stop{stop_fd, POLLIN, 0};
  while (poll(&stop, 1, 0) == 0) {
    membership_->control_step();
    if (why_ = membership_->ended(); !why_.empty()) return End::kMembershipEnded;
    const std::shared_ptr<const View> view = membership_->latest();
    if (view != nullptr && node_ == nullptr) {
      if (in(*view) || may_join(*view)) {
        if (auto started = start(*view); !started) return started.error();
      }
    }
    if (const std::shared_ptr<const View> newest = newest_of(view); newest != nullptr && newest != followed_) {
      follow(newest);
    }
    if (node_ != nullptr && agent_->retired()) {
      why_ = "the view is without this node";
      return End::kRemoved;
    }
    for_each_node(cut_.exchange(0), [&](NodeId peer) { lose(peer); });
    mesh_->control_step();
    hear_mesh();
    say_what_changed();
    wait(stop_fd, kControlStepMs);
  }
  return End::kStopped;
}

void Server::wait(int stop_fd, int timeout_ms) const {
  pollfd fds[3] = {{stop_fd, POLLIN, 0}, {mesh_->control_fd(), POLLIN, 0}, {membership_->control_fd(), POLLIN, 0}};
  poll(fds, membership_->control_fd() >= 0 ? 3 : 2, timeout_ms);
}

// What engines are sized for. A view that another configuration has made is not taken.
Result<void> Server::check_view(const View& view) const {
  const Options& o = options_.spec.options;
  const auto differs = [](const std::string& what, size_t there, size_t here) {
    return Error{Code::kBadOption,
                 "the view has " + what + " " + std::to_string(there) + ", and here it is " + std::to_string(here)};
  };
  const auto partitions = static_cast<size_t>(partitions_of(o));
  if (view.partitions.size() != partitions) return differs("cluster.partitions", view.partitions.size(), partitions);
  if (view.replicas != o.replicas) return differs("cluster.replicas", view.replicas, static_cast<size_t>(o.replicas));
  for (const Member& member : view.members) {
    if (member.node.value < o.nodes) continue;
    return Error{Code::kBadOption, "the view has node " + std::to_string(member.node.value) +
                                       ", and cluster.nodes is " + std::to_string(o.nodes)};
  }
  return {};
}

// Whoever joins takes the place of the last process of its node, and every member waits for it in the next view. So it
// joins only if a member agrees with it, and nobody answers in its place.
bool Server::may_join(const View& view) {
  const uint64_t now_ns = clock_->now_ns();
  if (knocks_.epoch != view.epoch || now_ns >= knocks_.again_ns) {
    knocks_.epoch = view.epoch;
    knocks_.open = knocks_.agreed = 0;
    knocks_.wait_ns = std::clamp(2 * knocks_.wait_ns, kKnockNs, kKnockNsMax);
    knocks_.again_ns = now_ns + knocks_.wait_ns;
    for (const Member& member : view.members) {
      if (member.address == self_.address || member.node.value >= kNodesMax) continue;
      knocks_.open |= uint64_t{1} << member.node.value;
      mesh_->knock({member.node, member.incarnation, member.address});
    }
  }
  const uint64_t own = uint64_t{1} << self_.node.value;
  return (knocks_.agreed & ~own) != 0 && ((knocks_.open | knocks_.agreed) & own) == 0;
}

void Server::hear_answer(const MeshEvent& event) {
  const uint64_t bit = uint64_t{1} << event.peer.value;
  const std::shared_ptr<const View> view = membership_->latest();
  const Member* const member = view != nullptr ? view->find(event.peer) : nullptr;
  if ((knocks_.open & bit) == 0 || member == nullptr || member->incarnation != event.incarnation) return;
  knocks_.open &= ~bit;
  std::string why = event.why;
  if (why.empty()) knocks_.agreed |= bit;
  if (why.empty() && event.peer == self_.node) why = member->address + ": it runs there already; it has to end first";
  if (why == knocks_.said[event.peer.value]) return;
  knocks_.said[event.peer.value] = why;
  if (why.empty()) return;
  std::fprintf(stderr, "weft: node %d: asking node %d incarnation %u to join: %s\n", self_.node.value, event.peer.value,
               event.incarnation, why.c_str());
}

// A founder may miss the first view, if others join at once. Nothing can have been written to its partitions without
// it, and no later view is active without it: it comes to the newest one like a node that joins, and what it has,
// nothing, is what a whole replica has.
Result<void> Server::start(const View& view) {
  if (auto fits = check_view(view); !fits) return fits.error();
  const bool joins = !in(view) || view.epoch != Epoch(1);
  auto node =
      Node::create(self_.node, spec_, joins ? before_joining(view, self_.node) : view, this, joins, std::move(tables_));
  if (!node) return node.error();
  node_ = std::move(*node);
  AgentOptions agent;
  agent.lease_ns = options_.lease_ns;
  agent.self = self_;
  agent_ = std::make_unique<Agent>(agent, node_.get(), membership_);
  const auto workers = static_cast<size_t>(node_->workers());
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const size_t threads =
      spec_.options.threads > 0 ? static_cast<size_t>(spec_.options.threads) : std::min(workers, cores);
  for (size_t t = 0; t < std::min(threads, workers); ++t) threads_.push_back(std::make_unique<Thread>(clock_));
  for (size_t w = 0; w < workers; ++w) {
    const WorkerId id(static_cast<uint8_t>(w));
    thread_of(w).add(node_->worker(id));
    bells_.push_back(std::make_unique<MeshBell>(mesh_.get(), id));
    thread_of(w).add_bell(bells_.back().get());
    if (!client_socket_) continue;
    const NodeHooks hooks = {[this] { return status(); },
                             [this](NodeId peer) { cut_.fetch_or(uint64_t{1} << peer.value); }};
    Fd listener(fcntl(client_socket_.get(), F_DUPFD_CLOEXEC, 0));
    if (!listener) return Error{Code::kOs, std::string("clients: ") + strerrordesc_np(errno)};
    fronts_.push_back(std::make_unique<Front>(options_.front, std::move(listener), node_->engine(id), hooks));
    node_->worker(id)->set_clients(fronts_.back().get());
    thread_of(w).add_bell(fronts_.back().get());
  }
  node_->set_wake([this] { wake_workers(); });
  follow(membership_->latest());
  for (size_t t = 0; t < threads_.size(); ++t) {
    threads_[t]->start(spec_.options.pin_threads ? static_cast<int>(t % cores) : -1);
  }
  return {};
}

void Server::wake_workers() {
  for (const auto& thread : threads_) thread->wake();
}

// Another member may have passed a view on that the membership has not told yet.
std::shared_ptr<const View> Server::newest_of(const std::shared_ptr<const View>& told) const {
  const std::shared_ptr<const View> adopted = node_ == nullptr ? nullptr : node_->published();
  return adopted != nullptr && (told == nullptr || adopted->epoch > told->epoch) ? adopted : told;
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
    if (event.kind == MeshEvent::Kind::kAnswered) {
      hear_answer(event);
      continue;
    }
    const bool member = event.peer.value < kNodesMax && joined_[event.peer.value] == event.incarnation;
    if (event.kind == MeshEvent::Kind::kDown && member) lose(event.peer);
    say_of_peer(event);
  }
}

// Anybody can come to a port and be refused: of that a few lines a second are enough.
void Server::say_of_peer(const MeshEvent& event) {
  const bool refused = event.kind != MeshEvent::Kind::kDown;
  if (refused) {
    const uint64_t second = clock_->now_ns() / 1'000'000'000;
    if (second != refusals_.second && refusals_.count > kRefusalsSaid) {
      std::fprintf(stderr, "weft: node %d: refused %llu more\n", self_.node.value,
                   static_cast<unsigned long long>(refusals_.count - kRefusalsSaid));
    }
    if (second != refusals_.second) refusals_ = {second, 0};
    if (++refusals_.count > kRefusalsSaid) return;
  }
  if (event.peer.value >= kNodesMax) {
    std::fprintf(stderr, "weft: node %d: refused a stranger: %s\n", self_.node.value, event.why.c_str());
    return;
  }
  std::fprintf(stderr, "weft: node %d: %s node %d incarnation %u: %s\n", self_.node.value, refused ? "refused" : "lost",
               event.peer.value, event.incarnation, event.why.c_str());
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
  const ViewChange change = node_->last_change();
  status["change"] = {{"epoch", change.epoch},
                      {"open", change.open},
                      {"adopted_ns", change.adopted_ns},
                      {"active_ns", change.active_ns},
                      {"told_ns", change.told_ns}};
  status["view"] = nlohmann::json::parse(to_json(*view));
  return status.dump();
}

void Server::say_what_changed() {
  const auto say = [&](std::string& said, std::string text, const char* what) {
    if (text == said) return;
    said = std::move(text);
    if (!said.empty()) std::fprintf(stderr, "weft: node %d: %s: %s\n", self_.node.value, what, said.c_str());
  };
  if (node_ != nullptr) say(said_, agent_->lost(), "stopped");
  say(said_trouble_, membership_->trouble(), "membership");
}

}  // namespace weft
