// Every anomaly class by hand-made histories. A history is written as in a file, in short: see line().
#include "weft/check/checker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <initializer_list>
#include <sstream>
#include <string>

namespace weft {
namespace {

// Times "0..100" and so on; all that overlap are unordered in real time.
std::string line(uint64_t invoke, uint64_t complete, const std::string& type, const std::string& ops) {
  return R"({"process":1,"invoke":)" + std::to_string(invoke) + R"(,"complete":)" + std::to_string(complete) +
         R"(,"type":")" + type + R"(","ops":[)" + ops + "]}\n";
}
std::string ok(const std::string& ops) { return line(0, 100, "ok", ops); }
std::string ok(uint64_t invoke, uint64_t complete, const std::string& ops) { return line(invoke, complete, "ok", ops); }
std::string fail(const std::string& ops) { return line(0, 100, "fail", ops); }
std::string info(const std::string& ops) { return line(0, 100, "info", ops); }

History parsed(const std::string& text) {
  Result<History> history = parse_history(text, "test");
  EXPECT_TRUE(history) << history.error().detail;
  return history ? *history : History{};
}

Verdict verdict_of(const std::string& text) { return check(parsed(text)); }

// The anomaly's name, and the kinds of the cycle's links.
std::string found(const std::string& text) {
  const Verdict verdict = verdict_of(text);
  if (verdict.valid()) return "valid";
  std::string out(anomaly_name(verdict.anomaly));
  if (verdict.anomaly == Anomaly::kRealTime) out += " " + std::string(anomaly_name(verdict.cycle_class));
  for (size_t i = 0; i < verdict.cycle.size(); ++i) {
    const Verdict::Link& link = verdict.cycle[i];
    out += (i == 0 ? ": " : " ") + std::string(dependency_name(link.kind));
    EXPECT_EQ(link.to, verdict.cycle[(i + 1) % verdict.cycle.size()].from);
    EXPECT_EQ(link.from, verdict.txns[i]);
  }
  EXPECT_FALSE(verdict.summary.empty());
  EXPECT_FALSE(verdict.txns.empty());
  return out;
}

TEST(Checker, ValidHistories) {
  EXPECT_TRUE(check(History{}).valid());
  EXPECT_EQ(found(ok("")), "valid");
  EXPECT_EQ(found(ok(R"(["r","x",[]])")), "valid");
  EXPECT_EQ(found(ok(R"(["append","x",1])")), "valid");
  EXPECT_EQ(found(ok(0, 10, R"(["append","x",1])") + ok(20, 30, R"(["r","x",[1]])")), "valid");
  // Concurrent with the append: may or may not see it.
  EXPECT_EQ(found(ok(0, 10, R"(["append","x",1])") + ok(5, 30, R"(["r","x",[]])")), "valid");
  EXPECT_EQ(found(ok(0, 10, R"(["append","x",1])") + ok(5, 30, R"(["r","x",[1]])")), "valid");
  // Completed and invoked in the same nanosecond is concurrent.
  EXPECT_EQ(found(ok(0, 10, R"(["append","x",1])") + ok(10, 30, R"(["r","x",[]])")), "valid");
  // Reads its own appends, between others'.
  EXPECT_EQ(found(ok(R"(["append","x",2],["r","x",[1,2]],["append","x",3],["r","x",[1,2,3]])") +
                  ok(R"(["append","x",1])") + ok(R"(["r","x",[1,2,3,4]])") + ok(R"(["append","x",4],["r","y",[]])")),
            "valid");
  // The same element on two keys is two elements.
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","y",1])") + ok(R"(["r","y",[1]],["r","x",[1]])")), "valid");
}

TEST(Checker, FailedTransactionsAreNothing) {
  EXPECT_EQ(found(fail(R"(["append","x",1],["r","y",[7,7]])") + ok(200, 300, R"(["r","x",[]])")), "valid");
}

TEST(Checker, InfoTransactionsMayHaveHappenedAtAnyLaterTime) {
  EXPECT_EQ(found(info(R"(["append","x",1],["r","y",null])") + ok(200, 300, R"(["r","x",[]])")), "valid");
  EXPECT_EQ(found(info(R"(["append","x",1])") + ok(200, 300, R"(["r","x",[]])") + ok(400, 500, R"(["r","x",[1]])")),
            "valid");
}

