// Every command, with the replies that Redis gives (commands_script.txt, recorded from redis-server 7.0.15 by
// tests/redis_record.py), and cases that Redis does not have.
#include "weft/redis/commands.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "weft/base/source_testing.h"
#include "weft/redis/command_script_testing.h"
#include "weft/redis/glob.h"
#include "weft/redis/resp_testing.h"

namespace weft {
namespace {

class CommandsTest : public CommandScriptTest {
 protected:
  void shape(ClusterSpec& spec) override { spec.tables[0].value_bytes_max = 1000; }

  // A value of a type that has no commands yet.
  void plant(std::string_view key, ValueType type) {
    std::string stored;
    store_value(stored, type, kNoDeadline, "whatever");
    bool done = false;
    write(Session(txn_worker(0)), std::string(key), stored, &done);
    for (int i = 0; i < 100 && !done; ++i) steps(1);
    ASSERT_TRUE(done);
  }
  static DetachedTask write(Session session, std::string key, std::string stored, bool* done) {
    Task<Outcome> task = session.put_one(TableId(0), key, stored);
    const Outcome outcome = co_await task;
    *done = outcome.committed();
  }
};

TEST_F(CommandsTest, RepliesAreThoseOfRedis) { EXPECT_GT(run_script(), 900U); }

TEST_F(CommandsTest, EveryCommandOnDataIsInTheScript) {
  std::ifstream script(source_path("src/weft/redis/commands_script.txt"));
  std::set<const Command*> used;
  std::string line;
  while (std::getline(script, line)) {
    if (line.starts_with(" ") || line.starts_with("#")) continue;
    std::istringstream words(line);
    std::string first;
    std::string second;
    words >> first >> second;
    const std::vector<std::string_view> name = {first, second};
    used.insert(find_command(Arguments(name)));
  }
  for (const Command* command : all_commands()) {
    EXPECT_TRUE(command->data == nullptr || used.contains(command)) << command->name;
  }
}

TEST_F(CommandsTest, OtherTypesAreRefused) {
  const Fd client = connect_to(1);
  const std::string wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
  plant("l", ValueType::kList);
  for (const char* command : {"GET l",
                              "GETEX l",
                              "GETDEL l",
                              "GETSET l 1",
                              "SET l 1 GET",
                              "APPEND l 1",
                              "STRLEN l",
                              "GETRANGE l 0 1",
                              "SUBSTR l 0 1",
                              "SETRANGE l 0 x",
                              "INCR l",
                              "DECR l",
                              "INCRBY l 1",
                              "DECRBY l 1",
                              "INCRBYFLOAT l 1",
                              "SETBIT l 0 1",
                              "GETBIT l 0",
                              "BITCOUNT l",
                              "BITPOS l 1",
                              "BITOP OR d l",
                              "BITFIELD l GET u8 0",
                              "BITFIELD l SET u8 0 1",
                              "BITFIELD_RO l GET u8 0"}) {
    EXPECT_EQ(ask(client, command), wrong) << command;
  }
  EXPECT_EQ(ask(client, "LCS l l"), "-ERR The specified keys must contain string values\r\n");
  EXPECT_EQ(ask(client, "MGET l none"), "*2\r\n$-1\r\n$-1\r\n");
  EXPECT_EQ(ask(client, "TYPE l"), "+list\r\n");
  EXPECT_EQ(ask(client, "SETNX l 1"), ":0\r\n");
  EXPECT_EQ(ask(client, "MSETNX l 1 m 1"), ":0\r\n");
  EXPECT_EQ(ask(client, "SET l 1 NX"), "$-1\r\n");
  // Commands that ignore the value work on any type.
  EXPECT_EQ(ask(client, "EXPIRE l 100"), ":1\r\n");
  EXPECT_EQ(ask(client, "TTL l"), ":100\r\n");
  EXPECT_EQ(ask(client, "RENAME l m"), "+OK\r\n");
  EXPECT_EQ(ask(client, "TYPE m"), "+list\r\n");
  EXPECT_EQ(ask(client, "TTL m"), ":100\r\n");
  EXPECT_EQ(ask(client, "COPY m l"), ":1\r\n");
  EXPECT_EQ(ask(client, "PERSIST l"), ":1\r\n");
  EXPECT_EQ(ask(client, "SCAN 0 TYPE list COUNT 100").substr(0, 15), "*2\r\n$1\r\n0\r\n*2\r\n");
  EXPECT_EQ(ask(client, "SCAN 0 TYPE string COUNT 100"), "*2\r\n$1\r\n0\r\n*0\r\n");
  EXPECT_EQ(ask(client, "SET l 1"), "+OK\r\n");
  EXPECT_EQ(ask(client, "GET l"), "$1\r\n1\r\n");
  EXPECT_EQ(ask(client, "DEL m"), ":1\r\n");
  plant("u", ValueType::kUnknown);
  EXPECT_EQ(ask(client, "GET u"), wrong);
  EXPECT_EQ(ask(client, "DEL u"), ":1\r\n");
}

TEST_F(CommandsTest, LongStringsAreRefusedByTheirLimit) {
  const Fd client = connect_to(0);
  const auto refused = [](int bytes) {
    return "-ERR string exceeds maximum allowed size: store.value_bytes_max is 991, asked for " +
           std::to_string(bytes) + "\r\n";
  };
  const std::string longest(991, 'x');
  EXPECT_EQ(ask(client, "SET a " + longest), "+OK\r\n");
  EXPECT_EQ(ask(client, "EXPIRE a 100"), ":1\r\n");  // its header is longer then
  EXPECT_EQ(ask(client, "SET a " + longest + "x"), refused(992));
  EXPECT_EQ(ask(client, "APPEND a x"), refused(992));
  EXPECT_EQ(ask(client, "SETRANGE a 991 x"), refused(992));
  EXPECT_EQ(ask(client, "SETBIT b 7928 1"), refused(992));
  EXPECT_EQ(ask(client, "BITFIELD b SET u8 #991 1"), refused(992));
  EXPECT_EQ(ask(client, "SETEX b 10 " + longest + "x"), refused(992));
  EXPECT_EQ(ask(client, "GETSET b " + longest + "x"), refused(992));
  EXPECT_EQ(ask(client, "MSET c 1 b " + longest + "x"), refused(992));
  EXPECT_EQ(ask(client, "EXISTS b c"), ":0\r\n");
  const std::string too_long(513, 'k');
  for (const char* command : {"SET", "APPEND", "INCRBY", "RENAME a", "COPY a"}) {
    EXPECT_EQ(ask(client, std::string(command) + " " + too_long +
                              (std::string_view(command).find(' ') != std::string_view::npos ? "" : " 1")),
              "-ERR the key is too long: limits.key_bytes_max is 512, asked for 513\r\n")
        << command;
  }
  // No such key exists.
  EXPECT_EQ(ask(client, "GET " + too_long), "$-1\r\n");
  EXPECT_EQ(ask(client, "MGET " + too_long + " none"), "*2\r\n$-1\r\n$-1\r\n");
  EXPECT_EQ(ask(client, "TTL " + too_long), ":-2\r\n");
  for (const char* command : {"EXISTS ", "DEL ", "UNLINK ", "TOUCH ", "STRLEN "}) {
    EXPECT_EQ(ask(client, command + too_long), ":0\r\n") << command;
  }
  EXPECT_EQ(ask(client, "EXPIRE " + too_long + " 10"), ":0\r\n");
  // Between MULTI and EXEC only that command fails.
  ask(client, "MULTI");
  ask(client, "SET d 1");
  ask(client, "APPEND a x");
  EXPECT_EQ(ask(client, "EXEC"), "*2\r\n+OK\r\n" + refused(992));
  EXPECT_EQ(ask(client, "GET d"), "$1\r\n1\r\n");
}

TEST_F(CommandsTest, WhatIsNotThereIsUnknown) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "LPUSH a 1"), "-ERR unknown command 'LPUSH', with args beginning with: 'a' '1' \r\n");
  EXPECT_EQ(ask(client, "CLIENT|ID"), "-ERR unknown command 'CLIENT|ID', with args beginning with: \r\n");
  EXPECT_EQ(ask(client, "CONFIG|GET x"), "-ERR unknown command 'CONFIG|GET', with args beginning with: 'x' \r\n");
  EXPECT_EQ(ask(client, "CONFIG TURN a b"), "-ERR unknown subcommand 'TURN'. Try CONFIG HELP.\r\n");
  EXPECT_EQ(ask(client, "CLUSTER " + std::string(200, 'x')).substr(0, 26), "-ERR unknown subcommand 'x");
  EXPECT_EQ(ask(client, std::string(500, 'x')).substr(0, 22), "-ERR unknown command '");
}

