// Acks, each of one phase of one transaction: one that nothing waits for changes nothing.
#include <array>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/coordinator_testing.h"

namespace weft {
namespace {

TEST_F(CoordinatorTest, AcksThatNothingWaitsForChangeNothing) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  put(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  sent();
  const auto lock = static_cast<uint8_t>(Phase::kLock);
  const auto sequence = static_cast<uint16_t>(slot.sequence);
  const auto waits_for_both = [&] { return slot.waiting == node_set({1, 2}) && slot.locked_nodes.empty(); };
  for (uint8_t phase = 0; phase != UINT8_MAX; ++phase) {
    if (phase != lock) ack(kOne, {{slot.index, phase, sequence}});
  }
  ack(kOne, {{slot.index, UINT8_MAX, sequence}});
  EXPECT_TRUE(waits_for_both()) << "of another phase, or of none";
  for (int bit = 0; bit < 16; ++bit) ack(kOne, {{slot.index, lock, static_cast<uint16_t>(sequence ^ 1U << bit)}});
  EXPECT_TRUE(waits_for_both()) << "of another transaction";
  const auto idle = static_cast<uint8_t>(slots_.size() - 1);
  ASSERT_NE(idle, slot.index);
  ack(kOne, {{idle, lock, sequence}});
  EXPECT_TRUE(waits_for_both()) << "of a slot that has none";
  ack(kOne, {});
  EXPECT_TRUE(waits_for_both());
  ack(kOne, {{slot.index, lock, sequence}});
  EXPECT_EQ(slot.waiting, node_set({2}));
  EXPECT_EQ(slot.locked_nodes, node_set({1}));
  ack(kOne, {{slot.index, lock, sequence}});
  EXPECT_EQ(slot.waiting, node_set({2})) << "a second one of a node that has answered";
  EXPECT_EQ(slot.phase, Phase::kLock);
  EXPECT_EQ(sent(), "");
  ack(kTwo, {{slot.index, lock, sequence}});
  EXPECT_EQ(slot.phase, Phase::kReplicate);
  EXPECT_TRUE(ctx_.faults.empty());
}

TEST_F(CoordinatorTest, OneMessageAcknowledgesPhasesOfSeveralTransactions) {
  std::vector<TxnSlot*> slots;
  std::array<Waiter, 3> waiters;
  std::vector<PhaseAck> locks, unlocks;
  for (size_t i = 0; i < waiters.size(); ++i) {
    TxnSlot& slot = begin();
    put(slot, key_at(kOne, static_cast<int>(i)));
    commit(slot, waiters[i]);
    slots.push_back(&slot);
    const auto sequence = static_cast<uint16_t>(slot.sequence);
    locks.push_back({slot.index, static_cast<uint8_t>(Phase::kLock), sequence});
    unlocks.push_back({slot.index, static_cast<uint8_t>(Phase::kUnlock), sequence});
  }
  sent();
  const uint64_t counted = ctx_.counters.phase_messages[index_of(Phase::kLock)];
  ack(kOne, locks);
  EXPECT_EQ(ctx_.counters.phase_messages[index_of(Phase::kLock)], counted + 3);
  EXPECT_EQ(sent(), "replicate@2 replicate@2 replicate@2");
  for (const TxnSlot* slot : slots) answer(kTwo, *slot, Phase::kReplicate);
  ack(kOne, unlocks);
  for (size_t i = 0; i < waiters.size(); ++i) {
    EXPECT_TRUE(woken(waiters[i]));
    EXPECT_TRUE(slots[i]->outcome.committed());
  }
}

// The versions that it named are the bases.
TEST_F(CoordinatorTest, ALockThatIsAckedHasTheVersionsThatWereRead) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  slot.entry(0).read = slot.entry(0).found = true;
  slot.entry(0).version = Version(9);
  Waiter waiter;
  commit(slot, waiter);
  answer(kOne, slot, Phase::kLock);
  EXPECT_EQ(slot.phase, Phase::kReplicate);
  EXPECT_EQ(slot.entry(0).base, Version(9));
  EXPECT_EQ(slot.locked_nodes, node_set({1}));
  EXPECT_EQ(slot.record_nodes & node_set({1}), node_set({1}));
}

}  // namespace
}  // namespace weft
