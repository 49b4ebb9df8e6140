#include "weft/redis/frontend.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "weft/redis/address.h"

namespace weft {

namespace {

constexpr uint64_t kAcceptAgainNs = 100'000'000;  // after the process ran out of file descriptors
constexpr int kAccepts = 4;                       // per turn
constexpr size_t kReadBytes = 256 << 10;          // at a time
constexpr uint64_t kReadNs = 1000;                // a system call
constexpr uint64_t kScanNs = 100'000'000;         // between two scans of all connections

// The table's limit includes the header of a value.
size_t string_bytes_of(const Table& table) {
  const size_t bytes = table.spec().value_bytes_max;
  return bytes > kValueHeaderBytesMax ? bytes - kValueHeaderBytesMax : 0;
}

// As in Redis: three probes, the last ones sooner, then the connection has ended. Accepted sockets inherit it from the
// listener.
void keep_alive(int fd, uint32_t seconds) {
  const int on = seconds != 0 ? 1 : 0, times = 3;
  const int first = static_cast<int>(seconds), next = std::max(first / times, 1);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (seconds == 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &first, sizeof first);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &next, sizeof next);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

}  // namespace

uint64_t FrontendShared::sum(std::atomic<uint64_t> Counted::*which) const {
  uint64_t all = 0;
  for (const Counted& worker : counted) all += (worker.*which).load(std::memory_order_relaxed);
  return all;
}

uint64_t FrontendShared::turn_longest_ns() const {
  uint64_t longest = 0;
  for (const Counted& worker : counted) {
    longest = std::max(longest, worker.turn_longest_ns.load(std::memory_order_relaxed));
  }
  return longest;
}

RedisFrontend::RedisFrontend(const FrontendOptions& options, Fd listener, TxnWorker* txn_worker, Clock* wall,
                             FrontendShared* shared, NodeHooks hooks)
    : options_(options),
      txn_worker_(txn_worker),
      session_(txn_worker),
      wall_(wall),
      shared_(shared),
      hooks_(std::move(hooks)),
      string_bytes_max_(string_bytes_of(table())),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      listener_(std::move(listener)),
      write_window_(txn_worker->context().limits.txn_keys_max, txn_worker->context().worker),
      scheduler_(options.turn_us * 1000,
                 std::max<size_t>(txn_worker->context().limits.transactions_in_flight_max / 4, 1),
                 txn_worker->context().worker),
      events_(64),
      stats_(shared->stats.of(txn_worker->context().id)),
      deadlines_(table().spec().capacity, wall_us() / 1000) {
  if (txn_worker->context().id == WorkerId(0)) shared->live.change([&](FrontendOptions& live) { live = options; });
  take_options();
  accepts_anyway_ns_ =
      txn_worker_->context().worker->clock_ns() + txn_worker_->slots().answer_ns();  // no step has read it yet
  shared_->fronts[txn_worker_->context().id.value] = this;
}

RedisFrontend::~RedisFrontend() {
  while (!monitors_.empty()) end_monitor(*monitors_.back());
  shared_->clients -= static_cast<uint32_t>(clients_.size());
  counted().unauthenticated = 0;
  shared_->fronts[txn_worker_->context().id.value] = nullptr;
}

void RedisFrontend::take_options() {
  options_ = shared_->live.read(&options_version_);
  keep_alive(listener_.get(), options_.keepalive_seconds);  // connections inherit it
  scheduler_.set_budget_ns(options_.turn_us * 1000);
  slow_ns_ = options_.slowlog_us < 0 ? UINT64_MAX : static_cast<uint64_t>(options_.slowlog_us) * 1000;
  monitored_ = shared_->monitors.any();
  schedule_scan(session_.now_ns());  // deadlines may have changed
}

void RedisFrontend::accept_when_active() {
  if (accepting_ || session_.now_ns() < accepts_again_ns_) return;
  if (!txn_worker_->active() && session_.now_ns() < accepts_anyway_ns_) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLEXCLUSIVE;
  event.data.ptr = nullptr;
  accepting_ = true;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) stop_accepting(strerrordesc_np(errno));
}

