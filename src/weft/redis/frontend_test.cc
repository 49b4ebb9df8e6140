// The frontend's own commands, over real sockets: three nodes in this thread, stepped by hand, a frontend at each.
#include "weft/redis/frontend.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

TEST_F(FrontendTest, AnyNodeSaysHowATransactionEnded) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(2);
  const std::string id = begin(client, {"SET a 1", "GET a"});
  EXPECT_EQ(ask(client, "EXEC"), "*2\r\n+OK\r\n$1\r\n1\r\n");
  EXPECT_EQ(ask(other, "WEFT OUTCOME " + id), "+committed\r\n");
  EXPECT_EQ(ask(client, "WEFT OUTCOME " + id), "+committed\r\n");
  EXPECT_EQ(ask(other, "GET a"), "$1\r\n1\r\n");
  // The connection is as before.
  EXPECT_EQ(ask(client, "EXEC"), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(ask(client, "SET a 2"), "+OK\r\n");
}

TEST_F(FrontendTest, ItIsRunOnce) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(2);
  EXPECT_EQ(ask(other, "SET a 1"), "+OK\r\n");
  begin(client, {"INCR a"});
  // EXEC conflicts with another client's write of the same key: the loser is not retried here.
  int aborts = 0;
  for (int i = 0; i < 200 && aborts == 0; ++i) {
    const Fd one = connect_to(0);
    const Fd two = connect_to(2);
    const std::string first = begin(one);
    const std::string second = begin(two);
    ask(one, "INCR b");
    ask(two, "INCR b");
    say(one, "EXEC");
    say(two, "EXEC");
    const std::string answers[] = {answer(one), answer(two)};
    for (const std::string& text : answers) {
      EXPECT_TRUE(text.starts_with("*1\r\n:") || text.starts_with("-ABORTED ")) << text;
      if (!text.starts_with("-ABORTED ")) continue;
      ++aborts;
      EXPECT_EQ(ask(other, "WEFT OUTCOME " + (&text == &answers[0] ? first : second)), "+aborted\r\n");
    }
  }
  EXPECT_GT(aborts, 0);
  EXPECT_EQ(ask(client, "EXEC"), "*1\r\n:2\r\n");
}

TEST_F(FrontendTest, DiscardOrGoingAwayAbortsIt) {
  const Fd other = connect_to(1);
  const Fd client = connect_to(0);
  const std::string discarded = begin(client, {"SET a 1"});
  EXPECT_EQ(ask(client, "DISCARD"), "+OK\r\n");
  EXPECT_EQ(ask(other, "WEFT OUTCOME " + discarded), "+aborted\r\n");
  std::string left;
  {
    const Fd leaving = connect_to(0);
    left = begin(leaving);
  }
  EXPECT_EQ(ask(other, "WEFT OUTCOME " + left), "+aborted\r\n");
  const std::string bad = begin(client);
  EXPECT_TRUE(ask(client, "NOSUCH a").starts_with("-ERR unknown command"));
  EXPECT_TRUE(ask(client, "EXEC").starts_with("-EXECABORT"));
  EXPECT_EQ(ask(other, "WEFT OUTCOME " + bad), "+aborted\r\n");
  EXPECT_EQ(ask(other, "GET a"), "$-1\r\n");
}

