// Conflicts, the holder that they name, retries, and transactions that are dropped half-way.
#include <atomic>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/cluster/cluster_testing.h"

namespace weft {
namespace {

class Conflict : public testing::TestWithParam<Shape> {
 protected:
  int last_ = GetParam().nodes - 1;
  TestCluster cluster_{GetParam().options()};
};
INSTANTIATE_TEST_SUITE_P(Few, Conflict, testing::ValuesIn(few_shapes()), shape_name);

// The protocol whose reads can fail, because they lock.
class LocksWhileReading : public Conflict {};
INSTANTIATE_TEST_SUITE_P(Fasst, LocksWhileReading, testing::Values(Shape{"fasst", 3, 3}, Shape{"fasst", 5, 2}),
                         shape_name);

TEST_P(Conflict, TheSecondOfTwoThatReadAndWriteTheSameKeyAborts) {
  cluster_.load(4, "0").start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn a = co_await session.begin();
    Txn b = co_await session.begin();
    co_await a.get(kT, 3, Intent::kRead);
    co_await b.get(kT, 3, Intent::kRead);
    a.put(kT, 3, "a");
    b.put(kT, 3, "b");
    EXPECT_TRUE(committed(co_await a.commit()));
    const Outcome outcome = co_await b.commit();
    EXPECT_TRUE(aborted(outcome, Code::kVersionMoved));
    EXPECT_EQ(key_of(outcome), bytes_of(3));
    EXPECT_FALSE(outcome.has_holder);
  });
}

TEST_P(Conflict, WriteSkewIsImpossible) {
  cluster_.load(2, "0").start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    Txn a = co_await session.begin();
    Txn b = co_await session.begin();
    co_await a.get(kT, 0);
    co_await b.get(kT, 1);
    a.put(kT, 1, "a");
    b.put(kT, 0, "b");
    const bool first = (co_await a.commit()).committed();
    const bool second = (co_await b.commit()).committed();
    EXPECT_TRUE(first);
    EXPECT_FALSE(second);
  });
}

TEST_P(Conflict, AHintIsNotValidated) {
  cluster_.load(4, "0").start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    for (const uint64_t key : {0, 1, 2, 3}) {
      Txn reads = co_await session.begin(), writes = co_await session.begin(), reads_again = co_await session.begin();
      Txn overwrites = co_await session.begin();
      for (Txn* txn : {&reads, &writes, &reads_again, &overwrites}) {
        const Value value = co_await txn->get(kT, key, Intent::kHint);
        EXPECT_TRUE(value.found);
        EXPECT_EQ(value.bytes, "0");
      }
      Txn other = co_await session.begin();
      other.put(kT, key, "1");
      EXPECT_TRUE(committed(co_await other.commit()));
      EXPECT_TRUE(committed(co_await reads.commit())) << "it has nothing to validate";
      writes.put(kT, 100 + key, "2");
      EXPECT_TRUE(committed(co_await writes.commit()));
      co_await reads_again.get(kT, key);
      EXPECT_TRUE(aborted(co_await reads_again.commit(), Code::kVersionMoved)) << "no hint any more";
      overwrites.put(kT, key, "3");
      EXPECT_TRUE(aborted(co_await overwrites.commit(), Code::kVersionMoved))
          << "what is written follows what was read";
      Txn restores = co_await session.begin();
      restores.put(kT, key, "0");
      EXPECT_TRUE(committed(co_await restores.commit()));
    }
  });
}

TEST_P(Conflict, AHintLocksNothing) {
  cluster_.load(4, "0").start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn a = co_await session.begin(), b = co_await session.begin();
    co_await a.get(kT, 3, Intent::kHint);
    a.put(kT, 1, "a");
    co_await b.get(kT, 1, Intent::kHint);
    b.put(kT, 3, "b");
    EXPECT_TRUE(committed(co_await a.commit()));
    EXPECT_TRUE(committed(co_await b.commit())) << "write skew, as it asked for";
  });
}

