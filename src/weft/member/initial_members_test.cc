#include "weft/member/initial_members.h"

#include <gtest/gtest.h>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/member/view_json.h"

namespace weft {
namespace {

const BootstrapOptions kThree{3, 2, 6, "dnl4"};

Member initial_member(int node, uint64_t token) {
  Member member;
  member.node = NodeId(static_cast<uint8_t>(node));
  member.token = token;
  member.address = "10.0.0." + std::to_string(node) + ":7400";
  return member;
}

TEST(InitialMembers, WhoCompletesTheListWritesTheFirstView) {
  const std::string one = *add_initial_member("", initial_member(1, 0xa7), kThree);
  EXPECT_TRUE(is_initial_members(one));
  EXPECT_NE(one.find("00000000000000a7"), std::string::npos);
  EXPECT_EQ(*add_initial_member(one, initial_member(1, 0xa7), kThree), "") << "it is there already";
  const std::string two = *add_initial_member(one, initial_member(0, UINT64_MAX), kThree);
  EXPECT_TRUE(is_initial_members(two));
  const std::string again = *add_initial_member(two, initial_member(1, 9), kThree);  // node 1 was restarted
  const std::string text = *add_initial_member(again, initial_member(2, 3), kThree);
  EXPECT_FALSE(is_initial_members(text));
  const Result<View> view = view_from_json(text);
  ASSERT_TRUE(view) << view.error().text();
  EXPECT_EQ(view->epoch, Epoch(1));
  EXPECT_EQ(view->partitions.size(), 6U);
  EXPECT_EQ(view->protocol, "dnl4");
  EXPECT_EQ(view->find(NodeId(0))->token, UINT64_MAX);
  EXPECT_EQ(view->find(NodeId(1))->token, 9U);
  EXPECT_EQ(view->find(NodeId(2))->address, "10.0.0.2:7400");
}

TEST(InitialMembers, ANodeBeyondTheFirstOnesAddsNothing) {
  EXPECT_EQ(*add_initial_member("", initial_member(3, 1), kThree), "");
}

TEST(InitialMembers, OneNodeAloneIsACluster) {
  EXPECT_TRUE(view_from_json(*add_initial_member("", initial_member(0, 1), {1, 1, 1})));
}

TEST(InitialMembers, TheirRolesAreThoseOfTheFirstView) {
  constexpr NodeRoles kData = NodeRoles::kData, kBoth = NodeRoles::kBoth, kTransactions = NodeRoles::kTransactions;
  const auto text_of = [](std::initializer_list<NodeRoles> all) -> Result<std::string> {
    std::string text;
    uint64_t token = 1;
    for (const NodeRoles roles : all) {
      Member member = initial_member(static_cast<int>(token) - 1, token);
      member.roles = roles;
      ++token;
      const Result<std::string> next = add_initial_member(text, member, kThree);
      if (!next) return next;
      text = *next;
    }
    return text;
  };
  const Result<std::string> text = text_of({kTransactions, kBoth, kData});
  ASSERT_TRUE(text) << text.error().text();
  const View view = *view_from_json(*text);
  EXPECT_EQ(view.members[0].roles, kTransactions);
  EXPECT_EQ(view.members[1].roles, kBoth);
  EXPECT_EQ(view.members[2].roles, kData);
  for (const Placement& placement : view.partitions) EXPECT_FALSE(placement.is_in_sync(NodeId(0)));
  EXPECT_EQ(text_of({kTransactions, kTransactions, kData}).error().detail,
            "initial_members: 1 of 3 hold data (node.roles), and 2 replicas (cluster.replicas) need as many");
  EXPECT_EQ(text_of({kData, kData, kData}).error().detail,
            "initial_members: none of them runs transactions (node.roles)");
}

TEST(InitialMembers, WhatIsWrongIsNamed) {
  const auto error = [](std::string_view text) {
    const auto next = add_initial_member(text, initial_member(0, 1), kThree);
    return next ? std::string("accepted") : next.error().detail;
  };
  const std::string numbers = R"("first":3,"replicas":2,"partitions":6,"protocol":"dnl4",)";
  EXPECT_EQ(error("nonsense"), "initial_members: no list");
  EXPECT_EQ(error("{" + numbers + R"("initial_members":[{"node":7,"token":"1","address":"a:1"}]})"),
            "initial_members: node 7, there are 3");
  EXPECT_EQ(error("{" + numbers + R"("initial_members":[{"node":1,"token":"xyz","address":"a:1"}]})"),
            "initial_members: token xyz");
  EXPECT_EQ(error("{" + numbers + R"("initial_members":[{"node":1,"token":"1"}]})"), "initial_members: address ");
  EXPECT_EQ(error("{" + numbers + R"("initial_members":[{"node":1,"token":"1","address":"a:1","roles":["data"]}]})"),
            R"(initial_members: roles ["data"])");
  EXPECT_EQ(
      error("{" + numbers +
            R"("initial_members":[{"node":1,"token":"1","address":"a:1"},{"node":1,"token":"2","address":"a:1"}]})"),
      "initial_members: node 1 twice");
}

TEST(InitialMembers, WhoHasOtherNumbersChangesNothing) {
  const std::string one = *add_initial_member("", initial_member(1, 1), kThree);
  const auto error = [&](const BootstrapOptions& bootstrap) {
    const auto next = add_initial_member(one, initial_member(0, 1), bootstrap);
    return next ? std::string("accepted") : next.error().detail;
  };
  EXPECT_EQ(error({3, 2, 6, "dnl1"}), R"(initial_members: cluster.protocol is "dnl4" at the others and "dnl1" here)");
  EXPECT_EQ(error({3, 2, 6}), R"(initial_members: cluster.protocol is "dnl4" at the others and null here)");
  EXPECT_EQ(error({4, 2, 6}), "initial_members: cluster.initial_members is 3 at the others and 4 here");
  EXPECT_EQ(error({3, 3, 6}), "initial_members: cluster.replicas is 2 at the others and 3 here");
  EXPECT_EQ(error({3, 2, 3}), "initial_members: cluster.partitions is 6 at the others and 3 here");
  EXPECT_EQ(error(kThree), "accepted");
  const auto unknown = add_initial_member(R"({"initial_members":[]})", initial_member(0, 1), kThree);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().detail, "initial_members: no first");
}

TEST(InitialMembers, MutatedTextsNeverDoHarm) {
  Random random(5);
  const std::string two =
      *add_initial_member(*add_initial_member("", initial_member(1, 2), kThree), initial_member(2, 3), kThree);
  for (int i = 0; i < (kSanitized ? 1'000 : 20'000); ++i) {
    std::string text = two;
    for (uint64_t n = random.between(1, 4); n > 0; --n)
      text[random.below(text.size())] = static_cast<char>(random.next());
    const auto next = add_initial_member(text, initial_member(0, 1), kThree);
    if (!next || next->empty() || is_initial_members(*next)) continue;
    EXPECT_TRUE(view_from_json(*next)) << text;
  }
}

}  // namespace
}  // namespace weft