// The listener stays readable: it is ignored for a while.
void RedisFrontend::stop_accepting(const char* why) {
  if (accepts_again_ns_ == 0) {
    if (EventLog* const events = txn_worker_->context().events) {
      events->emit(Level::kWarn, "clients_not_accepted",
                   {{"why", why}, {"again_ms", kAcceptAgainNs / 1'000'000}, {"said", "once"}});
    }
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  accepting_ = false;
  accepts_again_ns_ = session_.now_ns() + kAcceptAgainNs;
}

// The rest follow in the next turn: a burst of new connections does not delay those that are served.
void RedisFrontend::accept_some() {
  for (int i = 0; i < kAccepts; ++i) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const bool out = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (out) stop_accepting(strerrordesc_np(errno));
      return;
    }
    if (shared_->clients.fetch_add(1) >= options_.clients_max && !make_room()) {
      --shared_->clients;
      stats_->connections_refused.add(1);
      refuse_newcomer(socket);
      continue;
    }
    accept_one(std::move(socket));
  }
}

void RedisFrontend::accept_one(Fd socket) {
  const int one = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  Client& client = clients_.emplace_back(ClientStream(std::move(socket), shared_->tls), options_.resp);
  client.place = std::prev(clients_.end());
  client.id = ++shared_->last_id;
  stats_->connections.add(1);
  client.address = peer_address(client.stream.fd(), &client.source);
  client.local_address = own_address(client.stream.fd());
  client.since_ns = client.active_ns = client.read_ns = session_.now_ns();
  set_authenticated(client, options_.password.empty());
  check_deadlines(client);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &client;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.stream.fd(), &event) != 0) client.dead = true;
  if (client.dead) wake(client);  // otherwise the socket reports input
}

void RedisFrontend::start_expiry() {
  if (expirer_.running()) return;
  expirer_ = OwnedTask::of(expire_due());
  expirer_.start();
  if (txn_worker_->context().id != WorkerId(0)) return;
  sweeper_ = OwnedTask::of(sweep());
  far_sweeper_ = OwnedTask::of(sweep_far());
  sweeper_.start();
  far_sweeper_.start();
}

bool RedisFrontend::poll() {
  scheduler_.begin(session_.now_ns());
  if (shared_->live.version() != options_version_) take_options();
  accept_when_active();
  if (txn_worker_->active() && txn_worker_->context().views.runs_transactions()) start_expiry();
  bool busy = looks_at_sockets() && take_events();
  if (session_.now_ns() >= std::max(next_scan_ns_, due_ns_)) scan_clients();
  busy |= answer_client_queries();
  busy |= scheduler_.resume_waiting();
  size_t passed_over = active_clients_.size();  // the first one that had to wait
  for (size_t i = 0; i < active_clients_.size(); ++i) {
    Client* const client = active_clients_[i];
    if (client->output_waiter && (client->dead || !too_much_unread(*client))) {
      busy = true;
      std::exchange(client->output_waiter, {}).resume();
      continue;
    }
    if (client->work.running() || client->closing || client->dead || too_much_unread(*client) || client->is_delayed()) {
      continue;
    }
    busy |= client->readable || client->has_input;
    if (scheduler_.over(client->share)) {
      passed_over = std::min(passed_over, i);
      continue;
    }
    if (client->readable && !client->has_input) read_some(*client);
    resume(*client);
  }
  // They come first next time.
  std::rotate(
      active_clients_.begin(),
      active_clients_.begin() + static_cast<ptrdiff_t>(passed_over % std::max<size_t>(active_clients_.size(), 1)),
      active_clients_.end());
  return busy;
}

// A look is a system call. After a sleep it always pays: a socket may have ended it. While commands run there is
// something else to do, and what arrives meanwhile is taken together.
bool RedisFrontend::looks_at_sockets() {
  const uint64_t now_ns = session_.now_ns();
  const uint64_t between_ns = active_clients_.empty() ? options_.look_ns / 10 : options_.look_ns;
  if (!slept_ && now_ns < looked_ns_ + between_ns) return false;
  slept_ = false;
  looked_ns_ = now_ns;
  return true;
}

