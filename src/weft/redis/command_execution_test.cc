// Commands that arrive together run together: in order, split where a limit or a conflict requires it, and without any
// visible difference except for the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class FrontRunTest : public FrontendTest {
 protected:
  // Reads until that many bytes have arrived.
  std::string talk(const Fd& client, const std::string& commands, size_t bytes) {
    say(client, commands);
    std::string heard;
    while (heard.size() < bytes) {
      const std::string more = answer(client);
      if (more.empty()) break;
      heard += more;
    }
    return heard;
  }
};

TEST_F(FrontRunTest, InTheOrderSent) {
  const Fd client = connect_to(0);
  const std::string expected =
      "+OK\r\n:2\r\n$1\r\n2\r\n:1\r\n$-1\r\n+PONG\r\n:1\r\n-ERR value is not an integer or out of range\r\n";
  EXPECT_EQ(
      talk(client, "SET a 1\r\nINCR a\r\nGET a\r\nDEL a\r\nGET a\r\nPING\r\nINCR a\r\nINCRBY a x", expected.size()),
      expected);
}

TEST_F(FrontRunTest, OneTransactionForMany) {
  const Fd client = connect_to(0);
  std::string commands = "SET k0 v";
  std::string expected = "+OK\r\n";
  for (int i = 1; i < 60; ++i) {
    commands += "\r\nSET k" + std::to_string(i) + " v";
    expected += "+OK\r\n";
  }
  const uint64_t before = txn_worker(0)->counters().committed;
  EXPECT_EQ(talk(client, commands, expected.size()), expected);
  EXPECT_EQ(txn_worker(0)->counters().committed, before + 1);
}

TEST_F(FrontRunTest, MoreKeysThanATransactionHas) {
  const Fd client = connect_to(0);
  std::string commands = "PING";
  std::string expected = "+PONG\r\n";
  for (int i = 0; i < 1000; ++i) {
    commands += "\r\nINCR k" + std::to_string(i % 300);
    expected += ":" + std::to_string(i / 300 + 1) + "\r\n";
  }
  EXPECT_EQ(talk(client, commands, expected.size()), expected);
}

// Values that are too large together, though each of them fits: the transaction is halved.
TEST_F(FrontRunTest, MoreBytesThanATransactionHas) {
  const Fd client = connect_to(0);
  const std::string value(60, 'x');
  for (int i = 0; i < 40; ++i) ask(client, "SET k" + std::to_string(i) + " " + value);
  std::string commands = "PING";
  std::string expected = "+PONG\r\n";
  for (int i = 0; i < 40; ++i) {
    commands += "\r\nGET k" + std::to_string(i);
    expected += "$60\r\n" + value + "\r\n";
  }
  EXPECT_EQ(talk(client, commands, expected.size()), expected);
}

// Two clients add to the same keys, many at a time: nothing is lost.
TEST_F(FrontRunTest, WhoMeetsOthersIsTriedAgain) {
  std::vector<Fd> clients;
  for (size_t n = 0; n < kNodes; ++n) clients.push_back(connect_to(n));
  constexpr int kRounds = 20;
  constexpr int kKeys = 12;
  for (int round = 0; round < kRounds; ++round) {
    for (const Fd& client : clients) {
      std::string commands = "PING";
      for (int i = 0; i < kKeys; ++i) commands += "\r\nINCR k" + std::to_string(i);
      say(client, commands);
    }
    for (const Fd& client : clients) {
      size_t replies = 0;
      while (replies < kKeys + 1) {
        const std::string more = answer(client);
        ASSERT_FALSE(more.empty());
        replies += static_cast<size_t>(std::count(more.begin(), more.end(), '\n'));
        EXPECT_EQ(more.find('-'), std::string::npos) << more;
      }
    }
  }
  for (int i = 0; i < kKeys; ++i) {
    EXPECT_EQ(ask(clients[0], "GET k" + std::to_string(i)), "$2\r\n" + std::to_string(kRounds * 3) + "\r\n");
  }
}

// Many connections of all nodes at one key, in pipelines and in MULTI, with and without a watch, and some whose
// replies are too long: each number is given once, and to each connection in order.
class FrontLineTest : public FrontRunTest {
 protected:
  void shape(ClusterSpec&) override { options_.reply_bytes_max = 200; }
  // That many lines; empty if they do not come.
  std::vector<std::string> lines(const Fd& client, size_t count) {
    std::string heard;
    while (static_cast<size_t>(std::count(heard.begin(), heard.end(), '\n')) < count) {
      const std::string more = answer(client);
      if (more.empty()) return {};
      heard += more;
    }
    std::vector<std::string> all;
    for (size_t at = 0; at < heard.size(); at = heard.find('\n', at) + 1) {
      all.push_back(heard.substr(at, heard.find('\r', at) - at));
    }
    return all;
  }
  static uint64_t number(const std::string& line) { return line[0] == ':' ? std::stoull(line.substr(1)) : 0; }
};

