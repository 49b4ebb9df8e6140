// The front end's own commands, over real sockets: three nodes in this thread, stepped by hand, a front at each.
#include "weft/server/front.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fabric/local.h"
#include "weft/server/digest.h"
#include "weft/txn/node.h"

namespace weft {
namespace {

class HandClock final : public Clock {
 public:
  uint64_t now_ns() override { return now += 1000; }
  uint64_t now = 0;
};

class FrontTest : public testing::Test, public Environment {
 protected:
  static constexpr size_t kNodes = 3;

  void SetUp() override {
    ClusterSpec spec;
    spec.options.nodes = kNodes;
    spec.options.limits.inflight = 8;
    spec.recovers = true;
    spec.tables.push_back({.name = "keys", .keys = KeyKind::kBytes, .value_bytes_max = 64, .capacity = 20'000});
    fabric_ = std::make_unique<LocalFabric>(LocalOptions{.nodes = kNodes});
    view_ = make_view(kNodes, kNodes, kNodes);
    for (uint8_t n = 0; n < kNodes; ++n) {
      regions_[n] = std::make_unique<Regions>();
      fabric_->set_regions(NodeId(n), regions_[n].get());
      auto node = Node::create(NodeId(n), spec, view_, this);
      ASSERT_TRUE(node) << node.error().text();
      nodes_.push_back(std::move(*node));
      Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t bytes = sizeof at;
      ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
      ASSERT_EQ(listen(listener.get(), 64), 0);
      ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
      addresses_.push_back(at);
      fronts_.push_back(
          std::make_unique<Front>(options_, std::move(listener), nodes_[n]->engine(WorkerId(0)), NodeHooks{}));
      nodes_[n]->worker(WorkerId(0))->set_clients(fronts_[n].get());
    }
    steps(3);
  }

  Clock* clock(NodeId) override { return &clock_; }
  Charges* charges(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId node, WorkerId worker) override { return fabric_->wire(node, worker); }
  Regions* regions(NodeId node) override { return regions_[node.value].get(); }
  uint64_t seed(NodeId node, WorkerId) override { return node.value; }

  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      for (size_t n = first_; n < kNodes; ++n) nodes_[n]->worker(WorkerId(0))->step();
    }
  }

  Fd connect_to(size_t node) {
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&addresses_[node]), sizeof(sockaddr_in)), 0);
    return client;
  }
  static void say(const Fd& client, std::string_view line) {
    const std::string text = std::string(line) + "\r\n";
    EXPECT_EQ(send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // The answer as it comes over the wire; empty if none comes.
  std::string answer(const Fd& client) {
    char bytes[65536];
    for (int i = 0; i < 5000; ++i) {
      steps(1);
      const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (n > 0) return {bytes, static_cast<size_t>(n)};
    }
    return {};
  }
  std::string ask(const Fd& client, std::string_view line) {
    say(client, line);
    return answer(client);
  }
  // The id that WEFT MULTI answers.
  std::string begin(const Fd& client) {
    const std::string bulk = ask(client, "WEFT MULTI");
    EXPECT_EQ(bulk.substr(0, 1), "$") << bulk;
    const size_t at = bulk.find("\r\n") + 2;
    return bulk.substr(at, bulk.size() - at - 2);
  }

  HandClock clock_;
  View view_;
  std::unique_ptr<Regions> regions_[kNodes];
  std::unique_ptr<LocalFabric> fabric_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<sockaddr_in> addresses_;
  std::vector<std::unique_ptr<Front>> fronts_;
  size_t first_ = 0;  // that still runs
  FrontOptions options_;
};

TEST_F(FrontTest, AnyNodeSaysHowATransactionEnded) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(2);
  const std::string id = begin(client);
  EXPECT_EQ(ask(client, "SET a 1"), "+QUEUED\r\n");
  EXPECT_EQ(ask(client, "GET a"), "+QUEUED\r\n");
  EXPECT_EQ(ask(client, "EXEC"), "*2\r\n+OK\r\n$1\r\n1\r\n");
  EXPECT_EQ(ask(other, "WEFT OUTCOME " + id), "+committed\r\n");
  EXPECT_EQ(ask(client, "WEFT OUTCOME " + id), "+committed\r\n");
  EXPECT_EQ(ask(other, "GET a"), "$1\r\n1\r\n");
  // The connection is as before.
  EXPECT_EQ(ask(client, "EXEC"), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(ask(client, "SET a 2"), "+OK\r\n");
}

TEST_F(FrontTest, ItIsRunOnce) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(2);
  EXPECT_EQ(ask(other, "SET a 1"), "+OK\r\n");
  const std::string id = begin(client);
  EXPECT_EQ(ask(client, "INCR a"), "+QUEUED\r\n");
  // EXEC and another's write of the same key meet: whoever loses is not tried again here.
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

TEST_F(FrontTest, DiscardOrGoingAwayAbortsIt) {
  const Fd other = connect_to(1);
  const Fd client = connect_to(0);
  const std::string discarded = begin(client);
  EXPECT_EQ(ask(client, "SET a 1"), "+QUEUED\r\n");
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

TEST_F(FrontTest, ItIsDroppedWhenExecDoesNotCome) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(1);
  const std::string id = begin(client);
  EXPECT_EQ(ask(client, "SET a 1"), "+QUEUED\r\n");
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

TEST_F(FrontTest, FewAreHeldAtATime) {
  std::vector<Fd> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connect_to(0));
    begin(clients.back());
  }
  const Fd more = connect_to(0);
  EXPECT_EQ(ask(more, "WEFT MULTI"), "-ERR too many WEFT MULTI: multi_held_max is 4\r\n");
  EXPECT_EQ(ask(more, "SET a 1"), "+OK\r\n");
  EXPECT_EQ(ask(clients[0], "DISCARD"), "+OK\r\n");
  begin(more);
}

