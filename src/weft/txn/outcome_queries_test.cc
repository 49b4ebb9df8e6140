// The outcome of a transaction: any recorded outcome is the answer, because it is final (Q1 of outcomes.h); "open"
// means ask again, and only if nobody has a trace it is forgotten.
#include "weft/txn/outcome_queries.h"

#include <memory>
#include <vector>

#include "weft/txn/part_testing.h"

namespace weft {
namespace {

class OutcomeQueriesTest : public PartTest {
 protected:
  static constexpr uint64_t kSilent = 10'000'000, kOpenAgain = 500'000;
  static Limits query_limits() {
    Limits limits;
    limits.credit_bytes = 64 << 10;
    limits.outcome_timeout_ms = 100;
    return limits;
  }
  explicit OutcomeQueriesTest(PlantedBugs bugs = {}) : PartTest(query_limits(), bugs) {}

  void SetUp() override {
    state_.views.set_token(0);
    at(1000);
  }
  static constexpr TxnId kAsked{2, WorkerId(0), 77};  // of node 1

  void ask(const TxnId& id = kAsked) {
    answer_ = std::make_shared<OutcomeAnswer>();
    queries_.ask(id, &worker_, answer_);
    queries_.step(ctx_.now_ns());
  }
  // Some time later; what was posted to the asker has run.
  void go_on(uint64_t ns = 0) {
    at(ctx_.now_ns() + ns);
    queries_.step(ctx_.now_ns());
    worker_.mailbox().drain();
  }
  std::vector<OutcomeQuery> questions() {
    deliver();
    std::vector<OutcomeQuery> out;
    for (const Received& r : take_received()) {
      EXPECT_EQ(r.kind, Kind::kOutcomeQuery);
      out.push_back(r.as<OutcomeQuery>());
    }
    return out;
  }
  bool hear(NodeId from, uint32_t question, KnownOutcome standing) {
    OutcomeReply reply{};
    reply.question = question;
    reply.standing = static_cast<uint8_t>(standing);
    return hand_over<&OutcomeQueries::parse_answer, &OutcomeQueries::on_answer>(queries_, from, Kind::kOutcomeReply,
                                                                                bytes_with(reply));
  }
  // What this node answers to a query of a peer.
  KnownOutcome known(uint32_t incarnation, uint64_t sequence) {
    const OutcomeQuery query{sequence, incarnation, 99};
    EXPECT_TRUE((hand_over<&OutcomeQueries::parse_ask, &OutcomeQueries::on_ask>(
        queries_, NodeId(2), Kind::kOutcomeQuery, bytes_with(query))));
    deliver();
    const std::vector<Received> got = take_received();
    EXPECT_EQ(got.size(), 1U);
    if (got.size() != 1) return KnownOutcome::kNothing;
    EXPECT_EQ(got[0].at, NodeId(2));
    EXPECT_EQ(got[0].as<OutcomeReply>().question, 99U);
    return static_cast<KnownOutcome>(got[0].as<OutcomeReply>().standing);
  }

