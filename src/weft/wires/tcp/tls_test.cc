#include "weft/wires/tcp/tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "weft/wires/tcp/certificates.h"
#include "weft/wires/tcp/tcp_testing.h"
#include "weft/wires/tcp/tls_testing.h"

namespace weft {
namespace {

using Kind = InterconnectEvent::Kind;

class TcpTlsTest : public ::testing::Test {
 protected:
  TcpTlsTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("weft_tls_" + std::string(test->name()) + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    write_certificate("ca", authority_), write_certificate("other_ca", other_authority_);
    write("node", Credential("node", &authority_, "URI:weft://test/node/0"));
    write("node2",
          Credential("node2", &authority_, "DNS:b.example.org,URI:weft://spare/node/7,URI:weft://test/node/1"));
    write("client", Credential("client", &authority_));
    write("foreign", Credential("foreign", &other_authority_, "URI:weft://test/node/0,URI:weft://test/node/1"));
  }
  ~TcpTlsTest() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / (name + ".pem")).string(); }
  void write_certificate(const std::string& name, const Credential& credential) {
    ASSERT_TRUE(credential.write_certificate(file(name)));
  }
  void write(const std::string& name, const Credential& credential) {
    write_certificate(name, credential);
    ASSERT_TRUE(credential.write_key(file(name + "_key")));
  }
  TcpTlsFiles files(const std::string& name = "node", const std::string& ca = "ca") const {
    return {file(ca), file(name), file(name + "_key")};
  }
  std::function<void(size_t, TcpOptions&)> with_tls() {
    return [this](size_t n, TcpOptions& options) { options.tls = files(n % 2 == 0 ? "node" : "node2"); };
  }
  // Node 0 connects and node 1 accepts: both fail, and report it.
  void expect_refused(TcpTestNet& net, const std::string& words_0, const std::string& words_1) {
    net.join(0, 1), net.join(1, 0);
    ASSERT_TRUE(net.until([&] { return net.find(0, Kind::kRefused) && net.find(1, Kind::kRefused); }));
    EXPECT_NE(net.find(0, Kind::kRefused, words_0), nullptr) << net.all_events(0);
    EXPECT_NE(net.find(1, Kind::kRefused, words_1), nullptr) << net.all_events(1);
    for (int i = 0; i < 50; ++i) net.control();
    EXPECT_FALSE(net.is_up(0, 1) || net.is_up(1, 0));
    EXPECT_EQ(net.interconnect(0).links() + net.interconnect(1).links(), 0U);
  }

  std::filesystem::path folder_;
  Credential authority_{"authority"};
  Credential other_authority_{"other authority"};
};

TEST_F(TcpTlsTest, CarriesPacketsAndVerbs) {
  TcpTestNet net(2, 2, with_tls());
  EXPECT_EQ(net.interconnect(0).name(), "tcp+tls");
  net.connect(0, 1);
  uint64_t sent = 0, received = 0;
  const std::string packet(5000, 'p');
  std::vector<std::byte> out(kTcpVerbBytesMax, std::byte{7}), in(kTcpVerbBytesMax);
  Verb verb;
  verb.kind = VerbKind::kWrite;
  verb.region = net.node(1).region_id;
  verb.bytes = kTcpVerbBytesMax;
  verb.local = out.data();
  ASSERT_TRUE(net.wire(0).post(NodeId(1), Domain::kEngine, {&verb, 1}));
  verb.kind = VerbKind::kRead;
  verb.local = in.data();
  ASSERT_TRUE(net.wire(0).post(NodeId(1), Domain::kEngine, {&verb, 1}));
  size_t completed = 0;
  ASSERT_TRUE(net.until([&] {
    for (int i = 0; i < 30 && sent < 3000; ++i) {
      sent += net.wire(0).send(NodeId(1), Flow::kCommit, as_bytes(packet)) ? 1 : 0;
    }
    net.receive(0);
    for (auto& [from, text] : net.receive(1)) {
      EXPECT_EQ(text, packet);
      ++received;
    }
    std::vector<Completion> done(4);
    completed += net.wire(0).poll_completions(Domain::kEngine, done);
    return received == 3000 && completed == 2;
  }));
  EXPECT_EQ(in, out);
  EXPECT_TRUE(net.settles(0) && net.settles(1));
  net.node(1).interconnect.reset();
  EXPECT_TRUE(net.until_polling([&] { return !net.is_up(0, 1); }));
}

