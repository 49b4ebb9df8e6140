// SCAN returns every key that exists from its start to its end, whatever else happens: at nodes that have no replica
// of some partitions, while others come and go, while the index grows, and through a view change.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "weft/base/random.h"
#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class WalkTest : public FrontendTest {
 protected:
  void shape(ClusterSpec& spec) override {
    spec.options.replicas = 2;
    spec.tables[0].partition = PartitionBy::kRedisSlot;
  }
  void fill(const Fd& client, const std::string& prefix, int count) {
    for (int i = 0; i < count; ++i) ASSERT_EQ(ask(client, "SET " + prefix + std::to_string(i) + " v"), "+OK\r\n");
  }
  // The strings of a reply, in order.
  static std::vector<std::string> bulks(const std::string& reply) {
    std::vector<std::string> out;
    for (size_t at = reply.find('$'); at != std::string::npos && at < reply.size();) {
      const size_t end = reply.find("\r\n", at);
      if (reply[at] == '$') {
        const size_t bytes = std::stoul(reply.substr(at + 1, end - at - 1));
        out.push_back(reply.substr(end + 2, bytes));
        at = end + 2 + bytes + 2;
      } else {
        at = end + 2;
      }
    }
    return out;
  }
  // One page; returns the next cursor.
  std::string scan(const Fd& client, const std::string& cursor, const std::string& options,
                   std::set<std::string>* seen) {
    const std::vector<std::string> reply = bulks(ask(client, "SCAN " + cursor + " " + options));
    EXPECT_FALSE(reply.empty());
    if (reply.empty()) return "0";
    seen->insert(reply.begin() + 1, reply.end());
    return reply[0];
  }
};

// A transaction of as many keys as a page has would exceed its limit of bytes.
class SmallTransactions : public WalkTest {
 protected:
  void shape(ClusterSpec& spec) override {
    WalkTest::shape(spec);
    spec.options.limits.txn_bytes_max = 1024;
  }
};

TEST_F(SmallTransactions, LargeValuesAreFlushed) {
  const Fd client = connect_to(0);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ask(client, "SET k" + std::to_string(i) + " " + std::string(60, 'x')), "+OK\r\n");
  }
  EXPECT_EQ(ask(client, "FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(ask(client, "DBSIZE"), ":0\r\n");
}

// Others may have continued without it: its data may be out of date.
TEST_F(WalkTest, NothingIsSaidWithoutALease) {
  const Fd client = connect_to(0);
  fill(client, "k", 3);
  for (const char* command : {"DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY"}) {
    nodes_[0]->state().lease.set_until(1);
    say(client, command);
    steps(2000);
    char early;
    EXPECT_EQ(recv(client.get(), &early, 1, MSG_DONTWAIT | MSG_PEEK), -1) << command;
    nodes_[0]->state().lease.set_until(UINT64_MAX);
    EXPECT_NE(answer(client), "") << command;
  }
}

TEST_F(WalkTest, AllKeysAtAnyNode) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "DBSIZE"), ":0\r\n");
  EXPECT_EQ(ask(client, "RANDOMKEY"), "$-1\r\n");
  fill(client, "k", 300);
  for (size_t n = 0; n < kNodes; ++n) {
    const Fd asks = connect_to(n);
    for (const char* options : {"", "COUNT 1", "COUNT 1000"}) {
      std::set<std::string> seen;
      std::string cursor = "0";
      int pages = 0;
      do {
        cursor = scan(asks, cursor, options, &seen);
        ASSERT_LT(++pages, 1000);
      } while (cursor != "0");
      EXPECT_EQ(seen.size(), 300U) << n << options;
    }
    EXPECT_EQ(ask(asks, "DBSIZE"), ":300\r\n");
    EXPECT_EQ(bulks(ask(asks, "KEYS k1?")).size(), 10U);
    std::set<std::string> random;
    for (int i = 0; i < 50; ++i) random.insert(ask(asks, "RANDOMKEY"));
    EXPECT_GT(random.size(), 10U);
  }
  EXPECT_EQ(ask(client, "FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(ask(client, "DBSIZE"), ":0\r\n");
  EXPECT_EQ(ask(client, "KEYS *"), "*0\r\n");
}

// Cluster-aware tools ask each master and add up.
TEST_F(WalkTest, WhoAsksForTheClusterCountsWhatANodeIsPrimaryOf) {
  const Fd client = connect_to(0);
  fill(client, "k", 300);
  int all = 0;
  for (size_t n = 0; n < kNodes; ++n) {
    const Fd asks = connect_to(n);
    EXPECT_NE(ask(asks, "CLUSTER NODES"), "");
    const int own = std::stoi(ask(asks, "DBSIZE").substr(1));
    EXPECT_GT(own, 50);
    all += own;
    EXPECT_EQ(ask(asks, "RESET"), "+RESET\r\n");
    EXPECT_EQ(ask(asks, "DBSIZE"), ":300\r\n");
  }
  EXPECT_EQ(all, 300);
}

TEST_F(WalkTest, AnyCursorIsTakenOrRefused) {
  const Fd client = connect_to(0);
  fill(client, "k", 20);
  for (const char* cursor : {"1", "12345", "18446744073709551615", "9223372036854775808"}) {
    std::set<std::string> seen;
    scan(client, cursor, "", &seen);
  }
  EXPECT_EQ(ask(client, "SCAN 18446744073709551616"), "-ERR invalid cursor\r\n");
  EXPECT_EQ(ask(client, "SCAN -1"), "-ERR invalid cursor\r\n");
}

TEST_F(WalkTest, WhatStaysIsSeenWhileOthersComeAndGo) {
  const Fd client = connect_to(0);
  Random random(1);
  fill(client, "stays", 200);
  for (int round = 0; round < 5; ++round) {
    std::set<std::string> seen;
    std::string cursor = "0";
    do {
      cursor = scan(connect_to(random.below(kNodes)), cursor, "COUNT 7", &seen);
      for (int i = 0; i < 5; ++i) {
        const std::string other = "other" + std::to_string(random.below(3000));
        ask(client, (random.below(3) == 0 ? "DEL " : "APPEND ") + other + (random.below(2) == 0 ? " x" : " y"));
      }
    } while (cursor != "0");
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(seen.contains("stays" + std::to_string(i))) << i;
  }
}

TEST_F(WalkTest, TheCursorSurvivesAChangeOfTheView) {
  for (int before = 0; before < 30; before += 5) {
    SetUp();
    {
      const Fd client = connect_to(0);
      fill(client, "k", 200);
    }
    std::set<std::string> seen;
    std::string cursor = "0";
    for (int i = 0; i < before && (i == 0 || cursor != "0"); ++i) {
      cursor = scan(connect_to(static_cast<size_t>(i) % kNodes), cursor, "COUNT 5", &seen);
    }
    if (before > 0 && cursor == "0") break;
    const auto next = view_without(NodeId(2));
    nodes_[0]->state().views.publish(next);
    nodes_[1]->state().views.publish(next);
    steps(200);
    int pages = 0;
    do {
      cursor = scan(connect_to(static_cast<size_t>(pages) % 2), cursor, "COUNT 5", &seen);
      ASSERT_LT(++pages, 1000);
    } while (cursor != "0");
    EXPECT_EQ(seen.size(), 200U) << before;
  }
}

}  // namespace
}  // namespace weft