TEST_P(LocksWhileReading, NamesTheHolder) {
  cluster_.load(4, "0").start();
  cluster_.on(last_, [this](Session& session) -> Task<void> {
    Txn a = co_await session.begin();
    EXPECT_TRUE((co_await a.get(kT, 2, Intent::kUpdate)).found);
    {
      Txn b = co_await session.begin();
      const Value v = co_await b.get(kT, 2, Intent::kUpdate);
      EXPECT_EQ(v.code, Code::kLocked);
      const Outcome outcome = co_await b.commit();
      EXPECT_TRUE(aborted(outcome, Code::kLocked));
      EXPECT_EQ(key_of(outcome), bytes_of(2));
      EXPECT_TRUE(outcome.has_holder);
      EXPECT_EQ(outcome.holder_node.value, last_);
      EXPECT_EQ(outcome.holder_worker.value, 0);
      EXPECT_NE(outcome.text().find("held by node"), std::string::npos) << outcome.text();
    }
    a.put(kT, 2, "1");
    EXPECT_TRUE(committed(co_await a.commit()));
  });
}

TEST(ManyWorkers, TheLastOfThemIsNamed) {
  Options options;
  options.nodes = options.replicas = 2;
  options.workers = kWorkersMax;
  options.threads = 2;
  options.protocol = "fasst";
  TestCluster cluster(options);
  cluster.load(4, "0").start();
  static constexpr WorkerId kLast(kWorkersMax - 1);
  cluster
      ->spawn(NodeId(1), kLast,
              [](Session& session) -> Task<void> {
                Txn a = co_await session.begin();
                EXPECT_TRUE((co_await a.get(kT, 2, Intent::kUpdate)).found);
                {
                  Txn b = co_await session.begin();
                  co_await b.get(kT, 2, Intent::kUpdate);
                  const Outcome outcome = co_await b.commit();
                  EXPECT_TRUE(aborted(outcome, Code::kLocked));
                  EXPECT_EQ(outcome.holder_node, NodeId(1));
                  EXPECT_EQ(outcome.holder_worker, kLast);
                }
                a.put(kT, 2, "1");
                EXPECT_TRUE(committed(co_await a.commit()));
              })
      .wait();
  cluster->stop();
  EXPECT_EQ(cluster->audit(), "");
}

