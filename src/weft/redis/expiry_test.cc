// Deadlines: an expired key is deleted before anybody is told so, by its reader or by the sweeper.
#include <gtest/gtest.h>

#include <string>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class ExpiryTest : public FrontendTest {
 protected:
  void pass_ms(uint64_t ms) { wall_.now += ms * 1'000'000; }
  uint64_t records() const { return nodes_[0]->table(TableId(0))->records(); }
};

TEST_F(ExpiryTest, WhoReadsItDeletesIt) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(2);
  for (const char* command : {"GET k", "EXISTS k", "STRLEN k", "TTL k", "TYPE k", "MGET k", "GETRANGE k 0 1"}) {
    EXPECT_EQ(ask(client, "SET k v PX 100"), "+OK\r\n");
    pass_ms(99);
    EXPECT_EQ(ask(other, "GET k"), "$1\r\nv\r\n");
    pass_ms(1);
    EXPECT_EQ(records(), 1U);
    const std::string gone = ask(other, command);
    EXPECT_EQ(gone, ask(other, command)) << command;
    EXPECT_EQ(ask(client, "GET k"), "$-1\r\n");
    EXPECT_EQ(records(), 0U) << command;  // at a node that nobody asked
  }
}

TEST_F(ExpiryTest, WhoWritesFindsNothing) {
  const Fd client = connect_to(0);
  const auto expired = [&](const std::string& command) {
    ask(client, "SET k 5 PX 10");
    pass_ms(10);
    return ask(client, command);
  };
  EXPECT_EQ(expired("INCR k"), ":1\r\n");
  EXPECT_EQ(ask(client, "TTL k"), ":-1\r\n");
  EXPECT_EQ(expired("APPEND k x"), ":1\r\n");
  EXPECT_EQ(ask(client, "TTL k"), ":-1\r\n");
  EXPECT_EQ(expired("SET k 1 XX"), "$-1\r\n");
  EXPECT_EQ(expired("SET k 1 NX"), "+OK\r\n");
  EXPECT_EQ(expired("SET k 1 KEEPTTL"), "+OK\r\n");
  EXPECT_EQ(ask(client, "TTL k"), ":-1\r\n");
  EXPECT_EQ(expired("DEL k"), ":0\r\n");
  EXPECT_EQ(expired("RENAME k l"), "-ERR no such key\r\n");
  EXPECT_EQ(expired("EXPIRE k 100"), ":0\r\n");
  EXPECT_EQ(expired("PERSIST k"), ":0\r\n");
  EXPECT_EQ(expired("SETNX k 1"), ":1\r\n");
  ask(client, "MSET a 1 b 2");
  EXPECT_EQ(expired("RENAMENX a k"), ":1\r\n");
  EXPECT_EQ(expired("BITOP OR k b"), ":1\r\n");
  EXPECT_EQ(ask(client, "TTL k"), ":-1\r\n");
  // Twice in one transaction, and written in between.
  ask(client, "SET k 5 PX 10");
  pass_ms(10);
  ask(client, "MULTI");
  for (const char* command : {"GET k", "EXISTS k", "SET k 1", "GET k", "DEL k", "GET k"}) ask(client, command);
  EXPECT_EQ(ask(client, "EXEC"), "*6\r\n$-1\r\n:0\r\n+OK\r\n$1\r\n1\r\n:1\r\n$-1\r\n");
}

TEST_F(ExpiryTest, WalksLeaveItOut) {
  const Fd client = connect_to(0);
  ask(client, "SET k v PX 10");
  pass_ms(10);
  EXPECT_EQ(ask(client, "KEYS *"), "*0\r\n");
  EXPECT_EQ(ask(client, "SCAN 0"), "*2\r\n$1\r\n0\r\n*0\r\n");
  EXPECT_EQ(ask(client, "RANDOMKEY"), "$-1\r\n");
}

