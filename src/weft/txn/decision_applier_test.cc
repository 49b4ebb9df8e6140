// Decisions are applied to the tables: together with the node's other workers, aborts first, each once.
#include "weft/txn/decision_applier.h"

#include <string>
#include <vector>

#include "weft/store/owner_testing.h"
#include "weft/txn/part_testing.h"
#include "weft/txn/recovery_testing.h"

namespace weft {
namespace {

using AppliedProgress = DecisionApplier::Progress;

class DecisionApplierTest : public PartTest {
 protected:
  static constexpr NodeId kCoordinator{1};
  static constexpr uint8_t kSlotNumber = 2;

  void SetUp() override {
    View next = *view_;
    next.epoch = Epoch(2);
    enter(next, false);
    make(1);
  }
  void make(int workers, bool verb_locks = false) {
    barrier_ = std::make_unique<WorkerBarrier>(workers);
    applier_ =
        std::make_unique<DecisionApplier>(ctx_, *barrier_, records_, decisions_, participant_, nullptr, verb_locks);
    applier_->begin();
  }

  // A decision with one written key, or none.
  void decide(Ending ending, uint32_t sequence, uint64_t key = 0, Write write = Write::kPut, uint64_t version = 2,
              const std::string& value = "new") {
    std::vector<std::byte> keys;
    if (key != 0) keys = recovery_key(0, key, write, version, value);
    const RecoveryId txn{kCoordinator, 2, kSlotNumber, sequence};
    ASSERT_EQ(decisions_.write(recovery_decision(Epoch(2), txn, ending, key != 0 ? 1 : 0), keys), nullptr);
  }
  // This node's record of a transaction that has locked a key here.
  PreparedTxn& lock_record(uint32_t sequence, const uint64_t& key, bool has_value) {
    KeyRef ref;
    ref.key = hashed(key);
    ref.table = &table();
    ref.table_id = kTable;
    ref.write = Write::kPut;
    ref.room = 8;
    ref.flags = has_value ? kHasValue : 0;
    ref.value = has_value ? as_bytes(std::string_view("locked\0\0", 8)).subspan(0, 6) : ByteView();
    PreparedTxn& record = records_.at(kCoordinator, kSlotNumber);
    record.sequence = sequence;
    record.incarnation = 2;
    record.state = kLocked;
    record.locked = records_.gather_part({&ref, 1}).keys;
    PreparedKey& logged = record.locked->all()[0];
    const LockResult lock = table().lock(logged.key, owner_, Write::kPut, std::nullopt, 8);
    EXPECT_EQ(lock.code, Code::kOk);
    logged.locked = lock.locked;
    logged.locked_to_write = true;
    return record;
  }
  AppliedProgress step() { return applier_->step(); }

