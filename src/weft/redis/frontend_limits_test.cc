// What one client can make a node hold or do is bounded, and an error names the limit.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class FrontLimitsTest : public FrontendTest {
 protected:
  void SetUp() override {
    options_.reply_bytes_max = 2000;
    options_.output_held_bytes = 50'000;
    FrontendTest::SetUp();
  }
  static std::string times(std::string_view text, size_t count) {
    std::string out;
    while (count-- > 0) out.append(text);
    return out;
  }
  static constexpr const char* kTooLong =
      "-ERR the reply is too long, and nothing was done: reply_bytes_max is 2000\r\n";
};

TEST_F(FrontLimitsTest, ACommandNamesSoManyKeys) {
  const Fd client = connect_to(0);
  const auto refused = [](int keys) {
    return "-ERR the command names too many keys: limits.txn_keys_max is 64, asked for " + std::to_string(keys) +
           "\r\n";
  };
  EXPECT_EQ(ask(client, "MSET" + times(" a 1", 64)), "+OK\r\n");
  for (const char* command : {"MSET", "MSETNX"}) EXPECT_EQ(ask(client, command + times(" a 1", 65)), refused(65));
  // Those that mean the same if they are split are split.
  for (const char* command : {"EXISTS", "TOUCH"}) {
    EXPECT_EQ(ask(client, command + times(" a", 64)), ":64\r\n") << command;
    EXPECT_EQ(ask(client, command + times(" a", 65)), ":65\r\n") << command;
    EXPECT_EQ(ask(client, command + times(" a", 30'000)), ":30000\r\n") << command;
  }
  EXPECT_EQ(ask(client, "MGET" + times(" a", 65)), "*65\r\n" + times("$1\r\n1\r\n", 65));
  EXPECT_EQ(ask(client, "MGET" + times(" a", 30'000)), kTooLong);
  EXPECT_EQ(ask(client, "DEL" + times(" a", 128)), ":1\r\n");
  EXPECT_EQ(ask(client, "UNLINK" + times(" a", 129)), ":0\r\n");
  EXPECT_EQ(ask(client, "SET a 1" + times(" NX", 5000)),
            "-ERR the command has too many arguments: the limit is 4096, asked for 5003\r\n");
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  EXPECT_EQ(ask(client, "MGET" + times(" a", 65)), refused(65));
  EXPECT_TRUE(ask(client, "EXEC").starts_with("-EXECABORT"));
}

TEST_F(FrontLimitsTest, AReplyThatIsTooLongAbortsItsTransaction) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "SET v " + std::string(60, 'x')), "+OK\r\n");
  EXPECT_EQ(ask(client, "MGET" + times(" v", 25)).substr(0, 5), "*25\r\n");
  EXPECT_EQ(ask(client, "MGET" + times(" v", 40)), kTooLong);
  for (const char* first : {"MULTI", "WEFT MULTI"}) {
    ask(client, first);
    EXPECT_EQ(ask(client, "SET w 1"), "+QUEUED\r\n");
    for (int i = 0; i < 40; ++i) EXPECT_EQ(ask(client, "GET v"), "+QUEUED\r\n");
    EXPECT_EQ(ask(client, "EXEC"), kTooLong);
    EXPECT_EQ(ask(client, "GET w"), "$-1\r\n");
  }
  EXPECT_EQ(ask(client, "STRLEN v"), ":60\r\n");
}

// A client that does not read is not served further, holds little, and gets everything once it reads.
TEST_F(FrontLimitsTest, WhoDoesNotReadWaits) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(0);
  const int small = 32 << 10;
  setsockopt(client.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  EXPECT_EQ(ask(client, "SET v " + std::string(60, 'x')), "+OK\r\n");
  const std::string asks = times("GET v\r\n", 10) + "PING\r\n";
  size_t said = 0;
  for (int idle = 0; idle < 100 && said < (size_t{1} << 20);) {
    const ssize_t n = send(client.get(), asks.data() + said % asks.size(), asks.size() - said % asks.size(),
                           MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) said += static_cast<size_t>(n);
    idle = n > 0 ? 0 : idle + 1;
    steps(1);
    ASSERT_LT(fronts_[0]->buffer_bytes(), 1'000'000U);
  }
  EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
  steps(10);
  EXPECT_FALSE(fronts_[0]->poll()) << said;
  EXPECT_FALSE(fronts_[0]->flush());  // nothing to do but wait
  std::string suppressed = said % asks.size() == 0 ? "" : asks.substr(said % asks.size());
  const size_t rounds = said / asks.size() + (suppressed.empty() ? 0 : 1);
  const std::string round = times("$60\r\n" + std::string(60, 'x') + "\r\n", 10) + "+PONG\r\n";
  std::string heard;
  while (heard.size() < rounds * round.size()) {
    const std::string more = answer(client);
    ASSERT_FALSE(more.empty()) << heard.size() << " of " << rounds * round.size();
    heard += more;
    if (suppressed.empty()) continue;
    const ssize_t n = send(client.get(), suppressed.data(), suppressed.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) suppressed.erase(0, static_cast<size_t>(n));
  }
  EXPECT_EQ(heard, times(round, rounds));
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
}

// A browser's request, whose body has commands as lines.
TEST_F(FrontendTest, WhoSpeaksHttpIsClosed) {
  for (const std::string line : {"POST / HTTP/1.1", "GET / HTTP/1.1\r\nHost: 127.0.0.1:7379"}) {
    const Fd client = connect_to(0);
    const Fd other = connect_to(0);
    say(client, line + "\r\n\r\nSET pwned yes");
    steps(50);
    EXPECT_EQ(ask(other, "GET pwned"), "$-1\r\n") << line;
  }
}

class PipelineTest : public FrontendTest {
 protected:
  static constexpr uint32_t kMax = 1000;
  void SetUp() override {
    options_.pipeline_max = kMax;
    FrontendTest::SetUp();
  }
  // Until the connection ends.
  std::string rest(const Fd& client) {
    std::string heard;
    char bytes[65536];
    for (int i = 0; i < 50'000; ++i) {
      steps(1);
      const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (n == 0) break;
      if (n > 0) heard.append(bytes, static_cast<size_t>(n));
      if (n < 0) usleep(100);  // the kernel's timers run in real time
    }
    return heard;
  }
};

// A client that sends and does not read is told, after its replies, how many commands it may pipeline.
TEST_F(PipelineTest, SoManyCommandsAheadOfTheirAnswers) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(0);
  const int small = 32 << 10;
  setsockopt(client.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  EXPECT_EQ(ask(client, "SET v " + std::string(60, 'x')), "+OK\r\n");
  std::string asks;
  for (int i = 0; i < 100; ++i) asks += "GET v\r\n";
  size_t said = 0;
  uint64_t before = 0;
  for (int idle = 0; idle < 500;) {  // until no more are run
    const size_t at = said % asks.size();
    const ssize_t n = send(client.get(), asks.data() + at, asks.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) said += static_cast<size_t>(n);
    steps(1);
    const uint64_t commands = shared_[0].commands();
    idle = commands > before ? 0 : idle + 1;
    if (idle > 100) usleep(1000);  // the kernel's timers run in real time
    before = commands;
    ASSERT_LT(fronts_[0]->buffer_bytes(), 1'000'000U);
  }
  EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
  const std::string heard = rest(client);
  const std::string error = "-ERR too many commands ahead of their answers: client.pipeline_max is 1000\r\n";
  ASSERT_GT(heard.size(), error.size());
  EXPECT_EQ(heard.substr(heard.size() - error.size()), error);
  EXPECT_EQ((heard.size() - error.size()) % 67, 0U);  // complete replies before it
}

// Commands without a reply do not count as pipelined.
TEST_F(PipelineTest, WhatIsNotAnsweredIsNotCounted) {
  const Fd client = connect_to(0);
  std::string asks;
  for (int i = 0; i < 100; ++i) asks += "CLIENT REPLY SKIP\r\nPING\r\n";
  for (uint32_t i = 0; i < 3 * kMax / 100; ++i) {
    ASSERT_EQ(send(client.get(), asks.data(), asks.size(), MSG_NOSIGNAL), static_cast<ssize_t>(asks.size()));
    steps(20);
  }
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
}

// A client that reads its replies may send as many as it likes.
TEST_F(PipelineTest, WhoReadsIsNotCounted) {
  const Fd client = connect_to(0);
  std::string asks = "PING";
  for (int i = 1; i < 900; ++i) asks += "\r\nINCR k" + std::to_string(i % 100);
  for (int round = 0; round < 5; ++round) {
    say(client, asks);
    size_t answers = 0;
    while (answers < 900) {
      const std::string more = answer(client);
      ASSERT_FALSE(more.empty()) << answers;
      ASSERT_EQ(more.find('-'), std::string::npos) << more;
      answers += static_cast<size_t>(std::count(more.begin(), more.end(), '\n'));
    }
  }
}

// Commands that need no other node are run some at a time: another client does not have to wait.
TEST_F(PipelineTest, OthersHaveTheirTurn) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(0);
  say(client, "CLIENT REPLY OFF");
  steps(5);
  const uint64_t before = shared_[0].commands();
  std::string asks;
  for (int i = 0; i < 2500; ++i) asks += "PING\r\n";
  say(client, asks);
  steps(1);
  EXPECT_LT(shared_[0].commands() - before, 1000U);
  EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
  steps(20);
  EXPECT_GE(shared_[0].commands() - before, 2500U);
}

TEST_F(FrontLimitsTest, AMultiHoldsSoManyBytes) {
  const Fd client = connect_to(0);
  const std::string value(60'000, 'x');
  const auto fill = [&] {
    for (int i = 0; i < 17; ++i) EXPECT_EQ(ask(client, "SET k " + value), "+QUEUED\r\n");
  };
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  fill();
  EXPECT_EQ(ask(client, "SET k " + value),
            "-ERR too many bytes in MULTI: limits.txn_bytes_max is 1048576, asked for 1080072\r\n");
  EXPECT_EQ(ask(client, "SET k 1"), "+QUEUED\r\n");
  EXPECT_TRUE(ask(client, "EXEC").starts_with("-EXECABORT"));
  EXPECT_EQ(ask(client, "GET k"), "$-1\r\n");
  // It counts from zero each time.
  for (const char* end : {"DISCARD", "EXEC"}) {
    EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
    fill();
    EXPECT_NE(ask(client, end), "");
  }
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  EXPECT_EQ(ask(client, "SET k 1"), "+QUEUED\r\n");
  EXPECT_EQ(ask(client, "EXEC"), "*1\r\n+OK\r\n");
}

TEST_F(FrontLimitsTest, WithoutFileDescriptorsItWaits) {
  const Fd before = connect_to(0);
  EXPECT_EQ(ask(before, "PING"), "+PONG\r\n");
  const Fd late = connect_to(0);
  const Fd first_free(dup(late.get()));
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none{static_cast<rlim_t>(first_free.get()) + 1, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  say(late, "PING");
  EXPECT_EQ(ask(before, "PING"), "+PONG\r\n");
  steps(5);
  EXPECT_FALSE(fronts_[0]->poll());  // it does not spin
  EXPECT_LE(fronts_[0]->deadline_ns(), clock_.now + 100'000'000);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  clock_.now += 100'000'000;
  EXPECT_EQ(answer(late), "+PONG\r\n");
}

TEST_F(FrontLimitsTest, AFullTableNamesItsLimit) {
  const Fd client = connect_to(0);
  std::string text = "+OK\r\n";
  for (int i = 0; i < 60'000 && text == "+OK\r\n"; ++i) text = ask(client, "SET f" + std::to_string(i) + " 1");
  EXPECT_TRUE(text.starts_with("-OOM command not allowed when used memory > 'maxmemory'. rejected: ")) << text;
  EXPECT_NE(text.find(": table keys: at most "), std::string::npos) << text;
  EXPECT_NE(text.find("capacity 20000 in 3 partitions"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft
