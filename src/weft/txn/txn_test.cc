// The application's handle of a transaction: who holds it, when its reads are there, and what it says when it has
// ended.
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "weft/txn/session_testing.h"
#include "weft/txn/slot_table.h"

namespace weft {
namespace {

// Node 0's worker runs the transactions. The others answer if a test steps them.
class TxnTest : public SessionTest {
 protected:
  // A transaction that has begun; there is room for two.
  Txn begun(uint64_t until_ns = 0) {
    std::optional<Txn> txn;
    const auto begin = [&](Session& s) -> Task<void> { txn.emplace(co_await s.begin(until_ns)); };
    go(begin(session()));
    EXPECT_TRUE(txn);
    return std::move(*txn);
  }
  Outcome committed_by(Txn& txn) {
    std::optional<Outcome> outcome;
    const auto commit = [&]() -> Task<void> { outcome = co_await txn.commit(); };
    go(commit());
    finish(outcome);
    return outcome.value_or(Outcome());
  }
  static Task<void> wait_for(Txn& txn, ReadHandle read, bool* woken) {
    co_await txn.wait(read);
    *woken = true;
  }
  // Node 0 alone comes to the time when the wait that began last is over.
  void time_is_over() {
    clock_.now = txn_worker(0)->slots().due_ns();
    steps_of({0}, 3);
  }
  uint32_t in_use() { return txn_worker(0)->slots().in_use(); }
  // A key that node 0 has to ask node 1 for.
  uint64_t far(int n = 0) const { return key_at(NodeId(1), n); }
};

TEST_F(TxnTest, WhoeverHoldsTheHandleHoldsTheTransaction) {
  Txn one = begun();
  const TxnId first = one.id();
  Txn two = begun();
  EXPECT_EQ(in_use(), 2U);
  Txn moved = std::move(one);
  EXPECT_EQ(moved.id(), first);
  EXPECT_EQ(in_use(), 2U);
  two = std::move(moved);
  EXPECT_EQ(two.id(), first);
  EXPECT_EQ(in_use(), 1U) << "the one that had no other holder is aborted";
  Txn& same = two;
  two = std::move(same);
  EXPECT_EQ(two.id(), first);
  EXPECT_TRUE(committed(committed_by(two)));
}

TEST_F(TxnTest, AnUnfinishedTransactionIsAbortedWithItsHandle) {
  {
    Txn txn = begun();
    txn.put(kTable, far(), "value");
    txn.get_async(kTable, far(1));
    steps_of({0}, 2);
  }
  EXPECT_EQ(in_use(), 0U);
  EXPECT_FALSE(txn_worker(0)->idle()) << "an answer is still to come";
  steps(10);
  EXPECT_TRUE(txn_worker(0)->idle());
  char room[16];
  EXPECT_FALSE(ran(session().get_one(kTable, far(), room)).found);
}

TEST_F(TxnTest, AReadIsReadyWhenItAndAllBeforeItAreDone) {
  Txn txn = begun();
  EXPECT_TRUE(txn.all_ready()) << "there is none";
  const ReadHandle first = txn.get_async(kTable, far());
  const ReadHandle second = txn.get_async(kTable, key_at(NodeId(0)));
  EXPECT_EQ(txn.get_async(kTable, far()).index, first.index) << "a key is read once";
  steps_of({0}, 3);
  EXPECT_FALSE(txn.is_ready(first) || txn.is_ready(second) || txn.all_ready());
  steps(5);
  EXPECT_TRUE(txn.is_ready(first) && txn.is_ready(second) && txn.all_ready());
}

TEST_F(TxnTest, AValueIsWhatWasReadOrWrittenSince) {
  const uint64_t key = far();
  EXPECT_TRUE(committed(ran(session().put_one(kTable, key, "old"))));
  Txn txn = begun();
  const ReadHandle read = txn.get_async(kTable, key);
  const ReadHandle absent = txn.get_async(kTable, far(1));
  steps(10);
  EXPECT_EQ(txn.value(read).bytes, "old");
  EXPECT_EQ(txn.value(read).epoch, view_.epoch);
  const Version version = txn.value(read).version;
  EXPECT_EQ(version, Version(1));
  EXPECT_FALSE(txn.value(absent).found);
  EXPECT_EQ(txn.value(absent).code, Code::kOk);
  txn.put(kTable, key, "new");
  EXPECT_EQ(txn.value(read).bytes, "new");
  EXPECT_EQ(txn.value(read).version, version);
  txn.erase(kTable, key);
  EXPECT_FALSE(txn.value(read).found);
}

TEST_F(TxnTest, AHandleThatNoReadHasNamesTheReasonOrIsInvalid) {
  Txn txn = begun();
  EXPECT_EQ(txn.value(ReadHandle{0}).code, Code::kInvalidArgument);
  const ReadHandle none = txn.get_async(TableId(9), 1);
  EXPECT_TRUE(txn.is_ready(none));
  EXPECT_EQ(txn.value(none).code, Code::kNoSuchTable);
  EXPECT_TRUE(rejected(txn.abort(), Code::kNoSuchTable)) << "it could not have committed anyway";
}

TEST_F(TxnTest, ARefusedTransactionFailsInEverythingAndHoldsNothing) {
  Txn txn = begun(1);
  EXPECT_TRUE(txn.refused());
  EXPECT_EQ(in_use(), 0U);
  txn.set_until(5);
  EXPECT_EQ(txn.put(kTable, 1, "value"), Code::kInvalidArgument);
  EXPECT_EQ(txn.set_protocol("dnl4"), Code::kInvalidArgument);
  EXPECT_EQ(txn.value(txn.get_async(kTable, 1)).code, Code::kNoAnswer);
  EXPECT_TRUE(rejected(txn.abort(), Code::kNoAnswer));
  EXPECT_TRUE(rejected(committed_by(txn), Code::kNoAnswer));
}

TEST_F(TxnTest, AbortSaysWhyAndTheFirstOutcomeStands) {
  Txn txn = begun();
  EXPECT_EQ(txn.set_protocol("dnl4"), Code::kOk);
  EXPECT_TRUE(aborted(txn.abort(Code::kOk), Code::kApplication));
  EXPECT_TRUE(aborted(txn.abort(Code::kBusy), Code::kApplication));
  EXPECT_EQ(txn.set_protocol("dnl4"), Code::kInvalidArgument);
  Txn other = begun();
  other.put(kTable, far(), "value");
  EXPECT_TRUE(committed(committed_by(other)));
  EXPECT_TRUE(committed(other.abort()));
}

TEST_F(TxnTest, AWaitThatIsOverEndsTheTransaction) {
  Txn txn = begun();
  const ReadHandle read = txn.get_async(kTable, far());
  bool woken = false;
  go(wait_for(txn, read, &woken));
  steps_of({0}, 3);
  EXPECT_FALSE(woken);
  time_is_over();
  ASSERT_TRUE(woken);
  EXPECT_EQ(txn.value(read).code, Code::kNoAnswer);
  EXPECT_TRUE(txn.all_ready()) << "nobody waits for it any more";
  EXPECT_EQ(txn.value(txn.get_async(kTable, far(1))).code, Code::kNoAnswer);
  EXPECT_TRUE(aborted(committed_by(txn), Code::kNoAnswer));
}

TEST_F(TxnTest, SetUntilIsTheDeadlineOfEveryLaterWait) {
  Txn txn = begun();
  const uint64_t until = session().now_ns() + 50'000;
  txn.set_until(until);
  bool woken = false;
  go(wait_for(txn, txn.get_async(kTable, far()), &woken));
  EXPECT_EQ(txn_worker(0)->slots().due_ns(), until);
  time_is_over();
  EXPECT_TRUE(woken);
}

// Its client has given it up, and waits for a read all the same. Nobody answers it.
TEST_F(TxnTest, WhoAbortsAndThenWaitsForAReadIsWokenWhenTheTimeIsOver) {
  {
    Txn txn = begun();
    const ReadHandle read = txn.get_async(kTable, far());
    steps_of({0}, 3);
    EXPECT_TRUE(aborted(txn.abort(), Code::kApplication));
    bool woken = false;
    go(wait_for(txn, read, &woken));
    steps_of({0}, 3);
    EXPECT_FALSE(woken);
    time_is_over();
    EXPECT_TRUE(woken);
    EXPECT_FALSE(txn.value(read).found);
    EXPECT_EQ(txn.value(read).code, Code::kNoAnswer) << "which is not that the key is absent";
    EXPECT_TRUE(aborted(txn.abort(), Code::kApplication)) << "the first outcome stands";
    EXPECT_TRUE(aborted(committed_by(txn), Code::kApplication));
  }
  // The worker lives, and when the answer comes after all, nothing is left.
  EXPECT_TRUE(committed(ran(session().put_one(kTable, key_at(NodeId(0)), "value"))));
  clock_.now += kSecondNs;
  steps(50);
  EXPECT_TRUE(txn_worker(0)->idle());
}

TEST_F(TxnTest, WhoAbortsAndThenWaitsForAReadIsWokenByItsAnswer) {
  Txn txn = begun();
  const ReadHandle read = txn.get_async(kTable, far());
  steps_of({0}, 3);
  txn.abort();
  bool woken = false;
  go(wait_for(txn, read, &woken));
  steps(10);
  EXPECT_TRUE(woken);
  EXPECT_TRUE(aborted(committed_by(txn), Code::kApplication));
}

TEST_F(TxnTest, ACommitThatOthersMayFinishIsUnknownWhenTheTimeIsOver) {
  const uint64_t key = key_at(NodeId(0));  // node 1 has its backup
  Txn txn = begun();
  txn.put(kTable, key, "value");
  std::optional<Outcome> outcome;
  const auto commit = [&]() -> Task<void> { outcome = co_await txn.commit(); };
  go(commit());
  steps_of({0}, 10);
  EXPECT_FALSE(outcome);
  time_is_over();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, OutcomeKind::kUnknown);
  EXPECT_EQ(outcome->id, txn.id());
  EXPECT_EQ(outcome->text(), "unknown: no answer in time, waited for node 1");
  steps(50);
  EXPECT_EQ(ran(session().query_outcome(outcome->id)), TxnStatus::kCommitted);
}

using TxnDeathTest = TxnTest;

TEST_F(TxnDeathTest, OneCoroutineAtATimeWaits) {
  Txn txn = begun();
  const ReadHandle read = txn.get_async(kTable, far());
  bool woken = false;
  go(wait_for(txn, read, &woken));
  EXPECT_DEATH(go(wait_for(txn, read, &woken)), "one coroutine at a time waits for a transaction");
  EXPECT_DEATH(committed_by(txn), "one coroutine at a time waits for a transaction");
}

TEST_F(SessionTest, AnOutcomeNamesItsKeyAsTheTableHasIt) {
  spec_.tables.push_back({.name = "names", .keys = KeyKind::kBytes, .value_bytes_max = 16, .capacity = 1000});
  ASSERT_NO_FATAL_FAILURE(start());
  Session& s = session();
  EXPECT_EQ(ran(s.erase_one(kTable, 17)).text(), "aborted: the key is not there, table 0 key 17");
  EXPECT_EQ(ran(s.erase_one(TableId(1), "8 bytes.")).text(), "aborted: the key is not there, table 1 key 8 bytes.");
}

TEST(OutcomeText, NamesWhatIsKnown) {
  Outcome outcome;
  EXPECT_EQ(outcome.text(), "committed");
  outcome.kind = OutcomeKind::kAborted;
  outcome.code = Code::kLocked;
  const std::string plain = outcome.text();
  EXPECT_EQ(plain, "aborted: another transaction holds the key");
  const uint64_t integer = 17;
  outcome.table = TableId(3);
  outcome.key_bytes = sizeof integer;
  outcome.integer_key = true;
  std::memcpy(outcome.key_start, &integer, sizeof integer);
  outcome.has_holder = true;
  outcome.holder_node = NodeId(2);
  outcome.holder_worker = WorkerId(1);
  EXPECT_EQ(outcome.text(), plain + ", table 3 key 17, held by node 2 worker 1");
  outcome.has_holder = outcome.integer_key = false;
  std::memset(outcome.key_start, 'k', sizeof outcome.key_start);
  EXPECT_EQ(outcome.text(), plain + ", table 3 key kkkkkkkk") << "as long as an integer, but text";
  outcome.key_bytes = 3;
  EXPECT_EQ(outcome.text(), plain + ", table 3 key kkk");
  outcome.key_bytes = 33;
  EXPECT_EQ(outcome.text(), plain + ", table 3 key " + std::string(32, 'k') + "...");
}

TEST(OutcomeText, NamesTheLimitAndTheNodes) {
  Outcome outcome;
  outcome.kind = OutcomeKind::kRejected;
  outcome.code = Code::kNoAnswer;
  outcome.limit_name = "the limit";
  outcome.limit = 5;
  EXPECT_EQ(outcome.text(), "rejected: no answer in time, the limit is 5");
  outcome.asked = 6;
  EXPECT_EQ(outcome.text(), "rejected: no answer in time, the limit is 5, asked for 6");
  outcome.limit_name = nullptr;
  outcome.silent = 0b110;
  EXPECT_EQ(outcome.text(), "rejected: no answer in time, waited for node 1 and 2");
  outcome.code = Code::kPeerLost;
  EXPECT_EQ(outcome.text(), "rejected: the connection to a node is lost, node 1 and 2");
}

}  // namespace
}  // namespace weft
