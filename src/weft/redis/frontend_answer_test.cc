// Clients of a node that does not reach the others: every command is answered, and the answer is true.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class FrontAnswerTest : public FrontendTest {
 protected:
  static constexpr uint64_t kLongNs = 11'000'000'000;  // limits.answer_ms and a bit more

  // Only node 0 runs.
  void steps_alone(int count) {
    for (int i = 0; i < count; ++i) step(0);
  }
  // That many lines, read while nobody else runs.
  std::vector<std::string> lines_alone(const Fd& client, size_t count) {
    std::string heard;
    char bytes[65536];
    for (int i = 0; i < 5000 && static_cast<size_t>(std::count(heard.begin(), heard.end(), '\n')) < count; ++i) {
      steps_alone(1);
      const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (n > 0) heard.append(bytes, static_cast<size_t>(n));
      if (i > 1000) usleep(50);  // the kernel may be slow
    }
    std::vector<std::string> all;
    for (size_t at = 0; at < heard.size(); at = heard.find('\n', at) + 1) {
      all.push_back(heard.substr(at, heard.find('\r', at) - at));
    }
    return all;
  }
  // Until the command has been read.
  void hear_alone(uint64_t commands) {
    for (int i = 0; i < 5000 && shared_[0].commands() < commands; ++i) {
      steps_alone(1);
      if (i > 1000) usleep(50);
    }
    steps_alone(5);
  }
  // A key whose primary is that node.
  std::string key_of(NodeId primary, int n = 0) {
    for (int i = 0;; ++i) {
      const std::string key = "k" + std::to_string(i);
      if (Session(txn_worker(0)).primary_of(kTable, Key(std::string_view(key))) == primary && n-- == 0) return key;
    }
  }
  std::string one_alone(const Fd& client, const std::string& command) {
    const uint64_t before = shared_[0].commands();
    say(client, command);
    hear_alone(before + 1);
    char early;
    EXPECT_EQ(recv(client.get(), &early, 1, MSG_DONTWAIT | MSG_PEEK), -1) << command;
    clock_.now += kLongNs;
    const std::vector<std::string> heard = lines_alone(client, 1);
    return heard.empty() ? "" : heard[0];
  }
};

TEST_F(FrontAnswerTest, NothingHappenedOrUnknownAndNeverUnknownOfARead) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "SET " + key_of(NodeId(1)) + " 1"), "+OK\r\n");
  const std::string nothing = "-TRYAGAIN nothing happened within 10000 ms (limits.answer_ms): ";
  for (const std::string& command : {"GET " + key_of(NodeId(1)), "MGET " + key_of(NodeId(1)) + " " + key_of(NodeId(2)),
                                     "EXISTS " + key_of(NodeId(2)), "STRLEN " + key_of(NodeId(1))}) {
    EXPECT_EQ(one_alone(client, command), nothing + "aborted: no answer in time, waited for node " +
                                              (command.starts_with("MGET")     ? "1 and 2"
                                               : command.starts_with("EXISTS") ? "2"
                                                                               : "1"))
        << command;
  }
  // Locks were requested at the primary, and nothing was replicated.
  EXPECT_EQ(one_alone(client, "SET " + key_of(NodeId(1)) + " 2"),
            nothing + "aborted: no answer in time, waited for node 1");
  // The primary is here, and the backups may have the write.
  const std::string unknown = one_alone(client, "SET " + key_of(NodeId(0)) + " 2");
  EXPECT_TRUE(unknown.starts_with("-UNKNOWN ")) << unknown;
  EXPECT_TRUE(unknown.ends_with(" unknown: no answer in time, waited for node 1 and 2")) << unknown;
  // The others come back: the answers were true.
  steps(300);
  clock_.now += 1'000'000'000;
  steps(300);
  EXPECT_EQ(ask(client, "GET " + key_of(NodeId(1))), "$1\r\n1\r\n");
  EXPECT_EQ(ask(client, "GET " + key_of(NodeId(0))), "$1\r\n2\r\n");
  const size_t id = unknown.find(' ') + 1;
  EXPECT_EQ(ask(client, "WEFT OUTCOME " + unknown.substr(id, unknown.find(' ', id) - id)), "+committed\r\n");
}

// Those after it in the pipeline have waited equally long: they do not wait again.
TEST_F(FrontAnswerTest, AllOfAPipeline) {
  const Fd client = connect_to(0);
  const std::string key = key_of(NodeId(1));
  const uint64_t before = shared_[0].commands();
  say(client, "GET " + key + "\r\nWEFT STATUS X\r\nSET " + key + " 3\r\nMULTI\r\nGET " + key + "\r\nEXEC\r\nWATCH " +
                  key + "\r\nGET " + key + "\r\nWEFT MULTI");
  hear_alone(before + 2);
  clock_.now += kLongNs;
  const std::vector<std::string> heard = lines_alone(client, 9);
  ASSERT_EQ(heard.size(), 9U);
  for (const size_t i : {0, 2, 5, 6, 7, 8}) {
    EXPECT_TRUE(heard[i].starts_with("-TRYAGAIN nothing happened within 10000 ms (limits.answer_ms): "))
        << i << ": " << heard[i];
  }
  EXPECT_EQ(heard[3], "+OK");
  EXPECT_EQ(heard[4], "+QUEUED");
  steps(300);
  EXPECT_EQ(ask(client, "GET " + key), "$-1\r\n");
}

