#include "weft/server/server.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/base/os_random.h"
#include "weft/fabric/wire.h"
#include "weft/redis/address.h"
#include "weft/txn/row_set.h"
#include "weft/wires/interconnect_factory.h"

namespace weft {

namespace {

constexpr int kControlStepMs = 20;
// For a node to which nothing has happened for a while: then every event notifies the control thread.
constexpr int kQuietStepMs = 100;
constexpr uint64_t kQuietAfterNs = 2'000'000'000;
constexpr int kBacklog = 512;

ClusterSpec spec_of_a_process(const ServerOptions& options) {
  ClusterSpec spec = options.spec;
  spec.recovers = true;
  spec.options.fabric = options.fabric;
  spec.shares_memory = options.fabric == "shm" && RowSet::of(spec.options).uses_verbs();
  return spec;
}

// What two nodes must have in common besides the name of their cluster.
HandshakeParams agreement_of(const ServerOptions& options) {
  const Options& o = options.spec.options;
  HandshakeParams agreement;
  agreement.cluster = options.cluster;
  agreement.fields = {
      {"wire version", kWireVersion},
      {"cluster.nodes", static_cast<uint64_t>(o.nodes)},
      {"cluster.replicas", static_cast<uint64_t>(o.replicas)},
      {"cluster.partitions", static_cast<uint64_t>(o.partition_count())},
      {"workers", static_cast<uint64_t>(o.workers)},
      {"hash_seed", o.hash_seed},
      {"protocol " + o.protocol, 1},
      {"lease_ms", options.lease_ns / 1'000'000},
      {"limits.transactions_in_flight_max", o.limits.transactions_in_flight_max},
      {"limits.key_bytes_max", o.limits.key_bytes_max},
      {"limits.value_bytes_max", o.limits.value_bytes_max},
      {"limits.txn_keys_max", o.limits.txn_keys_max},
      {"limits.txn_bytes_max", o.limits.txn_bytes_max},
      {"limits.credit_bytes", o.limits.credit_bytes},
      {"limits.ring_bytes", o.limits.ring_bytes},
      {"tables", options.spec.tables.size()},
  };
  for (const TableSpec& table : options.spec.tables) {
    agreement.fields.emplace_back("table " + table.name + " capacity", table.capacity);
    agreement.fields.emplace_back("table " + table.name + " value_bytes_max", table.value_bytes_max);
    agreement.fields.emplace_back("table " + table.name + " ordered", table.ordered ? 1 : 0);
  }
  // In their order, by which messages name them.
  agreement.fields.emplace_back("procedures", options.spec.procedures.size());
  for (size_t i = 0; i < options.spec.procedures.size(); ++i) {
    agreement.fields.emplace_back("procedure " + options.spec.procedures[i].name, i);
  }
  return agreement;
}

}  // namespace

Server::Server(const ServerOptions& options, Membership* membership, Clock* clock)
    : options_(options),
      spec_(spec_of_a_process(options)),
      membership_(membership),
      clock_(clock),
      wakeup_eventfd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WEFT_CHECK(wakeup_eventfd_, "eventfd");
}

Result<std::unique_ptr<Server>> Server::create(const ServerOptions& options, Membership* membership, Clock* clock) {
  if (auto legal = check_spec(options.spec); !legal) return legal.error();
  std::unique_ptr<Server> server(new Server(options, membership, clock));
  if (auto bound = server->bind_clients(); !bound) return bound.error();
  if (auto made = server->start_interconnect(); !made) return made.error();
  server->stats_collector_ = std::make_unique<StatsCollector>(
      options.node,
      StatsCollector::Sources{[from = server.get()]() -> std::optional<NodeStats> {
                                if (from->node_ == nullptr) return std::nullopt;
                                return from->node_stats();
                              },
                              options.cluster, options.spec.options.nodes, options.events, options.http_routes, clock});
  return server;
}

Server::~Server() {
  for (const auto& thread : threads_) thread->stop();
}

uint64_t Server::seed(NodeId node, WorkerId worker) {
  return mix64(self_.token ^ (size_t{node.value} << 8 | worker.value));
}

