// How a worker gets from one view into the next: what stops it, what it accepts from the leader and in which order, and
// what it reports to the leader. Node 1 leads here, by bare messages (docs/rules.md, recovery).
#include "weft/txn/recovery.h"

#include <memory>
#include <string>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/txn/part_testing.h"
#include "weft/txn/recovery_testing.h"

namespace weft {
namespace {

using enum RecoveryStep;

struct RecoveryService final : Service {
  bool step(uint64_t) override { return false; }
  uint64_t deadline_ns() const override { return UINT64_MAX; }
  void on_view_ended() override { ++ended; }
  void on_view_active() override { ++active; }
  bool has_left_view() const override { return left_view; }
  bool left_view = true;
  int ended = 0, active = 0;
};

class RecoveryTest : public PartTest {
 protected:
  static constexpr NodeId kLeader{1};
  static constexpr uint8_t kSlotNumber = 2;

  RecoveryTest() {
    recovery_.add_service(&service_);
    recovery_.start_active();
    service_.active = 0;
    // What this node sends to itself, where it leads.
    port_.set_handler(
        static_cast<uint8_t>(Kind::kRecovery),
        [](void* to, std::span<const Message> run) {
          for (const Message& m : run) {
            hand_over<&Recovery::parse, &Recovery::on_message>(static_cast<RecoveryTest*>(to)->recovery_, m.source,
                                                               Kind::kRecovery, {m.body.begin(), m.body.end()});
          }
        },
        this);
  }

  // The next view, which node 1 or this node leads.
  View next_view(NodeId leader) const {
    View next = ctx_.view();
    ++next.epoch.value;
    if (leader != kSelf) {  // the leader is the oldest member; this node stays what it is
      for (Member& m : next.members) {
        if (m.node == kSelf) m.incarnation = ctx_.views.incarnation();
      }
      next.members[1].incarnation = 0;
    }
    return next;
  }
  void begin(NodeId leader = kLeader) {
    state_.views.publish(std::make_shared<const View>(next_view(leader)));
    recovery_.step(ctx_.now_ns());
    ASSERT_TRUE(ctx_.views.recovering());
    ASSERT_EQ(ctx_.view().leader(), leader);
    take_received();
  }
  RecoveryHeader header(RecoveryStep step) const { return recovery_header(step, ctx_.view().epoch); }
  bool hear(const RecoveryHeader& header, ByteView keys = {}, NodeId from = kLeader) {
    return hand_over<&Recovery::parse, &Recovery::on_message>(recovery_, from, Kind::kRecovery,
                                                              bytes_with(header, keys));
  }
  void hear(RecoveryStep step, NodeId from = kLeader) { EXPECT_TRUE(hear(header(step), {}, from)); }
  // What is wrong with the last message; empty: nothing.
  std::string fault() {
    const auto fault = ctx_.faults.take();
    return fault ? fault->error.detail : std::string();
  }
  RecoveryHeader decision(Ending ending, uint32_t sequence = 50, uint8_t keys = 0) const {
    return recovery_decision(ctx_.view().epoch, {NodeId(2), 3, kSlotNumber, sequence}, ending, keys);
  }
  // The steps that the leader has got since the last call, in the order in which they were sent.
  std::vector<RecoveryStep> told() {
    deliver();
    std::vector<RecoveryStep> steps;
    for (const Received& r : take_received()) {
      if (r.at == kLeader) steps.push_back(static_cast<RecoveryStep>(r.as<RecoveryHeader>().step));
    }
    return steps;
  }
  void step() { recovery_.step(ctx_.now_ns()); }
  void step_until_active() {
    for (int i = 0; i < 1000 && !ctx_.views.active(); ++i) step();
  }
  // The rest, once all decisions are written.
  void apply_until_active() {
    hear(kApply);
    step();
    hear(kActive);
    step_until_active();
  }

