// Commands that are executed at the primary of their keys: they answer as everywhere, and what cannot be done there is
// done where the client is.
#include "weft/redis/shipped_commands.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/random.h"
#include "weft/redis/command_script_testing.h"

namespace weft {
namespace {

// Three nodes; each key has one replica, so that two of three nodes ship what concerns it.
class ShippedCommandsTest : public CommandScriptTest {
 protected:
  void shape(ClusterSpec& spec) override {
    spec.options.protocol = "hop";
    spec.options.replicas = replicas_;
    spec.tables[0].value_bytes_max = 40'000;
    spec.options.limits.value_bytes_max = 40'000;
    spec.procedures.push_back(redis_procedure());
    options_.procedure = ProcedureId(0);
  }
  void start_with(int replicas) {
    replicas_ = replicas;
    SetUp();
  }
  uint64_t shipped() {
    uint64_t sum = 0;
    for (size_t n = 0; n < kNodes; ++n) sum += txn_worker(n)->counters().shipped;
    return sum;
  }
  // The n-th key whose primary is this node.
  std::string key_of(size_t node, int n = 0) {
    for (int i = 0;; ++i) {
      std::string key = "key:" + std::to_string(i);
      if (Session(txn_worker(0)).primary_of(TableId(0), key) == NodeId(static_cast<uint8_t>(node)) && n-- == 0)
        return key;
    }
  }
  // The reply, and how many transactions were shipped for it.
  std::pair<std::string, uint64_t> counted(const Fd& client, const std::string& line) {
    const uint64_t before = shipped();
    std::string reply = ask(client, line);
    return {reply, shipped() - before};
  }
  using Reply = std::pair<std::string, uint64_t>;
  static DetachedTask call(Session session, std::string arguments, bool* done) {
    std::string reply;
    Task<Outcome> shipped = session.ship(ProcedureId(0), arguments, &reply);
    co_await shipped;
    Task<Outcome> task = session.call(ProcedureId(0), arguments, &reply);
    co_await task;
    *done = true;
  }

