// What the audit of a cluster at rest finds, and how it says so: every way in which two replicas, or a node and the
// view, can disagree.
#include "weft/txn/replicas.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/store/owner_testing.h"
#include "weft/txn/node_testing.h"

namespace weft {
namespace {

Digest digest_of_record(uint64_t hash, std::string_view value, uint64_t version, uint64_t flags = kReadable) {
  Digest digest;
  add_record(digest, HashedKey{.bytes = {}, .hash = hash, .partition = PartitionId(0), .hint = {}}, as_bytes(value),
             Word(Version(version), flags));
  return digest;
}

TEST(ReplicaDigest, DependsOnKeyValueAndVersionOfARecord) {
  const Digest one = digest_of_record(1, "a", 1);
  EXPECT_EQ(one.records, 1U);
  EXPECT_EQ(one.absence, 0U);
  EXPECT_EQ(one.sum, digest_of_record(1, "a", 1).sum);
  EXPECT_NE(one.sum, digest_of_record(2, "a", 1).sum);
  EXPECT_NE(one.sum, digest_of_record(1, "b", 1).sum);
  EXPECT_NE(one.sum, digest_of_record(1, "", 1).sum);
  EXPECT_NE(one.sum, digest_of_record(1, "a", 2).sum);
  EXPECT_EQ(one.sum, digest_of_record(1, "a", 1, kReadLocked).sum) << "and on no flag";
}

TEST(ReplicaDigest, DoesNotDependOnTheOrderOfTheWalk) {
  const HashedKey a{.bytes = {}, .hash = 1, .partition = PartitionId(0), .hint = {}};
  const HashedKey b{.bytes = {}, .hash = 2, .partition = PartitionId(0), .hint = {}};
  const Word word(Version(1), kReadable);
  Digest there, back;
  add_record(there, a, as_bytes("a"), word);
  add_record(there, b, as_bytes("b"), word);
  add_record(back, b, as_bytes("b"), word);
  add_record(back, a, as_bytes("a"), word);
  EXPECT_EQ(there.records, 2U);
  EXPECT_EQ(there.sum, back.sum);
  Digest exchanged;
  add_record(exchanged, a, as_bytes("b"), word);
  add_record(exchanged, b, as_bytes("a"), word);
  EXPECT_NE(there.sum, exchanged.sum);
}

TEST(ReplicaDigest, DependsOnWhichAbsenceWordHasWhichVersion) {
  const auto of = [](uint64_t first, uint64_t second) {
    Digest digest;
    add_absence(digest, 0, Version(first));
    add_absence(digest, 1, Version(second));
    EXPECT_EQ(digest.records, 0U);
    EXPECT_EQ(digest.sum, 0U);
    return digest.absence;
  };
  EXPECT_EQ(of(3, 4), of(3, 4));
  EXPECT_NE(of(3, 4), of(4, 3));
  EXPECT_NE(of(0, 0), of(0, 1));
  EXPECT_NE(of(0, 0), of(1, 0));
}

// Three nodes with two replicas, at rest: partition p is at nodes p and p + 1. A test writes into their tables what no
// transaction would.
class ReplicasTest : public testing::Test, public HandNodes {
 protected:
  static constexpr TableId kNames{1};

  void SetUp() override {
    spec_ = three_nodes();
    spec_.recovers = true;  // so that a node has room for any partition
    spec_.tables.push_back({.name = "names", .keys = KeyKind::kBytes, .value_bytes_max = 16, .capacity = 1000});
    make_network();
    for (uint8_t n = 0; n < 3; ++n) start_node(NodeId(n), view_);
    for (int n = 0; n < 3; ++n) {
      const uint64_t key = key_at(NodeId(0), n);
      load_at(0, key, "value");
      load_at(1, key, "value");
    }
    key_ = key_at(NodeId(0));
    partition_ = hashed(key_).partition;
  }

  static ByteView bytes_of_key(const uint64_t& key) { return {reinterpret_cast<const std::byte*>(&key), sizeof key}; }
  HashedKey hashed(const uint64_t& key) const { return table_at(0).hashed(bytes_of_key(key)); }
  Table& table_at(size_t node) const { return *nodes_[node]->table(kTable); }
  void load_at(size_t node, uint64_t key, std::string_view value) {
    ASSERT_TRUE(nodes_[node]->load(kTable, bytes_of_key(key), as_bytes(value)));
  }
  void install_at(size_t node, Write write, std::string_view value, uint64_t version) {
    table_at(node).install_if_newer(hashed(key_), write, as_bytes(value), Version(version), scratch_.data());
  }
  // One of node 0 that no node has.
  uint64_t new_key() const { return key_at(NodeId(0), 3); }
  std::string partition_text() const { return "partition " + std::to_string(partition_.value); }

  std::string audit() const { return audit_by(view_); }
  std::string audit_by(const View& view) const {
    std::vector<Node*> nodes;
    for (const auto& node : nodes_) nodes.push_back(node.get());
    return audit_replicas(nodes, view);
  }

