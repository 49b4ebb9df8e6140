// Faults of peers are kept until the worker asks, and each is returned once.
#include "weft/txn/peer_faults.h"

#include <gtest/gtest.h>

#include <set>

namespace weft {
namespace {

TEST(PeerFaults, AreEmptyUntilSomethingIsReported) {
  PeerFaults faults(NodeId(0));
  EXPECT_TRUE(faults.empty());
  EXPECT_FALSE(faults.take());
}

TEST(PeerFaults, AReportNamesThePeerAndLeavesTheChannelToBeClosed) {
  PeerFaults faults(NodeId(0));
  faults.report(NodeId(2), "an unlock of what is not locked");
  EXPECT_FALSE(faults.empty());
  const auto fault = faults.take();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->peer, NodeId(2));
  EXPECT_EQ(fault->error.code, Code::kBadPacket);
  EXPECT_EQ(fault->error.detail, "node 2: an unlock of what is not locked");
  EXPECT_FALSE(fault->closed);
  EXPECT_TRUE(faults.empty());
}

TEST(PeerFaults, WhatThePortHasClosedIsNotClosedAgain) {
  PeerFaults faults(NodeId(0));
  faults.closed(NodeId(1), {Code::kBadPacket, "no packet"});
  const auto fault = faults.take();
  ASSERT_TRUE(fault);
  EXPECT_TRUE(fault->closed);
  EXPECT_EQ(fault->error.detail, "no packet");
}

TEST(PeerFaults, EachIsTakenOnceAndNoneIsLost) {
  PeerFaults faults(NodeId(0));
  for (uint8_t n = 1; n < 5; ++n) faults.report(NodeId(n), "x");
  std::multiset<uint8_t> taken;
  while (const auto fault = faults.take()) taken.insert(fault->peer.value);
  EXPECT_EQ(taken, (std::multiset<uint8_t>{1, 2, 3, 4}));
}

TEST(PeerFaultsDeathTest, AMessageOfTheNodeItselfIsNeverWrong) {
  PeerFaults faults(NodeId(0));
  EXPECT_DEATH(faults.report(NodeId(0), "an own message"), "an own message");
}

}  // namespace
}  // namespace weft
