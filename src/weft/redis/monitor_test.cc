#include "weft/redis/monitor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class MonitorTest : public FrontendTest {
 protected:
  // Everything that arrives, without times and addresses, until a line contains this.
  std::string until(const Fd& monitor, std::string_view wanted) {
    std::string all;
    for (int i = 0; i < 100 && all.find(wanted) == std::string::npos; ++i) all += answer(monitor);
    std::string out;
    for (size_t at = 0; at < all.size(); at = all.find("\r\n", at) + 2) {
      const std::string line = all.substr(at, all.find("\r\n", at) - at);
      const size_t shown = line.find("] ");
      out += (shown == std::string::npos ? line : line.substr(shown + 2)) + "\n";
    }
    return out;
  }
};

TEST_F(MonitorTest, SeesWhatIsRun) {
  const Fd monitor = connect_to(0);
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(monitor, "MONITOR"), "+OK\r\n");
  ask(client, "set a \"x \\x01\\n\\\"\"");
  ask(client, "MULTI");
  ask(client, "GET a");
  ask(client, "EXEC");
  ask(client, "GET");              // refused
  ask(client, "CONFIG GET save");  // for administrators
  ask(client, "AUTH somebody secret");
  ask(client, "HELLO 2 AUTH default secret");
  ask(client, "PING");
  EXPECT_EQ(until(monitor, "PING"),
            "\"set\" \"a\" \"x \\x01\\n\\\"\"\n\"MULTI\"\n\"GET\" \"a\"\n\"EXEC\"\n"
            "\"AUTH\" \"(redacted)\" \"(redacted)\"\n\"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\"\n"
            "\"PING\"\n");
  // A monitor may send commands itself, and end monitoring.
  EXPECT_EQ(ask(monitor, "ECHO hi").substr(0, 8), "$2\r\nhi\r\n");
  EXPECT_NE(ask(monitor, "RESET").find("+RESET\r\n"), std::string::npos);
  EXPECT_FALSE(shared_[0].monitors.any());
  ask(client, "PING");
  EXPECT_EQ(ask(monitor, "PING"), "+PONG\r\n");
}

TEST_F(MonitorTest, LongCommandsAreCut) {
  const Fd monitor = connect_to(0);
  const Fd client = connect_to(0);
  ask(monitor, "MONITOR");
  std::string command = "ECHO";
  ask(client, command + " " + std::string(2000, 'x'));
  EXPECT_EQ(until(monitor, "ECHO"), "\"ECHO\" \"" + std::string(1024, 'x') + "... (976 more bytes)\"\n");
  command = "PING";
  std::string shown;
  const Command& ping = *find_command(std::string_view("ping"));
  append_monitored(&shown, ping, std::vector<std::string_view>(70, "a"), "1:2", 1'500'000);
  EXPECT_TRUE(shown.starts_with("+1.500000 [0 1:2] \"a\" \"a\" ")) << shown;
  EXPECT_TRUE(shown.ends_with("\"a\" ... (6 more arguments)\r\n")) << shown;
}

TEST_F(MonitorTest, ThereAreSoMany) {
  std::vector<Fd> monitors;
  for (uint32_t i = 0; i < Monitors::kMonitorsMax; ++i) {
    monitors.push_back(connect_to(0));
    EXPECT_EQ(ask(monitors.back(), "MONITOR"), "+OK\r\n");
  }
  const Fd late = connect_to(0);
  EXPECT_EQ(ask(late, "MONITOR"), "-ERR too many monitors: the limit is 16\r\n");
  EXPECT_NE(ask(monitors.back(), "RESET").find("+RESET\r\n"), std::string::npos);
  EXPECT_EQ(ask(late, "MONITOR"), "+OK\r\n");
}

