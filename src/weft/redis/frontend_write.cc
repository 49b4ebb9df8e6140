// Writing replies, and the end of a connection and of a turn.
#include <algorithm>
#include <string_view>

#include "weft/redis/frontend.h"

namespace weft {

namespace {

constexpr uint64_t kTooLong = 20;                   // a turn of this many times its budget is logged
constexpr uint64_t kLogIntervalNs = 1'000'000'000;  // between two such log entries
constexpr uint64_t kCoalesceNs = 5'000'000;         // replies wait for those of later commands
constexpr uint64_t kLingerNs = 1'000'000'000;       // for a client to read why its connection ends
// per write to a client. Always the same size: TLS requires that of retries
constexpr size_t kWriteBytes = 256 << 10;
constexpr size_t kTurnBytes = 1 << 20;  // to all; after that only clients with little output continue
constexpr size_t kSmallBytes = 16 << 10;

}  // namespace

bool RedisFrontend::flush() {
  bool busy = false;
  if (monitored_) flush_monitors();
  coalesced_until_ns_ = UINT64_MAX;
  size_t written = 0;
  Client* first_left = nullptr;  // the first one that was skipped because enough was written
  const auto rests = [&](Client* client) {
    const bool can_write = !client->output.empty() && client->writable && !client->dead && !reply_delayed(*client);
    const bool enough = written >= kTurnBytes && client->output.bytes() > kSmallBytes;
    if (can_write && enough) {
      busy = true;
      if (first_left == nullptr) first_left = client;
    } else if (can_write && !coalesces_replies(*client)) {
      const size_t before = client->output.bytes();
      busy |= write_some(*client);
      written += before - client->output.bytes();
    }
    count_memory(*client);
    const bool writes_more = !client->output.empty() && client->writable && !reply_delayed(*client);
    if (client->work.running()) {
      // A transaction of a client that disconnected runs to its end.
      if (!client->output_waiter || client->dead) return false;
      client->active = writes_more || !too_much_unread(*client);
      return !client->active;
    }
    if (client->dead || (client->closing && client->output.empty() && !keeps_lingering(*client))) {
      forget_memory(*client);
      forget_unauthenticated(*client);
      end_monitor(*client);
      clients_.erase(client->place);
      --shared_->clients;
      return true;
    }
    // Otherwise the socket reports when there is something to do.
    const bool goes_on = (client->readable || client->has_input) && !too_much_unread(*client) && !client->is_delayed();
    client->active = writes_more || goes_on;
    return !client->active;
  };
  std::erase_if(active_clients_, rests);
  if (first_left != nullptr) {
    const auto at = std::find(active_clients_.begin(), active_clients_.end(), first_left);
    if (at != active_clients_.end()) std::rotate(active_clients_.begin(), at, active_clients_.end());
  }
  if (scheduler_.spent_ns() != 0) end_turn();
  busy |= enforce_memory_limits();
  return busy;
}

// By the clock, from the start of the turn until here: time in which the process waited for a core counts as well, and
// shows as `took_us` far above `estimated_us`.
void RedisFrontend::end_turn() {
  FrontendShared::Counted& counted = shared_->counted[txn_worker_->context().id.value];
  const uint64_t now_ns = txn_worker_->context().worker->clock_ns();
  const uint64_t took_ns = now_ns - session_.now_ns();
  times_.end(took_ns, *stats_);
  if (took_ns > counted.turn_longest_ns.load(std::memory_order_relaxed)) {
    counted.turn_longest_ns.store(took_ns, std::memory_order_relaxed);
  }
  if (took_ns < kTooLong * scheduler_.budget_ns()) return;
  counted.turns_too_long.store(counted.turns_too_long.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  EventLog* const events = txn_worker_->context().events;
  if (events == nullptr || (long_turn_logged_ns_ != 0 && now_ns < long_turn_logged_ns_ + kLogIntervalNs)) return;
  long_turn_logged_ns_ = now_ns;
  const FairScheduler::Longest& longest = scheduler_.longest();
  events->emit(Level::kWarn, "turn_too_long",
               {{"took_us", took_ns / 1000},
                {"budget_us", options_.turn_us},
                {"estimated_us", scheduler_.spent_ns() / 1000},
                {"command", longest.what.empty() ? "none" : longest.what},
                {"command_took_us", longest.took_ns / 1000},
                {"command_estimated_us", longest.estimated_ns / 1000}});
}

// While more commands of a client run, their replies are sent together with those before them, if that does not take
// long: a system call is the largest part of a reply's cost.
bool RedisFrontend::coalesces_replies(Client& client) {
  if (!client.work.running() || too_much_unread(client)) return false;
  if (client.coalesce_until_ns == 0) client.coalesce_until_ns = session_.now_ns() + kCoalesceNs;
  if (session_.now_ns() >= client.coalesce_until_ns) return false;
  coalesced_until_ns_ = std::min(coalesced_until_ns_, client.coalesce_until_ns);
  return true;
}

// Closing a socket with unread input discards what was sent and not yet received: the error that says why. So input of
// a client that may still be sending is read for a while.
bool RedisFrontend::keeps_lingering(Client& client) {
  constexpr int kReads = 16;
  char unwanted[4096];
  if (!client.refused || client.stream.encrypted()) return false;
  if (!client.lingering) {
    client.lingering = true;
    client.linger_until_ns = session_.now_ns() + kLingerNs;
    schedule_scan(client.linger_until_ns);
    client.stream.end();
  }
  if (session_.now_ns() >= client.linger_until_ns) return false;
  for (int i = 0; i < kReads; ++i) {
    const std::optional<size_t> n = client.stream.receive(unwanted, sizeof unwanted);
    if (!n) return false;
    client.readable = *n > 0;
    if (*n == 0) break;
  }
  return true;
}

// False: the client takes no more now; the socket reports when it does.
bool RedisFrontend::write_some(Client& client) {
  const std::string_view first = client.output.first();
  const std::optional<size_t> n = client.stream.send(first.data(), std::min(first.size(), kWriteBytes));
  if (!n) client.dead = true;
  if (!n || *n == 0) {
    client.writable = false;  // until the socket reports otherwise
    return client.dead;
  }
  client.output.wrote(*n);
  client.delayed_until_ns = 0;
  client.active_ns = client.wrote_ns = session_.now_ns();
  stats_->written_bytes.add(*n);
  client.pipelined = client.batch.size();  // it does read, if slowly
  if (client.output.empty()) client.coalesce_until_ns = 0;
  return true;
}

}  // namespace weft
