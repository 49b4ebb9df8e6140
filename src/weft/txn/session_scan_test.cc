// A page of a partition's keys is read here or at the primary, and nobody waits for it longer than for any answer.
#include <memory>
#include <optional>

#include "weft/txn/session_testing.h"

namespace weft {
namespace {

class SessionScanTest : public SessionTest {
 protected:
  using Page = std::shared_ptr<KeyPage>;
  // Begins to scan the partition of a key.
  void scan(uint64_t key, std::optional<Page>* page) {
    const ByteView bytes{reinterpret_cast<const std::byte*>(&key), sizeof key};
    page->reset();
    go(keep(session().scan_keys(kTable, nodes_[0]->table(kTable)->hashed(bytes).partition, 0, 10), page));
  }
};

TEST_F(SessionScanTest, KeysAreScannedHereOrAtTheirPrimary) {
  for (const NodeId primary : {NodeId(0), NodeId(1)}) {
    const uint64_t key = key_at(primary);
    EXPECT_TRUE(committed(ran(session().put_one(kTable, key, "value"))));
    std::optional<Page> page;
    scan(key, &page);
    ASSERT_NO_FATAL_FAILURE(finish(page));
    EXPECT_EQ((*page)->records, 1U);
    ASSERT_EQ((*page)->items.size(), 1U);
    EXPECT_EQ((*page)->items[0].key, bytes_of(key));
    EXPECT_EQ((*page)->items[0].value_prefix, "value");
    EXPECT_EQ((*page)->next, 0U);
  }
}

// The delete at this node is of a transaction that is not finished.
TEST_F(SessionScanTest, AKeyWhoseDeleteMayBeUndoneIsScannedAtItsPrimary) {
  Table& here = *nodes_[0]->table(kTable);
  for (const NodeId primary : {NodeId(1), NodeId(2)}) {
    const uint64_t key = key_at(primary);
    EXPECT_TRUE(committed(ran(session().put_one(kTable, key, "value"))));
    const HashedKey hashed = here.hashed({reinterpret_cast<const std::byte*>(&key), sizeof key});
    std::vector<std::byte> old(here.spec().value_bytes_max);
    const ReadResult read = here.read(hashed, old.data(), old.size());
    if (!read.found) continue;  // this node has no replica
    const Version next(read.word.version().value + 1);
    here.apply(hashed, Write::kErase, {}, next, old.data());
    std::optional<Page> page;
    scan(key, &page);
    ASSERT_NO_FATAL_FAILURE(finish(page));
    ASSERT_EQ((*page)->items.size(), 1U);
    EXPECT_EQ((*page)->items[0].key, bytes_of(key));
    return;
  }
  FAIL() << "this node is a backup of something";
}

TEST_F(SessionScanTest, AScanAsksAgainAndEndsInTime) {
  std::optional<Page> page;
  scan(key_at(NodeId(1)), &page);
  steps_of({0}, 5);
  clock_.now += kSecondNs;
  steps_of({0}, 5);
  EXPECT_FALSE(page);
  ASSERT_NO_FATAL_FAILURE(finish(page));
  EXPECT_TRUE((*page)->done);
  scan(key_at(NodeId(1)), &page);
  steps_of({0}, 5);
  clock_.now = session().answer_by_ns();
  steps_of({0}, 5);
  ASSERT_TRUE(page);
  EXPECT_TRUE((*page)->late);
  EXPECT_FALSE((*page)->done);
}

TEST_F(SessionScanTest, AScanWaitsForALease) {
  std::optional<Page> page;
  nodes_[0]->state().lease.set_until(clock_.now);
  scan(key_at(NodeId(0)), &page);
  steps_of({0}, 1000);
  EXPECT_FALSE(page);
  nodes_[0]->state().lease.set_until(UINT64_MAX);
  ASSERT_NO_FATAL_FAILURE(finish(page));
  EXPECT_TRUE((*page)->done);
}

TEST_F(SessionScanTest, AScanWaitsForAnActiveView) {
  std::optional<Page> page;
  const auto next = view_without(NodeId(2));
  nodes_[0]->state().views.publish(next);
  steps_of({0}, 3);
  scan(key_at(NodeId(0)), &page);
  steps_of({0}, 1000);
  EXPECT_FALSE(page);
  nodes_[1]->state().views.publish(next);
  ASSERT_NO_FATAL_FAILURE(finish(page, {0, 1}));
  EXPECT_TRUE((*page)->done);
}

TEST_F(SessionScanTest, AScanAtANodeThatWasRemovedHasNoAnswer) {
  std::optional<Page> page;
  nodes_[0]->state().views.publish(view_without(NodeId(0)));
  steps_of({0}, 3);
  scan(key_at(NodeId(0)), &page);
  ASSERT_TRUE(page);
  EXPECT_FALSE((*page)->done || (*page)->late);
}

}  // namespace
}  // namespace weft
