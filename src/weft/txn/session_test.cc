// One worker as an application's coroutines see it: who it is, when it lets them begin, how it retries, and whom it
// asks. Scans of keys: session_scan_test.cc. Single reads and writes: single_test.cc.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weft/txn/session_testing.h"

namespace weft {
namespace {

// A stored procedure; its argument says what it does.
void session_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  if (arguments == "no table") keys.add(TableId(9), 1);
  const uint64_t count = arguments == "many" ? StoredProcedure::kKeysMax + 1 : 2;
  for (uint64_t key = 0; key < count; ++key) keys.add(kT, key, Intent::kUpdate);
}
Code session_execute(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  EXPECT_EQ(values.size(), 2U);
  if (arguments == "refuse") return Code::kApplication;
  writes.put(kT, 0, values[0].found ? values[0].bytes : "first");
  writes.insert(kT, 1, "second");
  writes.erase(kT, 1);
  return Code::kOk;
}

class SessionRetryTest : public SessionTest {
 protected:
  // Whether an attempt that ended so is repeated: after a time from `least_ns` to twice that, by chance.
  bool retried_after(uint64_t least_ns, Code code, const RetryPolicy& policy, uint32_t attempt, uint64_t took_ns = 0) {
    Outcome outcome;
    outcome.kind = OutcomeKind::kAborted;
    outcome.code = code;
    Session& s = session();
    for (int i = 0; i < 20; ++i) {
      uint64_t sleep_ns = 0;
      if (!s.should_retry(outcome, policy, attempt, s.now_ns() - took_ns, &sleep_ns)) return false;
      EXPECT_GE(sleep_ns, least_ns);
      EXPECT_LE(sleep_ns, 2 * least_ns);
    }
    return true;
  }
};

TEST_F(SessionTest, ASessionKnowsItsWorkerAndWhereAKeyIs) {
  Session& s = session(2, 1);
  EXPECT_EQ(s.node(), NodeId(2));
  EXPECT_EQ(s.worker(), WorkerId(1));
  EXPECT_EQ(s.now_ns(), txn_worker(2, 1)->context().now_ns());
  EXPECT_EQ(s.answer_by_ns(), s.now_ns() + txn_worker(2, 1)->slots().answer_ns());
  for (uint8_t n = 0; n < 3; ++n) EXPECT_EQ(s.primary_of(kTable, key_at(NodeId(n))), NodeId(n));
  EXPECT_DEATH(s.primary_of(TableId(9), 1), "the caller names a table that was created");
}

TEST_F(SessionTest, WhoSleepsIsWokenWhenTheTimeIsOver) {
  clock_.step = 0;
  steps(1);
  bool woken = false;
  const auto sleep = [&](Session& s) -> Task<void> {
    co_await s.sleep_ns(5000);
    woken = true;
  };
  go(sleep(session()));
  clock_.now += 4999;
  steps(2);
  EXPECT_FALSE(woken);
  clock_.now += 1;
  steps(2);
  EXPECT_TRUE(woken);
}

TEST_F(SessionTest, BeginWaitsForASlotButNotForever) {
  Session& s = session();
  std::string log;
  const auto begin = [&](char name, uint64_t until_ns) -> Task<void> {
    Txn txn = co_await s.begin(until_ns);
    log += name;
    log += txn.refused() ? '-' : '+';
    const Outcome outcome = co_await txn.commit();
    if (txn.refused()) {
      EXPECT_TRUE(rejected(outcome, Code::kNoAnswer));
    }
  };
  const auto hold = [&]() -> Task<void> {
    Txn one = co_await s.begin();
    Txn another = co_await s.begin();
    go(begin('a', 0));
    go(begin('b', s.now_ns() + 10'000));
    EXPECT_EQ(log, "") << "as many are in flight as may be";
    co_await s.sleep_ns(1'000'000);
    EXPECT_EQ(log, "b-");
  };
  go(hold());
  for (int i = 0; i < 20'000 && log != "b-a+"; ++i) steps_of({0}, 1);
  EXPECT_EQ(log, "b-a+");
  go(begin('c', s.now_ns()));
  EXPECT_EQ(log, "b-a+c-") << "its time was over before it began";
  steps(2);
}

TEST_F(SessionRetryTest, OnlyAnAbortThatPassesByItselfIsRetriedAndNotForever) {
  const RetryPolicy policy{.attempts = 3};
  EXPECT_TRUE(retried_after(0, Code::kLocked, policy, 1));
  EXPECT_TRUE(retried_after(0, Code::kVersionMoved, policy, 2));
  EXPECT_FALSE(retried_after(0, Code::kLocked, policy, 3)) << "it was the last attempt";
  EXPECT_FALSE(retried_after(0, Code::kApplication, policy, 1));
  uint64_t sleep_ns = 0;
  Outcome outcome;
  for (const OutcomeKind kind : {OutcomeKind::kCommitted, OutcomeKind::kRejected, OutcomeKind::kUnknown}) {
    outcome.kind = kind;
    outcome.code = Code::kLocked;
    EXPECT_FALSE(session().should_retry(outcome, policy, 1, 0, &sleep_ns));
  }
}

TEST_F(SessionRetryTest, TheSleepDoublesUpToItsMaximumAndGrowsWithWhatConflicts) {
  clock_.now += kSecondNs;
  steps(1);
  const RetryPolicy policy{.backoff_us = 20, .backoff_us_max = 100};
  EXPECT_TRUE(retried_after(20'000, Code::kLocked, policy, 1));
  EXPECT_TRUE(retried_after(40'000, Code::kLocked, policy, 2));
  EXPECT_TRUE(retried_after(100'000, Code::kLocked, policy, 4));
  EXPECT_TRUE(retried_after(100'000, Code::kLocked, policy, 99));
  EXPECT_TRUE(retried_after(0, Code::kLocked, {}, 7, 200'000));
  EXPECT_TRUE(retried_after(200'000, Code::kLocked, {}, 8, 200'000));
  EXPECT_TRUE(retried_after(400'000, Code::kLocked, {}, 16, 200'000));
  EXPECT_TRUE(retried_after(1'600'000, Code::kLocked, {}, 800, 200'000));
  EXPECT_TRUE(retried_after(4'000'000, Code::kLocked, {}, 8, kSecondNs)) << "not as long as a recovery takes";
}

TEST_F(SessionRetryTest, ALostPeerIsWaitedForWhereTheViewCanGoOnWithoutIt) {
  EXPECT_TRUE(retried_after(1'000'000, Code::kPeerLost, {}, 1));
  spec_.recovers = false;
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_FALSE(retried_after(0, Code::kPeerLost, {}, 1));
}

TEST_F(SessionTest, RunRepeatsItsBodyUntilItCommitsOrMayNotBeRepeated) {
  Session& s = session();
  int runs = 0;
  int failures = 2;
  Code fails_with = Code::kLocked;
  uint64_t think_ns = 0;
  auto body = [&](Txn& txn) -> Task<Code> {
    ++runs;
    if (think_ns != 0) co_await s.sleep_ns(think_ns);
    txn.put(kTable, 1, "value");
    co_return failures-- > 0 ? fails_with : Code::kOk;
  };
  EXPECT_TRUE(committed(ran(s.run({.backoff_us = 1}, body))));
  EXPECT_EQ(runs, 3);
  failures = 100;
  EXPECT_TRUE(aborted(ran(s.run({.attempts = 5}, body)), Code::kLocked));
  EXPECT_EQ(runs, 8);
  think_ns = 10'000;
  EXPECT_TRUE(aborted(ran(s.run({}, body, s.now_ns() + 15'000)), Code::kLocked)) << "its time is over";
  EXPECT_LE(runs, 10);
  runs = 0;
  fails_with = Code::kApplication;
  EXPECT_TRUE(aborted(ran(s.run({}, body)), Code::kApplication));
  EXPECT_EQ(runs, 1);
}

// The one row that lets an application hold a lock, so that the key stays locked for as long as the test likes.
TEST_F(SessionTest, ASingleReadIsRepeatedWhileTheKeyIsLockedAndItsTimeIsNotOver) {
  spec_.options.protocol = "fasst";
  ASSERT_NO_FATAL_FAILURE(start());
  Session& s = session();
  const uint64_t key = key_at(NodeId(1));
  EXPECT_TRUE(committed(ran(s.put_one(kTable, key, "value"))));
  std::optional<Session::GetResult> in_time;
  std::optional<Session::GetResult> late;
  char room[16];
  const auto hold = [&]() -> Task<void> {
    Txn holder = co_await s.begin();
    co_await holder.get(kTable, key, Intent::kUpdate);
    Session& other = session(2);
    go(keep(other.get_one(kTable, key, room, {.attempts = 1'000'000}), &in_time));
    go(keep(other.get_one(kTable, key, room, {.attempts = 1'000'000}, other.now_ns() + 100'000), &late));
    co_await s.sleep_ns(1'000'000);
    EXPECT_FALSE(in_time);
  };
  go(hold());
  finish(in_time);
  EXPECT_TRUE(in_time->found);
  ASSERT_TRUE(late);
  EXPECT_FALSE(late->outcome.committed() || late->found) << late->outcome.text();
}

TEST_F(SessionTest, WhoseTimeIsOverBeforeTheNextAttemptHearsWhyTheLastOneFailed) {
  spec_.options.protocol = "fasst";
  ASSERT_NO_FATAL_FAILURE(start());
  Session& s = session();
  const uint64_t key = key_at(NodeId(1));
  EXPECT_TRUE(committed(ran(s.put_one(kTable, key, "value"))));
  const RetryPolicy patient{.backoff_us = 500};
  std::optional<Session::GetResult> read;
  std::optional<Outcome> written;
  char room[16];
  auto body = [&](Txn& txn) -> Task<Code> {
    const Value value = co_await txn.get(kTable, key, Intent::kUpdate);
    co_return value.code;
  };
  const auto hold = [&]() -> Task<void> {
    Txn holder = co_await s.begin();
    co_await holder.get(kTable, key, Intent::kUpdate);
    Session& other = session(2);
    go(keep(other.get_one(kTable, key, room, patient, other.now_ns() + 400'000), &read));
    go(keep(other.run(patient, body, other.now_ns() + 400'000), &written));
    co_await s.sleep_ns(2'000'000);
  };
  go(hold());
  finish(read);
  finish(written);
  ASSERT_TRUE(read && written);
  EXPECT_TRUE(aborted(read->outcome, Code::kLocked));
  EXPECT_TRUE(read->outcome.has_holder);
  EXPECT_TRUE(aborted(*written, Code::kLocked));
}

TEST_F(SessionTest, AStoredProcedureReadsAndWritesOnce) {
  spec_.procedures.push_back({.name = "p", .keys = session_keys, .execute = session_execute});
  ASSERT_NO_FATAL_FAILURE(start());
  Session& s = session();
  const ProcedureId procedure(0);
  EXPECT_TRUE(rejected(ran(s.call(ProcedureId(1), "")), Code::kNoSuchProcedure));
  EXPECT_TRUE(aborted(ran(s.call(procedure, "refuse")), Code::kApplication));
  EXPECT_TRUE(rejected(ran(s.call(procedure, "no table")), Code::kNoSuchTable));
  const Outcome many = ran(s.call(procedure, "many"));
  EXPECT_TRUE(rejected(many, Code::kTxnTooLarge));
  EXPECT_EQ(many.limit, uint64_t{StoredProcedure::kKeysMax});
  EXPECT_EQ(many.asked, StoredProcedure::kKeysMax + 1U);
  char room[16];
  EXPECT_FALSE(ran(s.get_one(kTable, 0, room)).found);
  EXPECT_TRUE(committed(ran(s.call(procedure, ""))));
  EXPECT_TRUE(ran(s.get_one(kTable, 0, room)).found);
  EXPECT_FALSE(ran(s.get_one(kTable, 1, room)).found);
}

TEST_F(SessionTest, AnOutcomeIsAskedForAtTheWorkerOfItsTransaction) {
  Session& s = session();
  const Outcome put = ran(session(0, 1).put_one(kTable, 1, "value"));
  EXPECT_EQ(ran(s.query_outcome(put.id)), TxnStatus::kCommitted);
  EXPECT_EQ(ran(s.query_outcome(TxnId{0, WorkerId(0), 1})), TxnStatus::kUnknownTxn);
  EXPECT_EQ(ran(s.query_outcome(TxnId{put.id.incarnation, WorkerId(2), 1})), TxnStatus::kUnknownTxn);
  // It waits until the other worker's mailbox has room.
  while (nodes_[0]->worker(WorkerId(1))->mailbox().post([] {})) {
  }
  EXPECT_EQ(ran(s.query_outcome(put.id)), TxnStatus::kCommitted);
}

}  // namespace
}  // namespace weft
