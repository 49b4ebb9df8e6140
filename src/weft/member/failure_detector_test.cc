// One member's detector, told by hand what it would hear.
#include "weft/member/failure_detector.h"

#include <gtest/gtest.h>

#include <memory>

#include "weft/fabric/nodes_testing.h"

namespace weft {
namespace {

constexpr uint64_t kLease = 1'600'000;
constexpr uint64_t kShort = kLease / 16, kLong = kLease;

class FailureDetectorTest : public testing::Test {
 protected:
  // Node `self` of `nodes`, whose incarnations are node + 1.
  void be(int self, int nodes) {
    self_ = NodeId(static_cast<uint8_t>(self));
    view_ = make_view(nodes, 1, nodes);
    now_ = 10 * kLease;
    detector_ = std::make_unique<FailureDetector>(self_, kLease, kLease);
    detector_->start(now_);
    detector_->adopt(view_, now_);
  }
  void hear_all_but(NodeSet silent) {
    for (const Member& member : view_.members) {
      if (member.node != self_ && !silent.contains(member.node)) hear(member.node.value, {});
    }
  }
  bool hear(int node, NodeSet unheard) {
    detector_->heard(NodeId(static_cast<uint8_t>(node)), now_);
    return detector_->heard_in_current_view(NodeId(static_cast<uint8_t>(node)), unheard, now_);
  }
  void lose(int node, Contact contact = Contact::kLost) {
    detector_->set_contact(NodeId(static_cast<uint8_t>(node)), contact, now_);
  }
  FailureDetector::Verdict verdict() const { return detector_->judge(now_); }
  // A view that removes `gone` because only its link with `by` was lost; then it comes back, as the youngest.
  void link_lost(int by, int gone) {
    view_.epoch = Epoch(view_.epoch.value + 1);
    view_.change = {Cause::kLink, NodeId(static_cast<uint8_t>(by)), node_set({gone})};
    for (Member& member : view_.members) {
      if (member.node.value == gone) member.incarnation = view_.next_incarnation++;
    }
    detector_->adopt(view_, now_);
  }

