#include "weft/bench/tatp.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "weft/bench/tatp_rows.h"

namespace weft::bench {
namespace {

constexpr int kCalls = 200'000;

TEST(Tatp, DrawsTheMix) {
  const Tatp tatp(1'000);
  Random random(1);
  std::array<int, 7> seen{};
  for (int i = 0; i < kCalls; ++i) ++seen[tatp.draw(random).kind];
  const std::array<double, 7> percent{35, 35, 10, 2, 14, 2, 2};
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(100.0 * seen[i] / kCalls, percent[i], 1.0) << i;
}

TEST(Tatp, DrawnSubscribersAreInRangeAndReachEverywhere) {
  for (const uint64_t subscribers : {uint64_t{1}, uint64_t{7}, uint64_t{1'000}, uint64_t{3'000'000}}) {
    const Tatp tatp(subscribers);
    Random random(2);
    uint64_t low = subscribers, high = 0;
    for (int i = 0; i < kCalls; ++i) {
      const uint64_t id = tatp.draw_subscriber(random);
      ASSERT_LT(id, subscribers);
      low = std::min(low, id);
      high = std::max(high, id);
    }
    EXPECT_LE(low, subscribers / 10);
    EXPECT_GE(high, subscribers - 1 - subscribers / 10);
  }
}

// NURand ors two draws, so a bit below A is set three times in four and not twice.
TEST(Tatp, DrawnSubscribersAreNotUniform) {
  const uint64_t subscribers = 1 << 20;
  const Tatp tatp(subscribers);
  ASSERT_EQ(Tatp::spread(subscribers), 1'048'575U);
  Random random(3);
  int odd = 0;
  for (int i = 0; i < kCalls; ++i) odd += tatp.draw_subscriber(random) % 2 == 1 ? 1 : 0;
  EXPECT_NEAR(100.0 * odd / kCalls, 75, 1.0);
}

TEST(Tatp, SpreadFollowsTheNumberOfSubscribers) {
  EXPECT_EQ(Tatp::spread(1'000'000), 65'535U);
  EXPECT_EQ(Tatp::spread(5'000'000), 1'048'575U);
  EXPECT_EQ(Tatp::spread(50'000'000), 2'097'151U);
}

struct Rows {
  std::map<std::pair<uint16_t, uint64_t>, std::string> rows;
  Workload::Put put() {
    return [this](TableId table, Key key, std::string_view value) {
      rows[{table.value, row_of<uint64_t>({key.data(), key.size()})}] = value;
      return Result<void>();
    };
  }
  Workload::VisitTable visit_table() const {
    return [this](TableId table, const Cluster::Visit& visit) {
      for (const auto& [key, value] : rows) {
        if (key.first == table.value) visit(NodeId(0), true, bytes_of(key.second), value, 1);
      }
    };
  }
  bool has(TableId table, uint64_t key) const { return rows.contains({table.value, key}); }
};

// The shares of transactions that find what they look for, as the benchmark's definition states them.
TEST(Tatp, LoadedRowsGiveTheStatedSuccessRates) {
  constexpr uint64_t kSubscribers = 20'000;
  Tatp tatp(kSubscribers);
  Rows rows;
  Random random(4);
  ASSERT_TRUE(tatp.load(rows.put(), random));
  int asked[7] = {}, found[7] = {};
  for (int i = 0; i < kCalls; ++i) {
    const Call call = tatp.draw(random);
    const uint64_t facility = tatp::facility_key(call.a[0], call.a[1]);
    const bool has_facility = rows.has(Tatp::kFacility, facility);
    const bool has_forwarding = rows.has(Tatp::kForwarding, tatp::forwarding_key(facility, call.a[2]));
    bool good = true;
    if (call.kind == Tatp::kGetAccess) good = rows.has(Tatp::kAccess, tatp::access_key(call.a[0], call.a[1]));
    if (call.kind == Tatp::kUpdateSubscriber) good = has_facility;
    if (call.kind == Tatp::kInsertForwarding) good = has_facility && !has_forwarding;
    if (call.kind == Tatp::kDeleteForwarding) good = has_forwarding;
    ++asked[call.kind];
    found[call.kind] += good ? 1 : 0;
  }
  const auto rate = [&](Tatp::Kind kind) { return 100.0 * found[kind] / asked[kind]; };
  EXPECT_NEAR(rate(Tatp::kGetAccess), 62.5, 3);
  EXPECT_NEAR(rate(Tatp::kUpdateSubscriber), 62.5, 4);
  EXPECT_NEAR(rate(Tatp::kInsertForwarding), 31.25, 4);
  EXPECT_NEAR(rate(Tatp::kDeleteForwarding), 31.25, 4);
}

TEST(Tatp, CheckFindsBrokenReferences) {
  Tatp tatp(50);
  Rows rows;
  Random random(5);
  ASSERT_TRUE(tatp.load(rows.put(), random));
  Tally tally;
  EXPECT_EQ(tatp.check(rows.visit_table(), tally), "");
  tally.net = 1;
  EXPECT_NE(tatp.check(rows.visit_table(), tally), "") << "a forwarding fewer than committed";
  tally.net = 0;
  for (const TableId table : {Tatp::kSubscriber, Tatp::kSecondary, Tatp::kAccess, Tatp::kFacility, Tatp::kForwarding}) {
    Rows broken = rows;
    broken.rows.erase(broken.rows.lower_bound({table.value, 0}));
    EXPECT_NE(tatp.check(broken.visit_table(), tally), "") << "a row lost from table " << table.value;
  }
  Rows orphan = rows;
  uint64_t facility = 0;
  while (orphan.has(Tatp::kFacility, facility)) ++facility;
  tatp::Forwarding forwarding{};
  forwarding.end_time = 8;
  orphan.rows[{Tatp::kForwarding.value, tatp::forwarding_key(facility, 0)}] = bytes_of(forwarding);
  tally.net = 1;
  EXPECT_NE(tatp.check(orphan.visit_table(), tally).find("forwarding without its facility"), std::string::npos);
}

}  // namespace
}  // namespace weft::bench