TEST_F(ExpiryTest, WhatNobodyReadsIsSweptAway) {
  const Fd client = connect_to(0);
  for (int i = 0; i < 500; ++i) {
    ask(client, "SET k" + std::to_string(i) + " v PX " + std::to_string(i % 2 == 0 ? 100 : 1'000'000));
  }
  pass_ms(100);
  EXPECT_EQ(records(), 500U);
  // The sweeper sleeps 50 ms of the other clock between steps.
  for (int i = 0; i < 2000 && records() > 250; ++i) {
    clock_.now += 50'000'000;
    steps(5);
  }
  EXPECT_EQ(records(), 250U);
  EXPECT_EQ(ask(client, "DBSIZE"), ":250\r\n");
  for (int i = 0; i < 100; ++i) {
    clock_.now += 50'000'000;
    steps(5);
  }
  EXPECT_EQ(records(), 250U);
}

// A table so large that the sweeper needs long for it.
class SoonTest : public ExpiryTest {
 protected:
  void shape(ClusterSpec& spec) override { spec.tables[0].capacity = 500'000; }

  // Half of them expire at once, written through each node; then a second and a little.
  void write_and_wait() {
    for (size_t n = 0; n < kNodes; ++n) {
      const Fd client = connect_to(n);
      for (int i = 0; i < 100; ++i) {
        const std::string key = "k" + std::to_string(n) + "." + std::to_string(i);
        EXPECT_EQ(ask(client, "SET " + key + " v PX " + (i % 2 == 0 ? "100" : "1000000")), "+OK\r\n");
      }
    }
    const Fd client = connect_to(0);
    pass_ms(99);
    EXPECT_EQ(ask(client, "DBSIZE"), ":300\r\n");
    for (int i = 0; i < 12; ++i) {
      pass_ms(100);
      clock_.now += 100'000'000;
      steps(200);
    }
    EXPECT_EQ(ask(client, "DBSIZE"), ":150\r\n");
    // A deadline that is moved, and one that is removed.
    EXPECT_EQ(ask(client, "PEXPIRE k1.1 100"), ":1\r\n");
    EXPECT_EQ(ask(client, "PEXPIRE k1.3 100"), ":1\r\n");
    EXPECT_EQ(ask(client, "PERSIST k1.3"), ":1\r\n");
    for (int i = 0; i < 15; ++i) {
      pass_ms(100);
      clock_.now += 100'000'000;
      steps(200);
    }
    EXPECT_EQ(ask(client, "DBSIZE"), ":149\r\n");
    uint64_t expired = 0;
    for (const auto& front : fronts_) expired += front->shared().stats.totals(0).expired_keys;
    EXPECT_EQ(expired, 151U);  // each counted once, by the node that deleted it
    EXPECT_EQ(ask(client, "GET k1.3"), "$1\r\nv\r\n");
  }
};

TEST_F(SoonTest, ADeadlineIsKeptWithinASecond) { write_and_wait(); }

class FarTest : public SoonTest {
 protected:
  void shape(ClusterSpec& spec) override {
    SoonTest::shape(spec);
    spec.options.replicas = 1;
  }
};

// The node that wrote a key has no replica of it.
TEST_F(FarTest, ADeadlineIsKeptWithinASecond) { write_and_wait(); }

TEST_F(ExpiryTest, AWatchedKeyThatExpiresHasChanged) {
  const Fd client = connect_to(0);
  ask(client, "SET k v PX 100");
  EXPECT_EQ(ask(client, "WATCH k"), "+OK\r\n");
  ask(client, "MULTI");
  ask(client, "SET l 1");
  pass_ms(100);
  EXPECT_EQ(ask(client, "EXEC"), "*-1\r\n");
  EXPECT_EQ(ask(client, "GET l"), "$-1\r\n");
  // A key that had already expired is watched as absent.
  ask(client, "SET k v PX 100");
  pass_ms(100);
  EXPECT_EQ(ask(client, "WATCH k"), "+OK\r\n");
  ask(client, "MULTI");
  ask(client, "SET l 1");
  EXPECT_EQ(ask(client, "EXEC"), "*1\r\n+OK\r\n");
}

}  // namespace
}  // namespace weft