  NodeId self_;
  View view_;
  uint64_t now_ = 0;
  std::unique_ptr<FailureDetector> detector_;
};

TEST_F(FailureDetectorTest, SilenceCountsAfterALeaseAndWhoIsNotInTheViewAfterTwo) {
  be(0, 2);
  now_ += kLease;
  EXPECT_EQ(verdict().silent, NodeSet{});
  detector_->heard(NodeId(1), now_);  // in an older view
  now_ += kLease;
  EXPECT_EQ(verdict().silent, NodeSet{});
  ++now_;
  EXPECT_EQ(verdict().silent, node_set({1}));
  now_ += kShort;
  EXPECT_EQ(verdict().gone, node_set({1}));
  EXPECT_EQ(verdict().change, (Change{Cause::kUnheard, NodeId(0), node_set({1})}));
}

// Nobody can say which of the two has failed, so the older stays, if it can propose that itself.
TEST_F(FailureDetectorTest, OfTwoMembersTheYoungerGoes) {
  for (const int self : {0, 1}) {
    be(self, 2);
    lose(1 - self);
    now_ += (self == 0 ? kShort : kLong) - 1;
    EXPECT_EQ(verdict().gone, NodeSet{});
    ++now_;
    EXPECT_EQ(verdict().gone, node_set({1 - self}));
    EXPECT_EQ(verdict().change.cause, Cause::kUnheard);
  }
}

TEST_F(FailureDetectorTest, WhoHasEndedOrMisbehavedGoesAtOnce) {
  be(2, 3);
  lose(0, Contact::kEnded);
  EXPECT_EQ(verdict().gone, node_set({0}));
  EXPECT_EQ(verdict().change.cause, Cause::kEnded);
  be(2, 3);
  lose(0, Contact::kClosed);
  EXPECT_EQ(verdict().gone, node_set({0}));
  EXPECT_EQ(verdict().change.cause, Cause::kMisconduct);
}

// Everybody reports a dead member, and nobody waits, however old it was.
TEST_F(FailureDetectorTest, WhomNobodyHearsGoesAtOnce) {
  be(2, 4);
  lose(0);
  EXPECT_EQ(verdict().silent, node_set({0}));
  EXPECT_EQ(detector_->unheard(now_), node_set({0}));
  EXPECT_EQ(verdict().gone, NodeSet{});
  EXPECT_TRUE(hear(1, node_set({0})));
  EXPECT_FALSE(hear(1, node_set({0})));
  EXPECT_EQ(verdict().gone, NodeSet{});
  hear(3, node_set({0}));
  EXPECT_EQ(verdict().gone, node_set({0}));
  EXPECT_EQ(verdict().change, (Change{Cause::kUnheard, NodeId(2), node_set({0})}));
}

// Two die at once: the remaining members suffice.
TEST_F(FailureDetectorTest, WhoIsSilentToNeedNotBeHeard) {
  be(0, 5);
  lose(3);
  lose(4);
  for (const int node : {1, 2}) hear(node, node_set({3, 4}));
  EXPECT_EQ(verdict().gone, NodeSet{});  // F4
  now_ += kLease / 2;
  EXPECT_EQ(verdict().gone, node_set({3, 4}));
  EXPECT_EQ(verdict().change.cause, Cause::kUnheard);
}

TEST_F(FailureDetectorTest, OfTwoThatHaveLostEachOtherTheYoungerGoes) {
  be(0, 3);
  lose(2);
  now_ += kShort - 1;
  EXPECT_EQ(verdict().gone, NodeSet{});
  ++now_;
  EXPECT_EQ(verdict().gone, node_set({2}));
  EXPECT_EQ(verdict().change, (Change{Cause::kLink, NodeId(0), node_set({2})}));
  be(2, 3);
  lose(0);
  now_ += kLong - 1;
  EXPECT_EQ(verdict().gone, NodeSet{});
  ++now_;
  EXPECT_EQ(verdict().gone, node_set({0}));  // still there, so the other end cannot propose
}

// The oldest has a bad port: it costs the first member that it loses, and then the oldest itself.
TEST_F(FailureDetectorTest, WhoLosesOneAfterTheOtherGoes) {
  be(2, 4);
  link_lost(0, 1);
  lose(0);
  hear(1, {});
  hear(3, {});
  now_ += kShort;
  EXPECT_EQ(verdict().gone, node_set({0}));
  be(0, 4);  // and says so itself
  link_lost(0, 1);
  lose(2);
  now_ += kShort;
  EXPECT_EQ(verdict().gone, NodeSet{});
}

// The same link again is not the older one's fault.
TEST_F(FailureDetectorTest, AFlappingLinkCostsTheYoungerEndEachTime) {
  be(0, 3);
  for (int i = 0; i < 3; ++i) {
    link_lost(0, 2);
    lose(2);
    now_ += kShort;
    EXPECT_EQ(verdict().gone, node_set({2}));
  }
}

// What node 0 sends to node 2 is lost. Node 2 announces early that it does not hear node 0, and keeps announcing it.
TEST_F(FailureDetectorTest, ALinkThatIsLostOneWayIsLost) {
  be(0, 3);
  for (int i = 0; i < 3; ++i) {
    hear(1, {});
    hear(2, node_set({0}));
    EXPECT_EQ(verdict().gone, NodeSet{});
    now_ += kLease / 4;
  }
  hear(1, {});
  hear(2, node_set({0}));
  now_ += kShort;
  EXPECT_EQ(verdict().silent, NodeSet{});
  EXPECT_EQ(verdict().gone, node_set({2}));
  EXPECT_EQ(verdict().change, (Change{Cause::kLink, NodeId(0), node_set({2})}));
  be(2, 3);  // the other end would do it later
  for (int i = 0; i < 5; ++i) {
    now_ += kLease / 4;
    hear(1, {});
  }
  EXPECT_EQ(verdict().silent, node_set({0}));
  EXPECT_EQ(verdict().gone, NodeSet{});
}

TEST_F(FailureDetectorTest, WhoDoesNotHearForAMomentIsNotLost) {
  be(0, 3);
  for (int i = 0; i < 20; ++i) {
    hear(1, {});
    hear(2, i % 3 != 0 ? node_set({0}) : NodeSet{});
    now_ += kLease / 4;
    EXPECT_EQ(verdict().gone, NodeSet{}) << i;
  }
  // Nor while this node did not run: what it then reads was sent before.
  hear(1, {});
  hear(2, node_set({0}));
  now_ += 3 * kLease;
  detector_->on_local_stall(3 * kLease, now_);
  hear(1, {});
  hear(2, node_set({0}));
  EXPECT_EQ(verdict().gone, NodeSet{});
}

// A node whose receiver is dead reports that it hears nobody, while everybody hears it.
TEST_F(FailureDetectorTest, WhoHearsNobodyGoesAndNotTheOthers) {
  be(0, 3);  // the oldest is deaf: it is removed all the same
  now_ += kLease + 1;
  EXPECT_EQ(verdict().silent, node_set({1, 2}));
  now_ += kLease - 2;
  EXPECT_EQ(verdict().gone, NodeSet{});
  now_ += 2;
  EXPECT_EQ(verdict().gone, node_set({1, 2}));  // still there, so the others cannot propose
  EXPECT_EQ(verdict().change.cause, Cause::kUnheard);
  be(2, 3);
  for (int i = 0; i < 4; ++i) {
    hear(1, {});
    hear(0, node_set({1, 2}));
    now_ += kLease / 4;
  }
  EXPECT_EQ(verdict().gone, node_set({0}));
}

TEST_F(FailureDetectorTest, LostLinksAreForgotten) {
  be(2, 4);
  link_lost(0, 1);
  now_ += FailureDetector::kLinkMemoryPaces * kLease + 1;
  hear_all_but({});
  lose(0);
  now_ += kShort;
  EXPECT_EQ(verdict().gone, NodeSet{});
  be(2, 4);  // one more does not bring back the old ones: nodes 0 and 2 have recently lost equally many
  link_lost(0, 1);
  now_ += FailureDetector::kLinkMemoryPaces * kLease + 1;
  link_lost(0, 3);
  link_lost(2, 3);
  hear_all_but({});
  lose(0);
  now_ += kShort;
  EXPECT_EQ(verdict().gone, NodeSet{});
}

TEST_F(FailureDetectorTest, WhoHearsNobodyWaitsForThoseWhoDo) {
  be(0, 3);
  lose(1);
  lose(2);
  now_ += kLease / 2 - 2;
  EXPECT_EQ(verdict().silent, node_set({1, 2}));
  EXPECT_EQ(verdict().gone, NodeSet{});
}

// A dead member whose end nobody sees: whoever notices first already has the others' reports.
TEST_F(FailureDetectorTest, SilenceIsToldEarly) {
  be(1, 3);
  now_ += kLease * 3 / 8;
  EXPECT_EQ(detector_->unheard(now_), NodeSet{});
  ++now_;
  EXPECT_EQ(detector_->unheard(now_), node_set({0, 2}));
  hear(2, node_set({0}));
  now_ += kLease * 5 / 8;
  EXPECT_EQ(verdict().silent, node_set({0}));
  EXPECT_EQ(verdict().gone, node_set({0}));
}

TEST_F(FailureDetectorTest, WhatWasSaidInAnEarlierViewDoesNotCount) {
  be(2, 3);
  hear(1, node_set({0}));
  view_.epoch = Epoch(view_.epoch.value + 1);
  detector_->adopt(view_, now_);
  lose(0);
  EXPECT_EQ(verdict().gone, NodeSet{});
}

}  // namespace
}  // namespace weft