Result<void> Server::start_interconnect() {
  self_.node = options_.node;
  self_.roles = options_.roles;
  self_.token = os_random();
  InterconnectOptions options;
  options.kind = options_.fabric;
  options.node = options_.node;
  options.workers = options_.spec.options.workers;
  options.listen = options_.listen;
  options.nodes = options_.spec.options.nodes;
  options.tls = options_.tls;
  options.device = options_.device;
  const Options& cluster = options_.spec.options;
  if (RowSet::of(cluster).locks_by_verb()) options.remote_lock_mode = cluster.remote_lock_mode;
  options.worker_doorbells = cluster.worker_doorbells;
  options.params = agreement_of(options_);
  auto interconnect = make_interconnect(options, &regions_, clock_);
  if (!interconnect) return interconnect.error();
  interconnect_ = std::move(*interconnect);
  self_.address = options_.advertise.empty() ? interconnect_->address() : options_.advertise;
  admission_ = std::make_unique<Admission>(self_, NodeAgentOptions::kPaceNs);
  return {};
}

// Clients that connect before the node is active wait in the backlog, but not longer than for any other answer.
Result<void> Server::bind_clients() {
  if (options_.clients.empty()) return {};
  Result<Fd> socket = listen_on(options_.clients, kBacklog);
  if (!socket) return Error{socket.error().code, "clients on " + socket.error().detail};
  client_socket_ = std::move(*socket);
  if (runs_transactions(options_.roles)) self_.clients = options_.clients_advertise;
  if (self_.clients.empty() &&
      runs_transactions(options_.roles)) {  // where it listens, with the port that the kernel chose
    self_.clients =
        options_.clients.substr(0, options_.clients.rfind(':') + 1) + std::to_string(port_of(client_socket_.get()));
  }
  if (!options_.clients_tls.certificate.empty()) {
    auto tls = TcpTls::create_for_clients(options_.clients_tls);
    if (!tls) return tls.error();
    client_tls_ = std::move(*tls);
    front_shared_.tls = client_tls_.get();
  }
  front_shared_.started_ns = clock_->now_ns();
  constexpr std::string_view kHex = "0123456789abcdef";
  for (uint64_t i = 0, bits = 0; i < 40; ++i, bits >>= 4) {
    if (i % 16 == 0) bits = os_random();
    front_shared_.run_id += kHex[bits & 15];
  }
  return {};
}

bool Server::in(const View& view) const {
  const Member* member = view.find(self_.node);
  return member != nullptr && member->token == self_.token;
}

// Before it is in a view, as an initial member or by joining: from then on the others wait for its leases.
Result<void> Server::make_tables() {
  const int partitions = options_.spec.options.partition_count();
  auto tables = Node::make_tables(spec_, partitions, holds_data(options_.roles) ? partitions : 0);
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
    if (why_ = membership_->termination_reason(); !why_.empty()) return End::kMembershipEnded;
    std::shared_ptr<const View> view = membership_->latest();
    if (view != nullptr && node_ == nullptr && other_protocol(*view)) {
      if (options_.takes_protocol) return End::kOtherProtocol;
      view = usable(view);  // nothing: it stays outside, and its log says why
    }
    if (view != nullptr && node_ == nullptr && (in(*view) || preflight_join(*view))) {
      if (auto started = start(*view); !started) return started.error();
    }
    if (node_ != nullptr) view = usable(view);
    if (view != nullptr && node_ != nullptr && incarnation_ == 0 && !in(*view) && preflight_join(*view)) {
      agent_->allow_join(view->epoch);
    }
    if (const std::shared_ptr<const View> newest = newest_of(view); newest != nullptr && newest != followed_) {
      follow(newest);
    }
    if (node_ != nullptr && agent_->retired()) {
      why_ = "the view is without this node: " + node_->state().views.published()->change.text();
      if (options_.join_backoff != nullptr) options_.join_backoff->removed(clock_->now_ns());
      return End::kRemoved;
    }
    if (const LocalAtomics* words = interconnect_->local_atomics(); words != nullptr && words->failed()) {
      why_ = "the device does no CAS on this node's own memory any more";
      return End::kDeviceFailed;
    }
    for (const NodeId peer : NodeSet::from_bits(cut_.exchange(0))) on_peer_lost(peer);
    if (node_ != nullptr) rejoin();
    if (node_ == nullptr && client_socket_) reject_clients();
    interconnect_->control_step();
    handle_interconnect_events();
    log_changes();
    if (const std::string sample = stats_collector_->step(agent_.get()); !sample.empty())
      membership_->take_sample(sample);
    if (options_.http_routes != nullptr) options_.http_routes->step();
    release_memory();
    wait(stop_fd);
  }
  return End::kStopped;
}