// A read that runs together with a write is not unknown either.
TEST_F(FrontAnswerTest, AReadBesideAWrite) {
  const Fd client = connect_to(0);
  const std::string key = key_of(NodeId(0));
  const uint64_t before = shared_[0].commands();
  say(client, "GET " + key + "\r\nSET " + key + " 1\r\nGET " + key);
  hear_alone(before + 3);
  clock_.now += kLongNs;
  const std::vector<std::string> heard = lines_alone(client, 3);
  ASSERT_EQ(heard.size(), 3U);
  for (const size_t i : {0, 2}) EXPECT_TRUE(heard[i].starts_with("-TRYAGAIN nothing happened")) << heard[i];
  EXPECT_TRUE(heard[1].starts_with("-UNKNOWN ")) << heard[1];
}

// As long as there is only much to do and nothing fails, time counts from the last success.
TEST_F(FrontAnswerTest, ASuccessAheadGivesTimeAnew) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "SET a 1"), "+OK\r\n");
  say(client, "GET a");
  EXPECT_EQ(answer(client), "$1\r\n1\r\n");
  clock_.now += kLongNs;
  EXPECT_EQ(ask(client, "GET a"), "$1\r\n1\r\n");
}

TEST_F(FrontAnswerTest, WalksAndWhatBegins) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "SET a 1"), "+OK\r\n");
  nodes_[0]->state().views.publish(view_without(NodeId(2)));
  steps_alone(3);
  ASSERT_FALSE(txn_worker(0)->active());
  const std::string nothing = "-TRYAGAIN nothing happened within 10000 ms (limits.answer_ms): ";
  const std::string why = "the view is not active: not all of its nodes answer";
  for (const char* command : {"SCAN 0", "KEYS *", "DBSIZE", "RANDOMKEY", "FLUSHALL"}) {
    EXPECT_EQ(one_alone(client, command), nothing + why) << command;
  }
  for (const char* command : {"GET a", "SET a 2", "WATCH a", "WEFT MULTI"}) {
    EXPECT_EQ(one_alone(client, command), nothing + "rejected: no answer in time: " + why) << command;
  }
}

// What a client of Redis Cluster looks at.
TEST_F(FrontAnswerTest, TheStateOfTheClusterIsAsThisNodeSeesIt) {
  const Fd client = connect_to(0);
  EXPECT_NE(ask(client, "CLUSTER INFO").find("cluster_state:ok"), std::string::npos);
  nodes_[0]->state().lease.set_until(clock_.now);
  EXPECT_NE(ask(client, "CLUSTER INFO").find("cluster_state:fail"), std::string::npos);
}

// More connections than the node has transactions for, at one key and at many.
TEST_F(FrontAnswerTest, ManyConnections) {
  std::vector<Fd> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(connect_to(0));
    EXPECT_EQ(ask(clients.back(), "PING"), "+PONG\r\n");
  }
  const uint64_t before = shared_[0].commands();
  for (size_t i = 0; i < clients.size(); ++i) {
    say(clients[i], "INCR " + key_of(NodeId(static_cast<uint8_t>(i % 3)), i % 2 == 0 ? 0 : static_cast<int>(i)));
  }
  hear_alone(before + clients.size());
  size_t answered = 0;
  for (const Fd& client : clients) {
    clock_.now += kLongNs;
    const std::vector<std::string> heard = lines_alone(client, 1);
    if (heard.empty()) continue;
    ++answered;
    EXPECT_TRUE(heard[0].starts_with("-TRYAGAIN nothing happened") || heard[0].starts_with("-UNKNOWN ")) << heard[0];
  }
  EXPECT_EQ(answered, clients.size());
}

// A peer that violates the protocol is not reported as this node's own end.
TEST_F(FrontAnswerTest, ALostPeerIsNamed) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
  ASSERT_NO_FATAL_FAILURE(send_garbage(NodeId(0), Flow::kCommit));
  steps_alone(5);
  ASSERT_TRUE(txn_worker(0)->context().port.closed(NodeId(1)));
  const std::string heard = one_alone(client, "SET " + key_of(NodeId(1)) + " 1");
  EXPECT_TRUE(
      heard.starts_with("-TRYAGAIN nothing happened within 10000 ms (limits.answer_ms): aborted: the connection "
                        "to a node is lost"))
      << heard;
  EXPECT_NE(heard.find(", node 1"), std::string::npos) << heard;
}

}  // namespace
}  // namespace weft
