// Who is accepted and who is not, and that those who are not disturb nobody.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/random.h"
#include "weft/wires/tcp/tcp_testing.h"

namespace weft {
namespace {

using Kind = InterconnectEvent::Kind;

// A client that sends arbitrary bytes.
class Stranger {
 public:
  explicit Stranger(const TcpInterconnect& interconnect)
      : stream_(std::move(*tcp_connect(*tcp_resolve(interconnect.address())))) {}

  // Sends as much as the socket takes.
  void say(std::string_view text) { tcp_send(stream_.fd(), text.data(), text.size()); }
  // What was received so far; `over` is set when the other side has closed.
  std::string hear(bool* over) {
    char buffer[4096];
    const ssize_t got = tcp_recv(stream_.fd(), buffer, sizeof buffer);
    *over = got == 0 || (got < 0 && errno != EAGAIN);
    return {buffer, got > 0 ? static_cast<size_t>(got) : 0};
  }
  bool closed() {
    bool over = false;
    hear(&over);
    return over;
  }

 private:
  TcpStream stream_;
};

std::string sound_hello(size_t from, size_t to, uint32_t incarnation = 1) {
  return tcp_encode_hello({node_id(from), incarnation, WorkerId(0), node_id(to), 1, {}, tcp_test_options(0).params});
}

// Two good peers and packets between them, which must continue whatever strangers do.
class TcpSetupTest : public ::testing::Test {
 protected:
  TcpSetupTest() { net_.connect(1, 2); }

  bool exchange() {
    bool there = false, back = false;
    EXPECT_TRUE(net_.wire(1).send(NodeId(2), Flow::kCommit, as_bytes("there")));
    EXPECT_TRUE(net_.wire(2).send(NodeId(1), Flow::kCommit, as_bytes("back")));
    return net_.until([&] {
      for (auto& [from, text] : net_.receive(2)) there |= text == "there";
      for (auto& [from, text] : net_.receive(1)) back |= text == "back";
      return there && back;
    });
  }
  bool undisturbed() { return net_.is_up(1, 2) && net_.is_up(2, 1) && exchange(); }