  int replicas_ = 2;
};

TEST_F(ShippedCommandsTest, RepliesAreThoseOfRedis) {
  for (const int replicas : {1, 2, 3}) {
    SCOPED_TRACE(replicas);
    start_with(replicas);
    EXPECT_GT(run_script(), 900U);
    EXPECT_GT(shipped(), 100U);
  }
}

TEST_F(ShippedCommandsTest, OneMessageGoesThereAndTheReplyComesBack) {
  const Fd client = connect_to(0);
  const std::string k = key_of(1), l = key_of(1, 1), here = key_of(0), other = key_of(2);
  EXPECT_EQ(counted(client, "INCR " + k), Reply(":1\r\n", 1));
  EXPECT_EQ(counted(client, "GET " + k), Reply("$1\r\n1\r\n", 1));
  EXPECT_EQ(counted(client, "MSET " + k + " 5 " + l + " 6"), Reply("+OK\r\n", 1));
  EXPECT_EQ(counted(client, "MGET " + k + " " + l + " " + k), Reply("*3\r\n$1\r\n5\r\n$1\r\n6\r\n$1\r\n5\r\n", 1));
  EXPECT_EQ(counted(client, "APPEND " + k + " x\r\nINCR " + k + "\r\nDEL " + k + "\r\nSET " + k + " 7\r\nINCR " + k),
            Reply(":2\r\n-ERR value is not an integer or out of range\r\n:1\r\n+OK\r\n:8\r\n", 1));
  EXPECT_EQ(counted(client, "MSET " + here + " 1 " + k + " 1"), Reply("+OK\r\n", 1)) << "what is here goes along";
  EXPECT_EQ(counted(client, "INCR " + here), Reply(":2\r\n", 0));
  EXPECT_EQ(counted(client, "MSET " + k + " 1 " + other + " 1"), Reply("+OK\r\n", 0)) << "two other primaries";
  EXPECT_EQ(counted(client, "PING"), Reply("+PONG\r\n", 0));
}

TEST_F(ShippedCommandsTest, ExecHopsWithWhatItWatches) {
  const Fd client = connect_to(0), other = connect_to(2);
  const std::string k = key_of(1), l = key_of(1, 1);
  const auto exec = [&](bool changes) {
    EXPECT_EQ(ask(client, "WATCH " + k), "+OK\r\n");
    EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
    EXPECT_EQ(ask(client, "INCR " + l), "+QUEUED\r\n");
    EXPECT_EQ(ask(client, "GET " + l), "+QUEUED\r\n");
    if (changes) ask(other, "SET " + k + " 1");
    steps(10);  // until its lock is released
    return counted(client, "EXEC");
  };
  EXPECT_EQ(exec(false), Reply("*2\r\n:1\r\n$1\r\n1\r\n", 1));
  EXPECT_EQ(exec(true), Reply("*-1\r\n", 1));
  EXPECT_EQ(exec(false), Reply("*2\r\n:2\r\n$1\r\n2\r\n", 1));
  ask(client, "SET " + k + " 1 PX 10");
  EXPECT_EQ(ask(client, "WATCH " + k), "+OK\r\n");
  wall_.now += 20'000'000;
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  EXPECT_EQ(ask(client, "INCR " + l), "+QUEUED\r\n");
  EXPECT_EQ(ask(client, "EXEC"), "*-1\r\n") << "its deadline has passed";
}

TEST_F(ShippedCommandsTest, WhatCannotBeDoneThereIsDoneHere) {
  const Fd client = connect_to(0);
  const std::string k = key_of(1);
  const std::string text(30'000, 'x');
  EXPECT_EQ(counted(client, "SET " + k + " " + text), Reply("+OK\r\n", 0)) << "too long to be sent";
  EXPECT_EQ(ask(client, "STRLEN " + k), ":30000\r\n");
  EXPECT_EQ(ask(client, "GETRANGE " + k + " 0 2"), "$3\r\nxxx\r\n");
  EXPECT_EQ(ask(client, "APPEND " + k + " y"), ":30001\r\n");
  EXPECT_EQ(ask(client, "SETRANGE " + k + " 35000 z"), ":35001\r\n");
  EXPECT_EQ(ask(client, "GETRANGE " + k + " 29999 30000"), "$2\r\nxy\r\n");
  EXPECT_EQ(ask(client, "SETRANGE " + k + " 100000 z"),
            "-ERR string exceeds maximum allowed size: store.value_bytes_max is 39991, asked for 100001\r\n");
  // After sixteen transactions it is tried again, once.
  EXPECT_EQ(ask(client, "SET " + k + " 1"), "+OK\r\n");
  uint64_t tries = 0;
  for (int i = 0; i < 20; ++i) tries += counted(client, "INCR " + k).second;
  EXPECT_GE(tries, 3U);
  // A command that only reads does not delete what has expired.
  ask(client, "SET " + k + " 1 PX 10");
  wall_.now += 20'000'000;
  EXPECT_EQ(ask(client, "GET " + k), "$-1\r\n");
  EXPECT_EQ(ask(client, "EXISTS " + k), ":0\r\n");
}

// WEFT MULTI promises one try of the transaction with that id, so this is not done here by itself.
TEST_F(ShippedCommandsTest, WhatCannotBeDoneThereIsSaidAfterWeftMulti) {
  const Fd client = connect_to(0);
  const std::string k = key_of(1);
  ask(client, "SET " + k + " 1 PX 10");
  wall_.now += 20'000'000;
  const std::string id = begin(client, {"GET " + k});
  EXPECT_EQ(counted(client, "EXEC"), Reply("-ABORTED nothing happened: it could not be executed at the primary of its "
                                           "keys; its next try runs here\r\n",
                                           1));
  EXPECT_EQ(ask(client, "WEFT OUTCOME " + id), "+aborted\r\n");
  begin(client, {"GET " + k});
  EXPECT_EQ(counted(client, "EXEC"), Reply("*1\r\n$-1\r\n", 0));
}

TEST_F(ShippedCommandsTest, DeadlinesAreKnownWhereTheClientIs) {
  const Fd client = connect_to(0);
  const std::string k = key_of(1);
  EXPECT_EQ(counted(client, "SET " + k + " 1 PX 5000"), Reply("+OK\r\n", 1));
  EXPECT_EQ(counted(client, "PTTL " + k), Reply(":5000\r\n", 1));
  EXPECT_EQ(counted(client, "SET " + k + " 2 KEEPTTL"), Reply("+OK\r\n", 1));
  wall_.now += 6'000'000'000;
  EXPECT_EQ(ask(client, "GET " + k), "$-1\r\n");
}

// Its arguments come from other nodes: whatever they are, decoding them ends, and names no more keys than allowed.
TEST_F(ShippedCommandsTest, BrokenArgumentsAreNoCommands) {
  CommandList list;
  const std::vector<std::string_view> set = {"SET", "a", "1"}, get = {"mget", "a", "b"};
  list.add(find_command("set"), set);
  list.add(find_command("mget"), get);
  Client client{ClientStream(Fd(), nullptr), {}};
  client.watched.push_back({"w", Version(7), Epoch(1)});
  const CommandBatch batch{&client, &list, 0, 2, true};
  const std::string right = encode_commands(TableId(0), 1, 100, {&batch, 1});
  const StoredProcedure procedure = redis_procedure();
  Random random(1);
  const Fd node = connect_to(0);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = right;
    for (uint64_t n = random.between(1, 4); n > 0; --n) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    }
    if (random.below(4) == 0) bytes.resize(random.below(bytes.size()));
    if (random.below(4) == 0) bytes.append(random.below(20), 'x');
    bool done = false;
    call(Session(txn_worker(0)), bytes, &done);
    for (int step = 0; step < 100 && !done; ++step) steps(1);
    ASSERT_TRUE(done);
  }
  EXPECT_EQ(ask(node, "INCR " + key_of(1)), ":1\r\n") << "no peer was closed for it";
}

TEST_F(ShippedCommandsTest, BrokenRepliesAreSeen) {
  CommandList list;
  const std::vector<std::string_view> get = {"GET", "a"};
  list.add(find_command("get"), get);
  const CommandBatch batch{nullptr, &list, 0, 1, false};
  const auto decodes = [&](const std::string& bytes) {
    CommandReplies replies;
    return CommandReplies::decode(bytes, {&batch, 1}, &replies);
  };
  // A reply, an error of command 0, hits and misses, a deadline.
  std::string right("\3\0\0\0+A\n\1\0\0\0\0\0\0\0\3\0\0\0ERR", 22);
  right += std::string(16, '\0') + std::string("\1\0\0\0", 4) + std::string(8, '\1') + std::string("\1\0\0\0k", 5);
  EXPECT_TRUE(decodes(right));
  for (size_t bytes = 0; bytes < right.size(); ++bytes) EXPECT_FALSE(decodes(right.substr(0, bytes))) << bytes;
  EXPECT_FALSE(decodes(right + "x"));
  std::string other = right;
  other[11] = 1;  // an error of command 1, which there is none of
  EXPECT_FALSE(decodes(other));
}

}  // namespace
}  // namespace weft
