// INFO: what monitoring asks for, counted for the whole node.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "weft/redis/command_stats.h"
#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class InfoTest : public FrontendTest {
 protected:
  // A field of an INFO section, as text; "none" if there is none.
  std::string field(const Fd& client, const std::string& section, const std::string& name) {
    const std::string info = ask(client, "INFO " + section);
    const size_t at = info.find("\r\n" + name + ":");
    if (at == std::string::npos) return "none";
    const size_t from = at + name.size() + 3;
    return info.substr(from, info.find("\r\n", from) - from);
  }
  // The same for a command, without its times.
  std::string calls(const Fd& client, const std::string& command) {
    const std::string text = field(client, "commandstats", "cmdstat_" + command);
    const size_t usec = text.find(",usec="), rest = text.find(",rejected_calls=");
    return usec == std::string::npos ? text : text.substr(0, usec) + text.substr(rest);
  }
};

std::string counted(int calls, int rejected, int failed) {
  return "calls=" + std::to_string(calls) + ",rejected_calls=" + std::to_string(rejected) +
         ",failed_calls=" + std::to_string(failed);
}

TEST_F(InfoTest, SectionsAreThoseOfRedis) {
  const Fd client = connect_to(0);
  const auto headers = [&](const std::string& asked) {
    const std::string info = ask(client, "INFO" + asked);
    std::string found;
    for (size_t at = info.find("# "); at != std::string::npos; at = info.find("# ", at + 2)) {
      found += info.substr(at + 2, info.find("\r\n", at) - at - 2) + " ";
    }
    return found;
  };
  const std::string usual =
      "Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace ";
  const std::string all =
      "Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Cluster "
      "Keyspace ";
  EXPECT_EQ(headers(""), usual);
  EXPECT_EQ(headers(" default"), usual);
  EXPECT_EQ(headers(" ALL"), all);
  EXPECT_EQ(headers(" everything"), all);
  EXPECT_EQ(headers(" default commandstats"), all);
  EXPECT_EQ(headers(" clients SERVER"), "Server Clients ");
  EXPECT_EQ(ask(client, "INFO nosuch"), "$0\r\n\r\n");
}

TEST_F(InfoTest, CommandsAreCounted) {
  const Fd client = connect_to(0);
  say(client, "SET a x\r\nGET a\r\nINCR a\r\nSET a 1 BAD");
  std::string said;
  while (said.find("syntax") == std::string::npos) said += answer(client);
  EXPECT_EQ(calls(client, "set"), counted(2, 0, 1));
  EXPECT_EQ(calls(client, "get"), counted(1, 0, 0));
  EXPECT_EQ(calls(client, "incr"), counted(1, 0, 1));
  EXPECT_EQ(calls(client, "del"), "none");
  EXPECT_EQ(field(client, "errorstats", "errorstat_ERR"), "count=2");

  ask(client, "GET");        // refused before it ran
  ask(client, "NOSUCH");     // not a command
  ask(client, "CLIENT");     // has subcommands
  ask(client, "CLIENT ID");  // and one of them
  ask(client, "SELECT 9");   // not about data, and wrong
  ask(client, "SCAN nosuch");
  EXPECT_EQ(calls(client, "get"), counted(1, 1, 0));
  EXPECT_EQ(calls(client, "client"), counted(0, 1, 0));
  EXPECT_EQ(calls(client, "client|id"), counted(1, 0, 0));
  EXPECT_EQ(calls(client, "select"), counted(1, 0, 1));
  EXPECT_EQ(calls(client, "scan"), counted(1, 0, 1));
  EXPECT_EQ(field(client, "errorstats", "errorstat_ERR"), "count=7");
  EXPECT_EQ(field(client, "stats", "total_error_replies"), "7");
}

