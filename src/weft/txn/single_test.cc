// Single-key transactions: their meaning, and that they are linearizable while others write (rules G3 to G5).
#include <atomic>
#include <string>
#include <vector>

#include "weft/txn/stepped_cluster_testing.h"

namespace weft {
namespace {

class Single : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(All, Single, testing::ValuesIn(all_shapes()), shape_name);

TEST_P(Single, DoWhatTheirNamesSay) {
  SteppedCluster cluster(GetParam().options());
  cluster.start();
  for (int n = 0; n < GetParam().nodes; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    const NodeId other(static_cast<uint8_t>((n + 1) % GetParam().nodes));
    for (uint64_t k = 0; k < 10; ++k) {
      EXPECT_FALSE(cluster->get_one(node, kT, k).found);
      EXPECT_TRUE(aborted(retried([&] { return cluster->erase_one(node, kT, k); }), Code::kNotFound));
      EXPECT_TRUE(committed(retried([&] { return cluster->insert_one(node, kT, k, "inserted"); })));
      EXPECT_TRUE(aborted(retried([&] { return cluster->insert_one(other, kT, k, "again"); }), Code::kExists));
      EXPECT_EQ(cluster->get_one(other, kT, k).value, "inserted");
      EXPECT_TRUE(committed(retried([&] { return cluster->put_one(other, kT, k, ""); })));
      const auto empty = cluster->get_one(node, kT, k);
      EXPECT_TRUE(empty.found);
      EXPECT_EQ(empty.value, "");
      EXPECT_TRUE(committed(retried([&] { return cluster->erase_one(other, kT, k); })));
      EXPECT_FALSE(cluster->get_one(node, kT, k).found);
    }
  }
}

TEST_P(Single, ABufferThatIsTooSmallGetsTheBeginningAndTheLength) {
  SteppedCluster cluster(GetParam().options());
  cluster.load(3, "0123456789").start();
  cluster.on(0, [](Session& session) -> Task<void> {
    char small[5] = "....";
    Task<Session::GetResult> task = session.get_one(kT, 2, {small, 3});
    const Session::GetResult one = co_await task;
    EXPECT_TRUE(committed(one.outcome));
    EXPECT_EQ(one.bytes, 10U);
    EXPECT_EQ(std::string_view(small, 4), "012.");
  });
}

// One writer counts up; readers at every node, on every worker, must see it never go down, and never less than what was
// acknowledged before they asked.
TEST_P(Single, ACounterNeverGoesBack) {
  SteppedCluster cluster(GetParam().options());
  cluster.load(1, bytes_of(0)).start();
  constexpr uint64_t kLast = 300;
  std::atomic<uint64_t> acknowledged{0};
  std::atomic<int> wrong{0};
  std::vector<SteppedCluster::Handle> handles;
  for (int n = 0; n < GetParam().nodes; ++n) {
    for (int w = 0; w < GetParam().workers; ++w) {
      handles.push_back(cluster->spawn(
          NodeId(static_cast<uint8_t>(n)), WorkerId(static_cast<uint8_t>(w)), [&](Session& session) -> Task<void> {
            uint64_t seen = 0;
            while (seen < kLast) {
              const uint64_t before = acknowledged;
              uint64_t now = 0;
              Task<Session::GetResult> task = session.get_one(kT, 0, {reinterpret_cast<char*>(&now), sizeof now},
                                                              {.attempts = 1'000'000, .backoff_us = 1});
              const Session::GetResult one = co_await task;
              if (!one.outcome.committed() || !one.found) {
                ++wrong;
                break;
              }
              if (now < seen || now < before) ++wrong;
              seen = now;
              co_await session.sleep_ns(1);
            }
          }));
    }
  }
  handles.push_back(cluster->spawn(NodeId(static_cast<uint8_t>(GetParam().nodes - 1)), WorkerId(0),
                                   [&](Session& session) -> Task<void> {
                                     for (uint64_t i = 1; i <= kLast; ++i) {
                                       const std::string value = bytes_of(i);
                                       Task<Outcome> task = session.put_one(kT, 0, value);
                                       const Outcome outcome = co_await task;
                                       EXPECT_TRUE(committed(outcome));
                                       acknowledged = i;
                                     }
                                   }));
  for (const auto& handle : handles) {
    if (!cluster.wait(handle)) break;
  }
  EXPECT_EQ(wrong, 0);
}

// The same with a key that comes and goes: absence is a value too. Odd rounds insert, even rounds erase.
TEST_P(Single, PresenceIsLinearizable) {
  SteppedCluster cluster(GetParam().options());
  cluster.start();
  constexpr uint64_t kRounds = 200;
  std::atomic<uint64_t> started{0};
  std::atomic<uint64_t> acknowledged{0};
  std::atomic<int> wrong{0};
  std::vector<SteppedCluster::Handle> handles;
  for (int n = 0; n < GetParam().nodes; ++n) {
    handles.push_back(cluster->spawn(
        NodeId(static_cast<uint8_t>(n)), WorkerId(static_cast<uint8_t>(GetParam().workers - 1)),
        [&](Session& session) -> Task<void> {
          while (acknowledged < kRounds) {
            const uint64_t before = acknowledged;
            uint64_t now = 0;
            Task<Session::GetResult> task = session.get_one(kT, 5, {reinterpret_cast<char*>(&now), sizeof now},
                                                            {.attempts = 1'000'000, .backoff_us = 1});
            const Session::GetResult one = co_await task;
            const uint64_t after = started;
            // Some round between the last acknowledged before and the last started after must explain
            // what was seen.
            const bool explained =
                one.found ? now >= before && now <= after && now % 2 == 1 : (before % 2 == 0 || after > before);
            if (!one.outcome.committed() || !explained) ++wrong;
            co_await session.sleep_ns(1);
          }
        }));
  }
  handles.push_back(cluster->spawn(NodeId(0), WorkerId(0), [&](Session& session) -> Task<void> {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      started = i;
      const std::string value = bytes_of(i);
      Task<Outcome> task = i % 2 == 1 ? session.insert_one(kT, 5, value) : session.erase_one(kT, 5);
      const Outcome outcome = co_await task;
      EXPECT_TRUE(committed(outcome)) << i;
      acknowledged = i;
    }
  }));
  for (const auto& handle : handles) {
    if (!cluster.wait(handle)) break;
  }
  EXPECT_EQ(wrong, 0);
}

// The one row that lets an application hold a lock, so that the key stays locked for as long as the test likes.
TEST(SingleGet, GivesUpByItsPolicyWhileTheKeyIsLocked) {
  Options options;
  options.protocol = "fasst";
  options.replicas = 1;
  SteppedCluster cluster(options);
  cluster.load(6, "v").start();
  cluster.on(0, [](Session& session) -> Task<void> {
    for (uint64_t k = 0; k < 6; ++k) {
      Txn holder = co_await session.begin();
      EXPECT_TRUE((co_await holder.get(kT, k, Intent::kUpdate)).found);
      char out[8];
      Task<Session::GetResult> task = session.get_one(kT, k, out, {.attempts = 3, .backoff_us = 1});
      const Session::GetResult one = co_await task;
      EXPECT_TRUE(aborted(one.outcome, Code::kLocked));
      EXPECT_EQ(key_of(one.outcome), bytes_of(k));
      EXPECT_TRUE(one.outcome.has_holder);
    }
  });
}

}  // namespace
}  // namespace weft
