// A peer that was accepted and then sends anything: it is disconnected with a reason, unless what it sends is valid;
// nobody else is affected. From a real socket, under the sanitizers.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/wires/tcp/tcp_testing.h"

namespace weft {
namespace {

constexpr size_t kVictim = 2, kFriend = 1;
constexpr NodeId kHostile(0);

void put(std::string& out, TcpFrameKind kind, Flow flow, const std::string& payload) {
  const size_t at = out.size();
  out.resize(at + tcp_frame_bytes(payload.size()));
  std::byte* const frame = reinterpret_cast<std::byte*>(out.data()) + at;
  std::memcpy(tcp_put_frame(frame, kind, flow, payload.size()), payload.data(), payload.size());
}

template <class T>
std::string text_of(const T& head, size_t more = 0) {
  std::string out(sizeof head + more, '\0');
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

class TcpHostileTest : public ::testing::Test {
 protected:
  TcpHostileTest() { net_.connect(kFriend, kVictim); }

  // The hostile peer sends a valid hello and is accepted.
  void enter() {
    net_.interconnect(kVictim).leave(kHostile);
    net_.node(kVictim).events.clear();
    net_.interconnect(kVictim).join({kHostile, ++incarnation_, "127.0.0.1:1"});
    net_.wire(kVictim).accept_incarnation(kHostile, incarnation_);
    net_.grant(kVictim, 0);
    auto socket = tcp_connect(*tcp_resolve(net_.interconnect(kVictim).address()));
    ASSERT_TRUE(socket);
    stream_ = TcpStream(std::move(*socket));
    send(tcp_encode_hello({kHostile, incarnation_, WorkerId(0), node_id(kVictim), 1, {}, tcp_test_options(0).params}));
    std::string heard;
    ASSERT_TRUE(net_.until([&] {
      net_.receive(kVictim);
      heard += hear();
      return net_.find(kVictim, InterconnectEvent::Kind::kUp) != nullptr && heard.size() >= kTcpPrefixBytes;
    }));
    auto hello = tcp_decode_hello(as_bytes(heard).subspan(kTcpPrefixBytes, as_bytes(heard).size() - kTcpPrefixBytes));
    if (hello) grant_ = hello->grants[index_of(Domain::kEngine)];
  }
  // Waits for room, so that all of it is sent; gives up when the victim has closed.
  void send(const std::string& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t sent = tcp_send(stream_.fd(), bytes.data() + done, bytes.size() - done);
      if (sent > 0) done += static_cast<size_t>(sent);
      if (sent < 0 && errno != EAGAIN) return;
      if (sent < 0) serve(), hear();
    }
  }
  std::string hear() {
    char buffer[65536];
    const ssize_t got = tcp_recv(stream_.fd(), buffer, sizeof buffer);
    over_ = got == 0 || (got < 0 && errno != EAGAIN);
    return {buffer, got > 0 ? static_cast<size_t>(got) : 0};
  }
  size_t serve() {
    net_.control();
    return net_.receive(kVictim).size();
  }
  // Sends it, closes the sending side, and reads until the victim has closed.
  void say_and_leave(const std::string& bytes) {
    send(bytes);
    shutdown(stream_.fd(), SHUT_WR);
    over_ = false;
    EXPECT_TRUE(net_.until([&] {
      packets_ += net_.receive(kVictim).size();
      hear();
      return over_ && net_.find(kVictim, InterconnectEvent::Kind::kDown) != nullptr;
    }));
  }
  void expect_cut_off(const std::string& bytes, const std::string& words) {
    enter();
    if (HasFatalFailure()) return;
    say_and_leave(bytes);
    EXPECT_NE(net_.find(kVictim, InterconnectEvent::Kind::kDown, words), nullptr)
        << words << "; " << net_.all_events(kVictim);
  }
  bool friend_undisturbed() {
    EXPECT_TRUE(net_.wire(kFriend).send(node_id(kVictim), Flow::kCommit, as_bytes("friend")));
    return net_.until([&] {
      net_.receive(kFriend);
      for (auto& [from, text] : net_.receive(kVictim)) {
        if (from == node_id(kFriend) && text == "friend") return true;
      }
      return false;
    });
  }
  TcpVerbRequest request(VerbKind kind, uint64_t offset, uint32_t bytes) const {
    return {offset, 1, 2, bytes, grant_, 1, 0, static_cast<uint8_t>(kind), kTcpReplies};
  }
  std::string random_stream(Random& random) {
    std::string out;
    for (uint64_t left = random.between(1, 12); left != 0; --left) {
      const auto bytes = static_cast<uint32_t>(random.below(300));
      const uint64_t offset = random.below(3 << 17) * 8;  // some outside
      switch (random.below(6)) {
        case 0:
          put(out, TcpFrameKind::kRequest, Flow{}, text_of(request(VerbKind::kRead, offset, bytes)));
          break;
        case 1:
          put(out, TcpFrameKind::kRequest, Flow{}, text_of(request(VerbKind::kWrite, offset, bytes), bytes));
          break;
        case 2:
          put(out, TcpFrameKind::kRequest, Flow{}, text_of(request(VerbKind::kCompareSwap, offset, 8)));
          break;
        case 3:
          put(out, TcpFrameKind::kReply, Flow{}, text_of(TcpVerbReply{0, 0, 0, {}}, random.below(9)));
          break;
        case 4:
          put(out, TcpFrameKind::kGrant, Flow{}, text_of(TcpGrant{static_cast<uint32_t>(random.next()), 0}));
          break;
        default:
          put(out, TcpFrameKind::kPacket, static_cast<Flow>(random.below(kFlows)),
              std::string(random.between(1, 500), 'p'));
      }
    }
    return out;
  }

  TcpTestNet net_{3};
  TcpStream stream_;
  uint32_t incarnation_ = 0;
  uint32_t grant_ = 0;
  bool over_ = false;
  size_t packets_ = 0;
};

TEST_F(TcpHostileTest, ABadFrameClosesThePeerByName) {
  expect_cut_off(text_of(TcpFrameHeader{8, 9, 0, 0}), "kind 9 is unknown");
  expect_cut_off(text_of(TcpFrameHeader{0xffffffff, 1, 0, 0}), "4294967295 bytes");
  std::string bytes;
  put(bytes, TcpFrameKind::kReply, Flow{}, text_of(TcpVerbReply{5, 0, 0, {}}));
  expect_cut_off(bytes, "bad verb reply: sequence 5");
  bytes.clear();
  put(bytes, TcpFrameKind::kPacket, Flow::kCommit, "sound");
  bytes += "then garbage that is no frame at all";
  packets_ = 0;
  expect_cut_off(bytes, "bad frame");
  EXPECT_EQ(packets_, 1U) << "valid frames before it are delivered";
  EXPECT_TRUE(friend_undisturbed());
}

TEST_F(TcpHostileTest, RepliesThatNobodyReadsEndAtTheWindow) {
  enter();
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    put(bytes, TcpFrameKind::kRequest, Flow{}, text_of(request(VerbKind::kRead, 0, kTcpVerbBytesMax)));
  }
  tcp_send(stream_.fd(), bytes.data(), bytes.size());
  ASSERT_TRUE(net_.until([&] {
    net_.receive(kVictim);
    return net_.find(kVictim, InterconnectEvent::Kind::kDown, "replies over the window") != nullptr;
  })) << net_.all_events(kVictim);
  EXPECT_TRUE(friend_undisturbed());
}

TEST_F(TcpHostileTest, RandomStreamsFromASocket) {
  Random random(11);
  for (int round = 0; round < 1500 && !HasFailure(); ++round) {
    enter();
    if (HasFatalFailure()) return;
    std::string bytes = random_stream(random);
    if (random.chance(10)) {
      for (char& c : bytes) c = static_cast<char>(random.next());
    }
    for (uint64_t flips = random.below(4); flips != 0; --flips) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    }
    if (random.chance(30)) bytes.resize(random.below(bytes.size()) + 1);
    if (random.chance(20)) {  // in parts, so that frames arrive in halves
      const size_t cut = random.below(bytes.size());
      send(bytes.substr(0, cut));
      serve();
      bytes = bytes.substr(cut);
    }
    say_and_leave(bytes);
    if (round % 100 == 0) {
      EXPECT_TRUE(friend_undisturbed());
    }
  }
  EXPECT_TRUE(friend_undisturbed());
  EXPECT_GT(packets_, 500U) << "valid ones are delivered";
  EXPECT_TRUE(net_.until_polling([&] { return net_.interconnect(kVictim).links() <= 2; }))
      << "and nothing is left behind";
}

TEST_F(TcpHostileTest, RandomHellosFromASocket) {
  Random random(12);
  for (int round = 0; round < 1500 && !HasFailure(); ++round) {
    auto socket = tcp_connect(*tcp_resolve(net_.interconnect(kVictim).address()));
    ASSERT_TRUE(socket);
    stream_ = TcpStream(std::move(*socket));
    std::string bytes =
        tcp_encode_hello({kHostile, 1, WorkerId(0), node_id(kVictim), 1, {}, tcp_test_options(0).params});
    for (uint64_t flips = random.between(1, 4); flips != 0; --flips) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    }
    if (random.chance(30)) bytes.resize(random.below(bytes.size()) + 1);
    send(bytes);
    shutdown(stream_.fd(), SHUT_WR);
    over_ = false;
    EXPECT_TRUE(net_.until([&] { return hear(), over_; }));
    net_.node(kVictim).events.clear();
  }
  EXPECT_TRUE(net_.until([&] { return net_.interconnect(kVictim).strangers() == 0; }));
  EXPECT_TRUE(friend_undisturbed());
}

}  // namespace
}  // namespace weft