// The allocator keeps memory that clients held and freed unless it is told to release it. Done here, since it takes a
// while.
void Server::release_memory() {
  constexpr uint64_t kMuch = 16 << 20;
  constexpr uint64_t kPauseNs = 1'000'000'000;
  const uint64_t now_ns = clock_->now_ns();
  const uint64_t held = front_shared_.output_bytes() + front_shared_.input_bytes();
  clients_held_ = std::max(clients_held_, held);
  if (clients_held_ - held < kMuch || now_ns < release_memory_ns_) return;
  release_memory_ns_ = now_ns + kPauseNs;
  clients_held_ = held;
  malloc_trim(0);
}

void Server::wait(int stop_fd) {
  // A descriptor of -1 is ignored.
  pollfd fds[5] = {{interconnect_->control_fd(), POLLIN, 0},
                   {membership_->control_fd(), POLLIN, 0},
                   {wakeup_eventfd_.get(), POLLIN, 0},
                   {stop_fd, POLLIN, 0},
                   {options_.http_routes == nullptr ? -1 : options_.http_routes->fd(), POLLIN, 0}};
  const uint64_t now_ns = clock_->now_ns();
  int timeout_ms = kControlStepMs;
  // What recovery changes (grants) does not notify.
  const std::shared_ptr<const View> active = node_ == nullptr ? nullptr : node_->state().views.last_active();
  const bool settled = active != nullptr && followed_ != nullptr && active->epoch == followed_->epoch;
  if (settled && membership_->control_fd() >= 0 && now_ns >= quiet_from_ns_) {
    const uint64_t sample_ms = (std::max(stats_collector_->due_ns(), now_ns) - now_ns) / 1'000'000 + 1;
    timeout_ms = static_cast<int>(std::min<uint64_t>(kQuietStepMs, sample_ms));
  }
  if (poll(fds, 5, timeout_ms) <= 0) return;
  if ((fds[0].revents | fds[1].revents | fds[2].revents) != 0) quiet_from_ns_ = now_ns + kQuietAfterNs;
  uint64_t rung = 0;
  if (fds[2].revents != 0 && read(wakeup_eventfd_.get(), &rung, sizeof rung) != sizeof rung) return;
}

void Server::notify() {
  const uint64_t one = 1;
  if (write(wakeup_eventfd_.get(), &one, sizeof one) != sizeof one) return;  // already signalled
}

// An initial member may miss the first view, if others join at once. Nothing can have been written to its partitions
// without it, and no later view is active without it. So it adopts the newest view like a node that joins, and its
// empty store is what an in-sync replica holds.
Result<void> Server::start(const View& view) {
  if (auto fits = check_view(view, spec_.options); !fits) return fits.error();
  const bool joins = !in(view) || view.epoch != Epoch(1);
  auto node =
      Node::create(self_.node, spec_, joins ? pre_join_view(view, self_.node) : view, this, joins, std::move(tables_));
  if (!node) return node.error();
  node_ = std::move(*node);
  started_ns_ = clock_->now_ns();
  NodeAgentOptions agent;
  agent.lease_ns = options_.lease_ns;
  agent.self = self_;
  agent_ = std::make_unique<NodeAgent>(agent, node_->agent_host(), membership_);
  const auto workers = static_cast<size_t>(node_->workers());
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const size_t threads =
      spec_.options.threads > 0 ? static_cast<size_t>(spec_.options.threads) : std::min(workers, cores);
  for (size_t t = 0; t < std::min(threads, workers); ++t) threads_.push_back(std::make_unique<Thread>(clock_));
  for (size_t w = 0; w < workers; ++w) {
    const WorkerId id(static_cast<uint8_t>(w));
    thread_of(w).add(node_->worker(id));
    wakeup_sources_.push_back(std::make_unique<InterconnectWakeup>(interconnect_.get(), id));
    thread_of(w).add_wakeup_source(wakeup_sources_.back().get());
    if (!client_socket_) continue;
    const NodeHooks hooks = {[this] { return status_json(node_stats()).dump(); },
                             [this](NodeId peer) {
                               cut_.fetch_or(NodeSet::of(peer).bits());
                               notify();
                             }};
    Fd listener(fcntl(client_socket_.get(), F_DUPFD_CLOEXEC, 0));
    if (!listener) return Error{Code::kOs, std::string("clients: ") + strerrordesc_np(errno)};
    fronts_.push_back(std::make_unique<RedisFrontend>(options_.front, std::move(listener), node_->txn_worker(id),
                                                      &wall_, &front_shared_, hooks));
    node_->worker(id)->set_clients(fronts_.back().get());
    thread_of(w).add_wakeup_source(fronts_.back().get());
  }
  node_->state().views.set_wake([this] {
    wake_workers();
    notify();
  });
  follow(membership_->latest());
  for (size_t t = 0; t < threads_.size(); ++t) {
    threads_[t]->start(spec_.options.pin_threads ? static_cast<int>(t % cores) : -1);
  }
  return {};
}