TEST(Checker, UnseenAppendsComeLast) {
  // Both read x empty and append to it. Nobody read x later, but one of them must have seen the other.
  EXPECT_EQ(found(ok(R"(["r","x",[]],["append","x",1])")), "valid");
  EXPECT_EQ(found(ok(R"(["r","x",[]],["append","x",1])") + ok(R"(["r","x",[]],["append","x",2])")), "G2: rw rw");
  EXPECT_EQ(found(ok(R"(["r","x",[]],["append","x",1])") + ok(R"(["append","x",2])") + ok(R"(["r","x",[]])")), "valid");
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",2])")), "valid");
}

TEST(Checker, DuplicateElement) {
  EXPECT_EQ(found(ok(R"(["append","x",1])") + ok(R"(["r","x",[1,1]])")), "duplicate element");
  EXPECT_EQ(found(ok(R"(["append","x",1])") + ok(R"(["append","x",2])") + ok(R"(["r","x",[1,2,1]])") +
                  ok(R"(["r","x",[1,2]])")),
            "duplicate element");
  // Not in the longest read.
  EXPECT_EQ(found(ok(R"(["append","x",1])") + ok(R"(["append","x",2],["append","x",3])") + ok(R"(["r","x",[1,2,3]])") +
                  ok(R"(["r","x",[1,1]])")),
            "duplicate element");
}

TEST(Checker, AnElementAppendedTwiceInMemory) {
  History history;
  history.txns.resize(2);
  for (TxnRecord& txn : history.txns) txn.ops.push_back(TxnRecord::Op::append("x", 1));
  const Verdict verdict = check(history);
  EXPECT_EQ(verdict.anomaly, Anomaly::kDuplicateElement);
  EXPECT_EQ(verdict.txns, (std::vector<size_t>{0, 1}));
}

TEST(Checker, NeverAppendedElement) {
  EXPECT_EQ(found(ok(R"(["r","x",[7]])")), "never-appended element");
  EXPECT_EQ(found(ok(R"(["append","y",7])") + ok(R"(["r","x",[7]])")), "never-appended element");
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",2])") + ok(R"(["r","x",[1,2]])") + ok(R"(["r","x",[7]])")),
            "never-appended element");
}

TEST(Checker, AbortedRead) {
  EXPECT_EQ(found(fail(R"(["append","x",1])") + ok(R"(["r","x",[1]])")), "aborted read (G1a)");
  EXPECT_EQ(found(fail(R"(["append","x",1])") + ok(R"(["append","x",2])") + ok(R"(["r","x",[2,1]])")),
            "aborted read (G1a)");
  EXPECT_EQ(found(fail(R"(["append","x",1])") + ok(R"(["append","x",2],["append","x",3])") + ok(R"(["r","x",[2,3]])") +
                  ok(R"(["r","x",[1]])")),
            "aborted read (G1a)");
}

TEST(Checker, IntermediateRead) {
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",2])") + ok(R"(["r","x",[1]])")), "intermediate read (G1b)");
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",2])") + ok(R"(["r","x",[1]])") + ok(R"(["r","x",[1,2]])")),
            "intermediate read (G1b)");
  EXPECT_EQ(found(info(R"(["append","x",1],["append","x",2])") + ok(R"(["r","x",[1]])")), "intermediate read (G1b)");
  // The reader's own append hides the end of what it found.
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",2])") + ok(R"(["append","x",3],["r","x",[1,3]])")),
            "intermediate read (G1b)");
}

TEST(Checker, InternalInconsistency) {
  EXPECT_EQ(found(ok(R"(["append","x",1],["r","x",[]])")), "internal inconsistency");
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",2],["r","x",[2,1]])")), "internal inconsistency");
  EXPECT_EQ(found(ok(R"(["append","x",1])") + ok(R"(["append","x",2],["r","x",[2,1]])")), "internal inconsistency");
  EXPECT_EQ(found(ok(R"(["append","x",1])") + ok(R"(["r","x",[]],["r","x",[1]])")), "internal inconsistency");
  EXPECT_EQ(found(ok(R"(["append","x",1])") + ok(R"(["r","x",[1]],["r","x",[]])")), "internal inconsistency");
  EXPECT_EQ(found(ok(R"(["append","x",1])") + ok(R"(["r","x",[]],["append","x",2],["r","x",[1,2]])")),
            "internal inconsistency");
  // Sees the future.
  EXPECT_EQ(found(ok(R"(["r","x",[1]],["append","x",1])")), "internal inconsistency");
  // Its appends are in the opposite order.
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",2])") + ok(R"(["r","x",[2,1]])")), "internal inconsistency");
}