bool RedisFrontend::take_events() {
  const int count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events_[static_cast<size_t>(i)];
    if (event.data.ptr == nullptr) {
      accept_some();
      continue;
    }
    auto& client = *static_cast<Client*>(event.data.ptr);
    if ((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) client.readable = true;
    if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) client.hung_up = true;
    client.writable = true;
    wake(client);
  }
  return count > 0;
}

void RedisFrontend::wake(Client& client) {
  if (client.active) return;
  client.active = true;
  active_clients_.push_back(&client);
}

// Handles what is due for idle clients.
void RedisFrontend::scan_clients() {
  next_scan_ns_ = session_.now_ns() + kScanNs;
  due_ns_ = UINT64_MAX;
  hot_keys_.forget_idle();
  for (Client& client : clients_) {
    if (client.lingering) {
      schedule_scan(client.linger_until_ns);
      if (session_.now_ns() >= client.linger_until_ns) wake(client);
    }
    if (!client.dead) check_deadlines(client);
    if (client.closing || client.dead) continue;
    if (!client.work.running()) {
      if (client.open_txn) drop_open_txn(client);
      shrink_if_idle(client);
      count_memory(client);
    }
    schedule_scan(client.shrinks_ns);
    if (client.open_txn) schedule_scan(client.open_txn_until_ns);
  }
}

void RedisFrontend::read_some(Client& client) {
  const std::span<char> room = client.reader.room();
  client.shrinks_ns = session_.now_ns() + kIdleNs;
  schedule_scan(client.shrinks_ns);
  const size_t wanted = std::min(room.size(), kReadBytes);
  const bool was_ready = client.stream.ready();
  const std::optional<size_t> n = client.stream.receive(room.data(), wanted);
  if (!was_ready) {  // a handshake's signature costs more than all commands of a turn: measure it
    scheduler_.charge_command(client.share, kReadNs, "a TLS handshake", true);
    if (n) settle(client);
  }
  if (n && *n > 0) {
    client.active_ns = client.received_ns = session_.now_ns();
    scheduler_.charge(client.share, kReadNs + Keyspace::bytes_ns(*n), "reading from a client");
    client.reader.filled(*n);
    stats_->read_bytes.add(*n);
    client.read_ns = session_.now_ns();
    client.has_input = true;
    // That was all; the socket reports more input, or the end.
    if (*n < wanted && !client.hung_up && !client.stream.encrypted()) client.readable = false;
    return;
  }
  client.readable = false;
  if (!n) client.dead = true;
}

void RedisFrontend::set_authenticated(Client& client, bool authenticated) {
  client.authenticated = authenticated;
  client.reader.set_limits(authenticated ? options_.resp : unauthenticated(options_.resp));
  settle(client);
}

void RedisFrontend::resume(Client& client) {
  if (!client.has_input) return;
  client.has_input = false;
  if (client.blocked_on_output) client.read_ns = session_.now_ns();
  client.blocked_on_output = false;
  client.work = OwnedTask::of(serve(client));
  client.work.start();
}

void RedisFrontend::drop_open_txn(Client& client) const {
  if (session_.now_ns() < client.open_txn_until_ns) return;
  client.open_txn.reset();
  client.open_txn_expired = true;
}

uint64_t RedisFrontend::deadline_ns() const {
  if (scheduler_.waiting() || !client_queries_.empty()) return 0;
  const uint64_t looks_ns = due_ns_ == UINT64_MAX ? due_ns_ : std::max(due_ns_, next_scan_ns_);
  uint64_t accepts_ns = UINT64_MAX;
  if (!accepting_) accepts_ns = std::max(accepts_again_ns_, txn_worker_->active() ? 0 : accepts_anyway_ns_);
  return std::min({coalesced_until_ns_, monitors_flush_ns_, looks_ns, accepts_ns});
}

}  // namespace weft
