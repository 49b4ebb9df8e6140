// WATCH: EXEC does nothing if a watched key has changed, whoever changed it.
#include <gtest/gtest.h>

#include <string>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class WatchTest : public FrontendTest {
 protected:
  // The reply to EXEC if another client does `between` between WATCH k and EXEC.
  std::string exec_after(const std::string& between) {
    const Fd client = connect_to(0);
    const Fd other = connect_to(1);
    EXPECT_EQ(ask(client, "WATCH k"), "+OK\r\n");
    EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
    EXPECT_EQ(ask(client, "PING"), "+QUEUED\r\n");
    if (!between.empty()) ask(other, between);
    return ask(client, "EXEC");
  }
};

constexpr const char* kNil = "*-1\r\n";
constexpr const char* kDone = "*1\r\n+PONG\r\n";

TEST_F(WatchTest, AChangeOfAnybodyCounts) {
  EXPECT_EQ(exec_after(""), kDone);
  EXPECT_EQ(exec_after("GET k"), kDone);
  EXPECT_EQ(exec_after("SET k 1"), kNil);
  EXPECT_EQ(exec_after(""), kDone);
  EXPECT_EQ(exec_after("SET other 1"), kDone);
  EXPECT_EQ(exec_after("SET k 1"), kNil);  // to the same value
  EXPECT_EQ(exec_after("EXPIRE k 100"), kNil);
  EXPECT_EQ(exec_after("APPEND k 1"), kNil);
  EXPECT_EQ(exec_after("RENAME k l"), kNil);
  EXPECT_EQ(exec_after("COPY l k"), kNil);
  EXPECT_EQ(exec_after("DEL k"), kNil);
  EXPECT_EQ(exec_after("DEL k"), kDone);  // there was none
  EXPECT_EQ(exec_after("FLUSHALL"), kDone);
}

TEST_F(WatchTest, AKeyThatCameAndWentHasChanged) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(1);
  ask(client, "WATCH k");
  ask(other, "SET k 1");
  ask(other, "DEL k");
  ask(client, "MULTI");
  EXPECT_EQ(ask(client, "EXEC"), kNil);
}

TEST_F(WatchTest, ItEndsWithExecDiscardUnwatchAndReset) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(1);
  const auto changes = [&] {
    ask(other, "INCR k");
    ask(client, "MULTI");
    ask(client, "PING");
    return ask(client, "EXEC");
  };
  ask(client, "WATCH k");
  EXPECT_EQ(changes(), kNil);
  EXPECT_EQ(changes(), kDone);
  ask(client, "WATCH k");
  ask(client, "UNWATCH");
  EXPECT_EQ(changes(), kDone);
  ask(client, "WATCH k");
  ask(client, "MULTI");
  ask(client, "DISCARD");
  EXPECT_EQ(changes(), kDone);
  ask(client, "WATCH k");
  EXPECT_EQ(ask(client, "RESET"), "+RESET\r\n");
  EXPECT_EQ(changes(), kDone);
}

// Versions of different epochs cannot be compared.
TEST_F(WatchTest, AnotherViewCountsAsAChange) {
  const Fd client = connect_to(0);
  ask(client, "SET k 1");
  ask(client, "WATCH k");
  const auto next = view_without(NodeId(2));
  nodes_[0]->state().views.publish(next);
  nodes_[1]->state().views.publish(next);
  steps(100);
  ask(client, "MULTI");
  ask(client, "SET k 2");
  EXPECT_EQ(ask(client, "EXEC"), kNil);
  EXPECT_EQ(ask(client, "GET k"), "$1\r\n1\r\n");
}

TEST_F(WatchTest, SoManyKeys) {
  const Fd client = connect_to(0);
  std::string all = "WATCH";
  for (int i = 0; i < 64; ++i) all += " k" + std::to_string(i);
  EXPECT_EQ(ask(client, all), "+OK\r\n");
  EXPECT_EQ(ask(client, all), "+OK\r\n");
  EXPECT_EQ(ask(client, "WATCH one-more"), "-ERR too many watched keys: limits.txn_keys_max is 64, asked for 65\r\n");
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  EXPECT_EQ(ask(client, "EXEC"), "*0\r\n");
}

// Many clients that each add one under WATCH: no update is lost.
TEST_F(WatchTest, NoUpdateIsLost) {
  constexpr int kClients = 6;
  std::vector<Fd> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(connect_to(static_cast<size_t>(i) % kNodes));
  ask(clients[0], "SET k 0");
  int added = 0;
  for (int round = 0; round < 30; ++round) {
    std::vector<std::string> values;
    for (const Fd& client : clients) {
      ask(client, "WATCH k");
      const std::string bulk = ask(client, "GET k");
      values.push_back(bulk.substr(bulk.find("\r\n") + 2));
      values.back().resize(values.back().size() - 2);
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      say(clients[i], "MULTI\r\nSET k " + std::to_string(std::stoi(values[i]) + 1) + "\r\nEXEC");
    }
    for (const Fd& client : clients) {
      std::string heard;
      while (!heard.ends_with("*-1\r\n") && !heard.ends_with("*1\r\n+OK\r\n")) {
        const std::string more = answer(client);
        ASSERT_FALSE(more.empty()) << heard;
        heard += more;
      }
      added += heard.ends_with("*1\r\n+OK\r\n") ? 1 : 0;
    }
  }
  EXPECT_GE(added, 30);
  const std::string sum = std::to_string(added);
  EXPECT_EQ(ask(clients[0], "GET k"), "$" + std::to_string(sum.size()) + "\r\n" + sum + "\r\n");
}

}  // namespace
}  // namespace weft