  TcpTestNet net_{3, 1, [](size_t, TcpOptions& options) {
                    options.hello_ms = 300, options.wait_ms = 300, options.strangers_max = 8;
                  }};
};

TEST_F(TcpSetupTest, GarbageIsTurnedAwayByName) {
  Stranger stranger(net_.interconnect(2));
  stranger.say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(net_.until([&] { return stranger.closed(); }));
  const InterconnectEvent* event = net_.find(2, Kind::kRefused, "GET / HT");
  ASSERT_NE(event, nullptr) << net_.all_events(2);
  EXPECT_EQ(event->peer, NodeId(kNodesMax));
  EXPECT_TRUE(undisturbed());
}

TEST_F(TcpSetupTest, SilenceAndHalfAHelloTimeOut) {
  Stranger silent(net_.interconnect(2)), half(net_.interconnect(2));
  half.say(sound_hello(0, 2).substr(0, 30));
  ASSERT_TRUE(net_.until([&] { return net_.interconnect(2).strangers() == 2; }));
  EXPECT_TRUE(undisturbed());
  ASSERT_TRUE(net_.until([&] { return silent.closed() && half.closed(); }));
  EXPECT_NE(net_.find(2, Kind::kRefused, "no hello in time"), nullptr);
  EXPECT_EQ(net_.interconnect(2).strangers(), 0U);
  EXPECT_TRUE(undisturbed());
}

TEST_F(TcpSetupTest, TheNumberOfStrangersIsBounded) {
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 50; ++i) {
    crowd.push_back(std::make_unique<Stranger>(net_.interconnect(2)));
    net_.control();
    EXPECT_LE(net_.interconnect(2).strangers(), 8U);
  }
  // A member gets through the crowd.
  net_.connect(0, 2);
  EXPECT_TRUE(undisturbed());
  ASSERT_TRUE(net_.until([&] { return net_.interconnect(2).strangers() == 0; }));
}

TEST_F(TcpSetupTest, ASoundHelloOfNoMemberWaitsAndIsRefused) {
  Stranger stranger(net_.interconnect(2));
  stranger.say(sound_hello(0, 2));
  std::string heard;
  bool over = false;
  ASSERT_TRUE(net_.until([&] { return heard += stranger.hear(&over), over; }));
  EXPECT_NE(heard.find("node 0 incarnation 1 is not expected by node 2"), std::string::npos) << heard;
  EXPECT_NE(net_.find(2, Kind::kRefused, "not expected"), nullptr);
  EXPECT_TRUE(undisturbed());
}

TEST_F(TcpSetupTest, ASecondConnectionDoesNotReplaceTheFirst) {
  Stranger stranger(net_.interconnect(2));
  stranger.say(sound_hello(1, 2));
  std::string heard;
  bool over = false;
  ASSERT_TRUE(net_.until([&] { return heard += stranger.hear(&over), over; }));
  EXPECT_NE(heard.find("node 1 incarnation 1 is connected already"), std::string::npos) << heard;
  EXPECT_TRUE(undisturbed());
}

TEST_F(TcpSetupTest, EachObjectionIsNamed) {
  net_.interconnect(2).join({NodeId(0), 7, "127.0.0.1:1"});
  const auto refused = [&](const std::string& hello, const std::string& words) {
    Stranger stranger(net_.interconnect(2));
    stranger.say(hello);
    std::string heard;
    bool over = false;
    ASSERT_TRUE(net_.until([&] { return heard += stranger.hear(&over), over; }));
    EXPECT_NE(heard.find(words), std::string::npos) << heard;
    EXPECT_NE(net_.find(2, Kind::kRefused, words), nullptr) << net_.all_events(2);
  };
  const HandshakeParams same = tcp_test_options(0).params;
  HandshakeParams other = same;
  refused(tcp_encode_hello({NodeId(0), 7, WorkerId(0), NodeId(1), 1, {}, same}), "node 1 was meant");
  refused(tcp_encode_hello({NodeId(2), 7, WorkerId(0), NodeId(2), 1, {}, same}), "the smaller id connects");
  refused(tcp_encode_hello({NodeId(5), 7, WorkerId(0), NodeId(2), 1, {}, same}), "the smaller id connects");
  refused(tcp_encode_hello({NodeId(0), 7, WorkerId(1), NodeId(2), 1, {}, same}), "worker 1, and workers is 1");
  refused(tcp_encode_hello({NodeId(0), 7, WorkerId(0), NodeId(2), 9, {}, same}), "incarnation 9 was meant");
  refused(tcp_encode_hello({NodeId(0), 6, WorkerId(0), NodeId(2), 1, {}, same}), "was followed by incarnation 7");
  refused(tcp_encode_hello({NodeId(63), 6, WorkerId(0), NodeId(2), 1, {}, same}), "node 63, must be below 63");
  other.fields[0].second = 12;
  refused(tcp_encode_hello({NodeId(0), 7, WorkerId(0), NodeId(2), 1, {}, other}),
          "workers is 1 at node 2 and 12 at node 0");
  refused(tcp_encode_refusal(NodeId(0), "you"), "a refusal where a hello was expected");
  std::string version = sound_hello(0, 2);
  version[12] = 9;
  refused(version, "tcp version is 3 at node 2 and 9");
  std::string huge = sound_hello(0, 2);
  huge[11] = 1;
  refused(huge, "must be 16 to 8192");
  EXPECT_EQ(net_.interconnect(2).strangers(), 0U);
  EXPECT_TRUE(undisturbed());
}

TEST(TcpHandshakeTest, ADifferenceIsRefusedByNameAtBothSides) {
  TcpTestNet net(2, 1, [](size_t n, TcpOptions& options) {
    if (n == 1) options.params.fields[1].second = 8;
  });
  net.join(0, 1), net.join(1, 0);
  const std::string words = "hash_seed is 8 at node 1 and 7 at node 0";
  ASSERT_TRUE(net.until([&] { return net.find(0, Kind::kRefused, words) && net.find(1, Kind::kRefused, words); }))
      << net.all_events(0) << net.all_events(1);
  EXPECT_EQ(net.find(0, Kind::kRefused, words)->peer, NodeId(1));
  EXPECT_EQ(net.find(1, Kind::kRefused, words)->peer, NodeId(0));
  EXPECT_FALSE(net.is_up(0, 1) || net.is_up(1, 0));
}

// A probe connects nobody, and gets one reply whichever side has the smaller id.
TEST(TcpProbeTest, WhoAgreesIsToldSo) {
  TcpTestNet net(3, 1, [](size_t n, TcpOptions& options) {
    options.incarnation = n == 1 ? 0 : 4;
    options.hello_ms = 300;
  });
  for (const size_t n : {size_t{0}, size_t{2}}) {
    net.interconnect(1).probe({node_id(n), 4, net.interconnect(n).address()}, {77, net.interconnect(1).address(), {}});
    ASSERT_TRUE(net.until([&] { return net.find(1, Kind::kProbeReply) != nullptr; }));
    EXPECT_EQ(net.find(1, Kind::kProbeReply)->why, "");
    EXPECT_EQ(net.find(1, Kind::kProbeReply)->peer, node_id(n));
    EXPECT_EQ(net.find(1, Kind::kProbeReply)->incarnation, 4U);
    EXPECT_TRUE(net.until([&] { return net.interconnect(n).strangers() == 0; }));
    EXPECT_EQ(net.find(n, Kind::kRefused), nullptr) << net.all_events(n);
    net.node(1).events.clear();
  }
}

TEST(TcpProbeTest, WhatIsInTheWayIsNamed) {
  TcpTestNet net(4, 1, [](size_t n, TcpOptions& options) {
    options.incarnation = n == 1 ? 0 : 4;
    options.hello_ms = 300;
    if (n == 2) options.params.fields[1].second = 8;
    if (n == 3) options.incarnation = 0;
  });
  const auto answer = [&](const InterconnectPeer& peer) {
    net.node(1).events.clear();
    net.interconnect(1).probe(peer, {77, net.interconnect(1).address(), {}});
    EXPECT_TRUE(net.until([&] { return net.find(1, Kind::kProbeReply) != nullptr; }));
    return net.find(1, Kind::kProbeReply)->why;
  };
  const auto has = [](const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  has(answer({NodeId(2), 4, net.interconnect(2).address()}), "hash_seed is 8 at node 2 and 7 at node 1");
  EXPECT_NE(net.find(2, Kind::kRefused, "hash_seed is 8"), nullptr);
  has(answer({NodeId(0), 3, net.interconnect(0).address()}),
      "this is node 0 incarnation 4, and incarnation 3 was meant");
  has(answer({NodeId(2), 4, net.interconnect(0).address()}), "this is node 0, and node 2 was meant");
  has(answer({NodeId(3), 4, net.interconnect(3).address()}),
      "it is node 3 incarnation 0, and node 3 incarnation 4 was meant");
  has(answer({NodeId(0), 4, "127.0.0.1:1"}), "127.0.0.1:1: ");
  has(answer({NodeId(0), 4, "nonsense"}), "nonsense");
  const auto deaf = tcp_listen("127.0.0.1:0");
  has(answer({NodeId(0), 4, tcp_local_address(deaf->get())}), "no hello in time");
}

// It reaches the member, but the member does not reach it: the reply says so, and the member reports whom, where and
// why.
TEST(TcpProbeTest, WhoIsNotReachedIsNotLetIn) {
  TcpTestNet net(4, 1, [](size_t n, TcpOptions& options) {
    options.incarnation = n == 0 || n == 3 ? 4 : 0;
    options.hello_ms = 600;
  });
  const auto deaf = tcp_listen("127.0.0.1:0");
  const auto answer = [&](size_t member, const std::string& address, uint64_t token) {
    net.node(1).events.clear(), net.node(member).events.clear();
    net.interconnect(1).probe({node_id(member), 4, net.interconnect(member).address()},
                              {token, address, "node 2 is away"});
    EXPECT_TRUE(net.until([&] { return net.find(1, Kind::kProbeReply) != nullptr; }));
    return net.find(1, Kind::kProbeReply)->why;
  };
  for (const size_t member : {size_t{0}, size_t{3}}) {
    struct {
      std::string address, why;
    } const cases[] = {{"127.0.0.1:1", "refused"},
                       {"nonsense", "has no port"},
                       {tcp_local_address(deaf->get()), "no hello in time"},
                       {net.interconnect(3 - member).address(), "was meant"},  // another member's
                       {net.interconnect(2).address(), "this is node 2, and node 1 was meant"}};
    for (const auto& [address, why] : cases) {
      const std::string told = answer(member, address, 77);
      EXPECT_NE(told.find("node " + std::to_string(member) + " does not reach node 1 at " + address), std::string::npos)
          << told;
      EXPECT_NE(told.find(why), std::string::npos) << told;
      const InterconnectEvent* event = net.find(member, Kind::kUnreached, why);
      ASSERT_NE(event, nullptr) << net.all_events(member);
      EXPECT_EQ(event->peer, NodeId(1));
      EXPECT_EQ(event->address, address);
      const InterconnectEvent* probed = net.find(member, Kind::kProbed, "node 2 is away");
      ASSERT_NE(probed, nullptr) << net.all_events(member);
      EXPECT_EQ(probed->address, address);
    }
    EXPECT_EQ(answer(member, net.interconnect(1).address(), 78), "");
  }
}

// The name servers do not answer for the node that probes: that delays neither the member's other connections nor its
// control thread. A member whose name they know is found.
TEST(TcpProbeTest, ANameThatIsNotLookedUpHoldsNobodyUp) {
  struct Names {
    std::atomic<bool> over = false;
    std::string known;
  };
  const auto names = std::make_shared<Names>();
  TcpTestNet net(3, 1, [&](size_t n, TcpOptions& options) {
    options.incarnation = n == 1 ? 0 : 4;
    options.hello_ms = 2000;
    options.resolve = [names](const std::string& address) {
      if (address.starts_with("known")) return tcp_resolve(names->known);
      names->over.wait(false);
      return tcp_resolve("127.0.0.1:1");
    };
  });
  names->known = net.interconnect(2).address();
  net.interconnect(1).probe({NodeId(0), 4, net.interconnect(0).address()}, {77, "unknown:1", {}});
  net.interconnect(0).join({NodeId(2), 4, "known:1"});
  net.interconnect(2).join({NodeId(0), 4, net.interconnect(0).address()});
  EXPECT_TRUE(net.until([&] { return net.is_up(0, 2, 4) && net.is_up(2, 0, 4); })) << net.all_events(0);
  ASSERT_TRUE(net.until([&] { return net.find(1, Kind::kProbeReply) != nullptr; }));
  EXPECT_TRUE(net.until([&] { return net.find(0, Kind::kUnreached, "its name was not looked up in time") != nullptr; }))
      << net.all_events(0);
  names->over = true;
  names->over.notify_all();
}

// Another process of the same node answers the call.
TEST(TcpProbeTest, WhoKnocksAnswersItself) {
  TcpTestNet net(2, 1, [](size_t n, TcpOptions& options) { options.incarnation = n == 0 ? 4 : 0; });
  TcpOptions twin = tcp_test_options(1);
  twin.incarnation = 0;
  net.add(twin);
  net.interconnect(1).probe({NodeId(0), 4, net.interconnect(0).address()}, {77, net.interconnect(2).address(), {}});
  ASSERT_TRUE(net.until([&] { return net.find(1, Kind::kProbeReply) != nullptr; }));
  const std::string why = net.find(1, Kind::kProbeReply)->why;
  EXPECT_NE(why.find("another process than this one has knocked"), std::string::npos) << why;
}

TEST(TcpHandshakeTest, AnotherClusterIsRefused) {
  TcpTestNet net(2, 1, [](size_t n, TcpOptions& options) {
    if (n == 1) options.params.cluster = "staging";
  });
  net.join(0, 1), net.join(1, 0);
  const std::string words = "cluster is \"staging\" at node 1 and \"test\" at node 0";
  ASSERT_TRUE(net.until([&] { return net.find(0, Kind::kRefused, words) && net.find(1, Kind::kRefused, words); }));
}

TEST(TcpHandshakeTest, TheOneThatConnectsMayJoinLongBefore) {
  TcpTestNet net(2, 3, [](size_t, TcpOptions& options) { options.hello_ms = options.wait_ms = 50; });
  net.join(0, 1);
  ASSERT_TRUE(net.until([&] { return net.find(0, Kind::kRefused, "not expected by node 1"); })) << net.all_events(0);
  net.join(1, 0);
  EXPECT_TRUE(net.until([&] { return net.is_up(0, 1) && net.is_up(1, 0); })) << net.all_events(0);
}

TEST(TcpHandshakeTest, NobodyListensYet) {
  TcpTestNet net(1);
  auto probe = TcpInterconnect::create(tcp_test_options(1), nullptr, net.clock());
  ASSERT_TRUE(probe);
  const std::string address = (*probe)->address();
  probe->reset();
  net.interconnect(0).join({NodeId(1), 1, address});
  for (int i = 0; i < 100; ++i) net.control();
  TcpOptions late = tcp_test_options(1);
  late.listen = address;
  net.add(late);
  net.join(1, 0);
  EXPECT_TRUE(net.until([&] { return net.is_up(0, 1) && net.is_up(1, 0); }));
}

TEST(TcpOptionsTest, BadOptionsAreNamed) {
  RealClock clock;
  const auto refused = [&](const TcpOptions& options, const std::string& words) {
    const auto interconnect = TcpInterconnect::create(options, nullptr, &clock);
    ASSERT_FALSE(interconnect);
    EXPECT_NE(interconnect.error().text().find(words), std::string::npos) << interconnect.error().text();
  };
  TcpOptions options = tcp_test_options(0);
  options.listen = "127.0.0.1";
  refused(options, "has no port");
  options.listen = "300.0.0.1:0";
  refused(options, "300.0.0.1");
  auto taken = TcpInterconnect::create(tcp_test_options(0), nullptr, &clock);
  ASSERT_TRUE(taken);
  options.listen = (*taken)->address();
  refused(options, "bind");
  options = tcp_test_options(0, 129);
  refused(options, "workers is 129");
  options = tcp_test_options(0);
  options.params.cluster = std::string(65, 'c');
  refused(options, "cluster id is 65");
}

}  // namespace
}  // namespace weft
