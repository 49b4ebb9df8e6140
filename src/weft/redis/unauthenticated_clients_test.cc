// Unauthenticated connections keep nobody else out, and nobody can try passwords quickly.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/event_log.h"
#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr std::string_view kWrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

class StrangersTest : public FrontendTest {
 protected:
  static constexpr uint32_t kMax = 4;
  void SetUp() override {
    options_.password = "secret";
    options_.clients_max = kMax;
    FrontendTest::SetUp();
    clock_.step = 0;  // only the test advances time
  }
  EventLog* events() override { return &log_; }

  Fd connect_from(const char* address) {
    Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from{};
    from.sin_family = AF_INET;
    inet_pton(AF_INET, address, &from.sin_addr);
    EXPECT_EQ(bind(client.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&addresses_[0]), sizeof(sockaddr_in)), 0);
    steps(3);
    return client;
  }
  Fd silent() { return connect_from("127.0.0.1"); }
  Fd let_in() {
    Fd client = silent();
    EXPECT_EQ(ask(client, "AUTH secret"), "+OK\r\n");
    return client;
  }
  // What the client receives until the connection ends; "still there" if it does not.
  std::string last_words(const Fd& client) {
    std::string heard;
    char bytes[1024];
    for (int i = 0; i < 200; ++i) {
      steps(1);
      const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (n > 0) heard.append(bytes, static_cast<size_t>(n));
      if (n == 0 || (n < 0 && errno == ECONNRESET)) return heard;
    }
    return "still there";
  }
  // That many connections have delayed replies.
  size_t reply_delayed() const {
    size_t count = 0;
    for (const Client& client : fronts_[0]->clients()) {
      if (!client.output.empty()) ++count;
    }
    return count;
  }
  std::vector<std::string> said(std::string_view name) const {
    std::vector<std::string> out;
    for (const LoggedEvent& event : log_.since(0)) {
      if (event.name == name) out.push_back(event.json());
    }
    return out;
  }
  FrontendShared::Counted& counted() { return shared_[0].counted[0]; }

  EventLog log_{-1, EventLog::Form::kJson, &wall_};
};

TEST_F(StrangersTest, ThereIsADeadlineForThePassword) {
  const Fd good = let_in();
  const Fd quiet = silent();
  const Fd chatty = silent();
  EXPECT_EQ(counted().unauthenticated, 2U);
  EXPECT_LE(fronts_[0]->deadline_ns(), clock_.now + 10 * kSecond);
  clock_.now += 9 * kSecond;
  EXPECT_EQ(ask(chatty, "PING"), "-NOAUTH Authentication required.\r\n");
  say(quiet, "*2\r\n$4\r\nAUTH\r\n$6\r\nsec");
  EXPECT_EQ(last_words(quiet), "still there");
  clock_.now += kSecond;
  const std::string why = "-ERR no password in time: client.handshake_ms is 10000\r\n";
  EXPECT_EQ(last_words(quiet), why);
  EXPECT_EQ(last_words(chatty), why);
  EXPECT_EQ(ask(good, "PING"), "+PONG\r\n");
  EXPECT_EQ(counted().unauthenticated, 0U);
  EXPECT_EQ(counted().late, 2U);
  ASSERT_EQ(said("client_late").size(), 1U);  // and one that was suppressed
  EXPECT_NE(said("client_late")[0].find("no password within client.handshake_ms"), std::string::npos);
  clock_.now += 100 * kSecond;
  EXPECT_EQ(last_words(good), "still there");
  EXPECT_EQ(fronts_[0]->deadline_ns(), UINT64_MAX);
}

TEST_F(StrangersTest, ResetMakesAStrangerAgain) {
  const Fd client = let_in();
  clock_.now += 60 * kSecond;
  EXPECT_EQ(ask(client, "RESET"), "+RESET\r\n");
  EXPECT_EQ(counted().unauthenticated, 1U);
  clock_.now += 9 * kSecond;
  EXPECT_EQ(last_words(client), "still there");
  EXPECT_EQ(ask(client, "AUTH secret"), "+OK\r\n");
  clock_.now += 9 * kSecond;
  EXPECT_EQ(last_words(client), "still there");
  EXPECT_EQ(ask(client, "RESET"), "+RESET\r\n");
  clock_.now += 10 * kSecond;
  EXPECT_NE(last_words(client), "still there");
}

// A client that does not read its replies, and has been refused, has a deadline as well.
TEST_F(StrangersTest, OneThatIsAboutToBeClosedGoesInTime) {
  const Fd client = silent();
  say(client, "AUTH wrong\r\n*11");
  steps(5);
  EXPECT_EQ(counted().unauthenticated, 1U);
  clock_.now += 10 * kSecond;
  EXPECT_NE(last_words(client), "still there");
  EXPECT_EQ(shared_[0].clients, 0U);
}

