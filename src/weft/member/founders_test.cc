#include "weft/member/founders.h"

#include <gtest/gtest.h>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/member/view_json.h"

namespace weft {
namespace {

const Founding kThree{3, 2, 6};

Member founder(int node, uint64_t token) {
  Member member;
  member.node = NodeId(static_cast<uint8_t>(node));
  member.token = token;
  member.address = "10.0.0." + std::to_string(node) + ":7400";
  return member;
}

TEST(Founders, WhoCompletesTheListWritesTheFirstView) {
  const std::string one = *found("", founder(1, 0xa7), kThree);
  EXPECT_TRUE(is_founders(one));
  EXPECT_NE(one.find("00000000000000a7"), std::string::npos);
  EXPECT_EQ(*found(one, founder(1, 0xa7), kThree), "") << "it is there already";
  const std::string two = *found(one, founder(0, UINT64_MAX), kThree);
  EXPECT_TRUE(is_founders(two));
  const std::string again = *found(two, founder(1, 9), kThree);  // node 1 was started again
  const std::string text = *found(again, founder(2, 3), kThree);
  EXPECT_FALSE(is_founders(text));
  const Result<View> view = view_from_json(text);
  ASSERT_TRUE(view) << view.error().text();
  EXPECT_EQ(view->epoch, Epoch(1));
  EXPECT_EQ(view->partitions.size(), 6U);
  EXPECT_EQ(view->find(NodeId(0))->token, UINT64_MAX);
  EXPECT_EQ(view->find(NodeId(1))->token, 9U);
  EXPECT_EQ(view->find(NodeId(2))->address, "10.0.0.2:7400");
}

TEST(Founders, ANodeBeyondTheFirstOnesAddsNothing) { EXPECT_EQ(*found("", founder(3, 1), kThree), ""); }

TEST(Founders, OneNodeAloneIsACluster) { EXPECT_TRUE(view_from_json(*found("", founder(0, 1), {1, 1, 1}))); }

TEST(Founders, WhatIsWrongIsNamed) {
  const auto error = [](std::string_view text) {
    const auto next = found(text, founder(0, 1), kThree);
    return next ? std::string("accepted") : next.error().detail;
  };
  const std::string numbers = R"("first":3,"replicas":2,"partitions":6,)";
  EXPECT_EQ(error("nonsense"), "founders: no list");
  EXPECT_EQ(error("{" + numbers + R"("founders":[{"node":7,"token":"1","address":"a:1"}]})"),
            "founders: node 7, there are 3");
  EXPECT_EQ(error("{" + numbers + R"("founders":[{"node":1,"token":"xyz","address":"a:1"}]})"), "founders: token xyz");
  EXPECT_EQ(error("{" + numbers + R"("founders":[{"node":1,"token":"1"}]})"), "founders: address ");
  EXPECT_EQ(error("{" + numbers +
                  R"("founders":[{"node":1,"token":"1","address":"a:1"},{"node":1,"token":"2","address":"a:1"}]})"),
            "founders: node 1 twice");
}

TEST(Founders, WhoHasOtherNumbersChangesNothing) {
  const std::string one = *found("", founder(1, 1), kThree);
  const auto error = [&](const Founding& founding) {
    const auto next = found(one, founder(0, 1), founding);
    return next ? std::string("accepted") : next.error().detail;
  };
  EXPECT_EQ(error({4, 2, 6}), "founders: cluster.founders is 3 at the others and 4 here");
  EXPECT_EQ(error({3, 3, 6}), "founders: cluster.replicas is 2 at the others and 3 here");
  EXPECT_EQ(error({3, 2, 3}), "founders: cluster.partitions is 6 at the others and 3 here");
  EXPECT_EQ(error(kThree), "accepted");
  const auto unknown = found(R"({"founders":[]})", founder(0, 1), kThree);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().detail, "founders: no first");
}

TEST(Founders, MutatedTextsNeverDoHarm) {
  Random random(5);
  const std::string two = *found(*found("", founder(1, 2), kThree), founder(2, 3), kThree);
  for (int i = 0; i < (kSanitized ? 1'000 : 20'000); ++i) {
    std::string text = two;
    for (uint64_t n = random.between(1, 4); n > 0; --n)
      text[random.below(text.size())] = static_cast<char>(random.next());
    const auto next = found(text, founder(0, 1), kThree);
    if (!next || next->empty() || is_founders(*next)) continue;
    EXPECT_TRUE(view_from_json(*next)) << text;
  }
}

}  // namespace
}  // namespace weft
