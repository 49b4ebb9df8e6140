// CoordinatorTest: commits of one worker, whose peers' answers are the test's.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/txn/commit_testing.h"
#include "weft/txn/coordinator.h"

namespace weft {

// A key at node 1 has its backup at node 2: a put locks at 1, replicates to 2, and is unlocked at 1.
class CoordinatorTest : public CommitTest {
 protected:
  explicit CoordinatorTest(std::string_view row = "dnl4", const Limits& limits = Limits(), bool recovers = true)
      : CommitTest(row, limits, recovers) {}

  TxnSlot& put_at_one(const Waiter& waiter) {
    TxnSlot& slot = begin();
    put(slot, key_at(kOne));
    commit(slot, waiter);
    return slot;
  }
  // The transaction has read the key.
  void note_read(TxnSlot& slot, uint64_t key) {
    Entry& e = *keys_.find_or_add(slot, kTable, key);
    e.read = e.done = true;
  }
  void to_replicate(const TxnSlot& slot) { answer(kOne, slot, Phase::kLock, Code::kOk, {4}); }
  void to_unlock(const TxnSlot& slot) {
    to_replicate(slot);
    answer(kTwo, slot, Phase::kReplicate);
  }
  OutcomeLog::Known known(const TxnSlot& slot) { return outcomes_.find(slot.incarnation, slot.sequence); }
};

}  // namespace weft