TEST_F(MonitorTest, WhoIsGoneIsForgotten) {
  {
    const Fd monitor = connect_to(0);
    ask(monitor, "MONITOR");
    EXPECT_TRUE(shared_[0].monitors.any());
  }
  const Fd client = connect_to(0);
  for (int i = 0; i < 1000 && shared_[0].monitors.any(); ++i) ask(client, "PING");
  EXPECT_FALSE(shared_[0].monitors.any());
}

// A monitor that does not read is disconnected; nobody else notices.
TEST_F(MonitorTest, WhoDoesNotReadIsClosed) {
  options_.output_held_bytes = 100'000;
  FrontendTest::SetUp();
  const Fd lazy = connect_to(0);
  const Fd reads = connect_to(0);
  const Fd client = connect_to(0);
  ask(lazy, "MONITOR");
  ask(reads, "MONITOR");
  const std::string text(1000, 'x');
  size_t seen = 0;
  for (int i = 0; i < 50'000 && fronts_[0]->clients().size() == 3; ++i) {
    EXPECT_EQ(ask(client, "ECHO " + text), "$1000\r\n" + text + "\r\n");
    seen += answer(reads).size();
  }
  EXPECT_EQ(fronts_[0]->clients().size(), 2U);
  EXPECT_GT(seen, 100'000U);
  ask(client, "ECHO last");
  EXPECT_NE(until(reads, "last").find("\"last\""), std::string::npos);
}

// Two workers of a node, each with its own clients.
class MonitorWorkersTest : public MonitorTest {
 protected:
  void shape(ClusterSpec& spec) override { spec.options.workers = 2; }
  void SetUp() override {
    MonitorTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(add_front(0, 1));
    steps(3);
  }
};

TEST_F(MonitorWorkersTest, SeeTheWholeNode) {
  const Fd monitor = connect_to(0);
  const Fd other = connect_to(kSecondWorker);
  EXPECT_EQ(ask(monitor, "MONITOR"), "+OK\r\n");
  EXPECT_EQ(ask(other, "ECHO there"), "$5\r\nthere\r\n");
  EXPECT_EQ(until(monitor, "there"), "\"ECHO\" \"there\"\n");
  EXPECT_EQ(ask(other, "MONITOR"), "+OK\r\n");
  const Fd client = connect_to(0);
  ask(client, "ECHO here");
  EXPECT_EQ(until(other, "here"), "\"ECHO\" \"here\"\n");
  // So do INFO, CONFIG and SLOWLOG.
  EXPECT_NE(ask(connect_to(kSecondWorker), "INFO commandstats").find("cmdstat_echo:calls=2,"), std::string::npos);
  EXPECT_EQ(ask(client, "CONFIG SET slowlog-log-slower-than 0"), "+OK\r\n");
  const Fd last = connect_to(kSecondWorker);
  ask(last, "ECHO slow");
  EXPECT_NE(ask(client, "SLOWLOG GET 1").find("slow"), std::string::npos);
}

TEST(Monitors, WhatIsLeftIsBounded) {
  Monitors monitors;
  std::string taken;
  monitors.leave(WorkerId(0), "nobody asked");
  EXPECT_TRUE(monitors.begin(WorkerId(1)));
  EXPECT_TRUE(monitors.any());
  monitors.leave(WorkerId(1), "its own");
  monitors.leave(WorkerId(0), "one ");
  monitors.leave(WorkerId(2), "two");
  EXPECT_TRUE(monitors.take(WorkerId(1), &taken));
  EXPECT_EQ(taken, "one two");
  const std::string much(Monitors::kLeftBytesMax / 2, 'x');
  for (int i = 0; i < 3; ++i) monitors.leave(WorkerId(0), much);
  taken.clear();
  EXPECT_FALSE(monitors.take(WorkerId(1), &taken)) << "some is missing";
  EXPECT_EQ(taken.size(), 2 * much.size());
  EXPECT_TRUE(monitors.take(WorkerId(1), &taken));
  monitors.end(WorkerId(1));
  EXPECT_FALSE(monitors.any());
}

}  // namespace
}  // namespace weft
