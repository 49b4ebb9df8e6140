// Transactions whose worker avoids conflicts (Options::conflict_avoidance): when they begin, what their ends count as,
// and how long they wait before they retry.
#include <string>
#include <vector>

#include "weft/txn/protocol.h"
#include "weft/txn/session_testing.h"

namespace weft {
namespace {

constexpr uint64_t kUnitNs = 20'000;

class TxnConflictTest : public SessionTest {
 protected:
  void SetUp() override {
    spec_.options.workers = 1;
    spec_.options.limits.transactions_in_flight_max = 4;
    spec_.options.conflict_avoidance = true;
    spec_.options.backoff_unit_ns = kUnitNs;
    start();
  }
  ConflictAvoidance& avoidance(size_t node = 0) { return txn_worker(node)->context().conflicts; }

  // Milliseconds in which every attempt of the worker at node 0 fails.
  void conflicts(int milliseconds) {
    for (int i = 0; i < milliseconds; ++i) {
      avoidance().count_retry();
      clock_.now += ConflictAvoidance::kEpochNs;
      steps(1);
    }
  }

  // Begins a transaction, notes its name, and lets it go when it is told to.
  Task<void> one(Session& s, char name) {
    Txn txn = co_await s.begin();
    log_ += name;
    while (!let_go_) co_await s.sleep_ns(1'000);
    let_go_ = false;
    log_ += '.';
  }
  void let_one_go() {
    let_go_ = true;
    for (int i = 0; i < 50 && let_go_; ++i) steps(1);
    steps(2);
  }

  bool let_go_ = false;
  std::string log_;
};

TEST_F(TxnConflictTest, CreditIsServedFirstComeFirstServedAndWhoWaitsHoldsNothing) {
  conflicts(2);
  ASSERT_EQ(avoidance().credit(), 1U);
  Session& s = session();
  for (const char name : {'a', 'b', 'c', 'd', 'e', 'f'}) go(one(s, name));
  steps(3);
  EXPECT_EQ(log_, "a");
  EXPECT_EQ(txn_worker(0)->slots().in_use(), 1U) << "no slot";
  EXPECT_EQ(avoidance().in_progress(), 1U) << "no credit";
  let_one_go();
  let_one_go();
  EXPECT_EQ(log_, "a.b.c");
  for (int i = 0; i < 4; ++i) let_one_go();
  EXPECT_EQ(log_, "a.b.c.d.e.f.");
  EXPECT_EQ(avoidance().in_progress(), 0U);
}

TEST_F(TxnConflictTest, WhenCreditGrowsThoseInLineBegin) {
  conflicts(2);
  Session& s = session();
  for (const char name : {'a', 'b', 'c', 'd', 'e'}) go(one(s, name));
  steps(3);
  EXPECT_EQ(log_, "a");
  const uint64_t due_ns = avoidance().due_ns();
  EXPECT_LE(txn_worker(0)->deadline_ns(), due_ns) << "somebody waits: the worker wakes for the next evaluation";
  avoidance().count_operation();
  clock_.now = due_ns;
  steps(2);
  EXPECT_EQ(avoidance().credit(), 2U);
  EXPECT_EQ(log_, "ab");
  avoidance().count_operation();
  clock_.now += ConflictAvoidance::kEpochNs;
  steps(2);
  EXPECT_EQ(log_, "abcd");
  for (int i = 0; i < 5; ++i) let_one_go();
}

TEST_F(TxnConflictTest, ASingleReadNeedsNoCreditAndDoesNotWaitForThoseThatDo) {
  Session& s = session();
  const uint64_t key = key_at(NodeId(1));
  EXPECT_TRUE(committed(ran(s.put_one(kTable, key, "value"))));
  conflicts(3);  // the first has the write, which needed no retry
  ASSERT_EQ(avoidance().credit(), 1U);
  for (const char name : {'a', 'b'}) go(one(s, name));
  steps(3);
  EXPECT_EQ(log_, "a");
  const uint64_t ended = avoidance().operations();
  char room[16];
  const auto read = ran(s.get_one(kTable, key, room));
  EXPECT_TRUE(read.found);
  EXPECT_EQ(avoidance().operations(), ended) << "nor does it say anything about conflicts";
  EXPECT_EQ(log_, "a");
  for (int i = 0; i < 2; ++i) let_one_go();
}

TEST_F(TxnConflictTest, WhoHoldsATransactionCanBeginAnotherWithoutCredit) {
  conflicts(2);
  ASSERT_EQ(avoidance().credit(), 1U);
  Session& s = session();
  const auto both = [&]() -> Task<bool> {
    Txn open = co_await s.begin_without_credit();
    Txn other = co_await s.begin();
    Txn third = co_await s.begin_without_credit();
    EXPECT_EQ(avoidance().in_progress(), 1U);
    co_return !open.refused() && !other.refused() && !third.refused();
  };
  EXPECT_TRUE(ran(both()));
  EXPECT_EQ(txn_worker(0)->slots().in_use(), 0U);
  EXPECT_EQ(avoidance().in_progress(), 0U);
}

TEST_F(TxnConflictTest, OnlyWhatTryingAgainCanHelpIsARetry) {
  Session& s = session();
  const auto ended = [&](Code code) {
    const uint64_t retries = avoidance().retries();
    const uint64_t operations = avoidance().operations();
    const auto fail_with = [&]() -> Task<Outcome> {
      Txn txn = co_await s.begin();
      co_return txn.abort(code);
    };
    EXPECT_TRUE(aborted(ran(fail_with()), code));
    return std::pair{avoidance().retries() - retries, avoidance().operations() - operations};
  };
  const std::pair<uint64_t, uint64_t> retry{1, 0}, operation{0, 1}, neither{0, 0};
  clock_.step = 1;  // no evaluation meanwhile
  EXPECT_EQ(ended(Code::kLocked), retry);
  EXPECT_EQ(ended(Code::kVersionMoved), retry);
  for (const Code code : {Code::kExists, Code::kNotFound, Code::kApplication}) EXPECT_EQ(ended(code), operation);
  for (const Code code : {Code::kBusy, Code::kEpoch, Code::kPeerLost}) EXPECT_EQ(ended(code), neither);
  const uint64_t operations = avoidance().operations();
  EXPECT_TRUE(committed(ran(s.put_one(kTable, 1, "value"))));
  EXPECT_EQ(avoidance().operations(), operations + 1);
}

TEST_F(TxnConflictTest, TheWorkerSaysHowLongToWaitAfterAConflict) {
  Session& s = session();
  const auto sleep_ns = [&](Code code, uint32_t attempt, RetryPolicy policy = {}) {
    Outcome outcome;
    outcome.kind = OutcomeKind::kAborted;
    outcome.code = code;
    uint64_t ns = 0;
    return s.should_retry(outcome, policy, attempt, s.now_ns(), &ns) ? ns : UINT64_MAX;
  };
  const auto between = [&](uint64_t ns, uint64_t least_ns) { return ns >= least_ns && ns <= least_ns + kUnitNs; };
  EXPECT_TRUE(between(sleep_ns(Code::kLocked, 1), kUnitNs));
  EXPECT_TRUE(between(sleep_ns(Code::kVersionMoved, 50), kUnitNs)) << "t_max is t0 while there are few retries";
  conflicts(2 + 3);
  EXPECT_TRUE(between(sleep_ns(Code::kLocked, 1), kUnitNs));
  EXPECT_TRUE(between(sleep_ns(Code::kLocked, 2), 2 * kUnitNs));
  EXPECT_TRUE(between(sleep_ns(Code::kLocked, 50), 8 * kUnitNs));
  conflicts(20);
  EXPECT_EQ(sleep_ns(Code::kLocked, 50), 4'000'000U) << "t_max is 20 ms, but no transaction sleeps longer than 4 ms";
  EXPECT_EQ(sleep_ns(Code::kEpoch, 1), 0U) << "no conflict: the policy says";
  EXPECT_EQ(sleep_ns(Code::kApplication, 1), UINT64_MAX);
  EXPECT_EQ(sleep_ns(Code::kLocked, 3, {.attempts = 3}), UINT64_MAX);
}

TEST_F(TxnConflictTest, OffIsThePolicy) {
  spec_.options.backoff = false;
  start();
  Outcome outcome;
  outcome.kind = OutcomeKind::kAborted;
  outcome.code = Code::kLocked;
  uint64_t ns = 1;
  EXPECT_TRUE(session().should_retry(outcome, {}, 1, session().now_ns(), &ns));
  EXPECT_EQ(ns, 0U);
  conflicts(1);
  EXPECT_EQ(avoidance().credit(), 2U);
  spec_.options.conflict_avoidance = false;
  start();
  conflicts(3);
  EXPECT_GT(avoidance().credit(), 200U);
  EXPECT_EQ(avoidance().due_ns(), UINT64_MAX);
}

TEST_F(TxnConflictTest, AUnitOutOfRangeIsNamed) {
  spec_.options.backoff_unit_ns = 1'000'001;
  const auto bad = check_spec(spec_);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().detail, "backoff_unit_ns is 1000001, must be 0 to 1000000");
}

// In every row: a transaction locks one key, or has locked it already, and fails at another. While it backs
// off, nobody holds the first one.
TEST_F(TxnConflictTest, NobodyBacksOffWithALockHeld) {
  for (const Protocol& row : kProtocols) {
    SCOPED_TRACE(std::string(row.name));
    spec_.options.protocol = row.name;
    spec_.options.backoff_unit_ns = 1'000'000;
    ASSERT_NO_FATAL_FAILURE(start());
    Session& s = session();
    const uint64_t free_key = key_at(NodeId(1)), held_key = key_at(NodeId(2));
    EXPECT_TRUE(committed(ran(s.put_one(kTable, free_key, "1"))));
    EXPECT_TRUE(committed(ran(s.put_one(kTable, held_key, "1"))));
    clock_.step = 100;
    // Somebody of node 2 holds the second key.
    Table& table = *nodes_[2]->table(kTable);
    const HashedKey held = table.hashed({reinterpret_cast<const std::byte*>(&held_key), sizeof held_key});
    const Owner owner = txn_worker(2)->context().owner(NodeId(2), 3);
    const LockResult lock = table.lock(held, owner, Write::kPut, std::nullopt, 8);
    ASSERT_EQ(lock.code, Code::kOk);
    int attempts = 0;
    auto body = [&](Txn& txn) -> Task<Code> {
      ++attempts;
      const ReadHandle first = txn.get_async(kTable, free_key, Intent::kUpdate);
      const ReadHandle second = txn.get_async(kTable, held_key, Intent::kUpdate);
      co_await txn.wait_all();
      if (!txn.value(first) || !txn.value(second)) co_return Code::kOk;  // commit says why
      txn.put(kTable, free_key, "2");
      txn.put(kTable, held_key, "2");
      co_return Code::kOk;
    };
    std::optional<Outcome> outcome;
    go(keep(s.run({}, body), &outcome));
    for (int i = 0; i < 3'000 && avoidance().retries() == 0; ++i) steps(1);
    ASSERT_EQ(avoidance().retries(), 1U);
    steps(50);  // of the millisecond, a tenth at most: what is being released arrives
    ASSERT_EQ(attempts, 1) << "it backs off";
    EXPECT_EQ(avoidance().in_progress(), 0U);
    EXPECT_TRUE(committed(ran(session(2).put_one(kTable, free_key, "3")))) << "another takes the lock at once";
    EXPECT_EQ(attempts, 1);
    table.unlock(held, owner, lock.locked);
    clock_.step = 1'000;
    finish(outcome);
    EXPECT_TRUE(committed(*outcome)) << outcome->text();
  }
}

TEST_F(TxnConflictTest, TheUnitIsTheRoundTripOfThePhases) {
  for (const char* protocol : {"dnl4", "farm"}) {  // by messages, and by verbs
    SCOPED_TRACE(protocol);
    spec_.options.protocol = protocol;
    spec_.options.backoff_unit_ns = 0;
    ASSERT_NO_FATAL_FAILURE(start());
    Session& s = session();
    const uint64_t first_ns = avoidance().unit_ns();
    EXPECT_EQ(first_ns, ConflictAvoidance::kUnknownUnitNs);
    const uint64_t began_ns = clock_.now;
    EXPECT_TRUE(committed(ran(s.put_one(kTable, key_at(NodeId(1)), "value"))));
    const uint64_t took_ns = clock_.now - began_ns;
    clock_.now += ConflictAvoidance::kEpochNs;
    steps(1);
    EXPECT_NE(avoidance().unit_ns(), first_ns);
    EXPECT_LT(avoidance().unit_ns(), took_ns);
    EXPECT_EQ(avoidance(1).unit_ns(), ConflictAvoidance::kUnknownUnitNs) << "which asked nobody";
  }
}

}  // namespace
}  // namespace weft
