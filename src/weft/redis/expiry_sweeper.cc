// The sweeper: worker 0 of a node scans the node's records, a little at a time, and deletes expired ones of partitions
// whose primary it is, each in a transaction that commits only if the key is still as it was read. Keys that somebody
// reads are deleted by the reader (keyspace.h). The larger the table, the shorter the pauses, so that every key is
// reached within a minute; but normally scanning takes at most a twenty-fifth of its time. It notes the deadlines that
// it sees and that are not due yet (deadlines.h). Most keys are deleted before it comes to them (active_expiry.cc): it
// is for those that nobody noted.
//
// Partitions whose primary runs no transactions (a memory node) are swept by the members that do, in turn
// (View::caretaker_of): they ask for pages of keys, as SCAN does, and get through all of them within a minute, too.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "weft/redis/frontend.h"

namespace weft {

namespace {

constexpr int kBins = 2048;                      // per step: well below a millisecond
constexpr size_t kSliceBytes = size_t{1} << 20;  // of values per step
constexpr uint64_t kRoundNs = 60'000'000'000;    // over all bins
constexpr uint64_t kPauseNs = 50'000'000;        // between two steps, at most
constexpr uint64_t kLongPauseNs = 250'000'000;   // at most, if the last round saw no key that has a deadline
constexpr uint64_t kShortPauseNs = 1'000'000;    // at least, and if there was much to delete
constexpr uint64_t kPausesOfAStep = 24;          // each as long as the step itself
constexpr size_t kMuch = 32;

constexpr uint32_t kFarKeys = 1024;  // that a page asks for

struct Found {
  const Table* table;
  const View* view;
  NodeId self;
  Deadlines* deadlines;
  int64_t now_ms;
  std::vector<std::string> keys;
  bool any;  // some key has a deadline
  // In this round so far: the keys with a future deadline, and the total time left of all of them.
  uint64_t with_deadline = 0;
  uint64_t left_ms = 0;
};

void look_at(void* context, ByteView key, ByteView value, Word) {
  auto* found = static_cast<Found*>(context);
  const StoredValue stored = parse_value(as_text(value));
  if (stored.deadline_ms == kNoDeadline) return;
  found->any = true;
  const HashedKey hashed = found->table->hashed(key);
  const bool primary = found->view->placement(hashed.partition).primary() == found->self;
  if (stored.deadline_ms > found->now_ms) {
    ++found->with_deadline;
    found->left_ms += static_cast<uint64_t>(stored.deadline_ms - found->now_ms);
    if (primary) found->deadlines->note(hashed.hash, stored.deadline_ms);
    return;
  }
  if (primary) found->keys.emplace_back(as_text(key));
}

}  // namespace

// Another node may have deleted them first.
Task<Code> RedisFrontend::delete_in(Txn& txn, std::span<const std::string> names, size_t* deleted) {
  *deleted = 0;
  for (const std::string& name : names) txn.get_async(options_.table, name, Intent::kHead);
  co_await txn.wait_all();
  Keyspace keys(&txn, options_.table, wall_us(), string_bytes_max_, &scratch_);
  for (const std::string& name : names) {
    const bool found = txn.value(txn.get_async(options_.table, name, Intent::kHead)).found;
    if (!keys.find(name).exists && found) ++*deleted;
  }
  co_return keys.code();
}

Task<void> RedisFrontend::sweep() {
  uint64_t cursor = 0;
  uint64_t took_ns = 0;             // of the last step
  uint64_t steps = 0, counted = 0;  // per round: of the last one, and so far in this one
  bool saw_deadlines = false;       // in the last round
  Found found{&table(), nullptr, txn_worker_->context().self, &deadlines_, 0, {}, false};
  while (!txn_worker_->context().views.removed()) {
    steps = std::max(steps, table().index_address().bins / kBins + 1);
    const uint64_t least_ns = std::clamp(took_ns * kPausesOfAStep, kShortPauseNs, kPauseNs);
    const uint64_t most_ns = saw_deadlines || found.any ? kPauseNs : kLongPauseNs;
    const uint64_t pause_ns = std::clamp(kRoundNs / steps, least_ns, most_ns);
    co_await session_.sleep_ns(found.keys.size() >= kMuch ? kShortPauseNs : pause_ns);
    found.keys.clear();
    if (!txn_worker_->active()) continue;
    found.view = &txn_worker_->view();
    found.now_ms = wall_us() / 1000;
    const uint64_t began_ns = txn_worker_->context().worker->clock_ns();
    cursor = table().visit_some(cursor, kBins, kSliceBytes, look_at, &found);
    took_ns = txn_worker_->context().worker->clock_ns() - began_ns;
    ++counted;
    if (cursor == 0) {
      steps = std::exchange(counted, 0);
      saw_deadlines = std::exchange(found.any, false);
      const uint64_t keys = std::exchange(found.with_deadline, 0);
      const uint64_t left_ms = std::exchange(found.left_ms, 0);
      shared_->keys_with_deadline.store(keys, std::memory_order_relaxed);
      shared_->deadline_mean_ms.store(left_ms / std::max<uint64_t>(keys, 1), std::memory_order_relaxed);
    }
    Task<void> deleting = delete_all(found.keys);
    co_await deleting;
  }
}

bool RedisFrontend::sweeps_far(PartitionId partition) const {
  const NodeId self = txn_worker_->context().self;
  const View& view = txn_worker_->view();
  return view.placement(partition).primary() != self && view.caretaker_of(partition) == self;
}

Task<void> RedisFrontend::sweep_far() {
  while (!txn_worker_->context().views.removed()) {
    const auto partitions = static_cast<uint16_t>(txn_worker_->view().partitions.size());
    uint64_t far = 0;
    for (uint16_t p = 0; p < partitions; ++p) far += sweeps_far(PartitionId(p)) ? 1 : 0;
    for (uint16_t p = 0; p < partitions; ++p) {
      if (!sweeps_far(PartitionId(p))) continue;
      Task<void> sweeping = sweep_far(PartitionId(p), kRoundNs / std::max<uint64_t>(far, 1));
      co_await sweeping;
    }
    if (far == 0) co_await session_.sleep_ns(kLongPauseNs);
  }
}

// The primary's table may be of any size: after each page it pauses for the page's part of the hashes.
Task<void> RedisFrontend::sweep_far(PartitionId partition, uint64_t round_ns) {
  uint64_t cursor = 0;
  do {
    Task<std::shared_ptr<KeyPage>> scanning = session_.scan_keys(options_.table, partition, cursor, kFarKeys);
    const std::shared_ptr<KeyPage> page = co_await scanning;
    const uint64_t hashes = page->done ? page->next - cursor : 0;  // up to the end: next is 0, and so is 2^64
    const double part = std::ldexp(static_cast<double>(hashes == 0 ? UINT64_MAX : hashes), -64);
    cursor = page->done ? page->next : 0;  // else in the next round
    const int64_t now_ms = wall_us() / 1000;
    std::vector<std::string> expired;
    for (const KeyItem& item : page->items) {
      const int64_t deadline_ms = parse_value(item.value_prefix).deadline_ms;
      if (deadline_ms == kNoDeadline) continue;
      if (deadline_ms > now_ms) {
        deadlines_.note_far(item.key, deadline_ms, now_ms);
      } else {
        expired.push_back(item.key);
      }
    }
    Task<void> deleting = delete_all(expired);
    co_await deleting;
    const auto pause_ns = static_cast<uint64_t>(part * static_cast<double>(round_ns));
    co_await session_.sleep_ns(std::clamp(expired.size() >= kMuch ? 0 : pause_ns, kShortPauseNs, kLongPauseNs));
  } while (cursor != 0);
}

}  // namespace weft
