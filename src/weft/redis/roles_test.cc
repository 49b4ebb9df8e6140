// Disaggregated memory: node 0 runs transactions and holds no data, nodes 1 and 2 hold data and run none.
#include <gtest/gtest.h>

#include <string>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class RolesTest : public FrontendTest {
 protected:
  // Until a deadline that is too far away for the node that wrote it to remember the key: only the sweeper finds it.
  static constexpr int kForgottenMs = Deadlines::kFarMs + 10'000;

  void shape(ClusterSpec& spec) override {
    spec.options.roles = memory_and_compute(2, 1);
    spec.options.replicas = 2;
    spec.options.partitions = 4;
    spec.tables[0].partition = PartitionBy::kRedisSlot;
  }
  void shape_view(View& view) override { view.members[0].clients = "10.0.0.1:7379"; }
  uint64_t records(size_t node) const { return nodes_[node]->table(TableId(0))->records(); }
  void pass_ms(int ms) {
    wall_.now += static_cast<uint64_t>(ms) * 1'000'000;
    clock_.now += static_cast<uint64_t>(ms) * 1'000'000;
  }
};

TEST_F(RolesTest, ClientsOfAComputeNodeFindAllKeys) {
  const Fd client = connect_to(0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(client, "SET k" + std::to_string(i) + " v"), "+OK\r\n");
  EXPECT_EQ(ask(client, "MGET k0 k7 k19"), "*3\r\n$1\r\nv\r\n$1\r\nv\r\n$1\r\nv\r\n");
  EXPECT_EQ(ask(client, "INCR n"), ":1\r\n");
  EXPECT_EQ(ask(client, "DEL k0 k1"), ":2\r\n");
  EXPECT_EQ(ask(client, "DBSIZE"), ":19\r\n");
  EXPECT_EQ(records(0), 0U);
  EXPECT_EQ(records(1), 19U);
  EXPECT_EQ(records(2), 19U);
}

TEST_F(RolesTest, AMemoryNodeRefusesByName) {
  const Fd client = connect_to(1);
  const std::string refused =
      "-ERR rejected: this node holds data and runs no transactions (node.roles); ask 10.0.0.1:7379\r\n";
  EXPECT_EQ(ask(client, "SET k v"), refused);
  EXPECT_EQ(ask(client, "GET k"), refused);
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n") << "what concerns the node itself is answered";
}

TEST_F(RolesTest, AClientThatAddsUpTheNodesKeysCountsEachOnce) {
  const Fd client = connect_to(0);
  for (int i = 0; i < 20; ++i) ask(client, "SET k" + std::to_string(i) + " v");
  ask(client, "CLUSTER INFO");
  EXPECT_EQ(ask(client, "DBSIZE"), ":20\r\n");
}

TEST_F(RolesTest, WhatNobodyReadsIsSweptAway) {
  const Fd client = connect_to(0);
  for (int i = 0; i < 300; ++i) {
    ask(client, "SET k" + std::to_string(i) + " v PX " + std::to_string(i % 2 == 0 ? kForgottenMs : 100'000'000));
  }
  pass_ms(kForgottenMs);
  EXPECT_EQ(records(1), 300U);
  for (int i = 0; i < 4000 && records(1) > 150; ++i) {
    pass_ms(50);
    steps(20);
  }
  EXPECT_EQ(records(1), 150U);
  EXPECT_EQ(records(2), 150U);
}

// A page of a primary's table is a small part of it, and each partition is in all of it.
class LargeTest : public RolesTest {
 protected:
  void shape(ClusterSpec& spec) override {
    RolesTest::shape(spec);
    spec.options.partitions = 32;
    spec.tables[0].capacity = 500'000;
  }
};

TEST_F(LargeTest, TheFirstRoundOverALargeTableTakesAMinute) {
  const Fd client = connect_to(0);
  for (int i = 0; i < 300; ++i) ask(client, "SET k" + std::to_string(i) + " v PX " + std::to_string(kForgottenMs));
  pass_ms(kForgottenMs);
  EXPECT_EQ(records(1), 300U);
  int passed_ms = 0;
  for (; passed_ms < 200'000 && records(1) > 0; passed_ms += 5) {
    pass_ms(5);
    steps(20);
  }
  EXPECT_EQ(records(1), 0U);
  EXPECT_LT(passed_ms, 65'000);
}

// Where no replica answers clients, the slots of its partitions are divided between those that do.
class SlotsTest : public RolesTest {
 protected:
  void shape(ClusterSpec& spec) override {
    RolesTest::shape(spec);
    spec.options.roles = {NodeRoles::kTransactions, NodeRoles::kData, NodeRoles::kTransactions};
    spec.options.replicas = 1;
  }
  void shape_view(View& view) override {
    view.members[0].clients = "10.0.0.1:7379";
    view.members[2].clients = "10.0.0.3:7379";
  }
};

TEST_F(SlotsTest, ComputeNodesHaveTheSlotsOfMemoryNodes) {
  const Fd client = connect_to(0);
  const std::string nodes = ask(client, "CLUSTER NODES");
  EXPECT_NE(nodes.find("10.0.0.1:7379@7379 myself,master - 0 0 1 connected 0-2047 4096-6143 8192-10239 12288-14335\n"),
            std::string::npos)
      << nodes;
  EXPECT_NE(nodes.find("10.0.0.3:7379@7379 master - 0 0 1 connected 2048-4095 6144-8191 10240-12287 14336-16383\n"),
            std::string::npos)
      << nodes;
  const std::string slots = ask(client, "CLUSTER SLOTS");
  EXPECT_EQ(slots.substr(0, 4), "*8\r\n");
  EXPECT_NE(slots.find("*3\r\n:2048\r\n:4095\r\n*4\r\n$8\r\n10.0.0.3\r\n:7379\r\n"), std::string::npos) << slots;
  // Each counts half of the partitions.
  const Fd other = connect_to(2);
  for (int i = 0; i < 40; ++i) ask(other, "SET k" + std::to_string(i) + " v");
  ask(other, "CLUSTER INFO");
  const int here = std::stoi(ask(client, "DBSIZE").substr(1)), there = std::stoi(ask(other, "DBSIZE").substr(1));
  EXPECT_EQ(here + there, 40);
  EXPECT_GT(here, 0);
  EXPECT_GT(there, 0);
}

}  // namespace
}  // namespace weft
