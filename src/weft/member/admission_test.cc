// Who is admitted, when, and how long a removed node waits, by a clock that the test sets.
#include "weft/member/admission.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/fabric/nodes_testing.h"

namespace weft {
namespace {

constexpr uint64_t kPace = 1'000'000;
constexpr uint64_t kBegan = 5'000'000'000;

class AdmissionTest : public testing::Test {
 protected:
  AdmissionTest() {
    view_ = make_view(4, 2, 8);
    for (Member& member : view_.members) member.address = "host" + std::to_string(member.node.value);
    self_.node = NodeId(4);
    self_.address = "host4";
  }

  // The nodes that are asked.
  std::vector<int> asked() {
    std::vector<int> out;
    for (const Member& member : admission_.due(view_, now_)) out.push_back(member.node.value);
    return out;
  }
  std::string says(int node, const std::string& why = {}) {
    const NodeId id(static_cast<uint8_t>(node));
    return admission_.answered(id, view_.find(id)->incarnation, why, now_);
  }
  bool may_propose() { return admission_.may_propose(view_, now_); }

  View view_;
  Member self_;
  uint64_t now_ = kBegan;
  Admission admission_{[] {
                         Member self;
                         self.node = NodeId(4);
                         self.address = "host4";
                         return self;
                       }(),
                       kPace};
};

// A1.
TEST_F(AdmissionTest, WaitsForEveryMembersWord) {
  EXPECT_EQ(asked(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(asked().empty());  // all questions are open
  for (const int node : {0, 1, 3}) says(node);
  EXPECT_FALSE(may_propose());
  EXPECT_EQ(says(2, "host2: refused"), "host2: refused");
  EXPECT_FALSE(may_propose());
  EXPECT_EQ(admission_.obstacle(view_, now_), "node 2: host2: refused");
  now_ += kPace / Admission::kFirstRetryDivisor;
  EXPECT_EQ(asked(), (std::vector<int>{2}));
  EXPECT_EQ(says(2, "host2: refused"), "");  // nothing new
  now_ += kPace;
  EXPECT_EQ(asked(), (std::vector<int>{2}));
  EXPECT_EQ(says(2), "");
  EXPECT_TRUE(may_propose());
  EXPECT_EQ(admission_.obstacle(view_, now_), "");
}

// A member that is not there is asked less and less often, but never dropped; the approvals of the others do not
// expire meanwhile.
TEST_F(AdmissionTest, AsksAgainAndAgain) {
  int questions = 0;
  for (int i = 0; i < 1000; ++i, now_ += kPace / 10) {
    for (const int node : asked()) {
      says(node, node == 2 ? "no answer in time" : "");
      questions += node == 2 ? 1 : 0;
    }
    EXPECT_FALSE(may_propose());
  }
  EXPECT_GT(questions, 20);
  EXPECT_LT(questions, 40);
  now_ += Admission::kRetryPacesMax * kPace;
  for (const int node : asked()) says(node);
  EXPECT_TRUE(may_propose());
}

TEST_F(AdmissionTest, AWordRunsOutAndBelongsToAnIncarnation) {
  for (const int node : asked()) says(node);
  ASSERT_TRUE(may_propose());
  now_ += Admission::kApprovalPaces * kPace;
  EXPECT_FALSE(may_propose());
  for (const int node : asked()) says(node);
  ASSERT_TRUE(may_propose());
  view_.members[1].incarnation = 9;  // it came back
  EXPECT_FALSE(may_propose());
  admission_.answered(NodeId(1), 2, "", now_);  // a late answer of the previous process
  EXPECT_EQ(asked(), (std::vector<int>{1}));
  says(1);
  EXPECT_TRUE(may_propose());
}

// A3: once the view is without a member that does not answer, nobody has to wait for it.
TEST_F(AdmissionTest, AMemberThatIsRemovedIsNotWaitedFor) {
  asked();
  for (const int node : {0, 1, 3}) says(node);
  ASSERT_FALSE(may_propose());
  view_ = *without_members(view_, node_set({2}));
  EXPECT_TRUE(may_propose());
}

TEST_F(AdmissionTest, TheLastProcessOfItsNameIsRemovedFirst) {
  view_ = with_member(view_, self_);
  EXPECT_EQ(asked(), (std::vector<int>{0, 1, 2, 3}));  // no other process can have its address
  EXPECT_FALSE(may_propose());
  says(0);
  EXPECT_TRUE(may_propose());  // to remove that one
  view_ = *without_members(view_, node_set({4}));
  EXPECT_FALSE(may_propose());  // to join
  for (const int node : {1, 2, 3}) says(node);
  EXPECT_TRUE(may_propose());
}

// Its previous process is at another address. It runs as long as it answers, and a node that some member does not
// reach does not replace it.
TEST_F(AdmissionTest, OneThatRunsElsewhereIsNotReplaced) {
  self_.address = "elsewhere";
  view_ = with_member(view_, self_);
  EXPECT_EQ(asked(), (std::vector<int>{0, 1, 2, 3, 4}));
  for (const int node : {0, 1, 2}) says(node);
  EXPECT_EQ(says(4), "it runs there already; it has to end first");
  EXPECT_FALSE(may_propose());
  now_ += kPace;
  for (const int node : asked()) says(node, "elsewhere: no answer in time");
  now_ += kPace;
  asked();
  says(4, "elsewhere: no answer in time");
  EXPECT_FALSE(may_propose());
  says(3);
  now_ += kPace;
  for (const int node : asked()) says(node, node == 4 ? "elsewhere: no answer in time" : "");
  EXPECT_TRUE(may_propose());
}

// A2.
TEST(JoinBackoffTest, GrowsAndStartsAnewAfterATimeOfCalm) {
  JoinBackoff join_backoff(kPace);
  uint64_t now = kBegan;
  EXPECT_LT(join_backoff.until_ns(), now);  // a new process
  join_backoff.joined(now);
  join_backoff.removed(now += kPace);
  EXPECT_EQ(join_backoff.until_ns(), now);  // the first time
  uint64_t waited = 0;
  for (uint32_t n = 2; n < 40; ++n) {
    join_backoff.joined(now += join_backoff.wait_ns());
    join_backoff.removed(now += kPace);
    EXPECT_EQ(join_backoff.removals(), n);
    EXPECT_EQ(join_backoff.until_ns(), now + join_backoff.wait_ns());
    EXPECT_EQ(join_backoff.wait_ns(),
              n == 2 ? JoinBackoff::kFirstPaces * kPace : std::min(2 * waited, JoinBackoff::kMostPaces * kPace));
    waited = join_backoff.wait_ns();
  }
  EXPECT_EQ(waited, JoinBackoff::kMostPaces * kPace);
  join_backoff.joined(now);
  join_backoff.removed(now += JoinBackoff::kStablePaces * kPace);
  EXPECT_EQ(join_backoff.removals(), 1U);
  EXPECT_EQ(join_backoff.until_ns(), now);
}

}  // namespace
}  // namespace weft
