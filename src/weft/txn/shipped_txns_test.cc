// Procedures that are executed at the primary of their keys: when that is done, what it costs in messages, and what
// happens when it cannot be. Rules H1 to H9; the simulator tests them with crashes.
#include "weft/txn/shipped_txns.h"

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/txn/procedure_testing.h"
#include "weft/txn/ship_server.h"
#include "weft/txn/stepped_cluster_testing.h"

namespace weft {
namespace {

constexpr uint64_t kKeys = 400;

// Seven nodes with three replicas of each key. Node 0 calls.
class ShippedTest : public testing::Test {
 protected:
  explicit ShippedTest(int nodes = 7, int replicas = 3, uint32_t value_bytes_max = 4096)
      : cluster_{options(nodes, replicas), tables(value_bytes_max), procedures()} {
    cluster_.load(kKeys, "v").start();
  }

  static Options options(int nodes, int replicas) {
    Options o;
    o.protocol = "hop";
    o.nodes = nodes;
    o.replicas = replicas;
    return o;
  }
  static std::vector<TableSpec> tables(uint32_t value_bytes_max) {
    return {{.name = "t", .value_bytes_max = value_bytes_max}};
  }
  static std::vector<StoredProcedure> procedures() { return {words_procedure(), here(), meddled()}; }
  // A key with these replicas, the first of them its primary.
  uint64_t key_at(std::initializer_list<int> nodes, uint64_t not_this = UINT64_MAX) {
    for (const auto& [key, place] : cluster_.places()) {
      if (place.in_sync == node_set(nodes) && place.primary.value == *nodes.begin() && key != not_this) return key;
    }
    ADD_FAILURE() << "no such key";
    return 0;
  }
  // Calls a procedure at node 0. counted_ is what it has cost, without the notices at the end.
  Outcome call(const std::string& arguments, ProcedureId procedure = ProcedureId(0)) {
    const Counters before = cluster_.counters();
    Outcome outcome;
    cluster_.on(0, [&](Session& session) -> Task<void> {
      Task<Outcome> task = session.call(procedure, arguments, &reply_);
      outcome = co_await task;
      for (int i = 0; i < 2; ++i) co_await session.sleep_ns(20'000'000);
    });
    cluster_.stop();
    const Counters after = cluster_.counters();
    shipped_ = after.shipped - before.shipped;
    for (size_t p = 0; p < kPhases; ++p) counted_[p] = after.phase_messages[p] - before.phase_messages[p];
    return outcome;
  }
  uint64_t messages(Phase phase) const { return counted_[index_of(phase)]; }
  std::string value(uint64_t key) { return cluster_.get_one(NodeId(0), kProcedureTable, key).value; }