TEST(Checker, IncompatibleOrders) {
  const std::string appends = ok(R"(["append","x",1])") + ok(R"(["append","x",2])") + ok(R"(["append","x",3])");
  EXPECT_EQ(found(appends + ok(R"(["r","x",[1,2]])") + ok(R"(["r","x",[2,1]])")), "incompatible orders");
  EXPECT_EQ(found(appends + ok(R"(["r","x",[1]])") + ok(R"(["r","x",[2]])")), "incompatible orders");
  EXPECT_EQ(found(appends + ok(R"(["r","x",[1,2,3]])") + ok(R"(["r","x",[1,3]])")), "incompatible orders");
}

TEST(Checker, LostAppend) {
  EXPECT_EQ(found(ok(0, 10, R"(["append","x",1])") + ok(20, 30, R"(["r","x",[]])")), "lost append");
  EXPECT_EQ(found(ok(0, 10, R"(["r","x",[]],["append","x",1])") + ok(0, 10, R"(["r","x",[]],["append","x",2])") +
                  ok(20, 30, R"(["r","x",[2]])")),
            "lost append");
  // The later append of a transaction is there, the earlier is not.
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",2])") + ok(R"(["r","x",[2]])")), "lost append");
  EXPECT_EQ(found(info(R"(["append","x",1],["append","x",2])") + ok(R"(["r","x",[2]])")), "lost append");
}

TEST(Checker, InfoAppendSeenAndThenGone) {
  const std::string writer = info(R"(["append","x",1])");
  EXPECT_EQ(found(writer + ok(200, 210, R"(["r","x",[1]])") + ok(220, 230, R"(["r","x",[]])")),
            "info append seen and then gone");
  // Another append is in its place, in a read that is at least as long.
  const std::string other = ok(0, 300, R"(["append","x",2])") + ok(0, 300, R"(["append","x",3])");
  EXPECT_EQ(found(writer + other + ok(200, 210, R"(["r","x",[1]])") + ok(220, 230, R"(["r","x",[2]])")),
            "info append seen and then gone");
  EXPECT_EQ(found(writer + other + ok(200, 210, R"(["r","x",[1]])") + ok(220, 230, R"(["r","x",[2,3]])")),
            "info append seen and then gone");
  // Seen by an overlapping read: not gone, only not there yet.
  EXPECT_EQ(found(writer + ok(200, 225, R"(["r","x",[1]])") + ok(220, 230, R"(["r","x",[]])")), "valid");
}

TEST(Checker, G0) {
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","y",1])") + ok(R"(["append","x",2],["append","y",2])") +
                  ok(R"(["r","x",[1,2]])") + ok(R"(["r","y",[2,1]])")),
            "G0: ww ww");
  // One transaction's append lies between two of another.
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",3])") + ok(R"(["append","x",2])") + ok(R"(["r","x",[1,2,3]])")),
            "G0: ww ww");
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","x",3])") + ok(R"(["append","x",2])") + ok(R"(["r","x",[1,2]])")),
            "G0: ww ww");
}

TEST(Checker, G1c) {
  EXPECT_EQ(found(ok(R"(["append","x",1],["r","y",[2]])") + ok(R"(["append","y",2],["r","x",[1]])")), "G1c: wr wr");
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","y",1])") + ok(R"(["append","x",2],["r","y",[]])") +
                  ok(R"(["append","y",3],["r","x",[1,2]])") + ok(R"(["r","y",[3,1]])")),
            "G1c: ww wr ww");
  // An info transaction that was seen depends like any other.
  EXPECT_EQ(found(info(R"(["append","x",1],["append","y",1])") + ok(R"(["append","y",2],["r","x",[1]])") +
                  ok(R"(["r","y",[2,1]])")),
            "G1c: wr ww");
}

