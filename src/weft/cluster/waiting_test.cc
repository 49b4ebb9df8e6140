// Everything that waits: reads for their answers, coroutines for a transaction, transactions for credit, posts for the
// mailbox. Everything that waits must make progress.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "weft/cluster/cluster_testing.h"

namespace weft {
namespace {

class Waiting : public testing::TestWithParam<Shape> {
 protected:
  // Many coroutines on every node, each with several read-modify-write transactions over few or many keys.
  void all_finish(const Options& options, const TableSpec& table, int coroutines, uint64_t keys, size_t value_bytes) {
    TestCluster cluster(options, {table});
    cluster.load(keys, std::string(value_bytes, '0')).start();
    std::atomic<int> finished{0};
    std::vector<Cluster::Handle> handles;
    for (int n = 0; n < options.nodes; ++n) {
      for (int c = 0; c < coroutines; ++c) {
        const auto first = static_cast<uint64_t>(n * 7 + c);
        handles.push_back(
            cluster->spawn(NodeId(static_cast<uint8_t>(n)), WorkerId(0),
                           [&finished, first, keys, value_bytes](Session& session) -> Task<void> {
                             for (int i = 0; i < 5; ++i) {
                               auto body = [=](Txn& txn) -> Task<Code> {
                                 for (uint64_t k = 0; k < 6; ++k) {
                                   const Intent intent = k % 2 == 0 ? Intent::kUpdate : Intent::kRead;
                                   const uint64_t key = (first + k * 3) % keys;
                                   const Value v = co_await txn.get(kT, key, intent);
                                   if (v.code != Code::kOk) co_return v.code;
                                   if (k % 2 == 0)
                                     txn.put(kT, key, std::string(value_bytes, static_cast<char>('a' + i)));
                                 }
                                 co_return Code::kOk;
                               };
                               Task<Outcome> task = session.run({.attempts = 1'000'000, .backoff_us = 20}, body);
                               EXPECT_TRUE(committed(co_await task));
                             }
                             ++finished;
                           }));
      }
    }
    for (const auto& handle : handles) {
      if (!cluster.wait(handle)) break;
    }
    EXPECT_EQ(finished, options.nodes * coroutines);
  }
};
INSTANTIATE_TEST_SUITE_P(Few, Waiting, testing::ValuesIn(few_shapes()), shape_name);

TEST_P(Waiting, AsynchronousGetsAreDoneInTheOrderOfTheirTickets) {
  TestCluster cluster(GetParam().options());
  cluster.load(40, "v").start();
  cluster.on(GetParam().nodes - 1, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    std::vector<ReadHandle> handles;
    for (uint64_t k = 0; k < 40; ++k) handles.push_back(txn.get_async(kT, k));
    EXPECT_FALSE(txn.all_ready()) << "nothing runs before the coroutine waits";
    for (size_t i = 0; i < handles.size(); i += 3) {
      co_await txn.wait(handles[i]);
      for (size_t j = 0; j <= i; ++j) {
        EXPECT_TRUE(txn.is_ready(handles[j]));
        EXPECT_EQ(txn.value(handles[j]).bytes, "v");
      }
    }
    co_await txn.wait_all();
    EXPECT_TRUE(txn.all_ready());
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
}

TEST_P(Waiting, TheSameKeyTwiceIsOneRead) {
  TestCluster cluster(GetParam().options());
  cluster.load(2, "v").start();
  cluster.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    const ReadHandle a = txn.get_async(kT, 1);
    const ReadHandle b = txn.get_async(kT, 1, Intent::kUpdate);
    co_await txn.wait(b);
    EXPECT_EQ(txn.value(a).bytes, txn.value(b).bytes);
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
}

TEST_P(Waiting, CommitWaitsForReadsThatAreUnderWay) {
  TestCluster cluster(GetParam().options());
  cluster.load(10, "v").start();
  cluster.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    std::vector<ReadHandle> handles;
    for (uint64_t k = 0; k < 10; ++k) handles.push_back(txn.get_async(kT, k, Intent::kUpdate));
    txn.put(kT, 3, "w");
    EXPECT_TRUE(committed(co_await txn.commit()));
    EXPECT_EQ(txn.value(handles[4]).bytes, "v");
  });
  EXPECT_EQ(cluster->get_one(NodeId(0), kT, 3).value, "w");
}

TEST_P(Waiting, MoreCoroutinesThanTransactionsInFlight) {
  Options options = GetParam().options();
  options.limits.transactions_in_flight_max = 2;
  all_finish(options, {.name = "t"}, 30, 1000, 8);
}

TEST_P(Waiting, OneTransactionInFlight) {
  Options options = GetParam().options();
  options.limits.transactions_in_flight_max = 1;
  all_finish(options, {.name = "t"}, 10, 12, 8);
}

TEST_P(Waiting, TheLeastCreditThatIsAdmitted) {
  Options options = GetParam().options();
  options.limits.credit_bytes = 4096;
  options.limits.key_bytes_max = 8;
  all_finish(options, {.name = "t", .value_bytes_max = 8}, 30, 1000, 8);
}

// The value is as large as the least credit allows, so that hardly anything fits next to anything else.
TEST_P(Waiting, TheLeastCreditWithTheLargestValuesItAdmits) {
  Options options = GetParam().options();
  options.limits.credit_bytes = 8192;
  options.limits.key_bytes_max = 8;
  const auto with_value = [&](uint32_t bytes) {
    return TableSpec{.name = "t", .value_bytes_max = bytes, .capacity = 2000};
  };
  uint32_t largest = 8192;
  for (; largest > 64; largest -= 64) {
    auto probe = Cluster::open(options);
    ASSERT_TRUE(probe);
    if ((*probe)->create_table(with_value(largest))) break;
  }
  all_finish(options, with_value(largest), 10, 1000, 64);
}

// One get of a transaction waits for credit, another of the same one gets it and locks: the first must not keep
// waiting.
TEST_P(Waiting, SeveralGetsAtOnceWithLittleCredit) {
  Options options = GetParam().options();
  options.limits.credit_bytes = 8192;
  options.limits.key_bytes_max = 8;
  options.limits.transactions_in_flight_max = 100;
  TestCluster cluster(options, {{.name = "t", .value_bytes_max = 1000, .capacity = 2000}});
  cluster.load(200, "0").start();
  std::vector<Cluster::Handle> handles;
  for (uint64_t c = 0; c < 60; ++c) {
    handles.push_back(cluster->spawn(NodeId(0), WorkerId(0), [c](Session& session) -> Task<void> {
      auto body = [c](Txn& txn) -> Task<Code> {
        for (uint64_t k = 0; k < 6; ++k) txn.get_async(kT, (c * 7 + k * 31) % 200, Intent::kUpdate);
        co_await txn.wait_all();
        for (uint64_t k = 0; k < 6; ++k) txn.put(kT, (c * 7 + k * 31) % 200, "1");
        co_return Code::kOk;
      };
      Task<Outcome> task = session.run({.attempts = 1'000'000, .backoff_us = 5}, body);
      EXPECT_TRUE(committed(co_await task));
    }));
  }
  for (const auto& handle : handles) {
    if (!cluster.wait(handle)) break;
  }
}

TEST_P(Waiting, SwitchesOff) {
  for (int off = 0; off < 3; ++off) {
    Options options = GetParam().options();
    options.network_batching = off != 0;
    options.table_batching = off != 1;
    options.local_reads = off != 2;
    all_finish(options, {.name = "t"}, 10, 40, 8);
  }
}

TEST_P(Waiting, MultiPacketValuesUnderLoad) {
  Options options = GetParam().options();
  all_finish(options, {.name = "t", .value_bytes_max = 40'000, .capacity = 1000}, 4, kSanitized ? 40 : 300, 40'000);
}

TEST_P(Waiting, AMailboxOfOneAndManyThreads) {
  Options options = GetParam().options();
  options.limits.mailbox = 1;
  TestCluster cluster(options);
  cluster.start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 50; ++i) {
        const auto key = static_cast<uint64_t>(t) * 1000 + i;
        const NodeId node(static_cast<uint8_t>(i % static_cast<uint64_t>(options.nodes)));
        // Two new keys may share an absence word, and then one of the two meets a lock.
        EXPECT_TRUE(committed(retried([&] { return cluster->put_one(node, kT, key, bytes_of(key)); })));
        EXPECT_EQ(cluster->get_one(node, kT, key).value, bytes_of(key));
        EXPECT_GT(cluster->counters().committed, 0U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// More sleepers than transactions, mailbox and all: a limit may make them wait, but must not end the process.
void sleep_in_many_coroutines() {
  {
    Options options;
    options.nodes = options.replicas = 1;
    options.limits.transactions_in_flight_max = 1;
    options.limits.mailbox = 16;
    TestCluster cluster(options);
    cluster.start();
    std::vector<Cluster::Handle> handles;
    for (int i = 0; i < 500; ++i) {
      handles.push_back(cluster->spawn(NodeId(0), WorkerId(0),
                                       [](Session& session) -> Task<void> { co_await session.sleep_ns(50'000'000); }));
    }
    for (const auto& handle : handles) cluster.wait(handle);
  }
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(WaitingDeathTest, ManyCoroutinesMaySleep) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(sleep_in_many_coroutines(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft
