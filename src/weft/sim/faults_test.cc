#include "weft/sim/faults.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Faults, ListsAreParsedAndPrinted) {
  EXPECT_EQ(faults_text(*parse_faults("none")), "none");
  EXPECT_EQ(faults_text(*parse_faults("burst,pause")), "pause,burst");
  EXPECT_EQ(*parse_faults("all"), FaultMask::all());
  EXPECT_EQ(*parse_faults(faults_text(FaultMask::all())), FaultMask::all());
  const auto wrong = parse_faults("pause,flood");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kBadOption);
  EXPECT_NE(wrong.error().text().find("\"flood\""), std::string::npos);
}

TEST(Faults, SameSeedSamePlan) {
  Random one(7);
  Random two(7);
  const FaultPlan a = FaultPlan::draw(one, FaultMask::all(), 5, 1'000'000, 400'000);
  const FaultPlan b = FaultPlan::draw(two, FaultMask::all(), 5, 1'000'000, 400'000);
  ASSERT_EQ(a.windows().size(), b.windows().size());
  ASSERT_GE(a.windows().size(), 4U);
  for (size_t i = 0; i < a.windows().size(); ++i) {
    EXPECT_EQ(a.windows()[i].from_ns, b.windows()[i].from_ns);
    EXPECT_EQ(a.windows()[i].to_ns, b.windows()[i].to_ns);
    EXPECT_LT(a.windows()[i].from_ns, a.windows()[i].to_ns);
  }
}

TEST(Faults, PausesThatTouchAreOnePause) {
  FaultPlan plan;
  plan.add({Fault::kPause, 20, 30, NodeId(1), NodeId(0), 1});
  plan.add({Fault::kPause, 10, 20, NodeId(1), NodeId(0), 1});
  EXPECT_EQ(plan.runs_at(NodeId(1), 9), 9U);
  EXPECT_EQ(plan.runs_at(NodeId(1), 10), 30U);
  EXPECT_EQ(plan.runs_at(NodeId(0), 10), 10U);
  plan.heal(15);
  EXPECT_EQ(plan.runs_at(NodeId(1), 12), 20U);
  EXPECT_EQ(plan.runs_at(NodeId(1), 16), 16U);
}

TEST(Faults, SlownessHoldsInItsWindowOnly) {
  FaultPlan plan;
  Random random(1);
  plan.add({Fault::kSlowNode, 10, 20, NodeId(1), NodeId(0), 5});
  plan.add({Fault::kSlowLink, 10, 20, NodeId(0), NodeId(1), 3});
  EXPECT_EQ(plan.step_factor(NodeId(1), 15), 5U);
  EXPECT_EQ(plan.step_factor(NodeId(1), 20), 1U);
  EXPECT_EQ(plan.step_factor(NodeId(0), 15), 1U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(0), NodeId(1), 15, 100, random), 300U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(1), NodeId(0), 15, 100, random), 100U);
  plan.add({Fault::kBurst, 30, 40, NodeId(0), NodeId(0), 2});
  EXPECT_LE(plan.latency_with_faults(NodeId(1), NodeId(0), 35, 100, random), 2100U);
}

TEST(Faults, LinksFailInOneDirectionOrToMembershipOnly) {
  FaultPlan plan;
  Random random(1);
  plan.add({Fault::kOneWay, 10, 20, NodeId(0), NodeId(1), 1});
  EXPECT_EQ(plan.latency_with_faults(NodeId(0), NodeId(1), 12, 100, random), 108U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(1), NodeId(0), 12, 100, random), 100U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(0), NodeId(1), 20, 100, random), 100U);
  EXPECT_EQ(plan.links_drained_ns(15), 20U);
  plan.add({Fault::kUnseen, 30, 40, NodeId(2), NodeId(0), 1});
  EXPECT_EQ(plan.membership_reachable_at(NodeId(2), 31), 40U);
  EXPECT_EQ(plan.membership_reachable_at(NodeId(0), 31), 31U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(2), NodeId(0), 31, 100, random), 100U);
  plan.add({Fault::kAlone, 50, 60, NodeId(2), NodeId(0), 1});
  EXPECT_EQ(plan.latency_with_faults(NodeId(2), NodeId(1), 55, 100, random), 105U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(1), NodeId(2), 55, 100, random), 105U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(0), NodeId(1), 55, 100, random), 100U);
  EXPECT_EQ(plan.membership_reachable_at(NodeId(2), 55), 55U);
  // Nothing passes a link that is down, in either direction; both ends still reach membership.
  plan.add({Fault::kDown, 62, 68, NodeId(0), NodeId(1), 1});
  EXPECT_EQ(plan.latency_with_faults(NodeId(0), NodeId(1), 65, 100, random), 103U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(1), NodeId(0), 65, 100, random), 103U);
  EXPECT_EQ(plan.latency_with_faults(NodeId(1), NodeId(2), 65, 100, random), 100U);
  EXPECT_EQ(plan.membership_reachable_at(NodeId(0), 65), 65U);
  EXPECT_EQ(plan.links_drained_ns(66), 68U);
  // Windows that overlap hold a packet back until the last of them ends.
  plan.add({Fault::kDown, 62, 67, NodeId(1), NodeId(0), 1});
  EXPECT_EQ(plan.latency_with_faults(NodeId(0), NodeId(1), 65, 100, random), 103U);
  // A node that has lost a peer reaches membership or not, depending on the factor.
  plan.add({Fault::kBreak, 70, 80, NodeId(0), NodeId(1), 2});
  plan.add({Fault::kBreak, 90, 99, NodeId(0), NodeId(1), 3});
  EXPECT_EQ(plan.membership_reachable_at(NodeId(1), 75), 80U);
  EXPECT_EQ(plan.membership_reachable_at(NodeId(0), 75), 75U);
  EXPECT_EQ(plan.membership_reachable_at(NodeId(1), 95), 95U);
}

}  // namespace
}  // namespace weft