TEST_F(TcpTlsTest, ThreadsAtBothEnds) {
  TcpTestNet net(2, 1, with_tls());
  net.connect(0, 1);
  constexpr uint64_t kPackets = 20'000;
  std::atomic<bool> done{false};
  const auto run = [&](size_t n) {
    uint64_t sent = 0, received = 0;
    const uint64_t deadline_ns = net.clock()->now_ns() + kInterconnectTestDeadlineNs;
    while ((received < kPackets || sent < kPackets || !done.load()) && net.clock()->now_ns() < deadline_ns) {
      for (int i = 0; i < 16 && sent < kPackets; ++i) {
        sent += net.wire(n).send(node_id(1 - n), Flow::kCommit, as_bytes("some small packet")) ? 1 : 0;
      }
      received += net.receive(n).size();
      if (n == 0 && received == kPackets) done.store(true);
    }
    EXPECT_EQ(received, kPackets);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST_F(TcpTlsTest, AForeignCertificateGetsNowhere) {
  TcpTestNet net(2, 1, [&](size_t n, TcpOptions& options) {
    options.tls = n == 0 ? files("foreign") : files();  // signed by another authority, trusts the right one
  });
  expect_refused(net, "TLS", "certificate verify failed");
}

TEST_F(TcpTlsTest, AForeignAcceptorIsNotTrusted) {
  TcpTestNet net(2, 1, [&](size_t n, TcpOptions& options) { options.tls = n == 1 ? files("foreign") : files(); });
  expect_refused(net, "certificate verify failed", "TLS");
}

// Its certificate is valid for a client only: it reaches a member, but the member does not reach it.
TEST_F(TcpTlsTest, ACertificateThatDoesForNoServerIsFoundOutByAKnock) {
  write("client", Credential("client", &authority_, "URI:weft://test/node/1", "clientAuth"));
  TcpTestNet net(2, 1, [&](size_t n, TcpOptions& options) {
    with_tls()(n, options);
    options.incarnation = n == 0 ? 4 : 0;
    if (n == 1) options.tls = files("client");
  });
  net.interconnect(1).probe({NodeId(0), 4, net.interconnect(0).address()}, {77, net.interconnect(1).address(), {}});
  ASSERT_TRUE(net.until([&] { return net.find(1, InterconnectEvent::Kind::kProbeReply) != nullptr; }));
  const std::string why = net.find(1, InterconnectEvent::Kind::kProbeReply)->why;
  EXPECT_NE(why.find("node 0 does not reach node 1 at " + net.interconnect(1).address()), std::string::npos) << why;
  ASSERT_NE(net.find(0, InterconnectEvent::Kind::kUnreached), nullptr) << net.all_events(0);
  EXPECT_NE(net.find(0, InterconnectEvent::Kind::kUnreached)->why.find("certificate"), std::string::npos)
      << net.all_events(0);
}

TEST_F(TcpTlsTest, PlainToATlsPort) {
  TcpTestNet net(2, 1, [&](size_t n, TcpOptions& options) {
    if (n == 1) options.tls = files();
  });
  expect_refused(net, "does it expect TLS?", "TLS handshake");
}

TEST_F(TcpTlsTest, TlsToAPlainPort) {
  TcpTestNet net(2, 1, [&](size_t n, TcpOptions& options) {
    if (n == 0) options.tls = files();
  });
  expect_refused(net, "TLS handshake", "speaks TLS");
}

// The authority signed it, for another node.
TEST_F(TcpTlsTest, ACertificateIsOfItsNode) {
  TcpTestNet net(2, 1, [&](size_t, TcpOptions& options) { options.tls = files("node2"); });
  const std::string words =
      "it says that it is node 0, and its certificate names weft://spare/node/7, weft://test/node/1, expected "
      "weft://test/node/0";
  expect_refused(net, words, words);
}

TEST_F(TcpTlsTest, TheOneWhoAnswersIsWhoWasMeant) {
  TcpTestNet net(2, 1, [&](size_t, TcpOptions& options) { options.tls = files("node"); });
  net.join(0, 1), net.join(1, 0);
  const std::string words = "it says that it is node 1, and its certificate names weft://test/node/0, expected";
  ASSERT_TRUE(net.until([&] { return net.find(0, Kind::kRefused, words) != nullptr; })) << net.all_events(0);
  for (int i = 0; i < 50; ++i) net.control();
  EXPECT_FALSE(net.is_up(0, 1));
  EXPECT_EQ(net.interconnect(0).links(), 0U);
}

TEST_F(TcpTlsTest, AClientsCertificateMakesNoNode) {
  TcpTestNet net(2, 1, [&](size_t n, TcpOptions& options) { options.tls = files(n == 0 ? "client" : "node2"); });
  const std::string words = "its certificate names no node, expected weft://test/node/0";
  expect_refused(net, words, words);
}

TEST_F(TcpTlsTest, OrAnybodyIsAnyNode) {
  TcpTestNet net(2, 1, [&](size_t, TcpOptions& options) {
    options.tls = files("client");
    options.tls->any_node = true;
  });
  net.connect(0, 1);
  EXPECT_TRUE(net.is_up(0, 1) && net.is_up(1, 0));
}

TEST_F(TcpTlsTest, NamesAreComparedLetterByLetter) {
  const auto fault = [](const char* names) {
    const Credential one("one", nullptr, names);
    return naming_fault(one.certificate.get(), "test", NodeId(1));
  };
  EXPECT_EQ(fault("URI:weft://test/node/1"), "");
  for (const char* other :
       {"URI:weft://test/node/10", "URI:weft://test/node/*", "URI:weft://Test/node/1", "URI:weft://test/node/01",
        "URI:weft://test/node/1/", "DNS:weft://test/node/1", "email:a@b"}) {
    EXPECT_NE(fault(other), "") << other;
  }
  EXPECT_EQ(fault(nullptr), "names no node, expected weft://test/node/1");
  EXPECT_EQ(fault("URI:a:1,URI:a:2,URI:a:3,URI:a:4,URI:a:5"),
            "names a:1, a:2, a:3, a:4 and others, expected weft://test/node/1");
}

TEST_F(TcpTlsTest, AuthoritiesThatAreOne) {
  const Credential between("between", &authority_);
  write_certificate("between", between);
  EXPECT_TRUE(trusts_authority(file("ca"), file("ca")));
  EXPECT_TRUE(trusts_authority(file("ca"), file("between")));  // what it signs may include its certificate
  EXPECT_FALSE(trusts_authority(file("ca"), file("other_ca")));
  EXPECT_FALSE(trusts_authority(file("ca"), file("no_such")));
  EXPECT_TRUE(has_root(file("ca")));
  EXPECT_FALSE(has_root(file("node")));
}

// A plain OpenSSL client with arbitrary settings.
class TlsClient {
 public:
  TlsClient(const TcpInterconnect& interconnect, SSL_CTX* context)
      : socket_(std::move(*tcp_connect(*tcp_resolve(interconnect.address())))) {
    ssl_.reset(SSL_new(context));
    SSL_set_fd(ssl_.get(), socket_.get());
    SSL_set_connect_state(ssl_.get());
  }
  // True when the handshake has ended; `in` says whether it succeeded.
  bool over(bool* in) {
    char byte;
    ERR_clear_error();
    const int result = SSL_read(ssl_.get(), &byte, 1);
    *in = result == 1;
    const int error = SSL_get_error(ssl_.get(), result);
    return result == 1 || (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE);
  }

 private:
  Descriptor socket_;
  Owned<SSL> ssl_;
};

TEST_F(TcpTlsTest, NoCertificateOrAnOldProtocolGetNowhere) {
  TcpTestNet net(1, 1, with_tls());
  Owned<SSL_CTX> context(SSL_CTX_new(TLS_method()));
  bool in = false;
  {
    TlsClient client(net.interconnect(0), context.get());
    ASSERT_TRUE(net.until([&] { return client.over(&in); }));
    EXPECT_FALSE(in);
    EXPECT_TRUE(net.until([&] { return net.find(0, Kind::kRefused, "did not return a certificate"); }))
        << net.all_events(0);
  }
  const std::string name = file("node"), key = file("node_key");
  ASSERT_EQ(SSL_CTX_use_certificate_file(context.get(), name.c_str(), SSL_FILETYPE_PEM), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM), 1);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  TlsClient old(net.interconnect(0), context.get());
  ASSERT_TRUE(net.until([&] { return old.over(&in); }));
  EXPECT_FALSE(in);
  EXPECT_TRUE(net.until([&] { return net.find(0, Kind::kRefused, "unsupported protocol"); })) << net.all_events(0);
}

TEST_F(TcpTlsTest, ASilentTlsClientTimesOut) {
  TcpTestNet net(1, 1, [&](size_t, TcpOptions& options) {
    options.tls = files();
    options.hello_ms = 100;
  });
  const auto socket = tcp_connect(*tcp_resolve(net.interconnect(0).address()));
  ASSERT_TRUE(socket);
  EXPECT_TRUE(net.until([&] { return net.find(0, Kind::kRefused, "no hello in time"); }));
  EXPECT_EQ(net.interconnect(0).strangers(), 0U);
}

TEST_F(TcpTlsTest, FilesThatDoNotServeAreNamed) {
  const auto refused = [&](const TcpTlsFiles& given, const std::string& words) {
    const auto tls = TcpTls::create(given);
    ASSERT_FALSE(tls);
    EXPECT_NE(tls.error().text().find(words), std::string::npos) << tls.error().text();
  };
  refused({file("no_such"), file("node"), file("node_key")}, "CA file " + file("no_such"));
  refused({file("ca"), file("no_such"), file("node_key")}, "certificate file " + file("no_such"));
  refused({file("ca"), file("node"), file("no_such")}, "key file " + file("no_such") + ": No such file or directory");
  refused({file("ca"), file("node"), file("node2_key")}, "key file " + file("node2_key"));
  std::ofstream(file("garbage")) << "no certificate\n";
  refused({file("garbage"), file("node"), file("node_key")}, "CA file " + file("garbage"));
  refused({file("ca"), file("garbage"), file("node_key")}, "certificate file " + file("garbage"));
}

}  // namespace
}  // namespace weft
