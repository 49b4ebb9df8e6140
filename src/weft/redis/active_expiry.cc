// Active expiry: deletes keys soon after their deadline, if clients of this worker wrote them or the sweeper has seen
// them (deadlines.h). Each worker works for itself. The primary of a key deletes it when it is due; another replica,
// or the node that wrote it, does so a moment later, in case the primary did not know. Either way a transaction
// deletes it, which commits only if the key is still as it was read.
//
// Examining cells takes at most a quarter of the worker's time, and only a part of a turn at a time.
#include <algorithm>
#include <string>
#include <vector>

#include "weft/redis/frontend.h"

namespace weft {

namespace {

constexpr uint64_t kTickNs = 100'000'000;
constexpr uint64_t kCellsNs = 100'000;  // per turn
constexpr uint64_t kPausesOfALook = 3;  // each as long as the examination itself
constexpr size_t kScanCells = 1 << 15;  // per turn
constexpr int64_t kGraceMs = 300;       // for the primary
constexpr int64_t kAgainMs = 1000;      // after a failed delete
constexpr size_t kFarKeys = 1024;       // per tick
constexpr size_t kCellBytes = size_t{1} << 20;

struct Seen {
  const Table* table;
  const View* view;
  NodeId self;
  int64_t now_ms;
  Deadlines::Hashes hashes;
  int64_t earliest_ms;
  std::vector<std::string>* expired;
};

void look_at_record(void* context, ByteView key, ByteView value, Word) {
  auto* seen = static_cast<Seen*>(context);
  const int64_t deadline_ms = parse_value(as_text(value)).deadline_ms;
  if (deadline_ms == kNoDeadline) return;
  const HashedKey hashed = seen->table->hashed(key);
  if (hashed.hash < seen->hashes.first || hashed.hash > seen->hashes.last) return;
  const Placement& placement = seen->view->placement(hashed.partition);
  const int64_t ours_ms = deadline_ms + (placement.primary() == seen->self ? 0 : kGraceMs);
  if (ours_ms > seen->now_ms) {
    seen->earliest_ms = std::min(seen->earliest_ms, ours_ms);
  } else {
    seen->expired->emplace_back(as_text(key));
  }
}

}  // namespace

void RedisFrontend::note_deadline(std::string_view key, int64_t deadline_ms) {
  const HashedKey hashed = table().hashed(as_bytes(key));
  const bool here = txn_worker_->view().placement(hashed.partition).is_in_sync(txn_worker_->context().self);
  here ? deadlines_.note(hashed.hash, deadline_ms) : deadlines_.note_far(key, deadline_ms, wall_us() / 1000);
}

// The records of one cell; complete if the table's index has grown at most once since.
void RedisFrontend::examine_cell(size_t cell, std::vector<std::string>* expired) {
  const int64_t now_ms = wall_us() / 1000;
  const auto bins = static_cast<int>(table().index_address().bins / deadlines_.cells() + 1);
  Seen seen{&table(), &txn_worker_->view(), txn_worker_->context().self, now_ms, deadlines_.hashes(cell), INT64_MAX,
            expired};
  uint64_t cursor = seen.hashes.first;
  do {
    cursor = table().visit_some(cursor, bins, kCellBytes, look_at_record, &seen);
  } while (cursor != 0 && cursor <= seen.hashes.last);
  deadlines_.examined(cell, seen.earliest_ms, now_ms);
}

Task<Outcome> RedisFrontend::delete_together(std::span<const std::string> keys, RetryPolicy policy, uint64_t until_ns) {
  size_t deleted = 0;
  const auto body = [&](Txn& txn) { return delete_in(txn, keys, &deleted); };
  Task<Outcome> running = session_.run(policy, body, until_ns);
  const Outcome outcome = co_await running;
  if (outcome.committed()) stats_->expired_keys.add(deleted);
  co_return outcome;
}

Task<Outcome> RedisFrontend::delete_expired(std::span<const std::string> keys, uint64_t until_ns) {
  RetryPolicy policy;
  policy.attempts = UINT32_MAX;
  Outcome outcome;
  while (!keys.empty() && outcome.committed()) {
    const std::span<const std::string> some = expired_together(keys);
    keys = keys.subspan(some.size());
    Task<Outcome> deleting = delete_together(some, policy, until_ns);
    outcome = co_await deleting;
  }
  co_return outcome;
}

Task<void> RedisFrontend::delete_all(std::vector<std::string> keys) {
  for (std::span<const std::string> rest = keys; !rest.empty();) {
    const std::span<const std::string> some = expired_together(rest);
    rest = rest.subspan(some.size());
    Task<Outcome> deleting = delete_together(some, {}, session_.answer_by_ns());
    const Outcome outcome = co_await deleting;
    if (outcome.committed()) continue;
    const int64_t again_ms = wall_us() / 1000 + kAgainMs;
    for (const std::string& key : some) note_deadline(key, again_ms);
  }
}

Task<void> RedisFrontend::expire_due() {
  while (!txn_worker_->context().views.removed()) {
    co_await session_.sleep_ns(kTickNs);
    if (!txn_worker_->active()) continue;
    std::vector<std::string> expired = deadlines_.take_far(wall_us() / 1000 - kGraceMs, kFarKeys);
    size_t next = deadlines_.due(wall_us() / 1000) ? 0 : deadlines_.cells();
    if (next == 0) deadlines_.begin_round();
    do {
      const uint64_t began_ns = txn_worker_->context().worker->clock_ns();
      const size_t end = std::min(next + kScanCells, deadlines_.cells());
      uint64_t took_ns = 0;
      while (next < end && took_ns < kCellsNs && expired.size() < kExpiredTogether) {
        next = deadlines_.next_due(next, end, wall_us() / 1000);
        if (next < end) examine_cell(next++, &expired);
        took_ns = txn_worker_->context().worker->clock_ns() - began_ns;
      }
      Task<void> deleting = delete_all(std::exchange(expired, {}));
      co_await deleting;
      if (next < deadlines_.cells()) co_await session_.sleep_ns(took_ns * kPausesOfALook + 1);
    } while (next < deadlines_.cells() && txn_worker_->active());
    if (next < deadlines_.cells()) deadlines_.cut_round();
  }
}

}  // namespace weft
