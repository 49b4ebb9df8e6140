#include "weft/fabric/nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

static_assert(NodeSet{}.empty());
static_assert(NodeSet::of(NodeId(5)).bits() == 32);
static_assert(NodeSet::below(NodeId(3)) == NodeSet::from_bits(0b111));
static_assert(std::atomic<NodeSet>::is_always_lock_free);

using NodeTwin = std::set<NodeId>;

std::vector<NodeId> visited(NodeSet set) {
  std::vector<NodeId> out;
  for (const NodeId node : set) out.push_back(node);
  return out;
}

NodeTwin twin_of(NodeSet set) {
  NodeTwin out;
  for (uint8_t n = 0; n < 64; ++n) {
    if ((set.bits() >> n & 1U) != 0) out.insert(NodeId(n));
  }
  return out;
}

void expect_like(NodeSet set, const NodeTwin& twin) {
  ASSERT_EQ(visited(set), std::vector<NodeId>(twin.begin(), twin.end()));
  ASSERT_EQ(set.size(), static_cast<int>(twin.size()));
  ASSERT_EQ(set.empty(), twin.empty());
  if (!twin.empty()) {
    ASSERT_EQ(set.first(), *twin.begin());
  }
  for (uint8_t n = 0; n < 64; ++n) ASSERT_EQ(set.contains(NodeId(n)), twin.contains(NodeId(n)));
}

TEST(NodeSetTest, AddsAndRemovesLikeASetOfNodes) {
  Random random(1);
  NodeSet set;
  NodeTwin twin;
  for (int i = 0; i < 2000; ++i) {
    const NodeId node(static_cast<uint8_t>(random.below(64)));
    if (random.chance(50)) {
      set.add(node);
      twin.insert(node);
    } else {
      set.remove(node);
      twin.erase(node);
    }
    expect_like(set, twin);
  }
}

TEST(NodeSetTest, CombinesLikeSetsOfNodes) {
  Random random(2);
  for (int i = 0; i < 500; ++i) {
    const NodeSet a = NodeSet::from_bits(random.next()), b = NodeSet::from_bits(random.next());
    const NodeTwin x = twin_of(a), y = twin_of(b);
    NodeTwin either, both, only;
    std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::inserter(either, either.end()));
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::inserter(both, both.end()));
    std::set_difference(x.begin(), x.end(), y.begin(), y.end(), std::inserter(only, only.end()));
    expect_like(a | b, either);
    expect_like(a & b, both);
    expect_like(a - b, only);
    NodeSet set = a;
    EXPECT_EQ(set |= b, a | b);
    EXPECT_EQ(set &= b, b);
    EXPECT_EQ(set -= b, NodeSet{});
    EXPECT_EQ(a == b, x == y);
  }
}

TEST(NodeSetTest, HasTheFirstAndTheLastNode) {
  NodeSet set;
  set.add(NodeId(0));
  set.add(NodeId(kNodesMax - 1));
  EXPECT_EQ(visited(set), (std::vector{NodeId(0), NodeId(kNodesMax - 1)}));
  EXPECT_EQ(NodeSet::below(NodeId(kNodesMax)).size(), kNodesMax);
  EXPECT_TRUE(NodeSet::below(NodeId(0)).empty());
}

TEST(NodeSetTest, ALoopVisitsWhatWasInTheSetWhenItBegan) {
  NodeSet set = NodeSet::below(NodeId(3));
  std::vector<NodeId> seen;
  for (const NodeId node : set) {
    seen.push_back(node);
    set.add(NodeId(40));
    set -= NodeSet::below(NodeId(3));
  }
  EXPECT_EQ(seen, (std::vector{NodeId(0), NodeId(1), NodeId(2)}));
  EXPECT_EQ(set, NodeSet::of(NodeId(40)));
}

}  // namespace
}  // namespace weft
