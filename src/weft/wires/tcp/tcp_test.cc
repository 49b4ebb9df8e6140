#include "weft/wires/tcp/tcp.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <thread>

#include "weft/wires/tcp/tcp_testing.h"

namespace weft {
namespace {

TEST(TcpWireTest, APacketAloneIsOneWrite) {
  TcpTestNet net(2);
  EXPECT_EQ(net.interconnect(0).name(), "tcp");
  net.connect(0, 1);
  ASSERT_TRUE(net.wire(0).send(NodeId(1), Flow::kExecution, as_bytes("to one")));
  EXPECT_TRUE(net.wire(0).pending()) << "it is not written yet";
  ASSERT_TRUE(net.until([&] { return net.receive(0), !net.receive(1).empty(); }));
  EXPECT_TRUE(net.settles(0));
  EXPECT_LE(net.wire(0).counters().writes, 2U) << "the announcement of the grant, and the packet";
}

TEST(TcpWireTest, WaitsForTheConnectionAndForAdmission) {
  TcpTestNet net(2);
  net.wire(0).accept_incarnation(NodeId(1), 1);
  EXPECT_FALSE(net.wire(0).send(NodeId(1), Flow::kCommit, as_bytes("x"))) << "not connected yet: try again";
  net.join(0, 1), net.join(1, 0);
  ASSERT_TRUE(net.until([&] { return net.is_up(0, 1) && net.is_up(1, 0); }));
  net.receive(0);
  ASSERT_TRUE(net.wire(0).send(NodeId(1), Flow::kCommit, as_bytes("early")));
  EXPECT_TRUE(net.wire(1).send(NodeId(0), Flow::kCommit, as_bytes("x"))) << "accepted nobody: dropped";
  EXPECT_EQ(net.wire(1).counters().packets_dropped, 1U);
  for (int i = 0; i < 20; ++i) {
    net.control();
    EXPECT_TRUE(net.receive(0).empty());
    EXPECT_TRUE(net.receive(1).empty());
  }
  EXPECT_TRUE(net.settles(1)) << "nothing to do for a worker that accepted nobody";
  net.wire(1).accept_incarnation(NodeId(0), 2);
  EXPECT_TRUE(net.receive(1).empty());
  ASSERT_TRUE(
      net.until_polling([&] { return net.find(1, InterconnectEvent::Kind::kDown, "incarnation 2 was admitted"); }));
}

TEST(TcpWireTest, AnEarlyPacketIsDeliveredWhenItsSenderIsAdmitted) {
  TcpTestNet net(2);
  net.wire(0).accept_incarnation(NodeId(1), 1);
  net.join(0, 1), net.join(1, 0);
  ASSERT_TRUE(net.until([&] { return net.is_up(0, 1) && net.is_up(1, 0); }));
  net.receive(0);
  ASSERT_TRUE(net.wire(0).send(NodeId(1), Flow::kCommit, as_bytes("early")));
  net.receive(0);
  net.receive(1);
  net.wire(1).accept_incarnation(NodeId(0), 1);
  std::string got;
  ASSERT_TRUE(net.until([&] {
    for (auto& [from, text] : net.receive(1)) got += text;
    return !got.empty();
  }));
  EXPECT_EQ(got, "early");
}

TEST(TcpWakeTest, OutputThatWaitsForTheSocketWakesASleeper) {
  TcpTestNet net(2);
  net.connect(0, 1);
  net.receive(0);
  const std::string packet(kPacketBytesMax, 'x');
  uint64_t sent = 0;
  ASSERT_TRUE(net.until([&] {
    while (net.wire(0).send(NodeId(1), Flow::kCommit, as_bytes(packet))) ++sent;
    net.receive(0);
    return !net.wire(0).pending();
  }));
  pollfd events{net.interconnect(0).wait_fd(WorkerId(0)), POLLIN, 0};
  EXPECT_EQ(::poll(&events, 1, 0), 0) << "full, and the other side reads nothing: sleep";
  uint64_t received = 0;
  std::thread reader([&] {
    const uint64_t deadline_ns = net.clock()->now_ns() + kInterconnectTestDeadlineNs;
    while (received < sent && net.clock()->now_ns() < deadline_ns) received += net.receive(1).size();
  });
  while (net.wire(0).counters().bytes_written < sent * kPacketBytesMax) {
    if (!net.wire(0).pending() && ::poll(&events, 1, 30'000) == 0) break;
    net.receive(0);
  }
  reader.join();
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace weft
