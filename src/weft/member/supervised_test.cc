// A node's end of the supervisor's membership, against a supervisor played by the test; and the framing below both.
#include "weft/member/supervised.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "weft/base/random.h"
#include "weft/fabric/nodes_testing.h"
#include "weft/member/view_json.h"
#include "weft/wires/shm/socket.h"

namespace weft {
namespace {

std::pair<FramedSocket, FramedSocket> joined() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {FramedSocket(Fd(fds[0])), FramedSocket(Fd(fds[1]))};
}

TEST(FramedSocket, TextsOfAllSizesArriveWholeAndInOrder) {
  auto [a, b] = joined();
  Random random(7);
  for (int i = 0; i < 200; ++i) {
    const std::string sent(i % 10 == 0 ? random.below(2 << 20) : random.below(100), static_cast<char>('a' + i % 26));
    a.send(sent);
    std::string got;
    while (!b.receive(&got)) {
      ASSERT_TRUE(b.open());
      a.flush();
    }
    ASSERT_TRUE(got == sent) << i;
  }
  EXPECT_FALSE(a.wants_to_write());
  a.close();
  std::string none;
  EXPECT_FALSE(b.receive(&none));
  EXPECT_FALSE(b.open());
}

TEST(FramedSocket, WhatCannotBeClosesTheConnection) {
  {
    auto [a, b] = joined();
    const uint32_t length = FramedSocket::kBytesMax + 1;
    ASSERT_EQ(::send(a.fd(), &length, sizeof length, 0), ssize_t{sizeof length});
    std::string text;
    EXPECT_FALSE(b.receive(&text));
    EXPECT_FALSE(b.open());
  }
  {
    auto [a, b] = joined();
    a.send(std::string(FramedSocket::kBytesMax + 1, 'x'));
    EXPECT_FALSE(a.open());
  }
  {
    auto [a, b] = joined();  // b never reads
    for (int i = 0; i < 100 && a.open(); ++i) a.send(std::string(1 << 20, 'x'));
    EXPECT_FALSE(a.open());
  }
}

class SupervisedTest : public testing::Test {
 protected:
  SupervisedTest() {
    auto listener = shm_listen(address_, ShmSocket::kStream);
    EXPECT_TRUE(listener);
    auto connected = SupervisedMembership::connect(address_);
    EXPECT_TRUE(connected);
    node_ = std::move(*connected);
    supervisor_ = FramedSocket(shm_accept(listener->get()));
    EXPECT_TRUE(supervisor_.open());
  }

  bool until(const std::function<bool()>& holds) {
    for (int i = 0; i < 10'000; ++i) {
      node_->control_step();
      if (holds()) return true;
      pollfd wait{node_->control_fd(), POLLIN, 0};
      poll(&wait, 1, 1);
    }
    return false;
  }
  nlohmann::json heard() {
    std::string text;
    EXPECT_TRUE(until([&] { return supervisor_.receive(&text); }));
    return nlohmann::json::parse(text, nullptr, false);
  }

  const std::string address_ = "@weft-supervised-test-" + std::to_string(getpid()) + "-" +
                               testing::UnitTest::GetInstance()->current_test_info()->name();
  std::unique_ptr<SupervisedMembership> node_;
  FramedSocket supervisor_;
};

TEST_F(SupervisedTest, SaysWhatItIsAndHearsTheView) {
  Member self;
  self.node = NodeId(2);
  self.token = UINT64_MAX;
  self.address = "somewhere";
  node_->announce(self);
  EXPECT_EQ(heard()["announce"]["token"].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(node_->latest(), nullptr);
  View view = make_view(3, 2, 3);
  view.epoch = Epoch(5);
  supervisor_.send("{\"view\":" + to_json(view) + "}");
  ASSERT_TRUE(until([&] { return node_->latest() != nullptr; }));
  EXPECT_EQ(*node_->latest(), view);
  // An older view changes nothing.
  view.epoch = Epoch(4);
  supervisor_.send("{\"view\":" + to_json(view) + "}");
  supervisor_.send("{\"ended\":[2,7]}");
  ASSERT_TRUE(until([&] { return node_->fenced(NodeId(1), 7); }));
  EXPECT_EQ(node_->latest()->epoch, Epoch(5));
  EXPECT_TRUE(node_->fenced(NodeId(1), 2));
  EXPECT_FALSE(node_->fenced(NodeId(1), 3));
  const View next = *without_members(*node_->latest(), node_set({2}));
  node_->propose(next);
  const auto proposed = view_from_json(heard()["propose"].dump());
  ASSERT_TRUE(proposed);
  EXPECT_EQ(*proposed, next);
}

TEST_F(SupervisedTest, EndsWithItsSupervisor) {
  EXPECT_EQ(node_->termination_reason(), "");
  supervisor_.close();
  EXPECT_TRUE(until([&] { return node_->termination_reason() == "the supervisor has ended"; }));
  node_->propose(make_view(3, 2, 3));  // nobody receives it
  node_->control_step();
}

TEST_F(SupervisedTest, WhatMakesNoSenseEndsIt) {
  supervisor_.send("{\"view\":{\"epoch\":1}}");
  EXPECT_TRUE(
      until([&] { return node_->termination_reason().starts_with("the supervisor sent a view that cannot be"); }));
}

TEST_F(SupervisedTest, AnUnknownMessageEndsIt) {
  supervisor_.send("nonsense");
  EXPECT_TRUE(until([&] { return node_->termination_reason() == "the supervisor sent a message of an unknown kind"; }));
}

TEST(Supervised, WithoutASupervisorThereIsAnError) {
  const auto none = SupervisedMembership::connect("@weft-nobody-listens-here");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text().find("@weft-nobody-listens-here"), std::string::npos);
}

}  // namespace
}  // namespace weft