TEST_F(FrontLineTest, EachHasItsOwnAnswer) {
  constexpr size_t kClients = 24;
  constexpr size_t kRounds = 10;
  std::vector<Fd> clients;
  for (size_t n = 0; n < kClients; ++n) clients.push_back(connect_to(n % kNodes));
  ask(clients[0], "SET long " + std::string(60, 'x'));
  // Together the replies are too long, so the batch is run in pieces.
  std::string halved = "INCR hot";
  for (int i = 0; i < 6; ++i) halved += "\r\nGET long";
  halved += "\r\nINCR hot";
  std::vector<uint64_t> last(kClients);
  std::map<uint64_t, size_t> given;
  const auto note = [&](size_t c, const std::string& line) {
    const uint64_t value = number(line);
    EXPECT_GT(value, last[c]) << line;
    last[c] = value;
    ++given[value];
  };
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t c = 0; c < kClients; ++c) {
      if (c % 4 == 0) say(clients[c], "MULTI\r\nINCR hot\r\nEXEC");
      if (c % 4 == 1) say(clients[c], "WATCH hot\r\nMULTI\r\nINCR hot\r\nEXEC");
      if (c % 8 == 2) say(clients[c], "INCR hot\r\nINCR a\r\nINCR hot");
      if (c % 8 == 6) say(clients[c], halved);
      if (c % 4 == 3) say(clients[c], "MULTI\r\nGET long\r\nGET long\r\nGET long\r\nGET long\r\nINCR hot\r\nEXEC");
    }
    for (size_t c = 0; c < kClients; ++c) {
      const size_t count = c % 4 == 0 ? 4 : c % 4 == 1 ? 4 : c % 8 == 2 ? 3 : c % 8 == 6 ? 14 : 7;
      std::vector<std::string> heard = lines(clients[c], count);
      ASSERT_GE(heard.size(), count);
      if (c % 4 == 0) note(c, heard[3]);
      if (c % 4 == 1 && heard[3] == "*1") {
        if (heard.size() < 5) heard.push_back(lines(clients[c], 1).at(0));
        note(c, heard[4]);
      } else if (c % 4 == 1) {
        EXPECT_EQ(heard[3], "*-1");
      }
      if (c % 8 == 2) note(c, heard[0]), note(c, heard[2]);
      if (c % 8 == 6) note(c, heard[0]), note(c, heard[13]);
      if (c % 4 == 3) {
        EXPECT_EQ(heard[6], "-ERR the reply is too long, and nothing was done: reply_bytes_max is 200");
      }
    }
  }
  for (const auto& [value, times] : given) EXPECT_EQ(times, 1U) << value;
  ASSERT_FALSE(given.empty());
  EXPECT_EQ(given.rbegin()->first, given.size());
  EXPECT_EQ(ask(clients[0], "INCR hot"), ":" + std::to_string(given.size() + 1) + "\r\n");
}

// Waiters in a queue run in the transaction of its leader.
TEST_F(FrontLineTest, FewerTransactionsThanCommands) {
  constexpr size_t kClients = 32;
  constexpr size_t kRounds = 20;
  std::vector<Fd> clients;
  for (size_t n = 0; n < kClients; ++n) clients.push_back(connect_to(0));
  const uint64_t before = txn_worker(0)->counters().committed;
  for (size_t round = 0; round < kRounds; ++round) {
    for (const Fd& client : clients) say(client, "INCR hot");
    for (const Fd& client : clients) ASSERT_EQ(lines(client, 1).size(), 1U);
  }
  EXPECT_EQ(ask(clients[0], "GET hot"), "$3\r\n" + std::to_string(kClients * kRounds) + "\r\n");
  EXPECT_LT(txn_worker(0)->counters().committed - before, kClients * kRounds / 2);
}

TEST_F(FrontRunTest, RepliesThatNobodyWants) {
  const Fd client = connect_to(0);
  EXPECT_EQ(talk(client, "CLIENT REPLY OFF\r\nSET a 1\r\nGET a\r\nNOSUCH\r\nCLIENT REPLY ON", 5), "+OK\r\n");
  EXPECT_EQ(ask(client, "GET a"), "$1\r\n1\r\n");
  EXPECT_EQ(talk(client, "CLIENT REPLY SKIP\r\nSET a 2\r\nGET a", 7), "$1\r\n2\r\n");
  EXPECT_EQ(talk(client, "CLIENT REPLY SKIP\r\nPING\r\nPING", 7), "+PONG\r\n");
}

TEST_F(FrontRunTest, Resp3) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "HELLO 3").substr(0, 4), "%7\r\n");
  EXPECT_EQ(ask(client, "GET none"), "_\r\n");
  EXPECT_EQ(ask(client, "CONFIG GET save"), "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
  EXPECT_EQ(ask(client, "CLIENT GETNAME"), "_\r\n");
  ask(client, "WATCH k");
  ask(client, "SET k 1");
  ask(client, "MULTI");
  EXPECT_EQ(ask(client, "EXEC"), "_\r\n");
  EXPECT_EQ(ask(client, "RESET"), "+RESET\r\n");
  EXPECT_EQ(ask(client, "GET none"), "$-1\r\n");
}