  uint64_t key_ = 0;
  PartitionId partition_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(64);
};

TEST_F(ReplicasTest, NothingIsWrongWithEqualReplicas) {
  EXPECT_EQ(audit(), "");
  for (const size_t n : {0U, 1U}) {
    install_at(n, Write::kPut, "newer", 7);
    table_at(n).bump_absence_version(partition_, 0, Version(9));
  }
  EXPECT_EQ(audit(), "");
}

TEST_F(ReplicasTest, DigestsAreByPartitionAndEqualWhereContentsAre) {
  const std::vector<Digest> primary = digests_of(table_at(0), 3);
  const std::vector<Digest> backup = digests_of(table_at(1), 3);
  ASSERT_EQ(primary.size(), 3U);
  const Digest& one = primary[partition_.value];
  const Digest& other = backup[partition_.value];
  EXPECT_EQ(one.records, 3U);
  EXPECT_EQ(one.records, other.records);
  EXPECT_EQ(one.sum, other.sum);
  EXPECT_EQ(one.absence, other.absence);
  for (size_t p = 0; p < 3; ++p) {
    if (p != partition_.value) {
      EXPECT_EQ(primary[p].records + primary[p].sum, 0U) << p;
    }
  }
  table_at(1).bump_absence_version(partition_, 0, Version(9));
  const Digest later = digests_of(table_at(1), 3)[partition_.value];
  EXPECT_NE(later.absence, one.absence);
  EXPECT_EQ(later.sum, one.sum);
}

TEST_F(ReplicasTest, ALockThatIsLeftIsFound) {
  ASSERT_EQ(table_at(0).lock(hashed(key_), make_owner(NodeId(2), WorkerId(0), 1), Write::kPut, std::nullopt, 5).code,
            Code::kOk);
  EXPECT_EQ(audit(), "node 0 table t: 1 locks left");
}

TEST_F(ReplicasTest, ARecordThatNobodyMayReadIsFound) {
  install_at(0, Write::kPut, "newer", 2);
  table_at(1).apply(hashed(key_), Write::kPut, as_bytes("newer"), Version(2), scratch_.data());
  EXPECT_EQ(audit(), "node 1 table t: 1 records unreadable");
  table_at(1).mark_readable(hashed(key_), Version(2));
  EXPECT_EQ(audit(), "");
}

TEST_F(ReplicasTest, ATombstoneIsFound) {
  install_at(1, Write::kErase, "", 2);
  EXPECT_EQ(audit(), "node 1 table t: 1 tombstones left");
}

TEST_F(ReplicasTest, WhatIsOfAPartitionThatTheNodeDoesNotReplicateIsFound) {
  const std::string what = " records or absence words of " + partition_text() + ", of which it is no replica";
  table_at(2).bump_absence_version(partition_, 0, Version(1));
  EXPECT_EQ(audit(), "node 2 table t: 1" + what);
  load_at(2, key_, "value");
  EXPECT_EQ(audit(), "node 2 table t: 2" + what);
}

// The view decides who is a replica, not the one that the nodes began with.
TEST_F(ReplicasTest, WhatANodeHasLeftOrOnlyFillsIsNotItsOwn) {
  View next = view_;
  Placement& placement = next.partitions[partition_.value];
  placement.count = 1;
  placement.in_sync = node_set({0});
  const std::string wrong =
      "node 1 table t: 3 records or absence words of " + partition_text() + ", of which it is no replica";
  EXPECT_EQ(audit_by(next), wrong);
  placement.catching_up = node_set({1});
  EXPECT_EQ(audit_by(next), wrong);
}

TEST_F(ReplicasTest, ARecordThatOnlyOneOfThemHasIsNamed) {
  load_at(0, new_key(), "value");
  const std::string where = "table t " + partition_text() + " at node 1: key " + std::to_string(new_key());
  EXPECT_EQ(audit(), where + " is only at the primary");
  load_at(1, new_key(), "value");
  EXPECT_EQ(audit(), "");
  const uint64_t last = key_at(NodeId(0), 4);
  load_at(1, last, "value");
  EXPECT_EQ(audit(),
            "table t " + partition_text() + " at node 1: key " + std::to_string(last) + " is only at the backup");
}

TEST_F(ReplicasTest, ARecordOfAnotherVersionIsNamedWithBoth) {
  install_at(1, Write::kPut, "value", 5);
  EXPECT_EQ(audit(), "table t " + partition_text() + " at node 1: key " + std::to_string(key_) +
                         " is at version 1 at the primary, 5 at the backup");
}

TEST_F(ReplicasTest, ARecordOfAnotherValueAtOneVersionIsNamed) {
  install_at(0, Write::kPut, "one", 5);
  install_at(1, Write::kPut, "two", 5);
  EXPECT_EQ(audit(), "table t " + partition_text() + " at node 1: key " + std::to_string(key_) +
                         " has different values at one version");
}

TEST_F(ReplicasTest, AnAbsenceWordThatDiffersIsNamedWithBothVersions) {
  table_at(0).bump_absence_version(partition_, 1, Version(2));
  table_at(1).bump_absence_version(partition_, 1, Version(3));
  EXPECT_EQ(audit(), "table t " + partition_text() + " absence word 1: version 2 at the primary (node 0), 3 at node 1");
}

TEST_F(ReplicasTest, EveryTableIsComparedAndKeysOfTextAreNamedAsTheyAre) {
  for (const std::string name : {"a name", "8 bytes."}) {  // also if it could be an integer
    const PartitionId partition = nodes_[0]->table(kNames)->hashed(as_bytes(name)).partition;
    const NodeId primary = view_.placement(partition).primary();
    const NodeId backup = view_.placement(partition).replicas[1];
    ASSERT_TRUE(nodes_[primary.value]->load(kNames, as_bytes(name), as_bytes("value")));
    EXPECT_EQ(audit(), "table names partition " + std::to_string(partition.value) + " at node " +
                           std::to_string(backup.value) + ": key " + name + " is only at the primary");
    ASSERT_TRUE(nodes_[backup.value]->load(kNames, as_bytes(name), as_bytes("value")));
    EXPECT_EQ(audit(), "");
  }
}

}  // namespace
}  // namespace weft