TEST_F(CommandsTest, WalksAreRefusedInMulti) {
  const Fd client = connect_to(0);
  for (const char* command : {"SCAN 0", "KEYS *", "DBSIZE", "RANDOMKEY", "FLUSHALL", "FLUSHDB", "DEBUG SLEEP 0"}) {
    EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
    EXPECT_EQ(ask(client, command), "-ERR Command not allowed inside a transaction\r\n") << command;
    EXPECT_EQ(ask(client, "EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
  }
}

TEST(Commands, TheRowsHold) {
  std::set<std::string> names;
  for (const Command* command : all_commands()) {
    EXPECT_TRUE(names.insert(command->name).second) << command->name;
    EXPECT_EQ(find_command(std::string_view(command->name)), command);
    EXPECT_NE(command->arity, 0) << command->name;
    EXPECT_LE(
        (command->data != nullptr ? 1 : 0) + (command->local != nullptr ? 1 : 0) + (command->slow != nullptr ? 1 : 0),
        1)
        << command->name;
    EXPECT_EQ(command->data != nullptr && command->keys.first == 0, false) << command->name;
    EXPECT_EQ(std::strchr(command->summary, '|'), nullptr) << command->name;
    if (command->slow != nullptr) {
      EXPECT_NE(command->flags & (kNoMulti | kNotQueued), 0U) << command->name << " cannot be queued";
    }
  }
  EXPECT_EQ(find_command(std::string_view("nosuch")), nullptr);
  EXPECT_EQ(find_command(std::string_view("")), nullptr);
  EXPECT_EQ(find_command(std::string_view("MgEt")), find_command(std::string_view("mget")));
}

TEST(Commands, ThePageHasEveryCommand) {
  std::ifstream file(source_path("docs/redis.md"));
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(command_reference()), std::string::npos) << command_reference();
}

TEST(Glob, MatchesAsRedisDoes) {
  for (const auto& [pattern, text, matches] : std::initializer_list<std::tuple<const char*, const char*, bool>>{
           {"*", "", true},        {"*", "abc", true},      {"a*c", "abbbc", true},      {"a*c", "abbb", false},
           {"a?c", "abc", true},   {"a?c", "ac", false},    {"[ab]x", "bx", true},       {"[ab]x", "cx", false},
           {"[^ab]x", "cx", true}, {"[^ab]x", "ax", false}, {"[a-c]", "b", true},        {"[c-a]", "b", true},
           {"\\*", "*", true},     {"\\*", "a", false},     {"h[\\]]o", "h]o", true},    {"", "", true},
           {"", "a", false},       {"a", "", false},        {"*a*b*", "xxayybzz", true}, {"[", "[", false},
           {"**a", "a", true},     {"a\\", "a\\", true},    {"*?", "", false},           {"abc", "abcd", false}}) {
    EXPECT_EQ(glob_matches(pattern, text), matches) << pattern << " " << text;
  }
  // A pattern that is exponential in naive implementations.
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "a*";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(5000, 'a')));
}

}  // namespace
}  // namespace weft