TEST_F(FrontRunTest, TheClusterAsClientsSeeIt) {
  const Fd client = connect_to(1);
  EXPECT_EQ(ask(client, "CLUSTER KEYSLOT foo"), ":12182\r\n");
  EXPECT_EQ(ask(client, "CLUSTER KEYSLOT {foo}bar"), ":12182\r\n");
  EXPECT_EQ(ask(client, "CLUSTER SLOTS"), "*0\r\n");  // no node announces an address for clients
  EXPECT_NE(ask(client, "CLUSTER INFO").find("cluster_state:ok\r\n"), std::string::npos);
  EXPECT_EQ(ask(client, "CLUSTER MYID").substr(0, 5), "$40\r\n");
  EXPECT_EQ(ask(client, "READONLY"), "+OK\r\n");
  EXPECT_EQ(ask(client, "ROLE"), "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
  EXPECT_EQ(ask(client, "WAIT 5 0"), ":2\r\n");  // three replicas, one of them the primary
  EXPECT_EQ(ask(client, "SELECT 3"), "-ERR DB index is out of range: there is database 0 alone, asked for 3\r\n");
  EXPECT_NE(ask(client, "CLUSTER HELP").find("SHARDS"), std::string::npos);
}

TEST_F(FrontRunTest, WhatAServerSaysOfItself) {
  const Fd client = connect_to(0);
  const std::string info = ask(client, "INFO");
  for (const char* part : {"# Server\r\nredis_version:7.0.15\r\n", "\r\n# Clients\r\nconnected_clients:1\r\n",
                           "\r\nloading:0\r\n", "\r\n# Cluster\r\ncluster_enabled:1\r\n"}) {
    EXPECT_NE(info.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(ask(client, "INFO keyspace").find("Server"), std::string::npos);
  EXPECT_NE(ask(client, "INFO stats").find("total_commands_processed:3\r\n"), std::string::npos);
  EXPECT_EQ(ask(client, "TIME"), "*2\r\n$10\r\n1800000000\r\n$1\r\n0\r\n");
  EXPECT_EQ(ask(client, "CLIENT ID"), ":1\r\n");
  EXPECT_NE(ask(client, "CLIENT LIST").find("id=1 addr=127.0.0.1:"), std::string::npos);
  EXPECT_NE(ask(client, "CLIENT INFO").find("cmd=client|info"), std::string::npos);
  EXPECT_EQ(ask(client, "CLIENT SETINFO LIB-NAME x"), "+OK\r\n");
  EXPECT_EQ(ask(client, "COMMAND COUNT").substr(0, 1), ":");
  EXPECT_EQ(ask(client, "COMMAND INFO get").substr(0, 30), "*1\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+rea");
  EXPECT_NE(ask(client, "COMMAND DOCS get").find("summary"), std::string::npos);
  EXPECT_EQ(ask(client, "COMMAND LIST FILTERBY ACLCAT transaction"),
            "*8\r\n$7\r\ndiscard\r\n$4\r\nexec\r\n$5\r\nmulti\r\n$7\r\nunwatch\r\n$5\r\nwatch\r\n"
            "$10\r\nweft|multi\r\n$12\r\nweft|outcome\r\n$9\r\nweft|scan\r\n");
  EXPECT_EQ(ask(client, "COMMAND LIST FILTERBY PATTERN " + std::string(2000, 'x')).substr(0, 28),
            "-ERR the pattern is too long");
  EXPECT_EQ(ask(client, "MEMORY USAGE none"), "$-1\r\n");
  EXPECT_EQ(ask(client, "SET k v"), "+OK\r\n");
  const std::string small = ask(client, "MEMORY USAGE k SAMPLES 5");
  EXPECT_EQ(ask(client, "SET k " + std::string(60, 'x')), "+OK\r\n");
  EXPECT_GT(std::stoi(ask(client, "MEMORY USAGE k").substr(1)), std::stoi(small.substr(1)) + 32);
  EXPECT_NE(ask(client, "MEMORY STATS").find("keys.count\r\n:1\r\n"), std::string::npos);
  EXPECT_NE(ask(client, "MEMORY DOCTOR").find("no memory problem"), std::string::npos);
  EXPECT_NE(ask(client, "OBJECT IDLETIME k").find("-ERR idle time not tracked"), std::string::npos);
  say(client, "DEBUG SLEEP 0.01");
  const Fd other = connect_to(0);
  EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
  clock_.now += 10'000'000;
  EXPECT_EQ(answer(client), "+OK\r\n");
}

}  // namespace
}  // namespace weft