TEST_F(FrontendTest, ItIsDroppedWhenExecDoesNotCome) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(1);
  const std::string id = begin(client, {"SET a 1"});
  EXPECT_LE(fronts_[0]->deadline_ns(), clock_.now + 5'000'000'000);
  say(other, "WEFT OUTCOME " + id);
  EXPECT_EQ(answer(other), "");  // it is open
  clock_.now += 5'000'000'000;
  EXPECT_EQ(answer(other), "+aborted\r\n");
  EXPECT_EQ(fronts_[0]->deadline_ns(), UINT64_MAX);
  EXPECT_EQ(ask(client, "EXEC"), "-ABORTED the transaction was dropped: multi_held_ms is 5000\r\n");
  EXPECT_EQ(ask(client, "EXEC"), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(ask(client, "GET a"), "$-1\r\n");
}

TEST_F(FrontendTest, FewAreHeldAtATime) {
  std::vector<Fd> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connect_to(0));
    begin(clients.back());
  }
  EXPECT_EQ(txn_worker(0)->context().conflicts.in_progress(), 0U) << "they keep no credit from others";
  const Fd more = connect_to(0);
  EXPECT_EQ(ask(more, "WEFT MULTI"), "-ERR too many WEFT MULTI: multi_held_max is 4\r\n");
  EXPECT_EQ(ask(more, "SET a 1"), "+OK\r\n");
  EXPECT_EQ(ask(clients[0], "DISCARD"), "+OK\r\n");
  begin(more);
}

TEST_F(FrontendTest, BadIdsAreRefusedByTheirForm) {
  const Fd client = connect_to(0);
  for (const char* id : {"1", "1.2", "1.2.", "a.b.c", "1.0.2x", "1.0.2.3", ".0.1", "-1.0.1", "1.300.1", "1..1",
                         "99999999999.0.1", "1.0.99999999999999999999"}) {
    EXPECT_EQ(ask(client, std::string("WEFT OUTCOME ") + id),
              "-ERR an id is incarnation.worker.sequence, as WEFT MULTI answers it\r\n")
        << id;
  }
  for (const char* id : {"0.0.0", "1.0.77", "1.63.1", "4000000000.0.1", "1.0.18446744073709551615"}) {
    EXPECT_EQ(ask(client, std::string("WEFT OUTCOME ") + id), "+forgotten\r\n") << id;
  }
  EXPECT_EQ(ask(client, "WEFT OUTCOME"), "-ERR wrong number of arguments for 'weft|outcome' command\r\n");
  EXPECT_EQ(ask(client, "WEFT NOSUCH"), "-ERR unknown subcommand 'NOSUCH'. Try WEFT HELP.\r\n");
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  EXPECT_EQ(ask(client, "WEFT MULTI"), "-ERR Command not allowed inside a transaction\r\n");
}

// A view that never becomes active: clients are told so, not left waiting.
TEST_F(FrontendTest, AnOutcomeThatNobodyCanTellIsNotWaitedForForEver) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(1);
  const std::string id = begin(client);
  const std::string open = begin(other);
  first_ = 1;
  const auto next = view_without(NodeId(0));
  nodes_[1]->state().views.publish(next);  // and node 2 never learns of it
  const Fd asks = connect_to(1);
  EXPECT_EQ(ask(asks, "WEFT OUTCOME " + id), "");
  clock_.now += 10'000'000'000;
  EXPECT_EQ(
      answer(asks),
      "-TRYAGAIN the outcome is not known after 10000 ms (limits.outcome_timeout_ms): the view is not active\r\n");
  nodes_[2]->state().views.publish(next);
  EXPECT_EQ(ask(asks, "WEFT OUTCOME " + id), "+forgotten\r\n");
}

TEST_F(FrontendTest, ARemovedNodeSaysSo) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "SET a 1"), "+OK\r\n");
  const auto next = view_without(NodeId(0));
  for (const auto& node : nodes_) node->state().views.publish(next);
  EXPECT_EQ(ask(client, "GET a"),
            "-ERR rejected: this node was removed from the view and starts over: ask another node\r\n");
}

TEST_F(FrontendTest, PingAndEchoInMulti) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
  EXPECT_EQ(ask(client, "ping a"), "$1\r\na\r\n");
  EXPECT_EQ(ask(client, "PING a b"), "-ERR wrong number of arguments for 'ping' command\r\n");
  EXPECT_EQ(ask(client, "ECHO"), "-ERR wrong number of arguments for 'echo' command\r\n");
  EXPECT_EQ(ask(client, "ECHO a b"), "-ERR wrong number of arguments for 'echo' command\r\n");
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  for (const char* line : {"PING", "PING a", "ECHO b", "PING a b"}) EXPECT_EQ(ask(client, line), "+QUEUED\r\n");
  EXPECT_EQ(ask(client, "EXEC"),
            "*4\r\n+PONG\r\n$1\r\na\r\n$1\r\nb\r\n-ERR wrong number of arguments for 'ping' command\r\n");
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  EXPECT_EQ(ask(client, "ECHO"), "-ERR wrong number of arguments for 'echo' command\r\n");
  EXPECT_TRUE(ask(client, "EXEC").starts_with("-EXECABORT"));
}

