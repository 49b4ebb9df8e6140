#include "weft/redis/slowlog.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/redis/frontend_testing.h"
#include "weft/redis/resp_testing.h"

namespace weft {
namespace {

class SlowLogTest : public FrontendTest {
 protected:
  // The arguments of the newest entries, each as one text.
  std::vector<std::string> logged() {
    std::vector<std::string> out;
    for (const SlowLog::Entry& entry : shared_[0].slowlog.newest(SlowLog::kEntriesMax)) {
      std::string text;
      for (const std::string& argument : entry.arguments) text += (text.empty() ? "" : " ") + argument;
      out.push_back(text);
    }
    return out;
  }
};

TEST_F(SlowLogTest, HasWhatTookLong) {
  const Fd client = connect_to(0);
  ask(client, "SET quick 1");
  EXPECT_EQ(ask(client, "SLOWLOG LEN"), ":0\r\n");
  ask(client, "CLIENT SETNAME bob");
  say(client, "DEBUG SLEEP 0.5");
  steps(5);
  clock_.now += 500'000'000;
  EXPECT_EQ(answer(client), "+OK\r\n");
  EXPECT_EQ(ask(client, "SLOWLOG LEN"), ":1\r\n");
  const std::string reply = ask(client, "SLOWLOG GET");
  EXPECT_TRUE(reply.starts_with("*1\r\n*6\r\n:0\r\n:1800000000\r\n:500")) << reply;
  EXPECT_NE(reply.find("*3\r\n$5\r\nDEBUG\r\n$5\r\nSLEEP\r\n$3\r\n0.5\r\n"), std::string::npos) << reply;
  EXPECT_TRUE(reply.ends_with("$3\r\nbob\r\n")) << reply;
  EXPECT_EQ(ask(client, "SLOWLOG RESET"), "+OK\r\n");
  EXPECT_EQ(ask(client, "SLOWLOG GET"), "*0\r\n");
}

TEST_F(SlowLogTest, EverythingButExecAndPasswords) {
  const Fd client = connect_to(0);
  ask(client, "CONFIG SET slowlog-log-slower-than 0");
  ask(client, "SLOWLOG RESET");
  ask(client, "SET a 1");
  ask(client, "MULTI");
  ask(client, "GET a");
  ask(client, "EXEC");
  ask(client, "NOSUCH");
  ask(client, "AUTH somebody secret");
  ask(client, "HELLO 2 AUTH default secret SETNAME x");
  ask(client, "HELLO 2 auth secret");
  ask(client, "CONFIG SET requirepass secret");
  EXPECT_EQ(logged(),
            (std::vector<std::string>{"CONFIG SET requirepass (redacted)", "HELLO 2 auth (redacted)",
                                      "HELLO 2 AUTH (redacted) (redacted) SETNAME x", "AUTH (redacted) (redacted)",
                                      "GET a", "MULTI", "SET a 1", "SLOWLOG RESET"}));
  ask(client, "CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 3");
  ask(client, "SET a 1");
  EXPECT_EQ(logged().size(), 3U);
  EXPECT_TRUE(ask(client, "SLOWLOG GET 1").starts_with("*1\r\n"));
  EXPECT_TRUE(ask(client, "SLOWLOG GET -1").starts_with("*3\r\n"));
  EXPECT_TRUE(ask(client, "SLOWLOG GET 0").starts_with("*0\r\n"));
}

// As Redis: 32 arguments of 128 bytes.
TEST(SlowLog, LongCommandsAreCut) {
  const Command& mset = *find_command(std::string_view("mset"));
  const std::string longer(130, 'x');
  std::vector<std::string_view> words = {"mset", longer, std::string_view(longer).substr(0, 128)};
  EXPECT_EQ(slowlog_arguments(mset, words),
            (std::vector<std::string>{"mset", longer.substr(0, 128) + "... (2 more bytes)", longer.substr(0, 128)}));
  words.resize(32, "a");
  EXPECT_EQ(slowlog_arguments(mset, words).size(), 32U);
  EXPECT_EQ(slowlog_arguments(mset, words).back(), "a");
  words.resize(33, "a");
  EXPECT_EQ(slowlog_arguments(mset, words).size(), 32U);
  EXPECT_EQ(slowlog_arguments(mset, words).back(), "... (2 more arguments)");
}

TEST(SlowLog, TheOldestAreForgotten) {
  SlowLog log;
  for (int i = 0; i < 5; ++i) log.add({}, 3);
  ASSERT_EQ(log.newest(10).size(), 3U);
  EXPECT_EQ(log.newest(10).front().id, 4U);
  log.set_length(1);
  EXPECT_EQ(log.size(), 1U);
  log.clear();
  log.add({}, 3);
  EXPECT_EQ(log.newest(1).front().id, 5U) << "no id comes twice";
}

}  // namespace
}  // namespace weft