  OutcomeLog outcomes_{1 << 20};
  SlotTable slots_{ctx_, pool_.get(), nullptr, 1'000'000, 0};
  PreparedTable records_{kNodes, 4, pool_.get()};
  OutcomeQueries queries_{ctx_, outcomes_, slots_, records_};
  std::shared_ptr<OutcomeAnswer> answer_;
};

TEST_F(OutcomeQueriesTest, SaysWhatWasNoted) {
  outcomes_.note(2, 77, true, 0);
  outcomes_.note(2, 78, false, 0);
  EXPECT_EQ(known(2, 77), KnownOutcome::kCommitted);
  EXPECT_EQ(known(2, 78), KnownOutcome::kAborted);
  EXPECT_EQ(known(2, 79), KnownOutcome::kNothing);
}

TEST_F(OutcomeQueriesTest, ACoordinatorSaysOpenWhileItRunsTheTransaction) {
  TxnSlot& slot = *slots_.acquire(0);
  const uint32_t self = ctx_.views.incarnation();
  EXPECT_EQ(known(self, slot.sequence), KnownOutcome::kOpen);
  EXPECT_EQ(known(self + 1, slot.sequence), KnownOutcome::kNothing) << "another coordinator's";
  slot.stage = TxnStage::kCommitting;
  EXPECT_EQ(known(self, slot.sequence), KnownOutcome::kOpen);
  slot.stage = TxnStage::kFinished;
  EXPECT_EQ(known(self, slot.sequence), KnownOutcome::kNothing);
}

TEST_F(OutcomeQueriesTest, AParticipantSaysOpenWhileItHasARecord) {
  PreparedTxn& record = records_.at(NodeId(1), 3);
  record.state = kLocked;
  record.incarnation = 2;
  record.sequence = uint64_t{1} << 32 | 77;
  EXPECT_EQ(known(2, record.sequence), KnownOutcome::kOpen);
  EXPECT_EQ(known(2, 77), KnownOutcome::kNothing) << "the whole sequence counts";
  EXPECT_EQ(known(1, record.sequence), KnownOutcome::kNothing);
  record.state = 0;
  EXPECT_EQ(known(2, record.sequence), KnownOutcome::kNothing);
}

TEST_F(OutcomeQueriesTest, WhoRecoversSaysOpenUnlessItHasANote) {
  outcomes_.note(2, 77, true, 0);
  View next = ctx_.view();
  ++next.epoch.value;
  enter(next, false);
  EXPECT_EQ(known(2, 77), KnownOutcome::kCommitted);
  EXPECT_EQ(known(2, 78), KnownOutcome::kOpen);
}

TEST_F(OutcomeQueriesTest, WhoTakesNothingIsNotAnsweredUntilItDoes) {
  choke(NodeId(2), ctx_.limits.credit_bytes / 2);
  const OutcomeQuery query{77, 2, 99};
  hand_over<&OutcomeQueries::parse_ask, &OutcomeQueries::on_ask>(queries_, NodeId(2), Kind::kOutcomeQuery,
                                                                 bytes_with(query));
  EXPECT_TRUE(unchoke().empty());
  EXPECT_EQ(known(2, 77), KnownOutcome::kNothing);
}

TEST_F(OutcomeQueriesTest, AnOwnNoteAnswersWithoutAskingAnybody) {
  outcomes_.note(2, 77, false, 0);
  ask();
  worker_.mailbox().drain();
  EXPECT_TRUE(answer_->done);
  EXPECT_EQ(answer_->status, TxnStatus::kAborted);
  EXPECT_TRUE(questions().empty());
}

TEST_F(OutcomeQueriesTest, EveryOtherMemberIsAskedAndOneNoteIsEnough) {
  ask();
  const std::vector<OutcomeQuery> asked = questions();
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].incarnation, 2U);
  EXPECT_EQ(asked[0].sequence, 77U);
  hear(NodeId(1), asked[0].question, KnownOutcome::kOpen);
  go_on();
  EXPECT_FALSE(answer_->done);
  hear(NodeId(2), asked[0].question, KnownOutcome::kCommitted);
  EXPECT_LE(queries_.deadline_ns(), ctx_.now_ns());
  go_on();
  EXPECT_TRUE(answer_->done);
  EXPECT_EQ(answer_->status, TxnStatus::kCommitted);
  EXPECT_EQ(queries_.deadline_ns(), UINT64_MAX) << "the question is over";
}

TEST_F(OutcomeQueriesTest, ItIsForgottenOnlyWhenNobodyHasATrace) {
  ask();
  const uint32_t question = questions().at(0).question;
  hear(NodeId(1), question, KnownOutcome::kNothing);
  hear(NodeId(1), question, KnownOutcome::kNothing);
  go_on();
  EXPECT_FALSE(answer_->done) << "one member counts once";
  hear(NodeId(2), question, KnownOutcome::kNothing);
  go_on();
  EXPECT_TRUE(answer_->done);
  EXPECT_EQ(answer_->status, TxnStatus::kUnknownTxn);
}

TEST_F(OutcomeQueriesTest, IfSomebodySaysOpenAllAreAskedAgain) {
  ask();
  const uint32_t question = questions().at(0).question;
  hear(NodeId(1), question, KnownOutcome::kOpen);
  hear(NodeId(2), question, KnownOutcome::kNothing);
  go_on(kOpenAgain - 1);
  EXPECT_TRUE(questions().empty());
  go_on(1);
  const std::vector<OutcomeQuery> again = questions();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_NE(again[0].question, question);
  hear(NodeId(1), question, KnownOutcome::kNothing);
  hear(NodeId(2), question, KnownOutcome::kNothing);
  go_on();
  EXPECT_FALSE(answer_->done) << "these are answers of the round before";
}

TEST_F(OutcomeQueriesTest, WhoIsSilentIsAskedAgain) {
  ask();
  EXPECT_EQ(questions().size(), 2U);
  go_on(kSilent - 1);
  EXPECT_TRUE(questions().empty());
  go_on(1);
  EXPECT_EQ(questions().size(), 2U);
}

// Query, answer and what is answered belong to one view.
TEST_F(OutcomeQueriesTest, AViewChangeBeginsAnotherRound) {
  ask();
  const uint32_t question = questions().at(0).question;
  hear(NodeId(1), question, KnownOutcome::kNothing);
  View next = ctx_.view();
  ++next.epoch.value;
  enter(next, false);
  go_on();
  EXPECT_TRUE(questions().empty()) << "nobody is asked while it recovers";
  ctx_.views.activate(next.epoch.value);
  port_.set_epoch(port_epoch(next.epoch, true));
  for (uint8_t n = 1; n < kNodes; ++n) peer(NodeId(n)).set_epoch(port_epoch(next.epoch, true));
  at(ctx_.now_ns() + 1);
  queries_.step(ctx_.now_ns());
  EXPECT_EQ(questions().size(), 2U);
  hear(NodeId(1), question, KnownOutcome::kNothing);
  hear(NodeId(2), question, KnownOutcome::kNothing);
  go_on();
  EXPECT_FALSE(answer_->done) << "these are answers of the view before";
}

