// WEFT DIGEST: its sum is complete, and its scan runs in small steps, between which others are served.
#include "weft/redis/digest.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/redis/frontend_testing.h"

namespace weft {
namespace {

class DigestTest : public FrontendTest {
 protected:
  static constexpr uint64_t kRecords = 5000;

  void SetUp() override {
    FrontendTest::SetUp();
    for (uint64_t i = 0; i < kRecords; ++i) {
      const std::string key = "key" + std::to_string(i);
      for (const auto& node : nodes_) ASSERT_TRUE(node->load(TableId(0), as_bytes(key), as_bytes(key)));
    }
  }
  static uint64_t records(const nlohmann::json& digest) {
    uint64_t sum = 0;
    for (const auto& [partition, tables] : digest["partitions"].items())
      sum += tables["keys"]["records"].get<uint64_t>();
    return sum;
  }
};

TEST_F(DigestTest, EachStepIsBoundedAndTheSumIsWhole) {
  constexpr uint64_t kSlotsOfABin = 15;
  std::string texts[2];
  for (size_t n : {0U, 1U}) {
    DigestScan walk(*nodes_[n], view_);
    int steps = 1;
    for (uint64_t before = 0; !walk.step(); ++steps) {
      const uint64_t now = records(nlohmann::json::parse(walk.text()));
      EXPECT_LE(now - before, kSlotsOfABin * DigestScan::kBins);
      before = now;
    }
    EXPECT_GT(steps, 10);
    nlohmann::json digest = nlohmann::json::parse(walk.text());
    EXPECT_EQ(records(digest), kRecords);
    EXPECT_EQ(digest["locked"], 0);
    EXPECT_EQ(digest["unreadable"], 0);
    const std::vector<Digest> at_once = digests_of(*nodes_[n]->table(TableId(0)), kNodes);
    for (size_t p = 0; p < kNodes; ++p) {
      const nlohmann::json& one = digest["partitions"][std::to_string(p)]["keys"];
      EXPECT_EQ(one["sum"], at_once[p].sum);
      EXPECT_EQ(one["absence"], at_once[p].absence);
    }
    digest.erase("node");
    texts[n] = digest.dump();
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(DigestTest, OthersAreServedMeanwhile) {
  const Fd asks = connect_to(0);
  const Fd again = connect_to(0);
  const Fd other = connect_to(0);
  EXPECT_EQ(ask(other, "PING"), "+PONG\r\n");
  const auto heard = [](const Fd& client) {
    char bytes[65536];
    const ssize_t n = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : std::string();
  };
  say(asks, "WEFT DIGEST");
  say(again, "weft digest");
  std::string answers[2];
  int served = 0;
  for (int i = 0; i < 5000 && (answers[0].empty() || answers[1].empty()); ++i) {
    // Writes of existing, new and deleted keys: the scan meets all of them.
    const std::string n = std::to_string(i);
    const bool erase = i % 3 == 2;
    say(other, erase ? "DEL key" + n : (i % 3 == 0 ? "SET key" : "SET new") + n + " other");
    for (std::string text; text.empty(); text = heard(other)) steps(1);
    ++served;
    if (answers[0].empty()) answers[0] = heard(asks);
    if (answers[1].empty()) answers[1] = heard(again);
    if (i < 3) {
      EXPECT_EQ(answers[0] + answers[1], "");
    }
  }
  EXPECT_GT(served, 5);
  for (const std::string& text : answers) {
    ASSERT_EQ(text.substr(0, 1), "$");
    EXPECT_TRUE(nlohmann::json::accept(text.substr(text.find('{')))) << text;
  }
}

}  // namespace
}  // namespace weft
