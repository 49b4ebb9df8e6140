// The memory that clients make a node hold is bounded while commands run, too, and the client that holds most is
// closed.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/redis/client_output.h"
#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

TEST(ClientOutput, PiecesAreWrittenInOrder) {
  ClientOutput output;
  std::string all;
  std::string heard;
  for (int i = 0; i < 400; ++i) {
    std::string reply(static_cast<size_t>(i % 7 == 0 ? 100'000 : 100 * (i % 5)), static_cast<char>('a' + i % 26));
    all += reply;
    if (i % 2 == 0) {
      output.take(reply);
      EXPECT_TRUE(reply.empty());
    } else {
      output.last().append(reply);
    }
    for (int w = 0; w < 2 && !output.empty() && i % 10 > 4; ++w) {
      const size_t bytes = std::min<size_t>(output.first().size(), 30'000);
      heard += output.first().substr(0, bytes);
      output.wrote(bytes);
    }
    ASSERT_EQ(output.bytes(), all.size() - heard.size());
    ASSERT_GE(output.memory_bytes(), output.bytes() - output.first().size());
  }
  EXPECT_TRUE(output.begun());
  while (!output.empty()) {
    const size_t bytes = std::min<size_t>(output.first().size(), 30'000);
    heard += output.first().substr(0, bytes);
    output.wrote(bytes);
  }
  EXPECT_EQ(heard, all);
  EXPECT_FALSE(output.begun());
  EXPECT_LE(output.memory_bytes(), ClientOutput::kKeptBytes);
}

class HeldTest : public FrontendTest {
 protected:
  static constexpr size_t kValueBytes = 60'000;
  static constexpr size_t kHeld = 200'000;
  static constexpr size_t kTotal = 2'000'000;
  static constexpr size_t kSlack = 1'000'000;  // a turn's work, one reply, and spare buffer capacity

  void SetUp() override {
    options_.output_held_bytes = kHeld;
    options_.output_total_bytes = options_.input_total_bytes = kTotal;
    FrontendTest::SetUp();
    clock_.step = 50'000;  // whoever does not read comes to a stop within a few thousand steps
    const Fd client = connect_to(0);
    ASSERT_EQ(ask(client, "SET v " + std::string(kValueBytes, 'x')), "+OK\r\n");
  }
  void shape(ClusterSpec& spec) override {
    spec.tables.back().value_bytes_max = kValueBytes + kValueHeaderBytesMax;
    spec.tables.back().capacity = 3000;
  }
  Fd who_does_not_read() {
    Fd client = connect_to(0);
    const int small = 16 << 10;
    setsockopt(client.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    return client;
  }
  // Time passes, and nobody sends or reads anything.
  void come_to_a_stop() {
    clock_.now += 1'000'000'000;
    steps(20);
  }
  static std::string gets(int count) {
    std::string out;
    while (count-- > 0) out += "GET v\r\n";
    return out;
  }
  // -1: it is closed.
  static ssize_t hear(const Fd& client) {
    char bytes[65536];
    const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    return n > 0 ? n : n == 0 || errno != EAGAIN ? -1 : 0;
  }
};

// Commands that arrived together do not all run together.
TEST_F(HeldTest, OneClientHoldsSoMuchWhileItsCommandsRun) {
  const Fd client = who_does_not_read();
  say(client, gets(1000));
  size_t most = 0;
  for (int i = 0; i < 500; ++i) {
    steps(1);
    most = std::max(most, fronts_[0]->buffer_bytes());
  }
  EXPECT_LE(most, kHeld + kSlack);
  EXPECT_GE(most, kHeld);
  // It gets everything once it reads.
  size_t heard = 0;
  const size_t wanted = 1000 * (kValueBytes + std::string("$60000\r\n\r\n").size());
  for (int idle = 0; heard < wanted && idle < 20'000; ++idle) {
    steps(1);
    const ssize_t n = hear(client);
    ASSERT_GE(n, 0);
    heard += static_cast<size_t>(n);
    if (n > 0) idle = 0;
    if (idle > 1000) usleep(50);
  }
  EXPECT_EQ(heard, wanted);
}

TEST_F(HeldTest, WhoHoldsMostIsClosedAndNobodyElse) {
  std::vector<Fd> innocent;
  for (int i = 0; i < 10; ++i) {
    innocent.push_back(connect_to(0));
    EXPECT_EQ(ask(innocent.back(), "PING"), "+PONG\r\n");
  }
  std::vector<Fd> culprits;
  for (int i = 0; i < 40; ++i) {
    culprits.push_back(who_does_not_read());
    say(culprits.back(), gets(1000));
  }
  size_t most = 0;
  for (int i = 0; i < 3000; ++i) {
    steps(1);
    most = std::max(most, fronts_[0]->buffer_bytes());
    if (i % 100 == 99) usleep(1000);  // the kernel may be slow
  }
  // 40 times kHeld and a reply would be more.
  EXPECT_LE(most, 2 * kTotal + 2 * kSlack);  // including the little that each of them may keep
  EXPECT_LE(shared_[0].output_bytes(), kTotal);
  for (const Fd& client : innocent) EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
  EXPECT_LT(shared_[0].clients.load(), 51U);
  EXPECT_GE(shared_[0].clients.load(), 11U + kTotal / (kHeld + kSlack));
  culprits.clear();
  for (int i = 0; i < 200; ++i) {
    steps(1);
    usleep(100);
  }
  EXPECT_LE(shared_[0].output_bytes(), 100'000U);
  EXPECT_LE(fronts_[0]->buffer_bytes(), 1'000'000U);
  for (const Fd& client : innocent) EXPECT_EQ(ask(client, "GET none"), "$-1\r\n");
}

// Together they hold more than the limit, but not for long.
TEST_F(HeldTest, NobodyIsClosedBeforeItComesToAStop) {
  clock_.step = 100;
  std::vector<Fd> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(who_does_not_read());
    say(clients.back(), gets(1000));
  }
  for (int i = 0; i < 20'000 && shared_[0].output_bytes() <= kTotal; ++i) steps(1);
  EXPECT_GT(shared_[0].output_bytes(), kTotal);
  steps(100);
  EXPECT_EQ(shared_[0].clients.load(), 12U);
  come_to_a_stop();
  EXPECT_LE(shared_[0].output_bytes(), kTotal) << "nobody has read anything";
  EXPECT_LT(shared_[0].clients.load(), 12U);
}

TEST_F(HeldTest, UnfinishedCommandsHaveATotal) {
  std::vector<Fd> innocent;
  for (int i = 0; i < 5; ++i) {
    innocent.push_back(connect_to(0));
    say(innocent.back(), "*2\r\n$4\r\nECHO\r\n$5\r\nhe");  // the \r\n after it is part of the argument
    steps(2);
  }
  std::vector<Fd> culprits;
  size_t closed = 0;
  for (int i = 0; i < 8; ++i) {
    culprits.push_back(connect_to(0));
    say(culprits.back(), "*2\r\n$4\r\nECHO\r\n$900000\r\n");
    std::string suppressed(600'000, 'x');
    for (int step = 0; step < 2000 && !suppressed.empty(); ++step) {
      const ssize_t n = send(culprits.back().get(), suppressed.data(), suppressed.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) suppressed.erase(0, static_cast<size_t>(n));
      steps(1);
      ASSERT_LE(shared_[0].input_bytes(), 2 * kTotal);
    }
    steps(20);
  }
  come_to_a_stop();
  EXPECT_LE(shared_[0].input_bytes(), kTotal);
  for (const Fd& client : culprits) {
    char bytes[4096];
    const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0) continue;
    ++closed;
    EXPECT_EQ(
        std::string(bytes, static_cast<size_t>(n)),
        "-ERR clients have sent too much of commands that are not complete: client.input_total_bytes is 2000000\r\n");
  }
  EXPECT_GE(closed, 5U);
  EXPECT_LT(closed, 8U);
  for (const Fd& client : innocent) EXPECT_EQ(ask(client, "o"), "$5\r\nhe\r\no\r\n");
}

// Clients whose EXEC takes long send nothing meanwhile, and are not closed for it.
TEST_F(HeldTest, WhoWaitsForAnAnswerHasNotComeToAStop) {
  std::vector<Fd> clients;
  for (const char* key : {"a", "b", "c"}) {
    clients.push_back(connect_to(0));
    EXPECT_EQ(ask(clients.back(), "MULTI"), "+OK\r\n");
    for (int c = 0; c < 10; ++c) {
      const std::string set = std::string("SET ") + key + std::to_string(c) + " " + std::string(50'000, 'x');
      EXPECT_EQ(ask(clients.back(), set), "+QUEUED\r\n");
    }
  }
  EXPECT_GT(shared_[0].input_bytes(), kTotal);
  for (const Fd& client : clients) say(client, "EXEC\r\n");
  for (int i = 0; i < 50; ++i) step(0);  // the other nodes do not answer
  clock_.now += 1'000'000'000;
  for (int i = 0; i < 50; ++i) step(0);
  EXPECT_EQ(shared_[0].clients.load(), 3U);
  std::string all_set = "*10\r\n";
  for (int c = 0; c < 10; ++c) all_set += "+OK\r\n";
  for (const Fd& client : clients) EXPECT_EQ(answer(client), all_set);
}

// Commands between MULTI and EXEC wait, too.
TEST_F(HeldTest, QueuedCommandsCount) {
  std::vector<Fd> clients;
  std::vector<std::string> heard(6);
  const auto hear_all = [&] {
    char bytes[65536];
    for (size_t i = 0; i < clients.size(); ++i) {
      const ssize_t n = recv(clients[i].get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (n > 0) heard[i].append(bytes, static_cast<size_t>(n));
    }
  };
  for (size_t i = 0; i < heard.size(); ++i) {
    clients.push_back(connect_to(0));
    EXPECT_EQ(ask(clients.back(), "MULTI"), "+OK\r\n");
    for (int c = 0; c < 10; ++c) {
      say(clients.back(), "SET a " + std::string(50'000, 'x'));
      steps(20);
      hear_all();
    }
    EXPECT_LE(shared_[0].input_bytes(), 2 * kTotal);
  }
  come_to_a_stop();
  hear_all();
  EXPECT_LE(shared_[0].input_bytes(), kTotal);
  const auto closed = std::count_if(heard.begin(), heard.end(), [](const std::string& text) {
    return text.find("client.input_total_bytes is 2000000") != std::string::npos;
  });
  EXPECT_GE(closed, 1);
  EXPECT_LT(closed, 6);
}

}  // namespace
}  // namespace weft
