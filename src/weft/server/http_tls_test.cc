// HTTP with TLS and a password.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <list>
#include <string>

#include "weft/server/http.h"
#include "weft/server/http_password.h"
#include "weft/wires/tcp/tls_testing.h"

namespace weft {
namespace {

class StandingClock final : public Clock {
 public:
  uint64_t now_ns() override { return now; }
  uint64_t now = 1;
};

// A client based on OpenSSL.
class Visitor {
 public:
  Visitor(uint16_t port, SSL_CTX* context) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const timeval moment{0, 1000};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    ssl_.reset(SSL_new(context));
    SSL_set_fd(ssl_.get(), socket_.get());
    SSL_set_connect_state(ssl_.get());
  }
  // Everything until a proper end, or "cut".
  std::string ask(Http& http, const std::string& request) {
    std::string out;
    bool asked = false;
    for (int i = 0; i < 3000; ++i) {
      http.step();
      ERR_clear_error();
      if (!asked) asked = SSL_write(ssl_.get(), request.data(), static_cast<int>(request.size())) > 0;
      char buffer[4096];
      const int n = SSL_read(ssl_.get(), buffer, sizeof buffer);
      if (n > 0) out.append(buffer, static_cast<size_t>(n));
      const int error = SSL_get_error(ssl_.get(), n);
      if (error == SSL_ERROR_ZERO_RETURN) return out;
      if (n <= 0 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return out + "cut";
    }
    ADD_FAILURE() << "it does not end: " << out;
    return out;
  }

 private:
  Fd socket_;
  Owned<SSL> ssl_;
};

class HttpTlsTest : public testing::Test {
 protected:
  HttpTlsTest() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("weft_http_tls_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
               std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    EXPECT_TRUE(authority_.write_certificate(file("ca")));
    EXPECT_TRUE(site_.write_certificate(file("site")) && site_.write_key(file("site_key")));
    EXPECT_TRUE(person_.write_certificate(file("person")) && person_.write_key(file("person_key")));
    context_.reset(SSL_CTX_new(TLS_method()));
    EXPECT_EQ(SSL_CTX_load_verify_file(context_.get(), file("ca").c_str()), 1);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  }
  ~HttpTlsTest() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / (name + ".pem")).string(); }
  void make(HttpOptions options) {
    options.listen = "127.0.0.1:0";
    options.tls.certificate = file("site");
    options.tls.key = file("site_key");
    auto made = Http::create(options, &clock_);
    ASSERT_TRUE(made) << made.error().text();
    http_ = std::move(*made);
    http_->route("/", "text/html", [] { return std::string("<p>hello"); });
  }
  std::string ask(const std::string& more = {}) {
    return Visitor(http_->port(), context_.get()).ask(*http_, "GET / HTTP/1.1\r\nHost: x\r\n" + more + "\r\n");
  }

  StandingClock clock_;
  std::filesystem::path folder_;
  Credential authority_{"authority"};
  Credential site_{"site", &authority_};
  Credential person_{"person", &authority_};
  Owned<SSL_CTX> context_;
  std::unique_ptr<Http> http_;
};

TEST_F(HttpTlsTest, APageAndAProperEnd) {
  make({});
  const std::string page = ask();
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200 OK\r\n")) << page;
  EXPECT_TRUE(page.ends_with("\r\n\r\n<p>hello")) << page;
}

TEST_F(HttpTlsTest, ALongPage) {
  make({});
  http_->route("/", "text/plain", [] { return std::string(4 << 20, 'x'); });
  const std::string page = ask();
  EXPECT_GT(page.size(), 4U << 20);
  EXPECT_TRUE(page.ends_with("xxx")) << page.substr(page.size() - 10);
}

TEST_F(HttpTlsTest, ThePasswordUnderIt) {
  HttpOptions options;
  options.password = "secret";
  make(options);
  EXPECT_TRUE(ask().starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(ask("Authorization: Bearer secret\r\n").starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpTlsTest, VisitorsWithACertificate) {
  HttpOptions options;
  options.tls.ca = file("ca");
  make(options);
  EXPECT_EQ(ask(), "cut");
  ASSERT_EQ(SSL_CTX_use_certificate_file(context_.get(), file("person").c_str(), SSL_FILETYPE_PEM), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), file("person_key").c_str(), SSL_FILETYPE_PEM), 1);
  EXPECT_TRUE(ask().starts_with("HTTP/1.1 200 "));
}

// A client that does not speak TLS, or is silent, does not keep others from being answered.
TEST_F(HttpTlsTest, WhoSpeaksNoTls) {
  make({});
  std::list<Fd> rude;
  for (int i = 0; i < 60; ++i) {
    rude.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(http_->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(rude.back().get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const std::string_view plain = "GET / HTTP/1.1\r\n\r\n";
    if (i % 2 == 0) send(rude.back().get(), plain.data(), plain.size(), MSG_NOSIGNAL);
  }
  EXPECT_TRUE(ask().starts_with("HTTP/1.1 200 "));
  clock_.now += 6'000'000'000;
  http_->step();
  char byte;
  for (const Fd& one : rude) {
    const timeval long_s{10, 0};
    setsockopt(one.get(), SOL_SOCKET, SO_RCVTIMEO, &long_s, sizeof long_s);
    ssize_t n = 0;
    while ((n = recv(one.get(), &byte, 1, 0)) > 0) {
    }
    EXPECT_TRUE(n == 0 || errno == ECONNRESET) << strerrordesc_np(errno);
  }
  EXPECT_TRUE(ask().starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpTlsTest, AFileThatIsNotThereIsNamed) {
  HttpOptions options;
  options.listen = "127.0.0.1:0";
  options.tls = {"", file("no_such"), file("site_key")};
  const auto made = Http::create(options, &clock_);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text().find("http: certificate file " + file("no_such")), std::string::npos)
      << made.error().text();
}

TEST(HttpPassword, BasicAndBearer) {
  using enum PasswordGiven;
  EXPECT_EQ(password_given("", "secret"), kNone);
  for (const char* right : {"Bearer secret", "bearer  secret", "Basic eDpzZWNyZXQ=", "BASIC OnNlY3JldA==",
                            "Basic dXNlcjpzZWNyZXQ="}) {  // x:secret, :secret, user:secret
    EXPECT_EQ(password_given(right, "secret"), kRight) << right;
  }
  for (const char* wrong :
       {"Bearer", "Bearer ", "Bearer Secret", "Bearer secre", "Bearer secrets", "secret", "Digest secret", "Basic",
        "Basic ", "Basic =", "Basic ====", "Basic c2VjcmV0", "Basic eDpzZWNyZXQ", "Basic \x01\x02\x03\x04",
        "Basic eDpzZWNyZXR4", "Basic OnNlY3JldA== x"}) {  // "secret" without a colon, one letter too many
    EXPECT_EQ(password_given(wrong, "secret"), kWrong) << wrong;
  }
  // Everything after the first colon is the password.
  EXPECT_EQ(password_given("Basic dTphOmI=", "a:b"), kRight);
}

}  // namespace
}  // namespace weft