  const RowSet rows_ = *RowSet::parse("dnl4");
  SlotTable slots_{ctx_, pool_.get(), nullptr, 1'000'000, 0};
  TxnKeys keys_{ctx_, pool_.get()};
  OutcomeLog outcomes_{1 << 20};
  ClientAcks acks_{ctx_, outcomes_, 16};
  CreditGate credit_{kNodes, 1 << 20};
  Planner planner_{rows_, kSelf, PlantedBugs(), false};
  MessageTransport messages_{ctx_};
  Coordinator coordinator_{ctx_, false, slots_, acks_, credit_, planner_, {messages_, nullptr, nullptr}};
  InterruptedCommits interrupted_{ctx_, slots_, acks_, coordinator_};
  Reads reads_{ctx_, ReadRules(), planner_, slots_, keys_, credit_, acks_, coordinator_};
  PreparedTable records_{kNodes, static_cast<int>(slots_.size()), pool_.get()};
  Participant participant_{ctx_, records_, outcomes_, true};
  PartitionSweep sweep_{kSelf, PlantedBugs()};
  PartitionGc gc_{ctx_, sweep_};
  WorkerBarrier barrier_{1};
  RecoveryService service_;
  Recovery recovery_{ctx_,
                     {slots_, reads_, coordinator_, interrupted_, acks_, credit_, participant_, records_, nullptr, gc_,
                      barrier_, nullptr},
                     false};
};

TEST_F(RecoveryTest, APublishedViewStopsTheWorker) {
  EXPECT_EQ(recovery_.deadline_ns(), UINT64_MAX);
  begin();
  EXPECT_FALSE(ctx_.views.active());
  EXPECT_EQ(ctx_.view().epoch, Epoch(2));
  EXPECT_EQ(port_.epoch(), port_epoch(Epoch(2), false));
  EXPECT_EQ(service_.ended, 1);
  EXPECT_EQ(service_.active, 0);
  EXPECT_NE(recovery_.deadline_ns(), UINT64_MAX);
  EXPECT_FALSE(recovery_.deciding());
}

TEST_F(RecoveryTest, ReportsOnlyWhenItIsAskedAndOnce) {
  begin();
  step();
  EXPECT_TRUE(told().empty());
  hear(kAsk);
  hear(kAsk);
  step();
  hear(kAsk);
  step();
  EXPECT_EQ(told(), (std::vector<RecoveryStep>{kReported}));
}

TEST_F(RecoveryTest, ReportsWhenAllServicesHaveLeftTheView) {
  service_.left_view = false;
  begin();
  hear(kAsk);
  step();
  EXPECT_TRUE(told().empty());
  service_.left_view = true;
  step();
  EXPECT_EQ(told(), (std::vector<RecoveryStep>{kReported}));
}

TEST_F(RecoveryTest, GoesThroughAllStepsAndIsActive) {
  begin();
  hear(kAsk);
  step();
  hear(kWrite);
  hear(kApply);
  step();
  EXPECT_EQ(told(), (std::vector<RecoveryStep>{kReported, kWrote, kApplied}));
  EXPECT_FALSE(ctx_.views.active()) << "before the leader says so";
  hear(kActive);
  step_until_active();
  EXPECT_TRUE(ctx_.views.active());
  EXPECT_EQ(port_.epoch(), port_epoch(Epoch(2), true));
  EXPECT_EQ(service_.active, 1);
  EXPECT_EQ(state_.views.last_active()->epoch, Epoch(2));
  EXPECT_EQ(fault(), "");
}

TEST_F(RecoveryTest, OnlyTheLeaderLeads) {
  begin();
  for (const RecoveryStep s : {kAsk, kWrite, kApply, kActive}) {
    hear(s, NodeId(2));
    EXPECT_EQ(fault(), "node 2: a step of recovery from a node that does not lead it");
  }
  EXPECT_TRUE(hear(decision(Ending::kCommit), {}, NodeId(2)));
  EXPECT_NE(fault(), "");
  step();
  EXPECT_TRUE(told().empty());
  EXPECT_FALSE(recovery_.deciding());
}

TEST_F(RecoveryTest, WhoIsNotInTheViewReportsNothing) {
  const Result<View> next = without_members(next_view(kSelf), node_set({2}));
  ASSERT_TRUE(next) << next.error().text();
  state_.views.publish(std::make_shared<const View>(*next));
  recovery_.step(ctx_.now_ns());
  ASSERT_EQ(ctx_.view().leader(), kSelf);
  hear(kReported, NodeId(2));
  EXPECT_EQ(fault(), "node 2: a step of recovery from a node that is not in the view");
  hear(kReported, NodeId(1));
  EXPECT_EQ(fault(), "");
}

// Rule: apply before written is refused.
TEST_F(RecoveryTest, ALeaderThatSkipsStepsIsNotBelieved) {
  begin();
  hear(kApply);
  EXPECT_EQ(fault(), "node 1: decisions to apply that are not written");
  hear(kActive);
  EXPECT_EQ(fault(), "node 1: a view that is active before everything is applied");
  hear(kWrite);
  hear(kActive);
  EXPECT_NE(fault(), "") << "written is not applied";
  hear(kApply);
  hear(kActive);
  EXPECT_NE(fault(), "") << "told to is not carried out";
  for (int i = 0; i < 10; ++i) step();
  EXPECT_FALSE(ctx_.views.active());
}

// Rule: all have written a decision before any member applies it.
TEST_F(RecoveryTest, NothingIsDecidedAfterAllIsWritten) {
  begin();
  hear(kWrite);
  EXPECT_TRUE(hear(decision(Ending::kCommit)));
  EXPECT_EQ(fault(), "node 1: a decision after all were written");
  EXPECT_FALSE(recovery_.deciding());
}

TEST_F(RecoveryTest, ARecordThatIsNotDecidedIsNotWrittenOff) {
  begin();
  PreparedTxn& record = records_.at(NodeId(2), kSlotNumber);
  record.state = kLocked;
  record.sequence = 50;
  record.incarnation = 3;
  hear(kWrite);
  EXPECT_EQ(fault(), "node 1: not all that is open has been decided");
  EXPECT_TRUE(told().empty());
  EXPECT_TRUE(hear(decision(Ending::kAbort)));
  EXPECT_TRUE(recovery_.deciding());
  hear(kWrite);
  EXPECT_EQ(fault(), "");
  EXPECT_EQ(told(), (std::vector<RecoveryStep>{kWrote}));
  apply_until_active();
  EXPECT_TRUE(ctx_.views.active());
  EXPECT_EQ(records_.open_records(), 0U);
  EXPECT_TRUE(record.was_finished(3, 50));
}

TEST_F(RecoveryTest, ACommitOfThisWorkerIsResolvedAsItWasDecided) {
  for (const Ending ending : {Ending::kAbort, Ending::kCommit}) {
    TxnSlot& slot = *slots_.acquire(0);
    slot.stage = TxnStage::kCommitting;
    slot.phase = Phase::kReplicate;
    begin();
    hear(kWrite);
    EXPECT_NE(fault(), "") << "it is not decided";
    const RecoveryId own{kSelf, ctx_.views.incarnation(), slot.index, static_cast<uint32_t>(slot.sequence)};
    EXPECT_TRUE(hear(recovery_decision(ctx_.view().epoch, own, ending)));
    hear(kWrite);
    EXPECT_EQ(fault(), "");
    apply_until_active();
    ASSERT_TRUE(ctx_.views.active());
    EXPECT_EQ(slot.outcome.committed(), ending == Ending::kCommit);
    EXPECT_EQ(slot.stage, TxnStage::kFinished);
    told();
  }
}

// Rule E2.
TEST_F(RecoveryTest, NothingIsCarriedOutBeforeTheLeasesOfRemovedMembersHaveRunOut) {
  begin();
  const uint64_t key = key_at(kSelf);
  EXPECT_TRUE(hear(decision(Ending::kCommit, 50, 1), recovery_key(0, key, Write::kPut, 2, "new")));
  hear(kWrite);
  hear(kApply);
  state_.lease.set_fenced_after(5000);
  at(4999);
  step();
  EXPECT_EQ(value_of(key), "(absent)");
  EXPECT_EQ(told(), (std::vector<RecoveryStep>{kWrote}));
  at(5000);
  step();
  EXPECT_EQ(value_of(key), "new");
  EXPECT_EQ(told(), (std::vector<RecoveryStep>{kApplied}));
}

TEST_F(RecoveryTest, MessagesOfAnotherEpochAreIgnored) {
  begin();
  for (const int32_t by : {-1, 1}) {
    RecoveryHeader ask = header(kAsk);
    ask.epoch += static_cast<uint32_t>(by);
    EXPECT_TRUE(hear(ask));
    EXPECT_TRUE(hear(ask, {}, NodeId(2))) << "also of who does not lead";
  }
  EXPECT_EQ(fault(), "");
  step();
  EXPECT_TRUE(told().empty());
}

TEST_F(RecoveryTest, WhoIsActiveHearsNothing) {
  EXPECT_TRUE(hear(header(kActive), {}, NodeId(2)));
  EXPECT_TRUE(hear(header(kApply)));
  EXPECT_EQ(fault(), "");
  EXPECT_TRUE(ctx_.views.active());
}

// Rule: a written decision wins if recovery is interrupted by another view.
TEST_F(RecoveryTest, WrittenDecisionsOutliveARecoveryThatIsInterrupted) {
  begin();
  EXPECT_TRUE(hear(decision(Ending::kCommit)));
  hear(kWrite);
  told();
  View again = ctx_.view();
  ++again.epoch.value;
  state_.views.publish(std::make_shared<const View>(again));
  step();
  EXPECT_EQ(ctx_.view().epoch, Epoch(3));
  EXPECT_TRUE(recovery_.deciding());
  hear(kApply);
  EXPECT_NE(fault(), "") << "what the last leader was told does not count";
  hear(kAsk);
  step();
  EXPECT_EQ(told(), (std::vector<RecoveryStep>{kDecided, kReported}));
}

TEST_F(RecoveryTest, AViewWithoutThisNodeEndsIt) {
  View next = ctx_.view();
  ++next.epoch.value;
  next.members.erase(next.members.begin());
  state_.views.publish(std::make_shared<const View>(next));
  step();
  EXPECT_TRUE(ctx_.views.removed());
  EXPECT_EQ(recovery_.deadline_ns(), UINT64_MAX);
  hear(kAsk);
  step();
  EXPECT_TRUE(told().empty());
  EXPECT_FALSE(ctx_.views.active());
}

TEST_F(RecoveryTest, AReplacedPeersRecordsAreForgottenWhenTheViewIsActive) {
  records_.at(NodeId(2), kSlotNumber).finished = 9;
  View next = next_view(kLeader);
  next.members[2].incarnation = 77;
  state_.views.publish(std::make_shared<const View>(next));
  step();
  EXPECT_EQ(ctx_.views.peer_incarnation(NodeId(2)), 77U);
  EXPECT_TRUE(ctx_.views.departed(NodeId(2)));
  EXPECT_EQ(records_.at(NodeId(2), kSlotNumber).finished, 9U) << "they are reported first";
  hear(kWrite);
  apply_until_active();
  ASSERT_TRUE(ctx_.views.active());
  EXPECT_EQ(records_.at(NodeId(2), kSlotNumber).finished, 0U);
}

TEST_F(RecoveryTest, AFullQueueToTheLeaderHoldsTheReportBack) {
  begin();
  records_.at(NodeId(2), kSlotNumber).finished = 9;
  hear(kAsk);
  choke(kLeader, ctx_.limits.credit_bytes / 2);
  step();
  EXPECT_TRUE(unchoke().empty());
  step();
  EXPECT_EQ(told(), (std::vector<RecoveryStep>{kFinished, kReported}));
}

TEST_F(RecoveryTest, WhereThisNodeLeadsItAsksAllMembers) {
  begin(kSelf);
  deliver();
  step();
  at(10'000'000);
  step();
  deliver();
  NodeSet asked;
  for (const Received& r : take_received()) {
    if (static_cast<RecoveryStep>(r.as<RecoveryHeader>().step) == kAsk) asked.add(r.at);
  }
  EXPECT_EQ(asked, node_set({1, 2}));
}

TEST_F(RecoveryTest, WhatIsMalformedIsRefusedAndChangesNothing) {
  begin();
  const std::vector<std::byte> keys = recovery_key(0, key_at(kSelf), Write::kPut, 2, "new");
  const RecoveryHeader good = decision(Ending::kCommit, 50, 1);
  const auto refused = [&](const RecoveryHeader& m, ByteView rest, const char* what) {
    EXPECT_FALSE(hear(m, rest)) << what;
    EXPECT_FALSE(recovery_.deciding()) << what;
  };
  const auto changed = [&](auto change) {
    RecoveryHeader m = good;
    change(m);
    return m;
  };
  refused(changed([](RecoveryHeader& m) { m.step = static_cast<uint8_t>(kActive) + 1; }), keys, "step");
  refused(changed([](RecoveryHeader& m) { m.coordinator = kNodes; }), keys, "coordinator");
  refused(changed([&](RecoveryHeader& m) { m.slot = static_cast<uint8_t>(records_.slots()); }), keys, "slot");
  refused(changed([](RecoveryHeader& m) { m.unanimous = 2; }), keys, "unanimous");
  refused(changed([](RecoveryHeader& m) { m.ending = 3; }), keys, "ending");
  refused(changed([](RecoveryHeader& m) { m.keys = 2; }), keys, "a key that is not there");
  refused(good, ByteView(keys).subspan(0, keys.size() - 8), "a value that is cut off");
  const auto bad_key = [&](auto change) {
    const std::byte* at = keys.data();
    KeyPartView view;
    EXPECT_TRUE(take_key(&at, keys.data() + keys.size(), &view));
    change(view.part);
    std::vector<std::byte> bytes(is_narrow(view.part) ? kNarrowHeadBytes : kWideHeadBytes);
    put_key_head(bytes.data(), view.part);
    bytes.insert(bytes.end(), view.key.data(), keys.data() + keys.size());
    return bytes;
  };
  refused(good, bad_key([](KeyPart& k) { k.table = 1; }), "table");
  refused(good, bad_key([](KeyPart& k) { k.write = static_cast<uint8_t>(Write::kNone); }), "a value and no write");
  refused(good, bad_key([](KeyPart& k) { k.write = static_cast<uint8_t>(Write::kErase); }), "an erase with a value");
  refused(good, bad_key([](KeyPart& k) { k.flags = 0; }), "a put without a value");
  refused(good, bad_key([](KeyPart& k) { k.key_bytes = 7; }), "an integer key");
  refused(good, bad_key([](KeyPart& k) { k.value_bytes = 1 << 20; }), "a value too large");
  RecoveryHeader report = good;
  for (const RecoveryStep s : {kRecord, kDecided, kSlot}) {
    report.step = static_cast<uint8_t>(s);
    refused(report, bad_key([](KeyPart& k) { k.write = static_cast<uint8_t>(Write::kErase); }), "a report of the same");
  }
  const std::vector<std::byte> half(sizeof(RecoveryHeader) - 1);
  EXPECT_FALSE((hand_over<&Recovery::parse, &Recovery::on_message>(recovery_, kLeader, Kind::kRecovery, half)));
  EXPECT_TRUE(hear(good, keys)) << "and this one is whole";
  EXPECT_TRUE(recovery_.deciding());
}

}  // namespace
}  // namespace weft