TEST_F(FrontendTest, AnIdleConnectionGivesItsBuffersBack) {
  std::vector<Fd> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(connect_to(0));
    EXPECT_EQ(ask(clients.back(), "ECHO " + std::string(30'000, 'x')).substr(0, 3), "$30");
  }
  steps(1);
  EXPECT_GT(fronts_[0]->buffer_bytes(), 300'000U);
  EXPECT_LT(fronts_[0]->deadline_ns(), clock_.now + 1'000'000'000);
  clock_.now += 1'000'000'000;
  steps(1);
  EXPECT_LT(fronts_[0]->buffer_bytes(), 10 * 100U);
  EXPECT_EQ(fronts_[0]->deadline_ns(), UINT64_MAX);
  for (const Fd& client : clients) EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
}

class LooksTest : public FrontendTest {
 protected:
  static constexpr uint64_t kLookNs = 1'000'000'000;
  uint64_t look_ns() const override { return kLookNs; }
  std::string said(const Fd& client) {
    char bytes[64];
    for (int i = 0; i < 20; ++i) nodes_[0]->worker(WorkerId(0))->step();  // of this node alone
    const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : std::string();
  }
  void look() { fronts_[0]->set_sleeping(false); }
};

// While a command waits for another node the sockets are looked at rarely; sooner if no command runs; and at once after
// a sleep.
TEST_F(LooksTest, AreAfterASleepAndEverySoOften) {
  const Fd busy = connect_to(0), other = connect_to(0);
  look();
  EXPECT_EQ(said(busy), "") << "accepts them";
  say(busy, "SET a 1");
  say(other, "PING");
  EXPECT_EQ(said(other), "") << "no look is due";
  clock_.now += kLookNs / 10;
  EXPECT_EQ(said(other), "+PONG\r\n");
  EXPECT_EQ(said(busy), "") << "the other replicas have not answered";
  say(other, "PING");
  clock_.now += kLookNs / 2;
  EXPECT_EQ(said(other), "") << "a command runs";
  look();
  EXPECT_EQ(said(other), "+PONG\r\n");
  say(other, "PING");
  clock_.now += kLookNs;
  EXPECT_EQ(said(other), "+PONG\r\n");
}

// The coordinator fails before it answers: another node knows the outcome.
TEST_F(FrontendTest, ASurvivorKnowsWhatBecameOfIt) {
  for (const int more : {0, 1, 2, 3, 5, 8, 20}) {
    SCOPED_TRACE(more);
    SetUp();
    const Fd client = connect_to(0);
    const Fd other = connect_to(1);
    const std::string id = begin(client, {"SET a 1"});
    say(client, "EXEC");
    steps(more);
    first_ = 1;
    const auto next = view_without(NodeId(0));
    for (size_t n = 1; n < kNodes; ++n) nodes_[n]->state().views.publish(next);
    const std::string status = ask(other, "WEFT OUTCOME " + id);
    const std::string value = ask(other, "GET a");
    if (status == "+committed\r\n") {
      EXPECT_EQ(value, "$1\r\n1\r\n");
    } else {
      EXPECT_TRUE(status == "+aborted\r\n" || status == "+forgotten\r\n") << status;
      EXPECT_EQ(value, "$-1\r\n");
    }
    if (more == 0) {
      EXPECT_NE(status, "+committed\r\n");
    }
    if (more == 20) {
      EXPECT_EQ(status, "+committed\r\n");
    }
  }
}

}  // namespace
}  // namespace weft
