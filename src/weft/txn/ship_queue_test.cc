// Who waits for a lock at an executor: in order, bounded in number and time.
#include "weft/txn/ship_queue.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "weft/base/check.h"
#include "weft/store/owner_testing.h"
#include "weft/store/table.h"

namespace weft {
namespace {

class ShipQueueTest : public testing::Test {
 protected:
  ShipQueueTest() {
    TableOptions options;
    options.spec = {.name = "t", .value_bytes_max = 8, .capacity = 100};
    region_ = std::move(*Region::create(Table::region_bytes(options)));
    table_ = std::move(*Table::create(options, region_.get()));
  }
  // Both keys are absent, and locked to be written all the same.
  HashedKey hashed(size_t n) const { return table_->hashed({reinterpret_cast<const std::byte*>(&keys_[n]), 8}); }
  void lock(size_t n) {
    held_[n] = table_->lock(hashed(n), kOwner, Write::kPut, std::nullopt, 1);
    ASSERT_EQ(held_[n].code, Code::kOk);
  }
  void unlock(size_t n) { table_->unlock(hashed(n), kOwner, held_[n].locked); }
  ShipQueue::LockedKey waits_for(size_t n) const {
    ShipQueue::LockedKey key;
    EXPECT_TRUE(key.set(*table_, hashed(n)));
    return key;
  }
  bool add(uint8_t source, size_t key, uint64_t now_ns = 0) {
    Message message{};
    message.source = NodeId(source);
    const std::byte body[8] = {std::byte{source}};
    message.body = body;
    return queue_.add(message, waits_for(key), now_ns);
  }
  // Who is executed now; each goes on waiting for `then`, if that is a key.
  std::vector<int> retry(uint64_t now_ns = 0, std::optional<size_t> then = {}, NodeSet lost = {}) {
    std::vector<int> executed;
    ShipQueue::LockedKey key;
    const auto execute = [&](const Message& m, bool may_wait) -> const ShipQueue::LockedKey* {
      EXPECT_EQ(m.body[0], std::byte{m.source.value});
      executed.push_back(may_wait ? m.source.value : -m.source.value);
      if (!then || !may_wait) return nullptr;
      key = waits_for(*then);
      return &key;
    };
    queue_.retry(lost, now_ns, execute, [&](std::coroutine_handle<>) { executed.push_back(kCoroutine); });
    return executed;
  }
  using Nodes = std::vector<int>;
  static constexpr int kCoroutine = 1000;

  static constexpr Owner kOwner = make_owner(NodeId(0), WorkerId(0), 1);
  std::unique_ptr<Region> region_;
  std::unique_ptr<Table> table_;
  const std::array<uint64_t, 3> keys_{0, 1, 2};
  std::array<LockResult, 3> held_;
  ShipQueue queue_;
};

TEST_F(ShipQueueTest, InTheirOrderWhenTheirKeyIsFree) {
  lock(1);
  lock(2);
  for (const auto& [source, key] : {std::pair{3, 1}, {4, 2}, {5, 1}})
    EXPECT_TRUE(add(static_cast<uint8_t>(source), static_cast<size_t>(key)));
  EXPECT_EQ(retry(), Nodes{});
  unlock(1);
  EXPECT_EQ(retry(0, 2), (Nodes{3, 5})) << "they meet another lock";
  EXPECT_EQ(retry(), Nodes{});
  unlock(2);
  EXPECT_EQ(retry(), (Nodes{3, 4, 5}));
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.deadline_ns(), UINT64_MAX);
}

TEST_F(ShipQueueTest, NotForLongerThanAllowedAndNotForWhoIsLost) {
  lock(1);
  EXPECT_TRUE(add(3, 1, 100));
  EXPECT_TRUE(add(4, 1, 200));
  EXPECT_TRUE(add(5, 1, 200));
  EXPECT_LE(queue_.deadline_ns(), 100 + ShipQueue::kLookNs);
  EXPECT_EQ(retry(100 + ShipQueue::kWaitNs - 1), Nodes{});
  EXPECT_EQ(retry(100 + ShipQueue::kWaitNs, 1), Nodes{-3});
  EXPECT_EQ(retry(200 + ShipQueue::kWaitNs, {}, NodeSet::of(NodeId(4))), Nodes{-5});
  EXPECT_TRUE(queue_.empty());
}

TEST_F(ShipQueueTest, AKeyIsKeptForACoroutine) {
  lock(1);
  EXPECT_TRUE(add(3, 1));
  EXPECT_TRUE(queue_.add(std::noop_coroutine(), waits_for(1), 0));
  EXPECT_TRUE(add(4, 1));
  EXPECT_TRUE(add(5, 2));
  EXPECT_EQ(retry(), Nodes{5}) << "its key is free";
  EXPECT_FALSE(queue_.keeps(*table_, hashed(1)));
  unlock(1);
  EXPECT_EQ(retry(), (Nodes{3, kCoroutine}));
  EXPECT_TRUE(queue_.keeps(*table_, hashed(1)));
  EXPECT_FALSE(queue_.keeps(*table_, hashed(2))) << "other keys are nobody's";
  EXPECT_EQ(retry(), Nodes{}) << "it has not begun";
  lock(1);
  EXPECT_EQ(retry(), Nodes{});
  EXPECT_FALSE(queue_.keeps(*table_, hashed(1)));
  unlock(1);
  EXPECT_EQ(retry(), Nodes{4});
  // One that does not come is not waited for.
  lock(1);
  EXPECT_TRUE(queue_.add(std::noop_coroutine(), waits_for(1), 0));
  EXPECT_TRUE(add(4, 1));
  unlock(1);
  EXPECT_EQ(retry(), Nodes{kCoroutine});
  EXPECT_EQ(retry(ShipQueue::kKeptNs), Nodes{4});
  EXPECT_TRUE(queue_.empty());
}

TEST_F(ShipQueueTest, ABoundedNumber) {
  lock(1);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < ShipQueue::kPlaces; ++i) EXPECT_TRUE(add(static_cast<uint8_t>(i), 1));
    EXPECT_FALSE(add(63, 1));
    queue_.clear([](std::coroutine_handle<>) {});
  }
  EXPECT_TRUE(add(63, 1));
  EXPECT_TRUE(queue_.add(std::noop_coroutine(), waits_for(1), 0));
  int resumed = 0;
  queue_.clear([&](std::coroutine_handle<>) { ++resumed; });
  EXPECT_EQ(resumed, 1);
}

}  // namespace
}  // namespace weft
