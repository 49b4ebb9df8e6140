// Values, keys and transactions that are large beside the credit: they go by turns, and arrive whole.
#include <string>
#include <vector>

#include "weft/base/sanitized.h"
#include "weft/txn/stepped_cluster_testing.h"

namespace weft {
namespace {

constexpr TableId kLarge(1);

Key key_text(const std::string& key) { return std::string_view(key); }

// With the least credit that is allowed, most gets and commits are large.
class SizesTest : public testing::TestWithParam<Shape> {
 protected:
  static Options options() {
    Options o = GetParam().options();
    o.limits.credit_bytes = 4096;
    o.limits.key_bytes_max = 64 << 10;
    o.limits.value_bytes_max = 1 << 20;
    o.limits.txn_keys_max = 4096;
    o.limits.txn_bytes_max = 8 << 20;
    return o;
  }
  Outcome put(int node, const std::string& key, const std::string& value) {
    return retried([&] { return cluster_->put_one(NodeId(static_cast<uint8_t>(node)), kLarge, key_text(key), value); });
  }
  SteppedCluster cluster_{options(),
                          {{.name = "t", .capacity = 20'000},
                           {.name = "large", .keys = KeyKind::kBytes, .value_bytes_max = 1 << 20, .capacity = 500}}};
};
INSTANTIATE_TEST_SUITE_P(Few, SizesTest, testing::ValuesIn(few_shapes()), shape_name);

TEST_P(SizesTest, ValuesAndKeysBeyondTheCredit) {
  cluster_.start();
  const int last = GetParam().nodes - 1;
  for (const size_t key_bytes : {size_t{3}, size_t{3000}, size_t{64} << 10}) {
    for (const size_t bytes : {size_t{100}, size_t{3000}, size_t{70'000}, size_t{1} << 20, size_t{5}}) {
      const std::string key(key_bytes, 'k');
      const std::string value(bytes, static_cast<char>('a' + bytes % 26));
      EXPECT_TRUE(committed(put(0, key, value))) << key_bytes << " " << bytes;
      for (const int node : {0, last}) {
        const auto one = cluster_->get_one(NodeId(static_cast<uint8_t>(node)), kLarge, key_text(key));
        EXPECT_TRUE(one.found && one.value == value) << key_bytes << " " << bytes << " at " << node;
      }
      std::string seen;
      auto update = [&](Txn& txn) -> Task<Code> {
        const Value read = co_await txn.get(kLarge, key_text(key), Intent::kUpdate);
        if (read.code != Code::kOk) co_return read.code;
        seen = std::string(read.bytes);
        co_return txn.put(kLarge, key_text(key), value + "!");
      };
      if (bytes == size_t{1} << 20) continue;
      EXPECT_TRUE(committed(cluster_->run(NodeId(static_cast<uint8_t>(last)), {.backoff_us = 1}, update)));
      EXPECT_TRUE(seen == value) << key_bytes << " " << bytes << ", read " << seen.size();
    }
  }
}

TEST_P(SizesTest, ManyKeysInOneTransaction) {
  cluster_.start();
  const uint64_t keys = kSanitized ? 600 : 4096;
  auto write = [&](Txn& txn) -> Task<Code> {
    for (uint64_t k = 0; k < keys; ++k) {
      if (const Code code = txn.put(kT, k, std::to_string(k)); code != Code::kOk) co_return code;
    }
    co_return Code::kOk;
  };
  EXPECT_TRUE(committed(cluster_->run(NodeId(0), {.backoff_us = 1}, write)));
  uint64_t right = 0;
  auto read = [&](Txn& txn) -> Task<Code> {
    for (uint64_t k = 0; k < keys; ++k) txn.get_async(kT, k);
    co_await txn.wait_all();
    right = 0;
    for (uint64_t k = 0; k < keys; ++k) {
      const Value v = txn.value(txn.get_async(kT, k));
      if (v.code != Code::kOk) co_return v.code;
      right += v.bytes == std::to_string(k) ? 1 : 0;
      if (k % 2 == 0) txn.erase(kT, k);
    }
    co_return Code::kOk;
  };
  EXPECT_TRUE(committed(cluster_->run(NodeId(static_cast<uint8_t>(GetParam().nodes - 1)), {.backoff_us = 1}, read)));
  EXPECT_EQ(right, keys);
  EXPECT_FALSE(cluster_->get_one(NodeId(0), kT, 100).found);
  EXPECT_EQ(cluster_->get_one(NodeId(0), kT, 101).value, "101");
}

TEST_P(SizesTest, LargeTransactionsOfAllNodesAtATime) {
  cluster_.start();
  const std::string value(60'000, 'v');
  std::vector<SteppedCluster::Handle> all;
  for (int node = 0; node < GetParam().nodes; ++node) {
    all.push_back(
        cluster_.spawn(NodeId(static_cast<uint8_t>(node)), WorkerId(0), [&, node](Session& session) -> Task<void> {
          for (int round = 0; round < 5; ++round) {
            auto write = [&](Txn& txn) -> Task<Code> {
              for (int i = 0; i < 4; ++i) {
                const std::string key = std::to_string(node * 2 + i);  // two in common with the next node
                const Value read = co_await txn.get(kLarge, key_text(key));
                if (read.code != Code::kOk) co_return read.code;
                txn.put(kLarge, key_text(key), value + std::to_string(round));
              }
              co_return Code::kOk;
            };
            Task<Outcome> running = session.run({.backoff_us = 1}, write);
            EXPECT_TRUE(committed(co_await running));
          }
        }));
  }
  for (const SteppedCluster::Handle& handle : all) cluster_.wait(handle);
  EXPECT_EQ(cluster_->get_one(NodeId(0), kLarge, std::string_view("0")).value, value + "4");
}

TEST_P(SizesTest, AHeadSaysHowLongTheValueIs) {
  cluster_.start();
  const std::string value(50'000, 'v');
  ASSERT_TRUE(committed(put(0, "long", value)));
  ASSERT_TRUE(committed(put(0, "short", "0123")));
  for (int node = 0; node < GetParam().nodes; ++node) {
    cluster_.on(node, [&](Session& session) -> Task<void> {
      for (bool done = false; !done;) {
        Txn txn = co_await session.begin();
        const Value head = co_await txn.get(kLarge, std::string_view("long"), Intent::kHead);
        const Value whole = co_await txn.get(kLarge, std::string_view("short"), Intent::kHead);
        const Value none = co_await txn.get(kLarge, std::string_view("none"), Intent::kHead);
        if (head.code != Code::kOk || whole.code != Code::kOk || none.code != Code::kOk) continue;
        EXPECT_TRUE(head.found && whole.found && !none.found);
        EXPECT_EQ(head.length, value.size());
        EXPECT_EQ(head.bytes, value.substr(0, kHeadBytes));
        EXPECT_EQ(whole.bytes, "0123");
        EXPECT_EQ(whole.length, 4U);
        const Value rest = co_await txn.get(kLarge, std::string_view("long"));
        if (rest.code != Code::kOk) continue;
        EXPECT_TRUE(rest.bytes == value) << rest.bytes.size();
        const Outcome outcome = co_await txn.commit();
        done = outcome.committed();
      }
    });
  }
  auto erase = [&](Txn& txn) -> Task<Code> {
    const Value head = co_await txn.get(kLarge, std::string_view("long"), Intent::kHead);
    if (head.code != Code::kOk) co_return head.code;
    EXPECT_TRUE(head.found);
    co_return txn.erase(kLarge, std::string_view("long"));
  };
  EXPECT_TRUE(committed(cluster_->run(NodeId(static_cast<uint8_t>(GetParam().nodes - 1)), {.backoff_us = 1}, erase)));
  EXPECT_FALSE(cluster_->get_one(NodeId(0), kLarge, std::string_view("long")).found);
}

}  // namespace
}  // namespace weft