TEST_F(OutcomeQueriesTest, AfterItsTimeNobodyKnows) {
  ask();
  const uint32_t question = questions().at(0).question;
  go_on(uint64_t{100} * 1'000'000 - 1);
  EXPECT_FALSE(answer_->done);
  go_on(1);
  EXPECT_TRUE(answer_->done);
  EXPECT_EQ(answer_->status, TxnStatus::kPending);
  hear(NodeId(1), question, KnownOutcome::kCommitted);
  go_on();
  EXPECT_EQ(answer_->status, TxnStatus::kPending) << "an answer is given once";
}

TEST_F(OutcomeQueriesTest, WhoIsRemovedSaysWhatItNotedAndElseThatItDoesNotKnow) {
  outcomes_.note(2, 78, true, 0);
  ctx_.views.stop(true);
  ask();
  worker_.mailbox().drain();
  EXPECT_TRUE(answer_->done);
  EXPECT_EQ(answer_->status, TxnStatus::kPending) << "that it has no note says nothing";
  ask({2, WorkerId(0), 78});
  worker_.mailbox().drain();
  EXPECT_EQ(answer_->status, TxnStatus::kCommitted);
}

TEST_F(OutcomeQueriesTest, AnAnswerWaitsForAFullMailbox) {
  int filled = 0;
  while (worker_.mailbox().post([] {})) ++filled;
  ASSERT_GT(filled, 0);
  outcomes_.note(2, 77, true, 0);
  ask();
  EXPECT_GT(queries_.deadline_ns(), ctx_.now_ns());
  EXPECT_NE(queries_.deadline_ns(), UINT64_MAX);
  worker_.mailbox().drain();
  EXPECT_FALSE(answer_->done);
  go_on(50'000);
  EXPECT_TRUE(answer_->done);
}

TEST_F(OutcomeQueriesTest, AnAskerThatTakesNothingIsSkippedAndAskedInTheNextRound) {
  choke(NodeId(1), ctx_.limits.credit_bytes / 2);
  ask();
  const std::vector<Received> got = unchoke();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, NodeId(2));
  hear(NodeId(2), got[0].as<OutcomeQuery>().question, KnownOutcome::kNothing);
  go_on();
  EXPECT_FALSE(answer_->done) << "node 1 was not asked, so it has not said that it knows nothing";
  go_on(kSilent);
  EXPECT_EQ(questions().size(), 2U);
}

TEST_F(OutcomeQueriesTest, WhatIsMalformedIsRefusedAndChangesNothing) {
  ask();
  const uint32_t question = questions().at(0).question;
  EXPECT_FALSE(hear(NodeId(1), question, static_cast<KnownOutcome>(4)));
  OutcomeReply reply{};
  reply.question = question;
  reply.standing = static_cast<uint8_t>(KnownOutcome::kCommitted);
  const auto answer = [&](const std::vector<std::byte>& body) {
    return hand_over<&OutcomeQueries::parse_answer, &OutcomeQueries::on_answer>(queries_, NodeId(1),
                                                                                Kind::kOutcomeReply, body);
  };
  std::vector<std::byte> body = bytes_with(reply);
  body.push_back({});
  EXPECT_FALSE(answer(body)) << "too long";
  body.resize(sizeof reply - 1);
  EXPECT_FALSE(answer(body)) << "too short";
  EXPECT_FALSE(answer({}));
  go_on();
  EXPECT_FALSE(answer_->done);
  const auto query = [&](size_t bytes) {
    return hand_over<&OutcomeQueries::parse_ask, &OutcomeQueries::on_ask>(queries_, NodeId(1), Kind::kOutcomeQuery,
                                                                          std::vector<std::byte>(bytes));
  };
  EXPECT_FALSE(query(sizeof(OutcomeQuery) - 1) || query(sizeof(OutcomeQuery) + 1) || query(0));
  EXPECT_TRUE(questions().empty()) << "nobody is answered";
}

TEST_F(OutcomeQueriesTest, WhoIsAloneAsksNobody) {
  View alone = ctx_.view();
  ++alone.epoch.value;
  alone.members.resize(1);
  enter(alone);
  ask();
  go_on();
  EXPECT_TRUE(answer_->done);
  EXPECT_EQ(answer_->status, TxnStatus::kUnknownTxn);
}

class OutcomeQueriesForget : public OutcomeQueriesTest {
 protected:
  OutcomeQueriesForget() : OutcomeQueriesTest({.mask = static_cast<uint64_t>(PlantedBug::kForgetsOpen)}) {}
};

TEST_F(OutcomeQueriesForget, ThePlantedBugHasForgottenWhatIsOpen) {
  View next = ctx_.view();
  ++next.epoch.value;
  enter(next, false);
  EXPECT_EQ(known(2, 78), KnownOutcome::kNothing);
}

}  // namespace
}  // namespace weft
