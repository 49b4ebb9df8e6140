// WEFT SCAN: ranges of keys that are kept in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/random.h"
#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class WeftScanTest : public FrontendTest {
 protected:
  void shape(ClusterSpec& spec) override {
    spec.tables[0].partition = PartitionBy::kRedisSlot;
    spec.tables[0].ordered = ordered_;
    spec.options.protocol = protocol_;
    spec.options.replicas = replicas_;
  }
  void start_with(const std::string& protocol, int replicas) {
    protocol_ = protocol;
    replicas_ = replicas;
    SetUp();
  }
  static std::string bulk(std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
  }
  static std::string reply_of(const std::vector<std::pair<std::string, std::string>>& items) {
    std::string out = "*" + std::to_string(2 * items.size()) + "\r\n";
    for (const auto& [key, value] : items) out += bulk(key) + bulk(value);
    return out;
  }

  bool ordered_ = true;
  std::string protocol_ = "dnl4";
  int replicas_ = 2;
};

// Against a map, at every node, in rows that lock their reads, validate them, and ship.
TEST_F(WeftScanTest, AnswersWhatAMapHas) {
  for (const char* protocol : {"dnl4", "dnl1", "hop"}) {
    SCOPED_TRACE(protocol);
    start_with(protocol, 2);
    std::vector<Fd> clients;
    for (size_t n = 0; n < kNodes; ++n) clients.push_back(connect_to(n));
    std::map<std::string, std::string> twin;
    Random random(7);
    const auto key = [&] { return "{t}" + std::string(1 + random.below(2), static_cast<char>('a' + random.below(8))); };
    for (int i = 0; i < 300; ++i) {
      const Fd& client = clients[random.below(kNodes)];
      const std::string name = key();
      if (random.below(3) != 0) {
        twin[name] = std::to_string(i);
        EXPECT_EQ(ask(client, "SET " + name + " " + twin[name]), "+OK\r\n");
      } else {
        EXPECT_EQ(ask(client, "DEL " + name), ":" + std::to_string(twin.erase(name)) + "\r\n");
      }
      std::string from = key(), to = key();
      if (from == to) continue;
      if (to < from) std::swap(from, to);
      std::vector<std::pair<std::string, std::string>> expected(twin.lower_bound(from), twin.lower_bound(to));
      const bool backward = random.below(2) == 0;
      if (backward) std::reverse(expected.begin(), expected.end());
      const size_t limit = 1 + random.below(6);
      expected.resize(std::min(expected.size(), limit));
      EXPECT_EQ(
          ask(client, "WEFT SCAN " + from + " " + to + " LIMIT " + std::to_string(limit) + (backward ? " REV" : "")),
          reply_of(expected));
    }
  }
}

TEST_F(WeftScanTest, WhatHasExpiredIsLeftOut) {
  const Fd client = connect_to(1);
  ask(client, "MSET {t}a 1 {t}b 2 {t}c 3");
  ask(client, "PEXPIRE {t}b 1000");
  EXPECT_EQ(ask(client, "WEFT SCAN {t}a {t}z"), reply_of({{"{t}a", "1"}, {"{t}b", "2"}, {"{t}c", "3"}}));
  wall_.now += 2'000'000'000;
  EXPECT_EQ(ask(client, "weft scan {t}a {t}z rev"), reply_of({{"{t}c", "3"}, {"{t}a", "1"}}));
}

TEST_F(WeftScanTest, WhatIsWrongIsSaid) {
  const Fd client = connect_to(0);
  const std::string options = "-ERR after the two keys come LIMIT and a number above 0, or REV, or both\r\n";
  for (const char* more : {"LIMIT", "LIMIT 0", "LIMIT -1", "LIMIT x", "LIMIT 5x", "BACK", "REV LIMIT"}) {
    EXPECT_EQ(ask(client, std::string("WEFT SCAN {t}a {t}b ") + more), options) << more;
  }
  const auto says = [&](const std::string& command, const std::string& what) {
    const std::string reply = ask(client, command);
    EXPECT_TRUE(reply.starts_with("-ERR ") && reply.find(what) != std::string::npos) << reply;
  };
  says("WEFT SCAN {t}a {u}b", "partition");
  says("WEFT SCAN a b", "partition");
  says("WEFT SCAN {t}b {t}a", "scan");
  says("WEFT SCAN {t}a {t}a", "scan");
  for (int i = 100; i < 170; ++i) ask(client, "SET {t}" + std::to_string(i) + " 1");
  says("WEFT SCAN {t}1 {t}2", "64");  // limits.txn_keys_max
  ask(client, "MULTI");
  says("WEFT SCAN {t}a {t}b", "not allowed inside a transaction");
  ask(client, "DISCARD");
  ordered_ = false;
  SetUp();
  EXPECT_EQ(ask(connect_to(0), "WEFT SCAN {t}a {t}b"),
            "-ERR the keys are not kept in order: store.ordered is false\r\n");
}

}  // namespace
}  // namespace weft
