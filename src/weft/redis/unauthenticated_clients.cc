// Connections that have not authenticated yet, and deadlines of connections.
//
// A connection is unauthenticated until its TLS handshake is complete and it has given the password. It has
// handshake_ms for both. When clients_max are connected, a new connection replaces an unauthenticated one: the oldest,
// or, if many come from one source, the oldest of that source, so that those from elsewhere stay. An authenticated
// client is never evicted for another.
//
// A wrong password is answered late (password_throttle.h), and until then nothing is done for its connection: it holds
// neither a coroutine nor a timer, and may be closed meanwhile. A right password from a source of many wrong ones is
// answered equally late: otherwise silence would reveal that a password was wrong, and nobody would wait for the
// reply. It takes effect at once, though.
//
// What happens to these connections is counted, and logged at most once a second, with the number of suppressed
// entries: they cannot fill the log.
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "weft/base/clock.h"
#include "weft/redis/address.h"
#include "weft/redis/frontend.h"

namespace weft {

namespace {

constexpr size_t kLookedAt = 16;  // of the oldest, to find the most frequent source

void count_one(std::atomic<uint64_t>& counter) {  // only this worker writes the counter
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

// Call after its authentication state may have changed.
void RedisFrontend::settle(Client& client) {
  const bool unauthenticated = !client.authenticated || !client.stream.ready();
  if (!unauthenticated) return forget_unauthenticated(client);
  if (client.unauthenticated) return;
  client.unauthenticated = true;
  client.unauthenticated_place = unauthenticated_.insert(unauthenticated_.end(), &client);
  client.authenticate_until_ns = session_.now_ns() + options_.handshake_ms * kMillisecondNs;
  schedule_scan(client.authenticate_until_ns);
  counted().unauthenticated.store(unauthenticated_.size(), std::memory_order_relaxed);
}

void RedisFrontend::forget_unauthenticated(Client& client) {
  if (!client.unauthenticated) return;
  client.unauthenticated = false;
  unauthenticated_.erase(client.unauthenticated_place);
  counted().unauthenticated.store(unauthenticated_.size(), std::memory_order_relaxed);
}

// Handles what is due for it by the clock.
void RedisFrontend::check_deadlines(Client& client) {
  const uint64_t now_ns = session_.now_ns();
  if (reply_delayed(client)) {
    schedule_scan(client.delayed_until_ns);
  } else if (client.is_delayed()) {
    if (client.output.empty()) client.delayed_until_ns = 0;  // otherwise when it is written
    wake(client);
  }
  const uint64_t idle_ns = options_.idle_seconds * kSecondNs;
  uint64_t until_ns = UINT64_MAX;
  if (client.unauthenticated) {
    until_ns = client.authenticate_until_ns;
  } else if (idle_ns != 0 && !client.monitors) {
    until_ns = (client.work.running() ? now_ns : client.active_ns) + idle_ns;
  }
  if (now_ns >= until_ns) return close_for_time(client);
  schedule_scan(until_ns);
}

// An unauthenticated client is told why, if it can receive it; an idle client would take it for the reply to its next
// command.
void RedisFrontend::close_for_time(Client& client) {
  if (client.unauthenticated) {
    count_one(counted().late);
    const char* const missing = client.stream.ready() ? "no password" : "no TLS handshake";
    log_rejection(Rejection::kLate, client.address, std::string(missing) + " within client.handshake_ms",
                  options_.handshake_ms);
    if (client.stream.ready() && client.output.empty()) {
      const std::string text = "-ERR " + std::string(missing) + " in time: client.handshake_ms is " +
                               std::to_string(options_.handshake_ms) + "\r\n";
      static_cast<void>(client.stream.send(text.data(), text.size()));
    }
  } else {
    count_one(counted().idle);
    log_rejection(Rejection::kIdle, client.address, "idle for client.idle_seconds", options_.idle_seconds);
  }
  drop(client);
}

// Makes room for one more than clients_max.
bool RedisFrontend::make_room() { return evict_unauthenticated() || ask_another_worker(); }

bool RedisFrontend::evict_unauthenticated() {
  const auto end =
      std::next(unauthenticated_.begin(), static_cast<ptrdiff_t>(std::min(unauthenticated_.size(), kLookedAt)));
  Client* goes = nullptr;
  ptrdiff_t most = 0;
  for (auto at = unauthenticated_.begin(); at != end; ++at) {
    const auto alike = [&](const Client* other) { return other->source == (*at)->source; };
    const ptrdiff_t from_there = std::count_if(unauthenticated_.begin(), end, alike);
    if (from_there > most) {
      goes = *at;
      most = from_there;
    }
  }
  if (goes == nullptr) return false;
  count_one(counted().evicted);
  log_rejection(Rejection::kEvicted, goes->address, "not let in yet, and another came at client.clients_max",
                options_.clients_max);
  forget_unauthenticated(*goes);
  drop(*goes);
  return true;
}

// The other worker does so soon, so for a moment there is one client more than clients_max; and not at all if its
// unauthenticated clients were authenticated meanwhile.
bool RedisFrontend::ask_another_worker() {
  Node* const node = txn_worker_->node();
  for (int w = 0; w < node->workers(); ++w) {
    const WorkerId id(static_cast<uint8_t>(w));
    RedisFrontend* const other = shared_->fronts[id.value];
    if (other == nullptr || other == this) continue;
    FrontendShared::Counted& theirs = other->counted();
    if (theirs.evictions_asked.fetch_add(1) < theirs.unauthenticated.load(std::memory_order_relaxed)) {
      const auto ask = [other] {
        --other->counted().evictions_asked;
        other->evict_unauthenticated();
      };
      if (node->txn_worker(id)->context().worker->mailbox().post(ask)) {
        node->state().views.wake();
        return true;
      }
    }
    --theirs.evictions_asked;
  }
  return false;
}

// As in Redis: under TLS the client would not understand it.
void RedisFrontend::refuse_newcomer(const Fd& socket) {
  count_one(counted().refused);
  log_rejection(Rejection::kRefused, peer_address(socket.get()), "client.clients_max are there, and all were let in",
                options_.clients_max);
  if (shared_->tls != nullptr) return;
  const std::string text =
      "-ERR max number of clients reached: clients_max is " + std::to_string(options_.clients_max) + "\r\n";
  static_cast<void>(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void RedisFrontend::on_password(Client& client, bool right) {
  const uint64_t now_ns = session_.now_ns();
  if (right) {
    client.wrong_passwords = 0;
  } else {
    ++client.wrong_passwords;
    password_throttle_.wrong(client.source, now_ns);
    count_one(counted().wrong_passwords);
    log_rejection(Rejection::kWrongPassword, client.address, "AUTH or HELLO with a wrong password or user",
                  client.wrong_passwords);
  }
  if (options_.password.empty()) return;  // there is nothing to guess
  const uint64_t own_ns = right ? 0 : PasswordThrottle::delay_ns(client.wrong_passwords);
  // A client with the right password is admitted in time, whatever others at its address do.
  const uint64_t delay_ns = std::min(std::max(own_ns, password_throttle_.delay_of(client.source, now_ns)),
                                     options_.handshake_ms * kMillisecondNs / 4);
  if (delay_ns == 0) return;
  client.delayed_until_ns = now_ns + delay_ns;
  schedule_scan(client.delayed_until_ns);
}

void RedisFrontend::log_rejection(Rejection what, const std::string& client, std::string_view why, uint64_t limit) {
  struct Row {
    Level level;
    const char* event;
    const char* limit;
  };
  constexpr std::array<Row, static_cast<size_t>(Rejection::kCount)> kTold = {{
      {Level::kWarn, "client_late", "limit"},
      {Level::kInfo, "client_idle", "limit"},
      {Level::kWarn, "client_evicted", "limit"},
      {Level::kWarn, "client_refused", "limit"},
      {Level::kWarn, "wrong_password", "of_this_connection"},
  }};
  EventLog* const events = txn_worker_->context().events;
  LogThrottle& said = rejection_log_[static_cast<size_t>(what)];
  const uint64_t now_ns = session_.now_ns();
  if (events == nullptr || (said.last_ns != 0 && now_ns < said.last_ns + kSecondNs)) {
    ++said.suppressed;
    return;
  }
  const Row& row = kTold[static_cast<size_t>(what)];
  events->emit(row.level, row.event,
               {{"client", client}, {"why", why}, {row.limit, limit}, {"unsaid", std::exchange(said.suppressed, 0)}});
  said.last_ns = now_ns;
}

}  // namespace weft