  static StoredProcedure here() {
    StoredProcedure words = words_procedure();
    words.runs_at = StoredProcedure::RunsAt::kCaller;
    return words;
  }
  // Reads two keys, and writes the second, which it names when it runs. Meanwhile meddle is called.
  static StoredProcedure meddled() {
    return {.name = "meddled",
            .keys =
                [](std::string_view arguments, StoredProcedure::Keys& keys) {
                  for_words(arguments, [&](std::string_view word, uint64_t key) {
                    keys.add(kProcedureTable, key, word == "u" ? Intent::kUpdate : Intent::kRead);
                  });
                },
            .execute =
                [](std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
                  if (meddle != nullptr) std::exchange(meddle, nullptr)();
                  size_t next = 0;
                  for_words(arguments, [&](std::string_view word, uint64_t key) {
                    const std::string now = std::string(values[next++].bytes) + "+";
                    if (word != "u") writes.will_write(kProcedureTable, key);
                    writes.put(kProcedureTable, key, now);
                  });
                  return Code::kOk;
                }};
  }
  static inline std::function<void()> meddle;
  SteppedCluster cluster_;
  std::string reply_;
  uint64_t shipped_ = 0;
  std::array<uint64_t, kPhases> counted_{};
};

std::string word(const char* what, uint64_t key) { return what + std::to_string(key); }

// Replicas of the executor's key y and of the coordinator's x, if it has one; logs and acks between nodes.
struct Overlap {
  std::initializer_list<int> y, x;
  uint64_t logs;  // messages that log, and as many answers
};

class ShippedOverlaps : public ShippedTest {
 protected:
  using ShippedTest::ShippedTest;
  void expect_messages(const std::vector<Overlap>& overlaps);
};
struct ShippedOverlapsOfThree : ShippedOverlaps {
  ShippedOverlapsOfThree() : ShippedOverlaps(3, 3) {}
};
struct ShippedOverlapsOfTwo : ShippedOverlaps {
  ShippedOverlapsOfTwo() : ShippedOverlaps(3, 2) {}
};

// All three nodes have all keys.
TEST_F(ShippedOverlapsOfThree, Messages) {
  expect_messages({{{1, 2, 0}, {}, 1}, {{2, 0, 1}, {}, 1}, {{1, 2, 0}, {0, 1, 2}, 1}, {{2, 0, 1}, {0, 1, 2}, 1}});
}

TEST_F(ShippedOverlapsOfTwo, Messages) {
  expect_messages({
      {{2, 0}, {}, 0},      // the caller is the only backup
      {{2, 0}, {0, 1}, 1},  // the backup of x is another
      {{1, 2}, {}, 1},
      {{1, 2}, {0, 1}, 1},  // the executor is the only backup of x
  });
}

TEST_F(ShippedOverlaps, Messages) {
  expect_messages({
      {{1, 2, 3}, {}, 2},         // nothing here
      {{6, 0, 1}, {}, 1},         // the caller is a backup of y
      {{5, 6, 0}, {}, 1},         // the same
      {{5, 6, 0}, {0, 1, 2}, 3},  // and holds x, of which it has no node else
      {{1, 2, 3}, {0, 1, 2}, 2},  // the executor is a backup of x, and a node is one of both
      {{3, 4, 5}, {0, 1, 2}, 4},  // disjoint
      {{6, 0, 1}, {0, 1, 2}, 2},  // the caller is a backup of y, and a node is one of both
      {{2, 3, 4}, {0, 1, 2}, 3},  // the executor is a backup of x
  });
}

void ShippedOverlaps::expect_messages(const std::vector<Overlap>& overlaps) {
  for (const Overlap& o : overlaps) {
    const uint64_t y = key_at(o.y);
    std::string arguments = word("u", y);
    if (o.x.size() != 0) arguments += " " + word("u", key_at(o.x));
    SCOPED_TRACE(arguments);
    ASSERT_TRUE(committed(call(arguments)));
    EXPECT_EQ(shipped_, 1U);
    EXPECT_EQ(messages(Phase::kExecute), 2U) << "to the executor and back";
    EXPECT_EQ(messages(Phase::kLock) + messages(Phase::kValidate), 0U);
    EXPECT_EQ(messages(Phase::kReplicate), 2 * o.logs) << "logs, answered to the caller";
    // The unlock and its passive answer, and a notice to each that has a record.
    NodeSet records = node_set(o.y) | (o.x.size() != 0 ? node_set(o.x) : NodeSet());
    records.remove(NodeId(0));
    EXPECT_EQ(messages(Phase::kUnlock), 2U + static_cast<uint64_t>(records.size()));
  }
}

// The proposal's count, with one message more to each written primary, which logs too: 12 until told, then the unlock.
TEST_F(ShippedTest, MessagesWhereSeveralPrimariesAreAsked) {
  ASSERT_TRUE(committed(call(word("r", key_at({1, 2, 3})) + " " + word("u", key_at({4, 5, 6})))));
  EXPECT_EQ(shipped_, 0U);
  EXPECT_EQ(messages(Phase::kExecute), 4U);
  EXPECT_EQ(messages(Phase::kLock), 0U);
  EXPECT_EQ(messages(Phase::kValidate), 2U);
  EXPECT_EQ(messages(Phase::kReplicate), 6U);
  EXPECT_EQ(messages(Phase::kUnlock), 2U + 3U) << "and a notice to each that has a record";
  ASSERT_TRUE(committed(call(word("u", key_at({1, 2, 3})) + " " + word("u", key_at({4, 5, 6})))));
  EXPECT_EQ(messages(Phase::kExecute), 4U);
  EXPECT_EQ(messages(Phase::kLock) + messages(Phase::kValidate), 0U);
  EXPECT_EQ(messages(Phase::kReplicate), 12U);
  EXPECT_EQ(messages(Phase::kUnlock), 4U + 6U);
}

TEST_F(ShippedTest, ReadOnlyProceduresOfOneNodeAreTwoMessages) {
  const uint64_t a = key_at({1, 2, 3}), b = key_at({1, 2, 3}, a);
  ASSERT_TRUE(committed(call(word("r", a) + " " + word("r", b))));
  EXPECT_EQ(reply_, "vv");
  EXPECT_EQ(shipped_, 1U);
  uint64_t all = 0;
  for (const uint64_t n : counted_) all += n;
  EXPECT_EQ(all, 2U);
}

// H3: what the caller has only read is locked while the procedure is away, so it is not read by itself.
TEST_F(ShippedTest, WhatTheCallerHoldsGoesAlong) {
  const uint64_t x = key_at({0, 1, 2}), y = key_at({3, 4, 5});
  ASSERT_TRUE(committed(call(word("r", x) + " " + word("u", y))));
  EXPECT_EQ(shipped_, 1U);
  EXPECT_EQ(reply_, "vv");
  EXPECT_EQ(value(y), "v+");
  ASSERT_TRUE(committed(call(word("u", x) + " " + word("r", y))));
  EXPECT_EQ(shipped_, 1U);
  EXPECT_EQ(reply_, "vv+");
  EXPECT_EQ(value(x), "v+");
  ASSERT_TRUE(committed(call(word("e", x) + " " + word("e", y))));
  EXPECT_EQ(shipped_, 1U);
  EXPECT_EQ(value(x) + value(y), "");
}

TEST_F(ShippedTest, OthersAreExecutedByTheCaller) {
  const uint64_t here = key_at({0, 1, 2}), there = key_at({1, 2, 3}), elsewhere = key_at({4, 5, 6});
  const auto runs = [&](const std::string& arguments, ProcedureId procedure = ProcedureId(0)) {
    SCOPED_TRACE(arguments);
    EXPECT_TRUE(committed(call(arguments, procedure)));
    return shipped_;
  };
  EXPECT_EQ(runs(word("u", here)), 0U) << "its keys are here";
  EXPECT_EQ(runs(word("u", there) + " " + word("u", elsewhere)), 0U) << "two primaries";
  EXPECT_EQ(messages(Phase::kExecute), 4U) << "one message to each, and its answer";
  EXPECT_EQ(runs(word("u", there), ProcedureId(1)), 0U) << "it says that it runs at the caller";
  EXPECT_EQ(runs(word("r", here) + " " + word("r", there)), 0U) << "it would lock what it only reads";
  EXPECT_EQ(runs(word("head", there)), 1U);
  EXPECT_EQ(reply_, "v++");
  EXPECT_EQ(runs(word("len", here) + " " + word("u", there)), 1U);
  EXPECT_EQ(reply_, "2:v+v++");
  EXPECT_EQ(runs(word("hint", there)), 0U) << "it is not to be locked or looked at again";
  EXPECT_EQ(runs(word("u", there) + std::string(5000, ' ')), 0U) << "its arguments are too long";
}

// H8: a refusal ends the transaction; it is executed here under another id.
TEST_F(ShippedTest, WhatTheExecutorCannotDoIsDoneByTheCaller) {
  const uint64_t here = key_at({0, 1, 2}), there = key_at({1, 2, 3});
  for (const std::string& arguments :
       {word("u", there) + " " + word("m", key_at({4, 5, 6})), word("l", here) + " " + word("u", there)}) {
    SCOPED_TRACE(arguments);
    EXPECT_TRUE(committed(call(arguments)));
    EXPECT_EQ(shipped_, 1U);
  }
  EXPECT_EQ(value(there), "v++");
  // What is read here is too long to go along, so it is not even sent.
  EXPECT_TRUE(committed(call(word("e", here) + " " + word("u", there))));
  EXPECT_EQ(value(there), "v+++");
}

// Where caller and executor are all replicas of a key, both take part in the call anyway: what is written there must
// still have been announced before it was shipped, or be asked for.
class ShippedToTheOnlyBackup : public ShippedTest {
 protected:
  ShippedToTheOnlyBackup() : ShippedTest(3, 2) {}
};

TEST_F(ShippedToTheOnlyBackup, WhatWasNotAnnouncedBeforeItIsNamed) {
  const uint64_t y = key_at({2, 0}), z = key_at({2, 0}, y);
  EXPECT_TRUE(committed(call(word("r", y) + " " + word("z", z))));
  EXPECT_EQ(shipped_, 1U);
  EXPECT_EQ(reply_, "vv");
  EXPECT_EQ(value(z), "vz");
  EXPECT_TRUE(committed(call(word("z", y))));
  EXPECT_EQ(value(y), "vz");
  // With another write it may be.
  EXPECT_TRUE(committed(call(word("u", y) + " " + word("z", z))));
  EXPECT_EQ(value(y) + value(z), "vz+vzz");
}

// A key that is locked because it is read may not be written by that lock: neither the caller's, nor the executor's
// where it writes only at the caller.
TEST_F(ShippedTest, WhatWasLockedToBeReadIsNotWritten) {
  const uint64_t x = key_at({0, 1, 2}), y = key_at({1, 2, 3});
  EXPECT_TRUE(committed(call(word("z", x) + " " + word("u", y))));
  EXPECT_EQ(value(x) + value(y), "vzv+");
  EXPECT_TRUE(committed(call(word("u", x) + " " + word("z", y))));
  EXPECT_EQ(value(x) + value(y), "vz+v+z");
  // It turns out to be too long when the caller's key is locked.
  EXPECT_TRUE(committed(call(word("z", x) + " " + word("u", y) + std::string(4080, ' '))));
  EXPECT_EQ(shipped_, 0U);
  EXPECT_EQ(value(x) + value(y), "vz+zv+z+");
}

// Another worker of the executor's node may write what is read, before it is locked to be written.
TEST_F(ShippedTest, WhatIsNamedLateIsLockedAtTheVersionThatWasRead) {
  const uint64_t y = key_at({1, 2, 3}), z = key_at({1, 2, 3}, y);
  meddle = [&] {
    Table* const table = cluster_.node(NodeId(1))->table(kProcedureTable);
    const HashedKey key = table->hashed({reinterpret_cast<const std::byte*>(&z), sizeof z});
    const LockResult lock = table->lock(key, Owner(1), Write::kPut, std::nullopt, 1);
    ASSERT_EQ(lock.code, Code::kOk);
    table->commit(key, Owner(1), Write::kPut, as_bytes("m"), lock.locked);
  };
  EXPECT_TRUE(aborted(call(word("u", y) + " " + word("r", z), ProcedureId(2)), Code::kVersionMoved));
  EXPECT_EQ(value(y) + value(z), "vm");
  EXPECT_TRUE(committed(call(word("u", y) + " " + word("r", z), ProcedureId(2))));
  EXPECT_EQ(value(y) + value(z), "v+m+");
}

// The outcome is as if it had been executed by its caller.
TEST_F(ShippedTest, ARefusalNamesItsKeyIfThereIsOne) {
  const uint64_t x = key_at({0, 1, 2}), y = key_at({1, 2, 3}), z = key_at({1, 2, 3}, y);
  const auto key_of = [](const Outcome& outcome) {
    uint64_t key = 0;
    std::memcpy(&key, outcome.key_start, sizeof key);
    return outcome.key_bytes == 8 ? key : UINT64_MAX;
  };
  for (const std::string& first : {word("u", y), word("u", x) + " " + word("u", y)}) {
    const Outcome refused = call(first + " no");
    EXPECT_TRUE(aborted(refused, Code::kApplication));
    EXPECT_EQ(refused.key_bytes, 0U) << refused.text();
    const Outcome exists = call(first + " " + word("i", z));
    EXPECT_TRUE(aborted(exists, Code::kExists));
    EXPECT_EQ(key_of(exists), z) << exists.text();
    const Outcome missing = call(first + " " + word("x", 1'000'000 + z));
    EXPECT_TRUE(aborted(missing, Code::kNotFound));
    EXPECT_EQ(key_of(missing), 1'000'000 + z) << missing.text();
  }
}

struct ShippedLongValues : ShippedTest {
  ShippedLongValues() : ShippedTest(7, 3, 64 << 10) {}
};

// A handler does not copy long values: their procedures are executed by the caller.
TEST_F(ShippedLongValues, AreNotReadByAnExecutor) {
  const uint64_t x = key_at({0, 1, 2}), y = key_at({1, 2, 3}), z = key_at({1, 2, 3}, y);
  const auto put = [&](uint64_t key, size_t bytes) {
    EXPECT_TRUE(committed(cluster_.put_one(NodeId(0), kProcedureTable, key, std::string(bytes, 'L'))));
  };
  put(y, ShipServer::kValueMax);
  EXPECT_TRUE(committed(call(word("u", z) + " " + word("e", y))));
  EXPECT_EQ(messages(Phase::kExecute), 2U) << "it is shipped";
  put(y, ShipServer::kValueMax + 1);
  EXPECT_TRUE(committed(call(word("len", y) + " " + word("u", z))));
  EXPECT_EQ(reply_, "16385:" + std::string(kHeadBytes, 'L') + "v+");
  EXPECT_EQ(messages(Phase::kExecute), 2U) << "its head is enough";
  EXPECT_TRUE(committed(call(word("u", z) + " " + word("e", y))));
  EXPECT_EQ(shipped_, 1U);
  EXPECT_GT(messages(Phase::kExecute), 2U) << "it is asked instead";
  put(y, ShipServer::kValueMax + 1);
  EXPECT_TRUE(committed(call(word("p", y))));
  EXPECT_EQ(messages(Phase::kExecute), 2U) << "it is only written";
  EXPECT_EQ(value(y) + value(z), "putv+++");
  // What the caller holds goes along, unless it is too long.
  put(x, kShipBytesMax + 1);
  EXPECT_TRUE(committed(call(word("e", x) + " " + word("u", z))));
  EXPECT_EQ(shipped_, 0U);
  put(x, kShipBytesMax + 1);
  EXPECT_TRUE(committed(call(word("p", x) + " " + word("u", z))));
  EXPECT_EQ(shipped_, 1U);
  EXPECT_EQ(value(x) + value(z), "putv+++++");
}

// What has been executed at once holds no credit for its answer while its commit waits for credit: else all could wait.
TEST(ExecuteAtOnce, CommitsThatWaitHoldNoCreditForTheirReads) {
  for (const uint32_t credit : {5000U, 6000U, 7000U, 8000U}) {
    Options options;
    options.protocol = "hop";
    options.nodes = 3;
    options.replicas = 1;
    options.limits.credit_bytes = credit;
    StoredProcedure words = words_procedure();
    words.runs_at = StoredProcedure::RunsAt::kCaller;
    SteppedCluster cluster(options, {{.name = "t", .value_bytes_max = 128}}, {words});
    cluster.load(kKeys, "v").start();
    std::vector<uint64_t> own, there;
    for (const auto& [key, place] : cluster.places()) {
      if (place.primary == NodeId(0)) own.push_back(key);
      if (place.primary == NodeId(1)) there.push_back(key);
    }
    uint64_t done = 0;
    std::vector<SteppedCluster::Handle> handles;
    for (size_t client = 0; client < 40; ++client) {
      handles.push_back(cluster.spawn(NodeId(0), WorkerId(0), [&, client](Session& session) -> Task<void> {
        for (size_t i = 0; i < 5; ++i) {
          const std::string arguments = word("r", there[2 * client]) + " " + word("p", own[client]);
          Task<Outcome> task = session.call(ProcedureId(0), arguments);
          done += (co_await task).committed() ? 1 : 0;
        }
      }));
    }
    for (const SteppedCluster::Handle& handle : handles) ASSERT_TRUE(cluster.wait(handle)) << credit;
    EXPECT_EQ(done, 200U) << credit;
  }
}

TEST_F(ShippedTest, ALockedKeyIsNamedWithItsHolder) {
  const uint64_t y = key_at({1, 2, 3}), x = key_at({0, 1, 2});
  cluster_.on(5, [&](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kProcedureTable, y, Intent::kUpdate);
    Outcome outcome;
    const std::string arguments = word("u", x) + " " + word("u", y);
    bool ended = false;
    const auto handle = cluster_.spawn(NodeId(0), WorkerId(0), [&](Session& caller) -> Task<void> {
      Task<Outcome> task = caller.call(ProcedureId(0), arguments);
      outcome = co_await task;
      ended = true;
    });
    while (!ended) co_await session.sleep_ns(1000);
    EXPECT_TRUE(aborted(outcome, Code::kLocked));
    EXPECT_TRUE(outcome.has_holder);
    EXPECT_EQ(outcome.holder_node, NodeId(5));
    EXPECT_EQ(outcome.key_bytes, 8U);
    txn.put(kProcedureTable, y, "5");
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  cluster_.stop();
  EXPECT_TRUE(committed(call(word("u", x) + " " + word("u", y))));
  EXPECT_EQ(value(y), "5+");
}

// H9: a call that holds nothing waits at its executor, and others behind it, in their order.
TEST_F(ShippedTest, WhatHoldsNothingWaitsForALock) {
  const uint64_t y = key_at({1, 2, 3});
  std::vector<int> order;
  cluster_.on(5, [&](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kProcedureTable, y, Intent::kUpdate);
    std::vector<SteppedCluster::Handle> calls;
    for (const uint8_t n : {uint8_t{4}, uint8_t{0}, uint8_t{6}}) {
      calls.push_back(cluster_.spawn(NodeId(n), WorkerId(0), [&, n](Session& caller) -> Task<void> {
        const std::string arguments = word("u", y);
        Task<Outcome> task = caller.call(ProcedureId(0), arguments);
        EXPECT_TRUE(committed(co_await task));
        order.push_back(n);
      }));
      co_await session.sleep_ns(20'000);
    }
    EXPECT_TRUE(order.empty());
    txn.put(kProcedureTable, y, "5");
    EXPECT_TRUE(committed(co_await txn.commit()));
    while (order.size() < 3) co_await session.sleep_ns(1000);
  });
  cluster_.stop();
  EXPECT_EQ(order, (std::vector<int>{4, 0, 6}));
  EXPECT_EQ(cluster_.counters().shipped, 3U);
  EXPECT_EQ(value(y), "5+++");
}

TEST_F(ShippedTest, AWaitForALockEnds) {
  const uint64_t y = key_at({1, 2, 3});
  cluster_.on(5, [&](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kProcedureTable, y, Intent::kUpdate);
    Outcome outcome;
    const std::string arguments = word("u", y);
    bool ended = false;
    const auto handle = cluster_.spawn(NodeId(0), WorkerId(0), [&](Session& caller) -> Task<void> {
      Task<Outcome> task = caller.call(ProcedureId(0), arguments);
      outcome = co_await task;
      ended = true;
    });
    while (!ended) co_await session.sleep_ns(1000);
    EXPECT_TRUE(aborted(outcome, Code::kLocked));
    EXPECT_EQ(outcome.holder_node, NodeId(5));
  });
  cluster_.stop();
  EXPECT_TRUE(committed(call(word("u", y))));
}

// Reads are locked exclusively at the caller: where calls refuse each other for that, they are executed there.
TEST_F(ShippedTest, WhatIsReadHereByManyIsNotShipped) {
  const uint64_t x = key_at({0, 1, 2});
  std::vector<uint64_t> keys;
  for (const auto& [key, place] : cluster_.places()) {
    if (place.primary == NodeId(3)) keys.push_back(key);
  }
  ASSERT_GE(keys.size(), 8U);
  uint64_t done = 0, refused = 0;
  std::vector<SteppedCluster::Handle> handles;
  for (size_t client = 0; client < 8; ++client) {
    handles.push_back(cluster_.spawn(NodeId(0), WorkerId(0), [&, client](Session& session) -> Task<void> {
      for (int i = 0; i < 200; ++i) {
        const std::string arguments = word("r", x) + " " + word("p", keys[client]);
        Task<Outcome> task = session.call(ProcedureId(0), arguments);
        const Outcome outcome = co_await task;
        ++(outcome.committed() ? done : refused);
      }
    }));
  }
  for (const SteppedCluster::Handle& handle : handles) cluster_.wait(handle);
  EXPECT_EQ(done + refused, 1600U);
  EXPECT_GT(done, 1300U) << refused;
  EXPECT_LT(cluster_.counters().shipped, 300U);
}

// The same procedure again and again from one slot: logs arrive from several executors, and each finishes what the
// slot's last transaction left (H6), while credit comes back (H7).
TEST_F(ShippedTest, SlotsAreReusedAcrossExecutors) {
  std::vector<uint64_t> keys;
  for (const auto& [key, place] : cluster_.places()) {
    if (place.primary != NodeId(0)) keys.push_back(key);
  }
  cluster_.on(0, [&](Session& session) -> Task<void> {
    for (int i = 0; i < 2000; ++i) {
      const std::string arguments = word("u", keys[static_cast<size_t>(i) * 7 % 50]);
      Task<Outcome> task = session.call(ProcedureId(0), arguments);
      EXPECT_TRUE(committed(co_await task));
    }
  });
  EXPECT_EQ(cluster_.counters().shipped, 2000U);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(value(keys[i]), "v" + std::string(40, '+'));
}

}  // namespace
}  // namespace weft