TEST_F(InfoTest, TransactionsAreCountedWhenTheyAreDone) {
  const Fd client = connect_to(0);
  ask(client, "SET a x");
  ask(client, "MULTI");
  ask(client, "INCR a");
  ask(client, "SET b 1");
  EXPECT_EQ(calls(client, "incr"), "none") << "it is queued: so is INFO";
  EXPECT_TRUE(ask(client, "EXEC").starts_with("*3\r\n-ERR value is not an integer"));
  EXPECT_EQ(calls(client, "incr"), counted(1, 0, 1));
  EXPECT_EQ(calls(client, "set"), counted(2, 0, 0));
  EXPECT_EQ(calls(client, "exec"), counted(1, 0, 0));
  ask(client, "MULTI");
  ask(client, "SET");
  EXPECT_TRUE(ask(client, "EXEC").starts_with("-EXECABORT"));
  EXPECT_EQ(calls(client, "set"), counted(2, 1, 0));
  EXPECT_EQ(calls(client, "exec"), counted(2, 0, 1));
  EXPECT_EQ(field(client, "errorstats", "errorstat_EXECABORT"), "count=1");
  // Commands that a changed watched key undoes did not run.
  ask(client, "WATCH a");
  ask(client, "SET a 1");
  ask(client, "MULTI");
  ask(client, "INCR a");
  EXPECT_EQ(ask(client, "EXEC"), "*-1\r\n");
  EXPECT_EQ(calls(client, "incr"), counted(1, 0, 1));
}

TEST_F(InfoTest, CountsBeginAnew) {
  const Fd client = connect_to(0);
  ask(client, "SET a 1");
  ask(client, "NOSUCH");
  EXPECT_EQ(ask(client, "CONFIG RESETSTAT"), "+OK\r\n");
  EXPECT_EQ(calls(client, "set"), "none");
  EXPECT_EQ(calls(client, "config|resetstat"), counted(1, 0, 0));
  EXPECT_EQ(field(client, "errorstats", "errorstat_ERR"), "none");
  EXPECT_EQ(field(client, "stats", "total_connections_received"), "0");
  EXPECT_EQ(field(client, "stats", "total_commands_processed"), "5");
  ask(client, "SET a 1");
  EXPECT_EQ(calls(client, "set"), counted(1, 0, 0));
  const Fd another = connect_to(0);
  EXPECT_EQ(field(another, "stats", "total_connections_received"), "1");
}

TEST_F(InfoTest, KeysThatAreRead) {
  const Fd client = connect_to(0);
  ask(client, "SET a 1");
  ask(client, "GET a");
  ask(client, "MGET a b c");
  ask(client, "INCR d");
  EXPECT_EQ(field(client, "stats", "keyspace_hits"), "2");
  EXPECT_EQ(field(client, "stats", "keyspace_misses"), "2");
}

TEST_F(InfoTest, WhatRedisCliStatReads) {
  const Fd client = connect_to(0);
  ask(client, "SET a 1");
  EXPECT_EQ(field(client, "keyspace", "db0").substr(0, 7), "keys=1,");
  EXPECT_NE(field(client, "memory", "used_memory"), "none");
  EXPECT_EQ(field(client, "clients", "connected_clients"), "1");
  EXPECT_EQ(field(client, "clients", "blocked_clients"), "0");
  EXPECT_EQ(field(client, "stats", "total_connections_received"), "1");
  EXPECT_EQ(field(client, "stats", "total_commands_processed"), "7");
  EXPECT_EQ(field(client, "persistence", "aof_rewrite_in_progress"), "0");
  EXPECT_EQ(field(client, "cpu", "used_cpu_user").find('.'), field(client, "cpu", "used_cpu_user").size() - 7);
}

// As counted by the sweeper, after its round.
TEST_F(InfoTest, KeysWithADeadline) {
  const Fd client = connect_to(0);
  ask(client, "SET a 1");
  ask(client, "SET b 1 EX 100");
  ask(client, "SET c 1 EX 300");
  std::string db;
  for (int i = 0; i < 1000 && db.find("expires=2") == std::string::npos; ++i) {
    clock_.now += 50'000'000;
    steps(5);
    db = field(client, "keyspace", "db0");
  }
  EXPECT_EQ(db, "keys=3,expires=2,avg_ttl=200000");
}

