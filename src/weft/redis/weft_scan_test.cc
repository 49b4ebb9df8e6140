// WEFT SCAN: ranges of keys that are kept in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
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

  static std::string words(std::initializer_list<std::string_view> all) {
    std::string out;
    for (const std::string_view word : all) out.append(word).append(" ");
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
      const std::string command = words({"WEFT SCAN", from, to, "LIMIT", std::to_string(limit), backward ? "REV" : ""});
      EXPECT_EQ(ask(client, command), reply_of(expected));
    }
  }
}

// Against a map, in rows where who scans may write and in one where not, on any side of the keys that live.
TEST_F(WeftScanTest, KeysPastTheirDeadlineDoNotCount) {
  for (const char* protocol : {"dnl4", "dnl1", "hop"}) {
    SCOPED_TRACE(protocol);
    start_with(protocol, 2);
    std::vector<Fd> clients;
    for (size_t n = 0; n < kNodes; ++n) clients.push_back(connect_to(n));
    Random random(11);
    for (int round = 0; round < 40; ++round) {
      std::map<std::string, std::string> alive;
      const uint64_t kind = random.below(4);  // the first ones are due, the last ones, any, or all
      const uint64_t first = random.below(50);
      for (uint64_t i = 0; i < 50; ++i) {
        const std::string key = "{t}" + std::to_string(100 + i), value = std::to_string(round);
        const bool due = kind == 0 ? i < first : kind == 1 ? i >= first : kind == 2 ? random.below(2) == 0 : true;
        const Fd& client = clients[random.below(kNodes)];
        EXPECT_EQ(ask(client, words({"SET", key, value, "PX", due ? "1000" : "1000000"})), "+OK\r\n");
        if (!due) alive[key] = value;
      }
      wall_.now += 1'000'000'000;
      const bool backward = random.below(2) == 0;
      const size_t limit = 1 + random.below(60);
      std::vector<std::pair<std::string, std::string>> expected(alive.begin(), alive.end());
      if (backward) std::reverse(expected.begin(), expected.end());
      expected.resize(std::min(expected.size(), limit));
      const std::string command = "WEFT SCAN {t} {t~ LIMIT " + std::to_string(limit) + (backward ? " REV" : "");
      EXPECT_EQ(ask(clients[random.below(kNodes)], command), reply_of(expected)) << command << ", kind " << kind;
    }
  }
}

// It deletes what it leaves out, and only that: nobody whose clock is behind finds it again, by whatever command.
TEST_F(WeftScanTest, WhatIsLeftOutIsGoneForAll) {
  for (const char* protocol : {"dnl4", "dnl1", "hop"}) {
    SCOPED_TRACE(protocol);
    start_with(protocol, 2);
    const Fd client = connect_to(1), behind = connect_to(2);
    ask(client, "MSET {t}a 1 {t}b 2 {t}c 3 {t}d 4");
    ask(client, "PEXPIRE {t}b 1000");
    ask(client, "PEXPIRE {t}d 1000");
    wall_.now += 999'000'000;
    EXPECT_EQ(ask(client, "WEFT SCAN {t}a {t}z LIMIT 2"), reply_of({{"{t}a", "1"}, {"{t}b", "2"}}));
    wall_.now += 1'000'000;
    EXPECT_EQ(ask(client, "WEFT SCAN {t}a {t}d LIMIT 2"), reply_of({{"{t}a", "1"}, {"{t}c", "3"}}));
    wall_.now -= 1'000'000'000;
    EXPECT_EQ(ask(behind, "GET {t}b"), "$-1\r\n");
    EXPECT_EQ(ask(behind, "GET {t}d"), "$1\r\n4\r\n") << "it was not in the range";
    EXPECT_EQ(ask(behind, "weft scan {t}a {t}z rev"), reply_of({{"{t}d", "4"}, {"{t}c", "3"}, {"{t}a", "1"}}));
  }
}

// More of them than one transaction may have keys, before one that lives and behind it.
TEST_F(WeftScanTest, ManyKeysPastTheirDeadline) {
  const Fd client = connect_to(0);
  const auto fill = [&] {
    for (int i = 1000; i < 1300; ++i) {
      ask(client, "SET {t}" + std::to_string(i) + " 1" + (i == 1150 ? "" : " PX 1000"));
    }
    wall_.now += 1'000'000'000;
  };
  const std::string one = reply_of({{"{t}1150", "1"}});
  for (const char* options : {" LIMIT 1", " LIMIT 1 REV", " LIMIT 2", " LIMIT 40", " LIMIT 64 REV"}) {
    fill();
    EXPECT_EQ(ask(client, std::string("WEFT SCAN {t} {t~") + options), one) << options;
  }
  fill();
  EXPECT_EQ(ask(client, "WEFT SCAN {t}1151 {t~ LIMIT 3"), reply_of({}));
  fill();
  for (const char* options : {"", " LIMIT 65"}) {
    const std::string reply = ask(client, std::string("WEFT SCAN {t} {t~") + options);
    EXPECT_TRUE(reply.starts_with("-ERR ") && reply.find("limits.txn_keys_max is 64") != std::string::npos) << reply;
  }
}

// As docs/redis.md describes it: a whole tag, page by page, in both directions.
TEST_F(WeftScanTest, ARangeIsReadInPages) {
  const Fd client = connect_to(2);
  std::vector<std::pair<std::string, std::string>> all;
  for (int i = 100; i < 300; ++i) {
    all.emplace_back("{t}" + std::to_string(i), std::to_string(i));
    ask(client, "SET " + all.back().first + " " + all.back().second + "\r\nSET {u}" + std::to_string(i) + " 1");
  }
  const auto pages = [&](bool backward) {
    std::vector<std::pair<std::string, std::string>> seen;
    for (std::string last;; last = seen.back().first) {
      const std::string from = backward || last.empty() ? "{t}" : "\"" + last + "\\x00\"";
      const std::string to = backward && !last.empty() ? last : "{t~";
      const std::string reply = ask(client, words({"WEFT SCAN", from, to, "LIMIT 64", backward ? "REV" : ""}));
      const size_t before = seen.size();
      for (size_t at = reply.find('{'); at != std::string::npos; at = reply.find('{', at + 1)) {
        seen.emplace_back(reply.substr(at, 6), reply.substr(at + 3, 3));
      }
      const std::vector<std::pair<std::string, std::string>> page(seen.begin() + static_cast<ptrdiff_t>(before),
                                                                  seen.end());
      EXPECT_EQ(reply, reply_of(page));
      if (page.size() < 64) return seen;
    }
  };
  EXPECT_EQ(pages(false), all);
  std::reverse(all.begin(), all.end());
  EXPECT_EQ(pages(true), all);
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
  says("WEFT SCAN {t}1 {t}2", "limits.txn_keys_max is 64");
  ask(client, "SET {t}a 1 PX 1000");
  wall_.now += 1'000'000'000;
  ask(client, "MULTI");
  ask(client, "SET {t}b 2");
  says("WEFT SCAN {t}a {t}c LIMIT 1", "not allowed inside a transaction");
  EXPECT_EQ(ask(client, "EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
  EXPECT_EQ(ask(client, "WEFT SCAN {t}a {t}c LIMIT 1"), reply_of({}));
  ordered_ = false;
  SetUp();
  EXPECT_EQ(ask(connect_to(0), "WEFT SCAN {t}a {t}b"),
            "-ERR the keys are not kept in order: store.ordered is false\r\n");
}

}  // namespace
}  // namespace weft