TEST(Checker, GSingle) {
  // Lost update.
  EXPECT_EQ(
      found(ok(R"(["r","x",[]],["append","x",1])") + ok(R"(["r","x",[]],["append","x",2])") + ok(R"(["r","x",[1,2]])")),
      "G-single: ww rw");
  // Read skew.
  EXPECT_EQ(
      found(ok(R"(["append","x",1],["append","y",1])") + ok(R"(["r","x",[]],["r","y",[1]])") + ok(R"(["r","x",[1]])")),
      "G-single: wr rw");
  // The missed append is one that nobody saw.
  EXPECT_EQ(found(ok(R"(["append","x",1],["append","y",1])") + ok(R"(["r","x",[]],["r","y",[1]])")), "G-single: wr rw");
  EXPECT_EQ(found(info(R"(["append","x",1],["append","y",1])") + ok(R"(["r","x",[]],["r","y",[1]])")),
            "G-single: wr rw");
}

TEST(Checker, G2) {
  // Write skew, seen by a later reader or by nobody.
  const std::string skew = ok(R"(["r","x",[]],["append","y",1])") + ok(R"(["r","y",[]],["append","x",2])");
  EXPECT_EQ(found(skew), "G2: rw rw");
  EXPECT_EQ(found(skew + ok(200, 300, R"(["r","x",[2]],["r","y",[1]])")), "G2: rw rw");
  // Two readers see two appends in opposite orders.
  EXPECT_EQ(found(ok(R"(["append","x",1])") + ok(R"(["append","y",2])") + ok(R"(["r","x",[1]],["r","y",[]])") +
                  ok(R"(["r","x",[]],["r","y",[2]])")),
            "G2: wr rw wr rw");
}

TEST(Checker, RealTimeViolation) {
  const std::string one = ok(0, 10, R"(["append","x",1])");
  // A stale read: another one shows that the append is not lost.
  EXPECT_EQ(found(one + ok(20, 30, R"(["r","x",[]])") + ok(20, 90, R"(["r","x",[1]])")),
            "real-time violation G-single: rt rw");
  // Later appended, earlier in the order.
  EXPECT_EQ(found(one + ok(20, 30, R"(["append","x",2])") + ok(40, 50, R"(["r","x",[2,1]])")),
            "real-time violation G0: rt ww");
  // Read before it was invoked.
  EXPECT_EQ(found(ok(0, 10, R"(["r","x",[1]])") + ok(20, 30, R"(["append","x",1])")), "real-time violation G1c: rt wr");
  EXPECT_EQ(found(ok(0, 10, R"(["r","x",[1]])") + line(20, 30, "info", R"(["append","x",1])")),
            "real-time violation G1c: rt wr");
  // Two readers one after the other; the append overlaps both.
  EXPECT_EQ(found(ok(0, 100, R"(["append","x",1])") + ok(20, 30, R"(["r","x",[1]])") + ok(40, 50, R"(["r","x",[]])")),
            "real-time violation G-single: wr rt rw");
  // Two rw and an rt edge.
  EXPECT_EQ(found(ok(0, 10, R"(["r","z",[]],["append","y",1])") + ok(20, 30, R"(["r","x",[]],["append","w",1])") +
                  ok(0, 100, R"(["append","x",1],["r","y",[]])") + ok(200, 210, R"(["r","x",[1]],["r","y",[1]])")),
            "real-time violation G2: rt rw rw");
}

TEST(Checker, TheStrongestClassIsNamed) {
  const std::string g2 = ok(R"(["r","a",[]],["append","b",1])") + ok(R"(["r","b",[]],["append","a",2])");
  const std::string single = ok(R"(["append","x",1],["append","y",1])") + ok(R"(["r","x",[]],["r","y",[1]])");
  const std::string g0 = ok(R"(["append","p",1],["append","q",1])") + ok(R"(["append","p",2],["append","q",2])") +
                         ok(R"(["r","p",[1,2]])") + ok(R"(["r","q",[2,1]])");
  EXPECT_EQ(found(g2 + single), "G-single: wr rw");
  EXPECT_EQ(found(g2 + single + g0), "G0: ww ww");
}

TEST(Checker, RealTimeReachesAcrossManyTransactions) {
  std::string text = ok(0, 1, R"(["append","x",1])");
  for (uint64_t i = 1; i < 200; ++i) text += ok(10 * i, 10 * i + 1, R"(["r","y",[]])");
  text += ok(5000, 5001, R"(["r","x",[]])") + ok(5000, 5001, R"(["r","x",[1]])");
  const Verdict verdict = verdict_of(text);
  EXPECT_EQ(verdict.anomaly, Anomaly::kRealTime);
  EXPECT_EQ(verdict.txns, (std::vector<size_t>{0, 200}));
}

