#include "weft/server/cluster_stats.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/base/random.h"
#include "weft/redis/node_stats.h"

namespace weft {
namespace {

using nlohmann::json;

LoggedEvent event(uint64_t number, const std::string& why) {
  return {number, 1'700'000'000'000, Level::kWarn, 1, "peer_disconnected", {{"why", why}}};
}

TEST(ClusterStats, AnotherNodeShowsWhatANodeSaid) {
  ClusterStats one(NodeId(1)), two(NodeId(2));
  one.add_own({event(1, "first"), event(2, "second")});
  const std::string note =
      one.add_own({{"committed_s", 42.5}, {"pid", 7}, {"aborts", {{"locked", 3}}}}, 1000, 5'000'000);
  ASSERT_TRUE(two.add_gossip(NodeId(1), note, 2000, 6'000'000));
  const json latest = two.latest(9'000'000);
  ASSERT_EQ(latest.size(), 1U);
  EXPECT_EQ(latest["1"]["age_ms"], 3);
  EXPECT_EQ(latest["1"]["sample"]["committed_s"], 42.5);
  EXPECT_EQ(latest["1"]["sample"]["aborts"]["locked"], 3);
  EXPECT_EQ(latest["1"]["sample"]["at_ms"], 2000);
  ASSERT_EQ(two.events().size(), 2U);
  EXPECT_EQ(two.events()[0]["why"], "second");
  EXPECT_EQ(two.events()[0]["node"], 1);
  EXPECT_EQ(one.events(), two.events());
}

TEST(ClusterStats, AnEventIsShownOnceAndANewProcessCountsAnew) {
  ClusterStats one(NodeId(1)), two(NodeId(2));
  one.add_own({event(1, "a")});
  const std::string note = one.add_own(nlohmann::json{{"pid", 7}}, 0, 0);
  EXPECT_TRUE(two.add_gossip(NodeId(1), note, 0, 0));
  EXPECT_TRUE(two.add_gossip(NodeId(1), note, 0, 0));
  EXPECT_EQ(two.events().size(), 1U);
  ClusterStats after(NodeId(1));
  after.add_own({event(1, "b")});
  EXPECT_TRUE(two.add_gossip(NodeId(1), after.add_own(nlohmann::json{{"pid", 8}}, 0, 0), 0, 0));
  EXPECT_EQ(two.events().size(), 2U);
}

TEST(ClusterStats, OnlyWhatIsKnownGetsIn) {
  ClusterStats picture(NodeId(0));
  for (const std::string text : {"", "{", "[]", "7", "{}", "{\"sample\":7}", "{\"sample\":null}", "{\"sample\":[1]}"}) {
    EXPECT_FALSE(picture.add_gossip(NodeId(1), text, 0, 0)) << text;
  }
  EXPECT_FALSE(picture.add_gossip(NodeId(kNodesMax), "{\"sample\":{}}", 0, 0));
  const json note = {
      {"sample", {{"committed_s", "<b>much</b>"}, {"p50_us", 5}, {"<script>", 1}, {"aborts", {{"x", "y"}, {"z", 1}}}}},
      {"events", {1, "x", {{"number", -1}}, {{"number", 1}, {"event", {{"event", json::array()}}}}}}};
  ASSERT_TRUE(picture.add_gossip(NodeId(1), note.dump(), 9, 0));
  const json sample = picture.latest(0)["1"]["sample"];
  EXPECT_EQ(sample, (json{{"p50_us", 5}, {"at_ms", 9}, {"aborts", {{"z", 1}}}}));
  EXPECT_TRUE(picture.events().empty());
}

TEST(ClusterStats, WhateverComesItStands) {
  ClusterStats sender(NodeId(1));
  sender.add_own({event(1, "x")});
  const std::string good = sender.add_own({{"committed_s", 1}, {"pid", 3}}, 1, 1);
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (uint64_t n = 1 + random.below(4); n > 0; --n) {
      bad[random.below(bad.size())] = static_cast<char>(random.below(256));
    }
    ClusterStats picture(NodeId(0));
    picture.add_gossip(NodeId(1), bad, 1, 1);
    EXPECT_FALSE(picture.history().empty());
    EXPECT_LE(picture.events().size(), 1U);
  }
}

TEST(ClusterStats, IsBounded) {
  ClusterStats picture(NodeId(0)), sender(NodeId(1));
  std::vector<LoggedEvent> many;
  for (uint64_t i = 0; i < 400; ++i) many.push_back(event(i + 1, "x"));
  picture.add_own(many);
  for (int i = 0; i < 400; ++i) picture.add_own(nlohmann::json{{"committed_s", i}}, 1, 1);
  const json history = picture.history();
  ASSERT_EQ(history["nodes"]["0"].size(), ClusterStats::kSamples);
  EXPECT_EQ(history["keys"][1], "committed_s");
  EXPECT_EQ(history["nodes"]["0"].back()[1], 399);
  EXPECT_EQ(picture.events().size(), ClusterStats::kEvents);
  sender.add_own(many);
  EXPECT_TRUE(picture.add_gossip(NodeId(1), sender.add_own(nlohmann::json{{"pid", 1}}, 1, 1), 1, 1));
  EXPECT_EQ(picture.events()[0]["node"], 1);
}

}  // namespace
}  // namespace weft