TEST_F(StrangersTest, AGoodClientGetsInThoughTheyFillTheNode) {
  std::vector<Fd> unauthenticated;
  for (uint32_t i = 0; i < kMax; ++i) unauthenticated.push_back(silent());
  EXPECT_EQ(shared_[0].clients, kMax);
  const Fd good = let_in();
  EXPECT_EQ(shared_[0].clients, kMax);
  EXPECT_EQ(last_words(unauthenticated[0]), "");
  for (uint32_t i = 1; i < kMax; ++i) EXPECT_EQ(last_words(unauthenticated[i]), "still there") << i;
  for (int i = 0; i < 20; ++i) unauthenticated.push_back(silent());
  EXPECT_EQ(ask(good, "SET a 1"), "+OK\r\n");
  EXPECT_EQ(shared_[0].clients, kMax);
  EXPECT_EQ(counted().evicted, 21U);
  EXPECT_EQ(counted().refused, 0U);
  ASSERT_EQ(said("client_evicted").size(), 1U);
  clock_.now += kSecond;
  unauthenticated.push_back(silent());
  ASSERT_EQ(said("client_evicted").size(), 2U);
  EXPECT_NE(said("client_evicted")[1].find("\"unsaid\":20"), std::string::npos);
}

TEST_F(StrangersTest, WhoWasLetInStays) {
  std::vector<Fd> good;
  for (uint32_t i = 0; i < kMax; ++i) good.push_back(let_in());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(last_words(silent()), "-ERR max number of clients reached: clients_max is 4\r\n");
  }
  for (const Fd& client : good) EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
  EXPECT_EQ(counted().refused, 3U);
  ASSERT_EQ(said("client_refused").size(), 1U);
  EXPECT_NE(said("client_refused")[0].find("127.0.0.1:"), std::string::npos);
  EXPECT_NE(ask(good[0], "INFO stats").find("rejected_connections:3\r\n"), std::string::npos);
  good.pop_back();
  steps(5);
  good.push_back(let_in());
}

// However many come from one source, a client from elsewhere has its full time.
TEST_F(StrangersTest, ThoseFromElsewhereStay) {
  const Fd other = connect_from("127.0.0.2");  // the oldest
  std::vector<Fd> crowd;
  for (int i = 0; i < 50; ++i) crowd.push_back(silent());
  EXPECT_EQ(ask(other, "AUTH secret"), "+OK\r\n");
}

TEST_F(StrangersTest, AWrongPasswordIsAnsweredLaterEachTime) {
  const Fd client = silent();
  const Fd other = let_in();
  uint64_t before = 0;
  for (int i = 0; i < 5; ++i) {
    say(client, "AUTH nonsense");
    steps(10);
    ASSERT_EQ(reply_delayed(), 1U) << i;
    EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
    EXPECT_FALSE(fronts_[0]->poll());  // it does not spin
    const uint64_t due = fronts_[0]->clients().front().delayed_until_ns;
    EXPECT_GT(due - clock_.now, before);
    EXPECT_LE(fronts_[0]->deadline_ns(), std::max(due, clock_.now + kSecond / 10));
    before = due - clock_.now;
    clock_.now = due - 1;
    steps(10);
    ASSERT_EQ(reply_delayed(), 1U) << i;
    clock_.now += kSecond / 10;  // it is checked ten times a second
    EXPECT_EQ(answer(client), kWrong);
  }
  EXPECT_EQ(ask(client, "AUTH secret"), "+OK\r\n");
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
  EXPECT_EQ(counted().wrong_passwords, 5U);
  EXPECT_NE(ask(client, "INFO stats").find("acl_access_denied_auth:5\r\n"), std::string::npos);
  for (const std::string& event : said("wrong_password")) EXPECT_EQ(event.find("nonsense"), std::string::npos);
}

TEST_F(StrangersTest, NoSecondPasswordIsTriedMeanwhile) {
  const Fd client = silent();
  std::string guesses = "HELLO 3 AUTH default a\r\nHELLO 3 AUTH default b";
  for (int i = 0; i < 100; ++i) guesses += "\r\nAUTH c";
  say(client, guesses);
  steps(100);
  EXPECT_EQ(counted().wrong_passwords, 1U);
  clock_.now += kSecond;
  EXPECT_EQ(answer(client), kWrong);  // and the next is tried
  steps(100);
  EXPECT_EQ(counted().wrong_passwords, 2U);
  clock_.now += 9 * kSecond;
  EXPECT_NE(last_words(client), "still there");
  EXPECT_EQ(shared_[0].clients, 0U);
  ASSERT_EQ(said("wrong_password").size(), 2U);
}