void Server::wake_workers() {
  for (const auto& thread : threads_) thread->wake();
}

bool Server::other_protocol(const View& view) {
  protocol_of_view_ = view.protocol;
  return !view.protocol.empty() && view.protocol != spec_.options.protocol;
}

// The agent does not adopt an unusable view either (NodeAgent::step).
std::shared_ptr<const View> Server::usable(const std::shared_ptr<const View>& view) {
  if (view == nullptr) return view;
  const Result<void> fits = check_view(*view, spec_.options);
  rejected_view_reason_ = fits ? std::string() : fits.error().detail;
  return fits ? view : nullptr;
}

// Another member may have forwarded a view that the membership has not delivered yet.
std::shared_ptr<const View> Server::newest_of(const std::shared_ptr<const View>& told) const {
  const std::shared_ptr<const View> adopted = node_ == nullptr ? nullptr : node_->state().views.published();
  return adopted != nullptr && (told == nullptr || adopted->epoch > told->epoch) ? adopted : told;
}

void Server::log_view(const View& view) const {
  std::string members;
  for (const Member& member : view.members) {
    members += (members.empty() ? "" : ",") + std::to_string(member.node.value);
  }
  options_.events->emit(Level::kInfo, "view",
                        {{"epoch", view.epoch.value}, {"members", members}, {"whole", fully_replicated(view)}});
}

bool Server::fully_replicated(const View& view) const {
  return view.fully_replicated() && view.members.size() >= static_cast<size_t>(options_.initial_members);
}

std::string Server::unavailable_reason(const View& view) const {
  std::string of_agent = agent_->unavailable_reason();
  if (!of_agent.empty() || view.runs_transactions()) return of_agent;
  return "no node of the view runs transactions; one that joins finds all that was committed";
}

// From any thread, when there is a node.
NodeStats Server::node_stats() const {
  NodeStats out = node_stats_of(*node_);
  out.cluster = options_.cluster;
  out.fabric = interconnect_->name();
  out.own_doorbells = interconnect_->own_doorbells();
  out.membership = membership_->state();
  out.unavailable_reason = unavailable_reason(*out.view);
  // A view change ends all leases, and a node that has just started has none yet.
  const uint64_t lease_ns = std::max({node_->state().lease.until_ns(), out.change.adopted_ns, started_ns_});
  const uint64_t now_ns = clock_->now_ns();
  if (node_->state().lease.until_ns() <= now_ns)
    out.cut_off_ns = std::max<uint64_t>(now_ns - std::min(now_ns, lease_ns), 1);
  out.suspects = agent_->suspects();
  out.fully_replicated = fully_replicated(*out.view) && out.cut_off_ns == 0 && out.suspects.empty();
  out.clients = front_shared_.clients.load(std::memory_order_relaxed);
  out.clients_max = fronts_.empty() ? options_.front.clients_max : front_shared_.live.read().clients_max;
  out.commands = front_shared_.commands();
  out.clients_output_bytes = front_shared_.output_bytes();
  out.clients_input_bytes = front_shared_.input_bytes();
  using Counted = FrontendShared::Counted;
  out.clients_unauthenticated = front_shared_.sum(&Counted::unauthenticated);
  out.clients_late = front_shared_.sum(&Counted::late);
  out.clients_idle = front_shared_.sum(&Counted::idle);
  out.clients_evicted = front_shared_.sum(&Counted::evicted);
  out.clients_refused = front_shared_.sum(&Counted::refused);
  out.wrong_passwords = front_shared_.sum(&Counted::wrong_passwords);
  out.turns_too_long = front_shared_.turns_too_long();
  out.turn_longest_ns = front_shared_.turn_longest_ns();
  return out;
}

void Server::log_changes() {
  const auto log_if_changed = [&](std::string& said, std::string text, Level level, const char* event) {
    if (text == said) return;
    said = std::move(text);
    if (!said.empty()) options_.events->emit(level, event, {{"why", said}});
  };
  if (node_ != nullptr) {
    const std::shared_ptr<const View> view = node_->state().views.published();
    const View& known = view != nullptr ? *view : node_->first_view();
    log_if_changed(logged_unavailable_, unavailable_reason(known), Level::kError, "stopped");
  }
  log_if_changed(logged_membership_error_, membership_->status_error(), Level::kWarn, "membership_trouble");
  log_if_changed(logged_rejected_view_, rejected_view_reason_, Level::kWarn, "view_not_taken");
}

}  // namespace weft
