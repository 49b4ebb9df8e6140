// CONFIG: settings that change while a node runs. The errors of Redis are in commands_script.txt.
#include <gtest/gtest.h>

#include <string>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class ConfigCommandsTest : public FrontendTest {
 protected:
  std::string value(const Fd& client, const std::string& name) {
    const std::string reply = ask(client, "CONFIG GET " + name);
    const size_t end = reply.size() - 2;
    const size_t from = reply.rfind("\r\n", end - 1) + 2;
    return reply.substr(from, end - from);
  }
  static std::string failed(const std::string& name, const std::string& why) {
    return "-ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + why + "\r\n";
  }
};

TEST_F(ConfigCommandsTest, LimitsChangeAtOnce) {
  const Fd client = connect_to(0);
  EXPECT_EQ(value(client, "maxclients"), "10000");
  EXPECT_EQ(ask(client, "CONFIG SET maxclients 1"), "+OK\r\n");
  EXPECT_EQ(value(client, "maxclients"), "1");
  EXPECT_EQ(answer(connect_to(0)), "-ERR max number of clients reached: clients_max is 1\r\n");
  EXPECT_EQ(ask(client, "CONFIG SET maxclients 2 client.pipeline_max 2000"), "+OK\r\n");
  EXPECT_EQ(ask(connect_to(0), "PING"), "+PONG\r\n");
  EXPECT_EQ(value(client, "client.pipeline_max"), "2000");
  EXPECT_EQ(value(connect_to(1), "client.pipeline_max"), "100000") << "another node";

  EXPECT_EQ(ask(client, "CONFIG SET client-output-buffer-limit \"normal 8kb 0 0\""), "+OK\r\n");
  EXPECT_EQ(value(client, "client-output-buffer-limit"), "normal 8192 0 0");
  EXPECT_EQ(fronts_[0]->options().output_held_bytes, 8192U);
  EXPECT_EQ(ask(client, "CONFIG SET client.turn_us 100"), "+OK\r\n");
  EXPECT_EQ(fronts_[0]->scheduler().budget_ns(), 100'000U);
}

// A node's file sets the bounds: nothing beyond them, and nothing in part.
TEST_F(ConfigCommandsTest, WhatCannotBeIsRefused) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "CONFIG SET client.pipeline_max 1"),
            failed("client.pipeline_max", "argument must be between 1024 and 1000000000 inclusive"));
  EXPECT_EQ(ask(client, "CONFIG SET client.turn_us 100 client.pipeline_max 1"),
            failed("client.pipeline_max", "argument must be between 1024 and 1000000000 inclusive"));
  EXPECT_EQ(value(client, "client.turn_us"), "500");
  EXPECT_EQ(ask(client, "CONFIG SET maxclients 1000000").substr(0, 100),
            failed("maxclients", "The operating system is not able to handle the specified number of clients")
                .substr(0, 100));
  EXPECT_EQ(ask(client, "CONFIG SET maxmemory 100mb"), failed("maxmemory", "can't set immutable config"));
  EXPECT_EQ(ask(client, "CONFIG SET save \"60 1\""), failed("save", "can't set immutable config"));
  EXPECT_EQ(ask(client, "CONFIG SET save \"\" appendonly no"), "+OK\r\n") << "as it is";
  EXPECT_EQ(ask(client, "CONFIG SET requirepass x"),
            "-ERR Unknown option or number of arguments for CONFIG SET - 'requirepass'\r\n");
  EXPECT_EQ(ask(client, "CONFIG GET requirepass"), "*0\r\n");
  EXPECT_TRUE(ask(client, "CONFIG REWRITE").starts_with("-ERR The server is running without a config file"));
}

TEST_F(ConfigCommandsTest, PatternsAreThoseOfRedis) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "CONFIG GET slowlog-*"),
            "*4\r\n$23\r\nslowlog-log-slower-than\r\n$5\r\n10000\r\n$15\r\nslowlog-max-len\r\n$3\r\n128\r\n");
  EXPECT_EQ(ask(client, "CONFIG GET SAVE s?ve"), "*2\r\n$4\r\nSAVE\r\n$0\r\n\r\n");
  EXPECT_EQ(ask(client, "CONFIG GET [as]*e"), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
  EXPECT_EQ(ask(client, "CONFIG|GET save"), "-ERR unknown command 'CONFIG|GET', with args beginning with: 'save' \r\n");
}

}  // namespace
}  // namespace weft