// Two nodes write the same keys until one of them meets the other's lock.
TEST_P(Conflict, AHolderIsNamedWhenTwoCommitsMeet) {
  cluster_.load(1, "0").start();
  std::atomic<bool> met{false};
  std::atomic<int> wrong{0};
  std::atomic<int> begun{0};
  const auto hammer = [&](int other) {
    return [&met, &wrong, &begun, other](Session& session) -> Task<void> {
      ++begun;
      while (begun < 2) co_await session.sleep_ns(1'000);
      for (int i = 0; i < 20'000 && !met; ++i) {
        Txn txn = co_await session.begin();
        txn.put(kT, 0, "x");
        const Outcome outcome = co_await txn.commit();
        if (outcome.committed()) continue;
        if (outcome.code == Code::kLocked) {
          met = true;
          if (!outcome.has_holder || outcome.holder_node.value != other || key_of(outcome) != bytes_of(0)) ++wrong;
        }
      }
    };
  };
  const auto a = cluster_->spawn(NodeId(0), WorkerId(0), hammer(1));
  const auto b = cluster_->spawn(NodeId(1), WorkerId(0), hammer(0));
  EXPECT_TRUE(cluster_.wait(a));
  EXPECT_TRUE(cluster_.wait(b));
  EXPECT_TRUE(met) << "no conflict in 20,000 rounds";
  EXPECT_EQ(wrong, 0);
}

TEST_P(Conflict, RunTriesAgainUntilItCommits) {
  cluster_.load(1, bytes_of(0)).start();
  constexpr int kEach = 100;
  std::vector<Cluster::Handle> handles;
  std::atomic<int> done{0};
  for (int n = 0; n <= last_; ++n) {
    for (int c = 0; c < 4; ++c) {
      handles.push_back(
          cluster_->spawn(NodeId(static_cast<uint8_t>(n)), WorkerId(0), [&](Session& session) -> Task<void> {
            auto body = [](Txn& txn) -> Task<Code> {
              const Value v = co_await txn.get(kT, 0, Intent::kUpdate);
              if (v.code != Code::kOk) co_return v.code;
              co_return txn.put(kT, 0, bytes_of(integer(v.bytes) + 1));
            };
            for (int i = 0; i < kEach; ++i) {
              Task<Outcome> task = session.run({.attempts = 1'000'000, .backoff_us = 5, .backoff_us_max = 200}, body);
              const Outcome outcome = co_await task;
              EXPECT_TRUE(committed(outcome));
              done += outcome.committed() ? 1 : 0;
            }
          }));
    }
  }
  for (const auto& handle : handles) EXPECT_TRUE(cluster_.wait(handle));
  EXPECT_EQ(integer(cluster_->get_one(NodeId(0), kT, 0).value), static_cast<uint64_t>(done));
  EXPECT_EQ(done, kEach * 4 * (last_ + 1));
}

TEST_P(Conflict, RunGivesUpAfterItsAttempts) {
  cluster_.load(1, "0").start();
  for (const uint32_t attempts : {1U, 3U}) {
    for (const uint32_t backoff_us : {0U, 1U}) {
      int tries = 0;
      cluster_.on(0, [&](Session& session) -> Task<void> {
        auto body = [&tries, &session](Txn& txn) -> Task<Code> {
          ++tries;
          co_await txn.get(kT, 0);
          Txn other = co_await session.begin();
          other.put(kT, 0, "moved");
          EXPECT_TRUE(committed(co_await other.commit()));
          co_return txn.put(kT, 0, "never");
        };
        Task<Outcome> task = session.run({.attempts = attempts, .backoff_us = backoff_us}, body);
        EXPECT_TRUE(aborted_by_change(co_await task, GetParam().protocol));
      });
      EXPECT_EQ(tries, static_cast<int>(attempts));
    }
  }
}

TEST_P(Conflict, RunDoesNotRepeatWhatRepeatingCannotHelp) {
  cluster_.load(1, "0").start();
  int tries = 0;
  auto says_no = [&](Txn& txn) -> Task<Code> {
    ++tries;
    txn.put(kT, 0, "never");
    co_return Code::kApplication;
  };
  EXPECT_TRUE(aborted(cluster_->run(NodeId(0), {}, says_no), Code::kApplication));
  EXPECT_EQ(tries, 1);
  tries = 0;
  auto exists = [&](Txn& txn) -> Task<Code> {
    ++tries;
    co_return txn.insert(kT, 0, "never");
  };
  EXPECT_TRUE(aborted(cluster_->run(NodeId(0), {}, exists), Code::kExists));
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(cluster_->get_one(NodeId(0), kT, 0).value, "0");
}

// A body that returns the reason of its failed read loses nothing: the outcome still names the holder.
TEST_P(LocksWhileReading, RunNamesKeyAndHolderThoughTheBodyGaveUp) {
  cluster_.load(1, "0").start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn holder = co_await session.begin();
    co_await holder.get(kT, 0, Intent::kUpdate);
    auto body = [](Txn& txn) -> Task<Code> {
      const Value v = co_await txn.get(kT, 0, Intent::kUpdate);
      co_return v.code;
    };
    Task<Outcome> task = session.run({.attempts = 2}, body);
    const Outcome outcome = co_await task;
    EXPECT_TRUE(aborted(outcome, Code::kLocked));
    EXPECT_EQ(key_of(outcome), bytes_of(0));
    EXPECT_TRUE(outcome.has_holder);
  });
}

// The public form, with a body that owns things: g++ 12 would destroy a temporary body twice, so run() refuses one.
using BodyPointer = Task<Code> (*)(Txn&);
template <class Temporary, class = void>
struct IsTaken : std::false_type {};
template <class Temporary>
struct IsTaken<Temporary, std::void_t<decltype(std::declval<Session&>().run(RetryPolicy{}, std::declval<Temporary>()))>>
    : std::true_type {};
static_assert(IsTaken<BodyPointer&>::value && !IsTaken<BodyPointer>::value);

TEST_P(Conflict, ABodyKeepsWhatItCapturedThroughAllAttempts) {
  cluster_.load(1, "0").start();
  const auto shared = std::make_shared<std::string>("a value that does not fit into a small string buffer");
  cluster_.on(0, [shared](Session& session) -> Task<void> {
    int tries = 0;
    auto body = [shared, copy = *shared, &tries, &session](Txn& txn) -> Task<Code> {
      const std::string local = copy + "!";
      co_await txn.get(kT, 0);
      if (++tries < 5) {
        Txn other = co_await session.begin();
        other.put(kT, 0, "moved");
        EXPECT_TRUE(committed(co_await other.commit()));
      }
      EXPECT_EQ(local, *shared + "!");
      co_return txn.put(kT, 0, local);
    };
    const RetryPolicy policy{.attempts = 10};
    Task<Outcome> task = session.run(policy, body);
    const Outcome outcome = co_await task;
    EXPECT_TRUE(committed(outcome));
    EXPECT_EQ(tries, 5);
  });
  cluster_->stop();
  EXPECT_EQ(shared.use_count(), 1);
}