  const Owner owner_ = make_owner(kCoordinator, kWorker, kSlotNumber);
  PreparedTable records_{kNodes, 4, pool_.get()};
  OutcomeLog outcomes_{1 << 20};
  Participant participant_{ctx_, records_, outcomes_, true};
  DecisionLog decisions_{ctx_, records_};
  std::unique_ptr<WorkerBarrier> barrier_;
  std::unique_ptr<DecisionApplier> applier_;
};

TEST_F(DecisionApplierTest, NothingIsDoneBeforeAllWorkersOfTheNodeAreThere) {
  make(2);
  const uint64_t key = key_at(kSelf);
  decide(Ending::kCommit, 50, key);
  EXPECT_EQ(step(), AppliedProgress::kWaits);
  EXPECT_EQ(value_of(key), "(absent)");
  EXPECT_FALSE(decisions_.all()[0].applied);
  barrier_->arrive(WorkerBarrier::Step::kApply, Epoch(1), WorkerId(1));
  EXPECT_EQ(step(), AppliedProgress::kWaits) << "that was for an earlier view";
  barrier_->arrive(WorkerBarrier::Step::kApply, Epoch(2), WorkerId(1));
  EXPECT_EQ(step(), AppliedProgress::kDone);
  EXPECT_EQ(value_of(key), "new");
}

TEST_F(DecisionApplierTest, ACommitIsInstalledWhereThisNodeHoldsTheKeyAndNowhereElse) {
  const uint64_t primary = key_at(kSelf);
  uint64_t foreign = 1;
  while (ctx_.view().placement(hashed(foreign).partition).is_in_sync(kSelf)) ++foreign;
  decide(Ending::kCommit, 50, primary);
  decide(Ending::kCommit, 51, foreign);
  EXPECT_EQ(step(), AppliedProgress::kDone);
  EXPECT_EQ(value_of(primary), "new");
  EXPECT_EQ(word_of(primary).version(), Version(2));
  EXPECT_EQ(value_of(foreign), "(absent)");
}

TEST_F(DecisionApplierTest, AnAbortInstallsNothingAndFreesItsLocks) {
  const uint64_t key = key_at(kSelf);
  load_record(key, "old");
  lock_record(50, key, true);
  decide(Ending::kAbort, 50, key);
  EXPECT_EQ(step(), AppliedProgress::kDone);
  EXPECT_EQ(value_of(key), "old");
  EXPECT_EQ(table().leak_report().locked, 0U);
  EXPECT_EQ(outcomes_.find(2, 50), OutcomeLog::Known::kAborted);
}

TEST_F(DecisionApplierTest, ACommitEndsALockWithTheValueThatTheDecisionBrought) {
  const uint64_t key = key_at(kSelf);
  load_record(key, "old");
  lock_record(50, key, false);
  decide(Ending::kCommit, 50, key);
  EXPECT_EQ(step(), AppliedProgress::kDone);
  EXPECT_EQ(value_of(key), "new");
  EXPECT_EQ(table().leak_report().locked, 0U);
  EXPECT_EQ(outcomes_.find(2, 50), OutcomeLog::Known::kCommitted);
}

// Finding 2 of recovery.
TEST_F(DecisionApplierTest, ADecisionIsCarriedOutOnceAlsoIfAnotherRecoveryBegins) {
  const uint64_t key = key_at(kSelf);
  decide(Ending::kCommit, 50, key, Write::kPut, 5);
  step();
  EXPECT_TRUE(decisions_.all()[0].applied);
  table().drop_partitions({true, true, true}, 0, 1 << 20);
  ASSERT_EQ(value_of(key), "(absent)");
  View next = ctx_.view();
  next.epoch = Epoch(3);
  enter(next, false);
  applier_->begin();
  EXPECT_EQ(step(), AppliedProgress::kDone);
  EXPECT_EQ(value_of(key), "(absent)");
}

// Finding 4 of recovery: what the record has applied itself may be outdated already.
TEST_F(DecisionApplierTest, WhatTheRecordHasCommittedAlreadyIsNotInstalledOverWhatCameLater) {
  const uint64_t key = key_at(kSelf);
  load_record(key, "old");
  PreparedTxn& record = lock_record(50, key, true);
  table().commit(record.locked->all()[0].key, owner_, Write::kPut, as_bytes("mine"), record.locked->all()[0].locked);
  record.state |= kCommitted;
  const HashedKey name = hashed(key);
  const LockResult later = table().lock(name, make_owner(kSelf, kWorker, 0), Write::kErase, std::nullopt, 0);
  table().commit(name, make_owner(kSelf, kWorker, 0), Write::kErase, {}, later.locked);
  decide(Ending::kCommit, 50, key, Write::kPut, 100);
  step();
  EXPECT_EQ(value_of(key), "(absent)") << "it was deleted since";
}

// Rule: aborts first. An undo brings back the version that a commit is to replace; after the commit, it would take its
// version away.
TEST_F(DecisionApplierTest, AbortsComeBeforeCommitsWhateverTheOrderTheyWereWrittenIn) {
  const uint64_t key = key_at(kSelf);
  load_record(key, "old");
  decide(Ending::kCommit, 49, key, Write::kPut, 2, "commit");
  KeyRef ref;
  ref.key = hashed(key);
  ref.table = &table();
  ref.write = Write::kPut;
  ref.version = Version(3);
  PreparedTxn& record = records_.at(kCoordinator, kSlotNumber);
  record.sequence = 50;
  record.incarnation = 2;
  record.state = kReplicated;
  const PreparedTable::NewPart part = records_.gather_part({&ref, 1});
  ASSERT_GE(part.room.size(), 64U);
  std::byte* const undo_at = part.room.data();
  record.applied = part.keys;
  PreparedKey& logged = record.applied->all()[0];
  logged.undo = table().apply(logged.key, Write::kPut, as_bytes("abort"), Version(3), undo_at);
  logged.old_value = undo_at;
  logged.applied = true;
  decide(Ending::kAbort, 50);
  EXPECT_EQ(step(), AppliedProgress::kDone);
  EXPECT_EQ(value_of(key), "commit");
  EXPECT_EQ(word_of(key).version(), Version(2));
}

// A partition that this node has just begun to catch up on gets the write by copying.
TEST_F(DecisionApplierTest, WhatIsFillingGetsACommitOnlyIfItWasFillingBefore) {
  const uint64_t key = key_at(NodeId(1));
  const PartitionId partition = hashed(key).partition;
  View fills = catching_up_view(partition, NodeId(1), kSelf);
  enter(fills, false);
  applier_->begin();
  decide(Ending::kCommit, 50, key);
  step();
  EXPECT_EQ(value_of(key), "(absent)") << "nobody was active before";
  state_.views.went_active(std::make_shared<const View>(fills));
  ++fills.epoch.value;
  enter(fills, false);
  applier_->begin();
  decide(Ending::kCommit, 51, key);
  step();
  EXPECT_EQ(value_of(key), "new");
}

// Finding 8 of recovery.
TEST_F(DecisionApplierTest, ADeleteLeavesATombstoneOnlyWhereItWasFilling) {
  const uint64_t key = key_at(kSelf);
  decide(Ending::kCommit, 50, key, Write::kErase, 7, "");
  step();
  EXPECT_EQ(table().leak_report().tombstones, 0U);
  View fills = catching_up_view(hashed(key).partition, NodeId(1), kSelf);
  state_.views.went_active(std::make_shared<const View>(fills));
  ++fills.epoch.value;
  enter(fills, false);
  applier_->begin();
  decide(Ending::kCommit, 51, key, Write::kErase, 9, "");
  step();
  EXPECT_EQ(table().leak_report().tombstones, 1U);
}

TEST_F(DecisionApplierTest, TheOutcomeIsNotedByTheWholeSequence) {
  RecoveryHeader header = recovery_decision(Epoch(2), {NodeId(1), 2, 0, 9}, Ending::kCommit);
  header.set_sequence(uint64_t{3} << 32 | 9);
  ASSERT_EQ(decisions_.write(header, {}), nullptr);
  step();
  EXPECT_EQ(outcomes_.find(2, uint64_t{3} << 32 | 9), OutcomeLog::Known::kCommitted);
  EXPECT_EQ(outcomes_.find(2, 9), OutcomeLog::Known::kNothing);
}

// Verb locks leave no record: the workers look for them when all have applied all decisions.
TEST_F(DecisionApplierTest, LocksOfVerbsAreFreedAfterAllWorkersHaveCarriedOutTheirs) {
  make(2, true);
  const uint64_t key = key_at(kSelf);
  load_record(key, "old");
  ASSERT_EQ(table().lock(hashed(key), owner_, Write::kPut, std::nullopt, 3).code, Code::kOk);
  barrier_->arrive(WorkerBarrier::Step::kApply, Epoch(2), WorkerId(1));
  EXPECT_EQ(step(), AppliedProgress::kWaits);
  EXPECT_EQ(table().leak_report().locked, 1U);
  barrier_->arrive(WorkerBarrier::Step::kFree, Epoch(2), WorkerId(1));
  int steps = 0;
  while (step() == AppliedProgress::kGoesOn) ASSERT_LT(++steps, 1000);
  EXPECT_EQ(table().leak_report().locked, 0U);
  EXPECT_EQ(value_of(key), "old");
}

}  // namespace
}  // namespace weft