TEST_F(FrontTest, BadIdsAreRefusedByTheirForm) {
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
  EXPECT_EQ(ask(client, "WEFT OUTCOME"), "-ERR WEFT takes STATUS, DIGEST, MULTI or OUTCOME id\r\n");
  EXPECT_EQ(ask(client, "MULTI"), "+OK\r\n");
  EXPECT_TRUE(ask(client, "WEFT MULTI").starts_with("-ERR unknown command"));
}

// A view that never becomes active: who asks is told so, not left waiting.
TEST_F(FrontTest, AnOutcomeThatNobodyCanTellIsNotWaitedForForEver) {
  const Fd client = connect_to(0);
  const Fd other = connect_to(1);
  const std::string id = begin(client);
  const std::string open = begin(other);
  first_ = 1;
  const Result<View> next = without_members(view_, 1);
  ASSERT_TRUE(next);
  nodes_[1]->publish(std::make_shared<const View>(*next));  // and node 2 never hears of it
  const Fd asks = connect_to(1);
  EXPECT_EQ(ask(asks, "WEFT OUTCOME " + id), "");
  clock_.now += 10'000'000'000;
  EXPECT_EQ(answer(asks),
            "-TRYAGAIN the outcome is not known after 10000 ms (limits.outcome_wait_ms): the view is not active\r\n");
  nodes_[2]->publish(std::make_shared<const View>(*next));
  EXPECT_EQ(ask(asks, "WEFT OUTCOME " + id), "+forgotten\r\n");
}

class FrontLimitsTest : public FrontTest {
 protected:
  void SetUp() override {
    options_.reply_bytes_max = 2000;
    options_.output_held_bytes = 50'000;
    FrontTest::SetUp();
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
  for (const char* command : {"MGET", "EXISTS", "DEL", "UNLINK"}) {
    EXPECT_FALSE(ask(client, command + times(" a", 64)).starts_with("-")) << command;
    EXPECT_EQ(ask(client, command + times(" a", 65)), refused(65));
    EXPECT_EQ(ask(client, command + times(" a", 30'000)), refused(30'000));
  }
  EXPECT_EQ(ask(client, "MSET" + times(" a 1", 64)), "+OK\r\n");
  EXPECT_EQ(ask(client, "MSET" + times(" a 1", 65)), refused(65));
  EXPECT_EQ(ask(client, "SET a 1" + times(" NX", 1000)), "-ERR syntax error\r\n");
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

// Who does not read is not served any more, holds little, and gets everything once it reads.
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
  EXPECT_FALSE(fronts_[0]->flush());  // nothing to do but to wait
  std::string unsaid = said % asks.size() == 0 ? "" : asks.substr(said % asks.size());
  const size_t rounds = said / asks.size() + (unsaid.empty() ? 0 : 1);
  const std::string round = times("$60\r\n" + std::string(60, 'x') + "\r\n", 10) + "+PONG\r\n";
  std::string heard;
  while (heard.size() < rounds * round.size()) {
    const std::string more = answer(client);
    ASSERT_FALSE(more.empty()) << heard.size() << " of " << rounds * round.size();
    heard += more;
    if (unsaid.empty()) continue;
    const ssize_t n = send(client.get(), unsaid.data(), unsaid.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) unsaid.erase(0, static_cast<size_t>(n));
  }
  EXPECT_EQ(heard, times(round, rounds));
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
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
            "-ERR too many bytes in MULTI: limits.txn_bytes_max is 1048576, asked for 1080018\r\n");
  EXPECT_EQ(ask(client, "SET k 1"), "+QUEUED\r\n");
  EXPECT_TRUE(ask(client, "EXEC").starts_with("-EXECABORT"));
  EXPECT_EQ(ask(client, "GET k"), "$-1\r\n");
  // It counts anew each time.
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
  EXPECT_TRUE(text.starts_with("-ERR rejected: ")) << text;
  EXPECT_NE(text.find(": table keys: at most "), std::string::npos) << text;
  EXPECT_NE(text.find("capacity 20000 in 3 partitions"), std::string::npos) << text;
}

TEST_F(FrontTest, ARemovedNodeSaysSo) {
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "SET a 1"), "+OK\r\n");
  const Result<View> next = without_members(view_, 1);
  ASSERT_TRUE(next);
  for (const auto& node : nodes_) node->publish(std::make_shared<const View>(*next));
  EXPECT_EQ(ask(client, "GET a"),
            "-ERR rejected: this node was removed from the view and starts over: ask another node\r\n");
}

