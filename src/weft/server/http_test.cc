#include "weft/server/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <list>
#include <string>

#include "weft/base/random.h"

namespace weft {
namespace {

class HandClock final : public Clock {
 public:
  uint64_t now_ns() override { return now; }
  uint64_t now = 1;
};

class HttpTest : public testing::Test {
 protected:
  HttpTest() { make({.listen = "127.0.0.1:0", .connections_max = 4, .request_bytes_max = 1000, .deadline_ms = 50}); }
  void make(const HttpOptions& options) {
    auto made = Http::create(options, &clock_);
    ASSERT_TRUE(made) << made.error().text();
    http_ = std::move(*made);
    http_->route("/", "text/html", [] { return std::string("<p>hello"); });
    http_->route("/status", "application/json", [this] { return "{\"calls\":" + std::to_string(++calls_) + "}"; });
  }
  Fd connect() const {
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(http_->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    pollfd made{socket.get(), POLLOUT, 0};
    EXPECT_EQ(poll(&made, 1, 10'000), 1);
    return socket;
  }
  static void say(const Fd& socket, std::string_view text) {
    EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Everything until the end of the connection.
  std::string hear(const Fd& socket) {
    std::string out;
    for (int i = 0; i < 10'000; ++i) {
      http_->step();
      char buffer[4096];
      const ssize_t n = recv(socket.get(), buffer, sizeof buffer, 0);
      if (n == 0) return out;
      if (n > 0) out.append(buffer, static_cast<size_t>(n));
      if (n < 0 && errno != EAGAIN) return out + " and an error: " + strerrordesc_np(errno);
      pollfd more{socket.get(), POLLIN, 0};
      if (n < 0) poll(&more, 1, 1);
    }
    ADD_FAILURE() << "it does not end: " << out;
    return out;
  }
  std::string ask(std::string_view request) {
    const Fd socket = connect();
    say(socket, request);
    return hear(socket);
  }

  HandClock clock_;
  std::unique_ptr<Http> http_;
  int calls_ = 0;
};

TEST_F(HttpTest, Pages) {
  const std::string page = ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200 OK\r\n")) << page;
  EXPECT_TRUE(page.ends_with("\r\n\r\n<p>hello")) << page;
  for (const char* header : {"Content-Type: text/html", "Content-Length: 8", "Connection: close",
                             "Cache-Control: no-store", "Content-Security-Policy: default-src 'none'"}) {
    EXPECT_NE(page.find(header), std::string::npos) << page;
  }
  EXPECT_TRUE(ask("GET /status?x=1 HTTP/1.0\r\n\r\n").ends_with("{\"calls\":1}"));
  EXPECT_TRUE(ask("GET /status HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n").ends_with("{\"calls\":2}"));
  EXPECT_EQ(http_->requests(), 3U);
  http_->route("/status", {}, {});
  EXPECT_TRUE(ask("GET /status HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 "));
}

TEST_F(HttpTest, HeadHasNoBody) {
  const std::string page = ask("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200 OK\r\n")) << page;
  EXPECT_TRUE(page.ends_with("\r\n\r\n")) << page;
}

TEST_F(HttpTest, WhatIsNotThereAndWhatIsNotDone) {
  const std::string none = ask("GET /metric HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(none.starts_with("HTTP/1.1 404 ")) << none;
  EXPECT_NE(none.find("/status\n"), std::string::npos) << none;
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const std::string text = ask(std::string(method) + " /status HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    EXPECT_TRUE(text.starts_with("HTTP/1.1 4")) << text;
  }
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpTest, NonsenseIsRefused) {
  for (const char* request : {"\r\n\r\n", "hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                              "GET / HTTP/1.1 x\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n"}) {
    const std::string text = ask(request);
    EXPECT_TRUE(text.starts_with("HTTP/1.1 4")) << request << ": " << text;
  }
}

TEST_F(HttpTest, InPieces) {
  const Fd socket = connect();
  for (const char c : std::string_view("GET /status HTTP/1.1\r\nHost: x\r\n\r\n")) {
    say(socket, {&c, 1});
    http_->step();
  }
  EXPECT_TRUE(hear(socket).ends_with("{\"calls\":1}"));
}

TEST_F(HttpTest, WithoutThePasswordNothingIsSaid) {
  make({.listen = "127.0.0.1:0", .password = "secret"});
  for (const char* request : {"GET /status HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
                              "HEAD /no_such HTTP/1.1\r\nHost: x\r\n\r\n"}) {
    const std::string text = ask(request);
    EXPECT_TRUE(text.starts_with("HTTP/1.1 401 ")) << text;
    EXPECT_NE(text.find("WWW-Authenticate: Basic realm=\"weft\""), std::string::npos) << text;
    EXPECT_EQ(text.find("/status"), std::string::npos) << text;
  }
  EXPECT_EQ(http_->wrong_passwords(), 0U);  // none was given: then a browser asks its user
  EXPECT_TRUE(
      ask("GET /status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer guess\r\n\r\n").starts_with("HTTP/1.1 401 "));
  EXPECT_EQ(http_->wrong_passwords(), 1U);
  EXPECT_EQ(calls_, 0);
  // Base64 of x:secret.
  EXPECT_TRUE(
      ask("GET /status HTTP/1.1\r\nHost: x\r\nAuthorization: Basic eDpzZWNyZXQ=\r\n\r\n").ends_with("{\"calls\":1}"));
  EXPECT_EQ(http_->wrong_passwords(), 1U);
}

TEST_F(HttpTest, ALongHeadIsRefusedByName) {
  const std::string text = ask("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x'));
  EXPECT_TRUE(text.starts_with("HTTP/1.1 431 ")) << text;
  EXPECT_NE(text.find("request_bytes_max is 1000"), std::string::npos) << text;
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n").starts_with("HTTP/1.1 431 "));
}

TEST_F(HttpTest, WhoIsSlowHasItsTime) {
  const Fd silent = connect(), slow = connect();
  say(slow, "GET / HT");
  http_->step();
  clock_.now += 49'000'000;
  http_->step();
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("hello"));
  clock_.now += 2'000'000;
  http_->step();
  for (const Fd* socket : {&silent, &slow}) {
    const std::string text = hear(*socket);
    EXPECT_TRUE(text.starts_with("HTTP/1.1 408 ")) << text;
    EXPECT_NE(text.find("deadline_ms is 50"), std::string::npos) << text;
  }
}

TEST_F(HttpTest, WhoDoesNotReadHasItsTime) {
  http_->route("/large", "text/plain", [] { return std::string(64 << 20, 'x'); });
  const Fd socket = connect();
  say(socket, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  for (int i = 0; i < 100; ++i) http_->step();
  clock_.now += 51'000'000;
  http_->step();
  EXPECT_LT(hear(socket).size(), 64U << 20);
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("hello"));
}

TEST_F(HttpTest, TooManyAreToldSo) {
  http_->route("/large", "text/plain", [] { return std::string(64 << 20, 'x'); });
  std::list<Fd> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(connect());
    say(held.back(), "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  for (int i = 0; i < 100; ++i) http_->step();
  const Fd more = connect();
  const std::string text = hear(more);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 503 ")) << text;
  EXPECT_NE(text.find("connections_max is 4"), std::string::npos) << text;
  held.pop_back();
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("hello"));
}

TEST_F(HttpTest, SilentStrangersMakeRoom) {
  std::list<Fd> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(connect());
    http_->step();
  }
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("hello"));
}

TEST_F(HttpTest, WhateverComesItAnswersTheNext) {
  Random random(11);
  const std::string good =
      "GET /status HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-3\r\nAccept-Encoding: gzip\r\n\r\n";
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (uint64_t n = 1 + random.below(5); n > 0; --n) {
      bad[random.below(bad.size())] = static_cast<char>(random.below(256));
    }
    const Fd socket = connect();
    say(socket, bad);
    for (int s = 0; s < 3; ++s) http_->step();
  }
  clock_.now += 60'000'000;
  http_->step();
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("hello"));
}

TEST(Http, APortInUseIsNamed) {
  HandClock clock;
  const auto first = Http::create({.listen = "127.0.0.1:0"}, &clock);
  ASSERT_TRUE(first);
  const std::string address = "127.0.0.1:" + std::to_string((*first)->port());
  const auto second = Http::create({.listen = address}, &clock);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().text().find("http on " + address + ": Address already in use"), std::string::npos)
      << second.error().text();
}

}  // namespace
}  // namespace weft