// One connection per attempt, without waiting.
TEST_F(StrangersTest, SoAreThoseOfOneAddress) {
  for (uint32_t i = 0; i < PasswordThrottle::kFree + 10; ++i) {
    const Fd client = silent();
    say(client, "AUTH nonsense");
    steps(5);
  }
  EXPECT_EQ(counted().wrong_passwords, PasswordThrottle::kFree + 10);
  const Fd client = silent();
  say(client, "AUTH secret");
  steps(10);
  const Client& last = fronts_[0]->clients().back();
  EXPECT_FALSE(last.output.empty());  // and silence reveals nothing
  EXPECT_FALSE(last.unauthenticated);
  const Fd other = connect_from("127.0.0.2");
  EXPECT_EQ(ask(other, "AUTH secret"), "+OK\r\n");
  clock_.now += kSecond;
  EXPECT_EQ(answer(client), "+OK\r\n");
}

// There is nothing to guess.
TEST_F(FrontendTest, WithoutAPasswordNoAnswerIsHeldBack) {
  const Fd client = connect_to(0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(client, "AUTH somebody x"), kWrong);
  EXPECT_EQ(shared_[0].counted[0].wrong_passwords, 20U);
  EXPECT_EQ(shared_[0].counted[0].unauthenticated, 0U);
}

class IdleTest : public StrangersTest {
 protected:
  void SetUp() override {
    options_.idle_seconds = 30;
    options_.keepalive_seconds = 90;
    StrangersTest::SetUp();
  }
};

TEST_F(IdleTest, WhoAsksNothingIsClosed) {
  const Fd busy = let_in();
  const Fd idle = let_in();
  const Fd sleeper = let_in();
  say(sleeper, "DEBUG SLEEP 100");
  steps(5);
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(fronts_[0]->deadline_ns(), clock_.now + 30 * kSecond);
    clock_.now += 5 * kSecond;
    EXPECT_EQ(ask(busy, "PING"), "+PONG\r\n");
  }
  EXPECT_EQ(last_words(idle), "");
  EXPECT_EQ(last_words(busy), "still there");
  EXPECT_EQ(last_words(sleeper), "still there");
  EXPECT_EQ(counted().idle, 1U);
  EXPECT_EQ(said("client_idle").size(), 1U);
  clock_.now += 50 * kSecond;
  EXPECT_EQ(answer(sleeper), "+OK\r\n");
  clock_.now += 30 * kSecond;
  EXPECT_EQ(last_words(sleeper), "");
  EXPECT_EQ(shared_[0].clients, 0U);
}

TEST_F(IdleTest, TheKernelAsksWhoIsSilent) {
  const Fd client = let_in();
  const int fd = fronts_[0]->clients().front().stream.fd();
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t bytes = sizeof value;
    EXPECT_EQ(getsockopt(fd, level, name, &value, &bytes), 0);
    return value;
  };
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 90);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 30);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPCNT), 3);
  EXPECT_NE(ask(client, "CONFIG GET tcp-keepalive").find("\r\n90\r\n"), std::string::npos);
  EXPECT_NE(ask(client, "CONFIG GET timeout").find("\r\n30\r\n"), std::string::npos);
}

// The first node has two workers, each with its own frontend and listener.
class WorkersTest : public StrangersTest {
 protected:
  void shape(ClusterSpec& spec) override { spec.options.workers = 2; }
  void SetUp() override {
    StrangersTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(add_front(0, 1));
    steps(3);
    first_door_ = std::exchange(addresses_[0], addresses_[kSecondWorker]);
  }
  sockaddr_in first_door_{};
};

TEST_F(WorkersTest, TheStrangersOfAnotherWorkerMakeRoom) {
  std::vector<Fd> unauthenticated;
  for (uint32_t i = 0; i < kMax; ++i) unauthenticated.push_back(silent());
  addresses_[0] = first_door_;
  std::vector<Fd> good;
  for (uint32_t i = 0; i < kMax; ++i) {
    good.push_back(let_in());
    EXPECT_EQ(shared_[0].clients, kMax);
  }
  EXPECT_EQ(counted().evicted, 0U);
  EXPECT_EQ(shared_[0].counted[1].evicted, kMax);
  EXPECT_EQ(shared_[0].counted[1].evictions_asked, 0U);
  EXPECT_NE(last_words(silent()), "still there");  // there are none any more
  EXPECT_EQ(counted().refused, 1U);
  for (const Fd& client : good) EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
}

}  // namespace
}  // namespace weft