TEST(Checker, DescribesTheCycle) {
  const History history = parsed(ok(R"(["r","x",[]],["append","y",1])") + ok(R"(["r","y",[]],["append","x",2])") +
                                 ok(200, 300, R"(["r","x",[2]])"));
  EXPECT_EQ(describe(check(history), history),
            "invalid: G2: a cycle of 2 transactions\n"
            "  T1 -rw-> T2: T1 read \"x\" without 2, which T2 appended\n"
            "  T2 -rw-> T1: T2 read \"y\" without 1, which T1 appended\n"
            "  T1: process 1, 0 to 100 ns, ok: r \"x\" []; append \"y\" 1\n"
            "  T2: process 1, 0 to 100 ns, ok: r \"y\" []; append \"x\" 2\n"
            "checked: 3 transactions (3 ok, 0 fail, 0 info), 2 keys, 2 appends, 3 reads\n");
}

TEST(Checker, DescribesRealTimeAndLongLists) {
  std::string appends;
  std::string list;
  for (int i = 1; i <= 40; ++i) {
    appends += (i > 1 ? "," : "") + std::string(R"(["append","x",)") + std::to_string(i) + "]";
    list += (i > 1 ? "," : "") + std::to_string(i);
  }
  const History history = parsed(ok(0, 10, R"(["r","x",[)" + list + "]]") + ok(20, 30, appends));
  EXPECT_EQ(describe(check(history), history),
            "invalid: real-time violation: a cycle of 2 transactions, G1c but for real time\n"
            "  T1 -rt-> T2: T1 completed at 10, before T2 was invoked at 20\n"
            "  T2 -wr-> T1: T2 appended 40 to \"x\", which T1 read\n"
            "  T1: process 1, 0 to 10 ns, ok: r \"x\" [1 2 3 4 5 6 7 8 ... 24 more ... 33 34 35 36 37 38 39 40]\n"
            "  T2: process 1, 20 to 30 ns, ok: append \"x\" 1; append \"x\" 2; append \"x\" 3; append \"x\" 4; "
            "append \"x\" 5; append \"x\" 6; append \"x\" 7; append \"x\" 8; append \"x\" 9; append \"x\" 10; "
            "append \"x\" 11; append \"x\" 12; append \"x\" 13; append \"x\" 14; append \"x\" 15; append \"x\" 16; ... "
            "24 more\n"
            "checked: 2 transactions (2 ok, 0 fail, 0 info), 1 keys, 40 appends, 1 reads\n");
}

class RunCheck : public testing::Test {
 protected:
  int run(const std::string& text) {
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    const int status = run_check(path_, out_, err_);
    std::remove(path_.c_str());
    return status;
  }
  const std::string path_ = testing::TempDir() + "weft_run_check_" + std::to_string(getpid()) + ".jsonl";
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(RunCheck, Valid) {
  EXPECT_EQ(run(ok(R"(["append","x",1])") + fail(R"(["append","x",2])") + info(R"(["append","y",1])")), 0);
  EXPECT_EQ(out_.str(), "valid: 3 transactions (1 ok, 1 fail, 1 info), 2 keys, 3 appends, 0 reads\n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(RunCheck, Invalid) {
  EXPECT_EQ(run(ok(R"(["r","x",[1]])")), 1);
  EXPECT_TRUE(out_.str().starts_with("invalid: never-appended element: T1 read 1 in \"x\", which nobody appended\n"))
      << out_.str();
  EXPECT_EQ(err_.str(), "");
}

TEST_F(RunCheck, Malformed) {
  EXPECT_EQ(run(ok(R"(["append","x",1])") + "{\n"), 2);
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(err_.str(), path_ + ":2: expected a field name, found the end of the line at column 2\n");
}

TEST_F(RunCheck, Missing) {
  EXPECT_EQ(run_check("/nonexistent", out_, err_), 2);
  EXPECT_EQ(err_.str(), "/nonexistent: cannot open: No such file or directory\n");
}

}  // namespace
}  // namespace weft