// Dropped transactions. The audit at the end of each test finds a lock that was left.

TEST_P(Conflict, DroppedWithReadsUnderWay) {
  cluster_.load(16, "0").start();
  for (int n = 0; n <= last_; ++n) {
    cluster_.on(n, [](Session& session) -> Task<void> {
      for (int i = 0; i < 50; ++i) {
        Txn txn = co_await session.begin();
        for (uint64_t k = 0; k < 16; ++k) txn.get_async(kT, k, k % 2 == 0 ? Intent::kUpdate : Intent::kRead);
        if (i % 2 == 0) txn.put(kT, 1, "never");
        if (i % 5 == 0) txn.abort();
      }
    });
  }
  for (uint64_t k = 0; k < 16; ++k) {
    auto body = [k](Txn& txn) -> Task<Code> {
      const Value v = co_await txn.get(kT, k, Intent::kUpdate);
      if (v.code != Code::kOk) co_return v.code;
      co_return txn.put(kT, k, "1");
    };
    EXPECT_TRUE(committed(cluster_->run(NodeId(0), {.backoff_us = 10}, body)));
  }
}

TEST_P(Conflict, DroppedAfterItsReads) {
  cluster_.load(16, "0").start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    for (int i = 0; i < 50; ++i) {
      Txn txn = co_await session.begin();
      // A lock of the previous round may still be in the process of being released; it must be gone soon.
      for (uint64_t k = 0; k < 16; ++k) {
        if ((co_await txn.get(kT, k, Intent::kUpdate)).code == Code::kOk) continue;
        txn = co_await session.begin();
        co_await session.sleep_ns(1000);
        k = 0;
      }
      txn.put(kT, 3, "never");
      txn.insert(kT, 100, "never");
    }
  });
  cluster_->stop();
  EXPECT_EQ(cluster_.contents().at(bytes_of(3)), "0");
  EXPECT_FALSE(cluster_.contents().contains(bytes_of(100)));
}

TEST_P(Conflict, AbortReleasesAtOnceThoughReadsAreUnderWay) {
  cluster_.load(4, "0").start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    Txn kept = co_await session.begin();
    for (uint64_t k = 0; k < 4; ++k) kept.get_async(kT, k, Intent::kUpdate);
    kept.abort();
    auto body = [](Txn& txn) -> Task<Code> {
      for (uint64_t k = 0; k < 4; ++k) {
        const Value v = co_await txn.get(kT, k, Intent::kUpdate);
        if (v.code != Code::kOk) co_return v.code;
        txn.put(kT, k, "1");
      }
      co_return Code::kOk;
    };
    Task<Outcome> task = session.run({.attempts = 200, .backoff_us = 100}, body);
    EXPECT_TRUE(committed(co_await task)) << "the aborted transaction is still held by its application";
  });
}

TEST(Dropped, WaitingForAReadOfAnAbortedTransactionEnds) {
  TestCluster cluster(Options{});
  cluster.load(4, "0").start();
  cluster.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    ReadHandle last;
    for (uint64_t k = 0; k < 4; ++k) last = txn.get_async(kT, k);
    txn.abort();
    co_await txn.wait(last);
    co_await txn.wait_all();
  });
}

// Each of these takes some credit for an unlock that is then not needed. Together they take many times the available
// credit, so a leak shows as a cluster that makes no progress.
TEST(Dropped, WhileALockIsRefusedGivesItsCreditBack) {
  Options options;
  options.protocol = "fasst";
  options.limits.credit_bytes = 64 << 10;
  TestCluster cluster(options);
  cluster.load(8, "0").start();
  cluster.on(0, [](Session& session) -> Task<void> {
    Txn holder = co_await session.begin();
    for (uint64_t k = 0; k < 8; ++k) co_await holder.get(kT, k, Intent::kUpdate);
    for (uint64_t i = 0; i < 4000; ++i) {
      {
        Txn refused = co_await session.begin();
        refused.get_async(kT, i % 8, Intent::kUpdate);
      }
      if (i % 16 == 0) co_await session.sleep_ns(1);
    }
    for (uint64_t k = 0; k < 8; ++k) holder.put(kT, k, "1");
    EXPECT_TRUE(committed(co_await holder.commit()));
  });
}

}  // namespace
}  // namespace weft
