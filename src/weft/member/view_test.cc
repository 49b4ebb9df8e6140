// Changes of a view, in random sequences: each keeps placements legal and drops no in-sync replica before there is
// another. When nothing happens any more, replicas have moved until no two members differ by more than one.
#include "weft/member/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/fabric/nodes_testing.h"

namespace weft {
namespace {

TEST(View, IsCheckedAgainstTheProtocolItWasFoundedWith) {
  Options options;
  options.nodes = options.replicas = 3;
  View view = make_view(3, 3, 3);
  EXPECT_TRUE(check_view(view, options)) << "none is recorded";
  view.protocol = options.protocol;
  EXPECT_TRUE(check_view(view, options));
  EXPECT_EQ(with_next_epoch(view).protocol, options.protocol);
  view.protocol = "fasst";
  ASSERT_FALSE(check_view(view, options));
  EXPECT_EQ(check_view(view, options).error().detail,
            R"(the cluster was founded with cluster.protocol "fasst", and here it is "dnl4")");
}

std::vector<PartitionId> is_catching_up(const View& view, NodeId node) {
  std::vector<PartitionId> caught_up;
  for (size_t p = 0; p < view.partitions.size(); ++p) {
    if (view.partitions[p].is_catching_up(node)) caught_up.emplace_back(static_cast<uint16_t>(p));
  }
  return caught_up;
}

struct Spread {
  int least = INT32_MAX, most = 0;
  void take(int n) {
    least = std::min(least, n);
    most = std::max(most, n);
  }
  int difference() const { return most - least; }
};

// Replicas at each member that holds data, without those that are draining.
Spread loads_of(const View& view) {
  Spread spread;
  for (const Member& m : view.members) {
    if (!holds_data(m.roles)) continue;
    int load = 0;
    for (const Placement& p : view.partitions) {
      load += ((p.in_sync | p.catching_up) - p.draining).contains(m.node) ? 1 : 0;
    }
    spread.take(load);
  }
  return spread;
}

// The sum of squares of the same.
int64_t unevenness(const View& view) {
  int64_t sum = 0;
  for (const Member& m : view.members) {
    int64_t load = 0;
    for (const Placement& p : view.partitions) {
      load += ((p.in_sync | p.catching_up) - p.draining).contains(m.node) ? 1 : 0;
    }
    sum += load * load;
  }
  return sum;
}

size_t moving(const View& view) {
  return static_cast<size_t>(std::count_if(view.partitions.begin(), view.partitions.end(),
                                           [](const Placement& p) { return !p.draining.empty(); }));
}

void expect_legal(const View& view) {
  NodeSet data;
  for (const Member& m : view.members) {
    if (holds_data(m.roles)) data.add(m.node);
  }
  for (const Placement& p : view.partitions) {
    NodeSet listed;
    for (int r = 0; r < p.count; ++r) listed.add(p.replicas[static_cast<size_t>(r)]);
    ASSERT_EQ(listed, p.in_sync);
    ASSERT_EQ(p.in_sync.size(), p.count);
    ASSERT_TRUE(p.count >= 1 && p.count <= view.replicas);
    ASSERT_EQ(p.in_sync & p.catching_up, NodeSet{});
    ASSERT_EQ((p.in_sync | p.catching_up) - data, NodeSet{});
    ASSERT_EQ(p.draining - p.in_sync, NodeSet{});
    const int all = (p.in_sync | p.catching_up).size();
    if (!p.draining.empty()) {
      ASSERT_EQ(p.draining.size(), 1);
      ASSERT_EQ(p.count, view.replicas);
      ASSERT_EQ(p.catching_up.size(), 1);
    } else {
      ASSERT_EQ(all, std::min<int>(view.replicas, data.size()));
    }
  }
  ASSERT_LE(moving(view), (view.partitions.size() + 3) / 4);
}

// Replicas that are catching up become in sync, one member after the other, until none is left.
void settle(Random& random, View& view) {
  int64_t before = unevenness(view);
  for (int round = 0;; ++round) {
    ASSERT_LT(round, 2'000);
    std::vector<NodeId> fill;
    for (const Member& m : view.members) {
      if (!is_catching_up(view, m.node).empty()) fill.push_back(m.node);
    }
    if (fill.empty()) break;
    const NodeId node = fill[random.below(fill.size())];
    const View next = with_replica_in_sync(view, node, is_catching_up(view, node));
    ASSERT_NO_FATAL_FAILURE(expect_legal(next));
    for (size_t p = 0; p < view.partitions.size(); ++p) {
      const Placement& was = view.partitions[p];
      const Placement& is = next.partitions[p];
      ASSERT_GE(is.count, was.count);
      ASSERT_EQ(is.in_sync - (was.in_sync | was.catching_up), NodeSet{});
      ASSERT_EQ(was.in_sync - is.in_sync, was.is_catching_up(node) ? was.draining : NodeSet{})
          << "only what was to leave goes";
    }
    // Draining and catching-up replicas were counted when the move began; only another move that begins changes the
    // sum.
    const int64_t after = unevenness(next);
    ASSERT_LE(after, before);
    if (moving(next) + is_catching_up(view, node).size() > moving(view) && after == before) {
      for (size_t p = 0; p < view.partitions.size(); ++p) {
        ASSERT_TRUE(next.partitions[p].draining.empty() || !view.partitions[p].draining.empty())
            << "a move without gain";
      }
    }
    before = after;
    view = next;
  }
  const auto data =
      std::count_if(view.members.begin(), view.members.end(), [](const Member& m) { return holds_data(m.roles); });
  ASSERT_EQ(view.fully_replicated(), data >= view.replicas);
}

TEST(View, TheFirstOneIsEven) {
  for (int nodes = 1; nodes <= 9; ++nodes) {
    for (int replicas = 1; replicas <= std::min(nodes, kReplicasMax); ++replicas) {
      for (int partitions = 1; partitions <= 40; ++partitions) {
        const View view = make_view(nodes, replicas, partitions);
        ASSERT_NO_FATAL_FAILURE(expect_legal(view));
        ASSERT_TRUE(view.fully_replicated());
        ASSERT_LE(loads_of(view).difference(), 1) << nodes << " nodes, " << replicas << " x " << partitions;
        Spread primaries;
        for (const Member& m : view.members) {
          primaries.take(static_cast<int>(std::count_if(view.partitions.begin(), view.partitions.end(),
                                                        [&](const Placement& p) { return p.primary() == m.node; })));
        }
        ASSERT_LE(primaries.difference(), 1) << nodes << " nodes, " << replicas << " x " << partitions;
      }
    }
  }
}

TEST(View, OnlyNodesThatHoldDataGetReplicas) {
  constexpr NodeRoles kData = NodeRoles::kData, kBoth = NodeRoles::kBoth, kTransactions = NodeRoles::kTransactions;
  const View view = make_view({kTransactions, kData, kBoth, kTransactions, kData}, 2, 6);
  ASSERT_NO_FATAL_FAILURE(expect_legal(view));
  EXPECT_TRUE(view.fully_replicated());
  EXPECT_EQ(loads_of(view).most, 4);
  EXPECT_EQ(loads_of(view).least, 4);
  EXPECT_EQ(view.members[1].roles, kData);
}

// Rule D2.
TEST(View, WhoHoldsNoDataComesAndGoesWithoutAChangeOfPlacement) {
  Random random(3);
  for (int run = 0; run < 200; ++run) {
    View view = make_view(5, 3, static_cast<int>(random.between(1, 24)));
    for (int change = 0; change < 6; ++change) {  // leave replicas missing, or on the move
      const NodeId node(static_cast<uint8_t>(random.below(6)));
      if (view.find(node) == nullptr) {
        view = with_member(view, {node, 0, NodeRoles::kData, 7, {}, {}});
      } else if (const Result<View> next = without_members(view, NodeSet::of(node))) {
        view = *next;
      }
    }
    const View with = with_member(view, {NodeId(9), 0, NodeRoles::kTransactions, 7, {}, {}});
    EXPECT_EQ(with.partitions, view.partitions);
    const Result<View> without = without_members(with, node_set({9}));
    ASSERT_TRUE(without);
    EXPECT_EQ(without->partitions, view.partitions);
    EXPECT_EQ(without->members, view.members);
  }
}

// Rule D1: the data is there when somebody comes who runs transactions.
TEST(View, AViewMayBeWithoutANodeThatRunsTransactions) {
  const View view = make_view({NodeRoles::kData, NodeRoles::kData, NodeRoles::kTransactions}, 2, 2);
  EXPECT_TRUE(view.runs_transactions());
  const Result<View> without = without_members(view, node_set({2}));
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->runs_transactions());
  EXPECT_TRUE(without->fully_replicated());
}

TEST(View, ANodeThatComesBackGetsItsShare) {
  View view = make_view(5, 3, 5);
  view = *without_members(view, node_set({2}));
  Random random(1);
  settle(random, view);
  ASSERT_TRUE(view.fully_replicated());
  view = with_member(view, {NodeId(2), 0, NodeRoles::kBoth, 7, {}, {}});
  EXPECT_EQ(moving(view), 2U) << "a quarter of five, rounded up";
  EXPECT_FALSE(view.fully_replicated());
  for (const Placement& p : view.partitions) EXPECT_EQ(p.count, 3);
  settle(random, view);
  EXPECT_TRUE(view.fully_replicated());
  EXPECT_EQ(loads_of(view).most, 3);
  EXPECT_EQ(loads_of(view).least, 3);
}

TEST(View, WhoWasToLeaveStaysIfAnotherIsLost) {
  View view = make_view(3, 3, 3);
  view = with_member(view, {NodeId(3), 0, NodeRoles::kBoth, 7, {}, {}});
  const auto at = std::find_if(view.partitions.begin(), view.partitions.end(),
                               [](const Placement& p) { return !p.draining.empty(); });
  ASSERT_NE(at, view.partitions.end());
  const auto p = static_cast<size_t>(at - view.partitions.begin());
  ASSERT_EQ(at->catching_up, node_set({3}));
  const NodeSet leaver = at->draining;
  const NodeSet others = at->in_sync - leaver;
  // A replica that stays is lost: the other two remain, and the one that is catching up.
  View lost = *without_members(view, NodeSet::of(others.first()));
  EXPECT_EQ(lost.partitions[p].draining, NodeSet{});
  EXPECT_EQ(lost.partitions[p].catching_up, node_set({3}));
  lost = with_replica_in_sync(lost, NodeId(3), is_catching_up(lost, NodeId(3)));
  EXPECT_EQ(lost.partitions[p].in_sync & leaver, leaver);
  EXPECT_TRUE(lost.fully_replicated());
  // The draining replica is lost.
  lost = *without_members(view, leaver);
  EXPECT_EQ(lost.partitions[p].draining, NodeSet{});
  EXPECT_EQ(lost.partitions[p].catching_up, node_set({3}));
  // The replica that is catching up is lost: nothing has happened.
  lost = *without_members(view, node_set({3}));
  EXPECT_EQ(lost.partitions[p].in_sync, at->in_sync);
  EXPECT_TRUE(lost.fully_replicated());
}

TEST(View, NothingMovesWhileSomethingIsMissing) {
  View view = make_view(5, 3, 20);
  view = *without_members(view, node_set({2}));
  EXPECT_EQ(moving(view), 0U);
  view = with_member(view, {NodeId(2), 0, NodeRoles::kBoth, 7, {}, {}});
  EXPECT_EQ(moving(view), 0U);
}

TEST(View, RandomChangesStayLegalAndEndEven) {
  Random random(7);
  uint64_t ends = 0;
  int worst_primaries = 0;
  for (int run = 0; run < 400; ++run) {
    const auto nodes = static_cast<int>(random.between(1, random.chance(10) ? 20 : 7));
    const auto replicas = static_cast<int>(random.between(1, static_cast<uint64_t>(std::min(nodes, kReplicasMax))));
    View view = make_view(nodes, replicas, static_cast<int>(random.between(1, random.chance(5) ? 300 : 24)));
    for (int change = 0; change < 40; ++change) {
      const NodeId node(static_cast<uint8_t>(random.below(static_cast<uint64_t>(nodes) + 3)));
      const Member* member = view.find(node);
      if (member == nullptr) {
        const NodeRoles roles = random.chance(10) ? NodeRoles::kTransactions : NodeRoles::kBoth;
        const Member joins{node, 0, roles, random.next(), {}, {}};
        view = with_member(view, joins);
      } else if (random.chance(60)) {
        std::vector<PartitionId> caught_up = is_catching_up(view, node);
        if (random.chance(20)) std::erase_if(caught_up, [&](PartitionId) { return random.chance(50); });
        view = with_replica_in_sync(view, node, caught_up);
      } else {
        NodeSet gone = NodeSet::of(node);
        if (random.chance(20)) gone |= NodeSet::from_bits(random.next());
        const Result<View> next = without_members(view, gone);
        if (next && !next->members.empty()) view = *next;
      }
      ASSERT_NO_FATAL_FAILURE(expect_legal(view)) << "run " << run << ", change " << change;
      if (!random.chance(15)) continue;
      ASSERT_NO_FATAL_FAILURE(settle(random, view)) << "run " << run << ", change " << change;
      ++ends;
      ASSERT_LE(loads_of(view).difference(), 1) << "run " << run << ", change " << change;
      for (const Placement& p : view.partitions) ASSERT_EQ(p.draining, NodeSet{});
      Spread primaries;
      for (const Member& m : view.members) {
        if (!holds_data(m.roles)) continue;
        primaries.take(static_cast<int>(std::count_if(view.partitions.begin(), view.partitions.end(),
                                                      [&](const Placement& p) { return p.primary() == m.node; })));
      }
      worst_primaries = std::max(worst_primaries, primaries.difference());
    }
  }
  EXPECT_GT(ends, 1'000U);
  RecordProperty("worst_primaries", worst_primaries);
  EXPECT_LE(worst_primaries, 3);
}

}  // namespace
}  // namespace weft
