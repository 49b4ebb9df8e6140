#include "weft/redis/node_stats.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "weft/fabric/nodes_testing.h"
#include "weft/member/view_json.h"

namespace weft {
namespace {

NodeStats of_node_two() {
  NodeStats out;
  out.node = NodeId(2);
  out.view = std::make_shared<const View>(make_view(3, 3, 3));
  return out;
}

TEST(NodeStats, Roles) {
  NodeStats node_stats = of_node_two();
  EXPECT_EQ(node_stats.roles().primary, 1U);
  EXPECT_EQ(node_stats.roles().backup, 2U);
  EXPECT_EQ(node_stats.roles().catching_up, 0U);
  const Result<View> without = without_members(*node_stats.view, node_set({2}));
  ASSERT_TRUE(without);
  Member back;
  back.node = NodeId(2);
  node_stats.view = std::make_shared<const View>(with_member(*without, back));
  EXPECT_EQ(node_stats.roles().primary, 0U);
  EXPECT_EQ(node_stats.roles().backup, 0U);
  EXPECT_EQ(node_stats.roles().catching_up, 3U);
}

TEST(NodeStats, ASampleIsWhatHappenedSince) {
  const NodeStats before = of_node_two();
  NodeStats now = of_node_two();
  Counters& c = now.workers.counters;
  c.committed = c.commits_counted = 1000;
  c.commit_round_trips = 3000;
  c.aborted = 10;
  c.aborts_by_code[static_cast<int>(Code::kLocked)] = 10;
  c.packets_sent = 100;
  c.messages_sent = 1250;
  c.phase_round_trips[1] = 1000;
  c.phase_messages[1] = 4000;
  for (int i = 0; i < 1000; ++i) now.latency_ns.record(80'000);
  const nlohmann::json sample = sample_of(before, now, 2.0);
  EXPECT_EQ(sample["committed_s"], 500);
  EXPECT_EQ(sample["aborted_s"], 5);
  EXPECT_EQ(sample["aborts"], (nlohmann::json{{"locked", 5}}));
  EXPECT_EQ(sample["packet_messages"], 12.5);
  EXPECT_EQ(sample["round_trips"], 3);
  EXPECT_EQ(sample["rt_lock"], 1);
  EXPECT_EQ(sample["msg_lock"], 4);
  EXPECT_EQ(sample["table_batch"], 0);
  EXPECT_NEAR(sample["p50_us"].get<double>(), 80, 2);
  const nlohmann::json idle = sample_of(now, now, 1.0);
  EXPECT_EQ(idle["committed_s"], 0);
  EXPECT_EQ(idle["p99_us"], 0);
}

// What a node reports about itself is what others accept.
TEST(NodeStats, EveryKeyOfASampleIsKnown) {
  const NodeStats node_stats = of_node_two();
  nlohmann::json sample = sample_of(node_stats, node_stats, 1.0);
  sample["at_ms"] = 1;
  EXPECT_EQ(checked_sample(sample), sample);
  EXPECT_EQ(sample.size(), kSampleKeys.size() + 1);  // and the aborts
  EXPECT_TRUE(checked_sample(nlohmann::json::array()).is_null());
}

TEST(NodeStats, Status) {
  const nlohmann::json status = status_json(of_node_two());
  EXPECT_EQ(status["node"], 2);
  EXPECT_EQ(status["figures"]["committed"], 0);
  EXPECT_EQ(status["view"], nlohmann::json::parse(to_json(*of_node_two().view)));
}

}  // namespace
}  // namespace weft
