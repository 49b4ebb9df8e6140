// Authentication, TLS, and the limits of a node and a worker.
#include "weft/redis/client.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "weft/redis/frontend_testing.h"
#include "weft/wires/tcp/tls.h"
#include "weft/wires/tcp/tls_testing.h"

namespace weft {
namespace {

class PasswordTest : public FrontendTest {
 protected:
  void SetUp() override {
    options_.password = "secret";
    FrontendTest::SetUp();
  }
  // A reply that is delayed.
  std::string ask_late(const Fd& client, std::string_view line) {
    say(client, line);
    steps(10);
    clock_.now += 1'000'000'000;
    return answer(client);
  }
};

TEST_F(PasswordTest, IsGivenFirst) {
  const Fd client = connect_to(0);
  const std::string required = "-NOAUTH Authentication required.\r\n";
  const std::string wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
  for (const char* command : {"GET a", "SET a 1", "PING", "MULTI", "INFO", "WEFT STATUS", "SCAN 0", "CLIENT ID"}) {
    EXPECT_EQ(ask(client, command), required) << command;
  }
  EXPECT_EQ(ask(client, "NOSUCH").substr(0, 12), "-ERR unknown");
  EXPECT_EQ(ask_late(client, "AUTH nonsense"), wrong);
  EXPECT_EQ(ask_late(client, "AUTH secre"), wrong);
  EXPECT_EQ(ask_late(client, "AUTH somebody secret"), wrong);
  EXPECT_EQ(ask(client, "HELLO 3").substr(0, 24), "-NOAUTH HELLO must be ca");
  EXPECT_EQ(ask_late(client, "HELLO 3 AUTH default wrong"), wrong);
  EXPECT_EQ(ask(client, "GET a"), required);
  EXPECT_EQ(ask(client, "AUTH secret"), "+OK\r\n");
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
  EXPECT_EQ(ask(client, "RESET"), "+RESET\r\n");
  EXPECT_EQ(ask(client, "PING"), required);
  EXPECT_EQ(ask(client, "HELLO 3 AUTH default secret").substr(0, 4), "%7\r\n");
  EXPECT_EQ(ask(client, "PING"), "+PONG\r\n");
}

// Before authentication a client makes the server buffer no more than a password needs.
TEST_F(PasswordTest, LittleIsReadBefore) {
  const auto unauthenticated = [](const std::string& what) { return "-ERR Protocol error: " + what + "\r\n"; };
  EXPECT_EQ(ask(connect_to(0), "*11"),
            unauthenticated("unauthenticated multibulk length: the limit is 10, this is 11"));
  EXPECT_EQ(ask(connect_to(0), "*2\r\n$4\r\nAUTH\r\n$16385"),
            unauthenticated("unauthenticated bulk length: the limit is 16384, this is 16385"));
  const Fd client = connect_to(0);
  EXPECT_EQ(ask(client, "AUTH secret"), "+OK\r\n");
  EXPECT_EQ(ask(client, "*2\r\n$3\r\nGET\r\n$20000\r\n" + std::string(20000, 'x')), "$-1\r\n");
  EXPECT_EQ(ask(client, "RESET"), "+RESET\r\n");
  EXPECT_EQ(ask(client, "*11"), unauthenticated("unauthenticated multibulk length: the limit is 10, this is 11"));
}

TEST_F(FrontendTest, SoManyClientsOfANode) {
  // As many as another worker of the node leaves.
  shared_[0].clients = options_.clients_max - 2;
  const Fd one = connect_to(0);
  const Fd two = connect_to(0);
  EXPECT_EQ(ask(one, "PING"), "+PONG\r\n");
  EXPECT_EQ(ask(two, "PING"), "+PONG\r\n");
  const Fd three = connect_to(0);
  EXPECT_EQ(answer(three), "-ERR max number of clients reached: clients_max is 10000\r\n");
  EXPECT_EQ(ask(two, "QUIT"), "+OK\r\n");
  steps(10);
  const Fd four = connect_to(0);
  EXPECT_EQ(ask(four, "PING"), "+PONG\r\n");
}

class OutputTest : public FrontendTest {
 protected:
  void SetUp() override {
    options_.output_held_bytes = 500'000;
    options_.output_total_bytes = 1'000'000;
    FrontendTest::SetUp();
  }
};

// Clients that send commands and do not read: together they hold no more than the limit, and another is served.
TEST_F(OutputTest, OfAllClientsOfAWorker) {
  const Fd other = connect_to(0);
  EXPECT_EQ(ask(other, "SET v " + std::string(60, 'x')), "+OK\r\n");
  std::string asks = "MGET";
  for (int i = 0; i < 60; ++i) asks += " v";
  asks += "\r\n";
  std::vector<Fd> lazy;
  for (int i = 0; i < 20; ++i) {
    lazy.push_back(connect_to(0));
    for (int n = 0; n < 2000; ++n) {
      if (send(lazy.back().get(), asks.data(), asks.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
      if (n % 10 == 0) steps(1);
    }
    steps(20);
    EXPECT_LT(fronts_[0]->buffer_bytes(), size_t{24} << 20);
    EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
  }
}

class TlsTest : public FrontendTest {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "weft_client_tls_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    const Credential authority("authority");
    const Credential server("server", &authority);
    ASSERT_TRUE(server.write_certificate(folder_ + "/server.pem") && server.write_key(folder_ + "/server.key"));
    ASSERT_TRUE(authority.write_certificate(folder_ + "/ca.pem"));
    auto tls = TcpTls::create_for_clients({"", folder_ + "/server.pem", folder_ + "/server.key"});
    ASSERT_TRUE(tls) << tls.error().text();
    tls_ = std::move(*tls);
    FrontendTest::SetUp();
    for (FrontendShared& shared : shared_) shared.tls = tls_.get();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Steps of the client, each of which waits at most a millisecond, and of the server in between.
  template <class Step>
  bool until(const Fd& client, Step step) {
    const timeval patience{0, 1000};
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (int i = 0; i < 20'000; ++i) {
      if (step()) return true;
      steps(10);
    }
    return false;
  }

  std::string folder_;
  std::unique_ptr<TcpTls> tls_;
};

TEST_F(TlsTest, CommandsAndRepliesAreEncrypted) {
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  ASSERT_EQ(SSL_CTX_load_verify_locations(context.get(), (folder_ + "/ca.pem").c_str(), nullptr), 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const Fd client = connect_to(0);
  const Owned<SSL> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), client.get());
  SSL_set_connect_state(ssl.get());
  ASSERT_TRUE(until(client, [&] { return SSL_do_handshake(ssl.get()) == 1; }));
  const std::string value(60, 'x');
  std::string commands;
  std::string expected;
  for (int i = 0; i < 500; ++i) {
    commands += "SET k " + value + "\r\nGET k\r\n";
    expected += "+OK\r\n$60\r\n" + value + "\r\n";
  }
  std::string heard;
  size_t written = 0;
  char bytes[16384];
  ASSERT_TRUE(until(client, [&] {
    if (written < commands.size()) {
      const size_t part = std::min<size_t>(commands.size() - written, 8192);
      const int n = SSL_write(ssl.get(), commands.data() + written, static_cast<int>(part));
      if (n > 0) written += static_cast<size_t>(n);
    }
    const int n = SSL_read(ssl.get(), bytes, sizeof bytes);
    if (n > 0) heard.append(bytes, static_cast<size_t>(n));
    return heard.size() >= expected.size();
  }));
  EXPECT_EQ(heard, expected);
}

// Without a password the handshake is all that is required.
TEST_F(TlsTest, ThereIsADeadlineForTheHandshake) {
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  const Fd client = connect_to(0);
  const Owned<SSL> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), client.get());
  SSL_set_connect_state(ssl.get());
  const Fd quiet = connect_to(0);
  steps(10);
  EXPECT_EQ(shared_[0].counted[0].unauthenticated, 2U);
  ASSERT_TRUE(until(client, [&] { return SSL_do_handshake(ssl.get()) == 1; }));
  ASSERT_TRUE(until(client, [&] { return shared_[0].counted[0].unauthenticated == 1; }));
  clock_.now += 10'000'000'000;
  steps(10);
  EXPECT_EQ(shared_[0].counted[0].late, 1U);
  char byte = 0;
  ASSERT_TRUE(until(quiet, [&] { return recv(quiet.get(), &byte, 1, 0) == 0; }));
  EXPECT_EQ(SSL_write(ssl.get(), "PING\r\n", 6), 6);
  char bytes[64];
  int n = 0;
  ASSERT_TRUE(until(client, [&] { return (n = SSL_read(ssl.get(), bytes, sizeof bytes)) > 0; }));
  EXPECT_EQ(std::string(bytes, static_cast<size_t>(n)), "+PONG\r\n");
}

// Silent connections fill the node, and another client gets in.
TEST_F(TlsTest, SilentStrangersMakeRoom) {
  shared_[0].clients = options_.clients_max - 3;
  std::vector<Fd> quiet;
  for (int i = 0; i < 10; ++i) {
    quiet.push_back(connect_to(0));
    steps(5);
  }
  EXPECT_EQ(shared_[0].clients, options_.clients_max);
  EXPECT_EQ(shared_[0].counted[0].evicted, 7U);
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  const Fd client = connect_to(0);
  const Owned<SSL> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), client.get());
  SSL_set_connect_state(ssl.get());
  ASSERT_TRUE(until(client, [&] { return SSL_do_handshake(ssl.get()) == 1; }));
  ASSERT_TRUE(until(client, [&] { return shared_[0].counted[0].unauthenticated == 2; }));
}

TEST_F(TlsTest, WhoSpeaksPlainlyIsClosed) {
  const Fd client = connect_to(0);
  say(client, "PING");
  // TLS may send an alert; then the end comes.
  EXPECT_TRUE(until(client, [&] {
    char byte = 0;
    return recv(client.get(), &byte, 1, 0) == 0;
  }));
}

}  // namespace
}  // namespace weft