class FullStoreTest : public InfoTest {
 protected:
  void shape(ClusterSpec& spec) override { spec.tables[0].capacity = 8; }
};

TEST_F(FullStoreTest, IsOutOfMemoryAsRedisIs) {
  const Fd client = connect_to(0);
  std::string refused;
  int kept = 0;
  for (int i = 0; i < 20'000 && refused.empty(); ++i) {
    const std::string reply = ask(client, "SET key" + std::to_string(i) + " " + std::string(64, 'x'));
    if (reply == "+OK\r\n") ++kept;
    if (reply != "+OK\r\n") refused = reply;
  }
  EXPECT_TRUE(refused.starts_with("-OOM command not allowed when used memory > 'maxmemory'. ")) << refused;
  EXPECT_NE(refused.find("records"), std::string::npos) << refused;
  EXPECT_EQ(field(client, "errorstats", "errorstat_OOM"), "count=1");
  EXPECT_EQ(calls(client, "set"), counted(kept, 1, 0));
  EXPECT_EQ(field(client, "memory", "maxmemory_policy"), "noeviction");
  EXPECT_NE(field(client, "memory", "maxmemory"), "0");
  EXPECT_EQ(field(client, "memory", "weft_records"), std::to_string(kept));
  EXPECT_EQ(ask(client, "DEL key0"), ":1\r\n");
}

TEST(CommandStats, ATurnIsDividedByWhatCommandsCost) {
  CommandStats stats;
  IterationTimes times;
  EXPECT_FALSE(times.some());
  times.ran(3, 100);
  times.ran(5, 500);
  times.ran(3, 200);
  EXPECT_TRUE(times.some());
  times.end(8000, stats);
  EXPECT_FALSE(times.some());
  EXPECT_EQ(stats.rows[3].ns.read(), 3000U);
  EXPECT_EQ(stats.rows[5].ns.read(), 5000U);
  times.ran(5, 1);
  times.end(10, stats);
  EXPECT_EQ(stats.rows[3].ns.read(), 3000U);
  EXPECT_EQ(stats.rows[5].ns.read(), 5010U);
}

TEST(CommandStats, ErrorsAreKnownByTheirFirstWord) {
  EXPECT_EQ(kErrorNames[error_place("ERR no")], "ERR");
  EXPECT_EQ(kErrorNames[error_place("OOM")], "OOM");
  EXPECT_EQ(kErrorNames[error_place("NOSUCH word")], "OTHER");
  EXPECT_EQ(kErrorNames[error_place("")], "OTHER");
}

TEST(CommandStats, ANodeIsAllItsWorkers) {
  NodeCommandStats node;
  node.of(WorkerId(0))->connections.add(2);
  node.of(WorkerId(3))->connections.add(5);
  node.of(WorkerId(3))->rows[7].calls.add(1);
  EXPECT_EQ(node.totals(9).connections, 7U);
  EXPECT_EQ(node.totals(9).commands, 9U);
  node.reset(9);
  node.of(WorkerId(0))->rows[7].calls.add(2);
  EXPECT_EQ(node.totals(11).commands, 2U);
  EXPECT_EQ(node.totals(11).connections, 0U);
  EXPECT_EQ(node.totals(11).rows[7].calls, 2U);
  // Since the last request.
  EXPECT_EQ(node.rate(100, 1'000'000'000), 0U);
  EXPECT_EQ(node.rate(150, 1'050'000'000), 0U);
  EXPECT_EQ(node.rate(300, 3'000'000'000), 100U);
  EXPECT_EQ(node.rate(400, 3'050'000'000), 100U);
}

TEST_F(InfoTest, NamesTheProtocol) {
  const Fd client = connect_to(0);
  EXPECT_NE(ask(client, "INFO cluster").find("weft_protocol:" + spec_.options.protocol + "\r\n"), std::string::npos);
}

}  // namespace
}  // namespace weft