TEST_F(FrontTest, PingAndEchoInMulti) {
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

class DigestTest : public FrontTest {
 protected:
  static constexpr uint64_t kRecords = 5000;

  void SetUp() override {
    FrontTest::SetUp();
    for (uint64_t i = 0; i < kRecords; ++i) {
      const std::string key = "key" + std::to_string(i);
      for (const auto& node : nodes_) ASSERT_TRUE(node->load(TableId(0), as_bytes(key), as_bytes(key)));
    }
  }
  static uint64_t records(const nlohmann::json& digest) {
    uint64_t sum = 0;
    for (const auto& [partition, tables] : digest["partitions"].items())
      sum += tables["keys"]["records"].get<uint64_t>();
    return sum;
  }
};

TEST_F(DigestTest, EachStepIsBoundedAndTheSumIsWhole) {
  constexpr uint64_t kSlotsOfABin = 15;
  std::string texts[2];
  for (size_t n : {0U, 1U}) {
    DigestWalk walk(*nodes_[n], view_);
    int steps = 1;
    for (uint64_t before = 0; !walk.step(); ++steps) {
      const uint64_t now = records(nlohmann::json::parse(walk.text()));
      EXPECT_LE(now - before, kSlotsOfABin * DigestWalk::kBins);
      before = now;
    }
    EXPECT_GT(steps, 10);
    nlohmann::json digest = nlohmann::json::parse(walk.text());
    EXPECT_EQ(records(digest), kRecords);
    EXPECT_EQ(digest["locked"], 0);
    EXPECT_EQ(digest["unreadable"], 0);
    const std::vector<Digest> at_once = digests_of(*nodes_[n]->table(TableId(0)), kNodes);
    for (size_t p = 0; p < kNodes; ++p) {
      const nlohmann::json& one = digest["partitions"][std::to_string(p)]["keys"];
      EXPECT_EQ(one["sum"], at_once[p].sum);
      EXPECT_EQ(one["absence"], at_once[p].absence);
    }
    digest.erase("node");
    texts[n] = digest.dump();
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(DigestTest, OthersAreServedMeanwhile) {
  const Fd asks = connect_to(0);
  const Fd again = connect_to(0);
  const Fd other = connect_to(0);
  EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
  const auto heard = [](const Fd& client) {
    char bytes[65536];
    const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : std::string();
  };
  say(asks, "WEFT DIGEST");
  say(again, "weft digest");
  std::string answers[2];
  int served = 0;
  for (int i = 0; i < 5000 && (answers[0].empty() || answers[1].empty()); ++i) {
    // Writes of what is there, of what is new, and of what was there: the walk meets all of them.
    const std::string n = std::to_string(i);
    const bool erase = i % 3 == 2;
    say(other, erase ? "DEL key" + n : (i % 3 == 0 ? "SET key" : "SET new") + n + " other");
    for (std::string text; text.empty(); text = heard(other)) steps(1);
    ++served;
    if (answers[0].empty()) answers[0] = heard(asks);
    if (answers[1].empty()) answers[1] = heard(again);
    if (i < 3) {
      EXPECT_EQ(answers[0] + answers[1], "");
    }
  }
  EXPECT_GT(served, 5);
  for (const std::string& text : answers) {
    ASSERT_EQ(text.substr(0, 1), "$");
    EXPECT_TRUE(nlohmann::json::accept(text.substr(text.find('{')))) << text;
  }
}

TEST_F(FrontTest, AnIdleConnectionGivesItsBuffersBack) {
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

// The coordinator is gone before it answers: another node knows.
TEST_F(FrontTest, ASurvivorKnowsWhatBecameOfIt) {
  for (const int more : {0, 1, 2, 3, 5, 8, 20}) {
    SCOPED_TRACE(more);
    fronts_.clear();
    nodes_.clear();
    addresses_.clear();
    first_ = 0;
    SetUp();
    const Fd client = connect_to(0);
    const Fd other = connect_to(1);
    const std::string id = begin(client);
    EXPECT_EQ(ask(client, "SET a 1"), "+QUEUED\r\n");
    say(client, "EXEC");
    steps(more);
    first_ = 1;
    const Result<View> next = without_members(view_, 1);
    ASSERT_TRUE(next);
    for (size_t n = 1; n < kNodes; ++n) nodes_[n]->publish(std::make_shared<const View>(*next));
    const std::string fate = ask(other, "WEFT OUTCOME " + id);
    const std::string value = ask(other, "GET a");
    if (fate == "+committed\r\n") {
      EXPECT_EQ(value, "$1\r\n1\r\n");
    } else {
      EXPECT_TRUE(fate == "+aborted\r\n" || fate == "+forgotten\r\n") << fate;
      EXPECT_EQ(value, "$-1\r\n");
    }
    if (more == 0) {
      EXPECT_NE(fate, "+committed\r\n");
    }
    if (more == 20) {
      EXPECT_EQ(fate, "+committed\r\n");
    }
  }
}

}  // namespace
}  // namespace weft
