#include "weft/txn/prepared_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "weft/base/bytes.h"

namespace weft {
namespace {

class LogTest : public testing::Test {
 protected:
  static std::unique_ptr<Pool> make_pool() {
    auto pool = Pool::create(64 << 20);
    EXPECT_TRUE(pool);
    return std::move(*pool);
  }
  // A block with one key of that index, which keeps its value (if any).
  PreparedKeys* part(uint8_t index, std::string_view value, bool has_value) {
    std::byte* at;
    PreparedKeys* made = log_.make_part(1, value.size(), &at);
    if (!value.empty()) std::memcpy(at, value.data(), value.size());
    PreparedKey& key = made->all()[0];
    key.index = index;
    key.value = {at, value.size()};
    key.flags = has_value ? kHasValue : 0;
    return made;
  }
  static void push(PreparedKeys** list, PreparedKeys* part) {
    part->next = *list;
    *list = part;
  }

  std::unique_ptr<Pool> pool_ = make_pool();
  PreparedTable log_{3, 8, pool_.get()};
};

TEST_F(LogTest, EverySlotOfEveryCoordinatorHasItsRecord) {
  for (uint8_t n = 0; n < 3; ++n) {
    for (uint8_t s = 0; s < 8; ++s) log_.at(NodeId(n), s).sequence = n * 100U + s;
  }
  for (uint8_t n = 0; n < 3; ++n) {
    for (uint8_t s = 0; s < 8; ++s) EXPECT_EQ(log_.at(NodeId(n), s).sequence, n * 100U + s);
  }
  EXPECT_EQ(log_.open_records(), 0U) << "a sequence alone is no record";
}

TEST_F(LogTest, CountsOpenRecords) {
  log_.at(NodeId(0), 1).state = kLocked;
  log_.at(NodeId(2), 7).state = kReplicated | kCommitted;
  EXPECT_EQ(log_.open_records(), 2U);
  log_.drop(log_.at(NodeId(0), 1), true);
  EXPECT_EQ(log_.open_records(), 1U);
}

TEST_F(LogTest, PartsKeepTheirBytesApart) {
  std::byte* a_bytes;
  std::byte* b_bytes;
  PreparedKeys* a = log_.make_part(20, 5000, &a_bytes);
  PreparedKeys* b = log_.make_part(1, 0, &b_bytes);
  EXPECT_EQ(a->all().size(), 20U);
  EXPECT_GE(a_bytes, reinterpret_cast<std::byte*>(a->all().data() + 20)) << "bytes follow the keys";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a_bytes) % 8, 0U);
  std::memset(a_bytes, 0xff, 5000);
  EXPECT_EQ(b->all()[0].write, Write::kNone);
  EXPECT_EQ(a->all()[19].index, 0);
  log_.drop_parts(a);
  log_.drop_parts(b);
}

TEST_F(LogTest, FindsANewValueInLockedAndAppliedParts) {
  PreparedTxn& record = log_.at(NodeId(1), 2);
  record.state = kLocked;
  push(&record.locked, part(0, "zero", true));
  push(&record.locked, part(1, "", false));
  push(&record.applied, part(2, "two", true));
  push(&record.applied, part(3, "", true));
  ASSERT_NE(record.find_value(0), nullptr);
  EXPECT_EQ(as_text(record.find_value(0)->value), "zero");
  EXPECT_EQ(record.find_value(1), nullptr) << "locked, but the value did not come with it";
  ASSERT_NE(record.find_value(2), nullptr);
  EXPECT_EQ(as_text(record.find_value(2)->value), "two");
  ASSERT_NE(record.find_value(3), nullptr) << "an empty value is a value";
  EXPECT_EQ(record.find_value(3)->value.size(), 0U);
  EXPECT_EQ(record.find_value(4), nullptr);
  log_.drop(record, true);
}

TEST_F(LogTest, DropGivesTheBlocksBackAndEmptiesTheRecord) {
  PreparedTxn& record = log_.at(NodeId(1), 2);
  std::byte* first = nullptr;
  for (int round = 0; round < 10'000; ++round) {  // far more than the pool has room for
    record.state = kLocked;
    record.sequence = static_cast<uint64_t>(round);
    push(&record.locked, part(0, std::string(20'000, 'x'), true));
    push(&record.applied, part(0, std::string(20'000, 'y'), true));
    if (round == 0) first = reinterpret_cast<std::byte*>(record.locked);
    log_.drop(record, true);
    ASSERT_EQ(record.locked, nullptr);
    ASSERT_EQ(record.applied, nullptr);
    ASSERT_EQ(record.state, 0);
  }
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(log_.open_records(), 0U);
}

}  // namespace
}  // namespace weft
