#include "weft/bench/retwis.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>
#include <utility>

#include "weft/bench/bench.h"
#include "weft/bench/retwis_rows.h"
#include "weft/txn/protocol.h"

namespace weft::bench {
namespace {

constexpr int kRetwisDraws = 20'000;

TEST(Retwis, DrawsTheMix) {
  const Retwis retwis(1'000, Skew::kHot);
  Random random(1);
  std::array<int, 4> seen{};
  std::map<uint64_t, int> timelines;
  for (int i = 0; i < kRetwisDraws; ++i) {
    const Call call = retwis.draw(random);
    ++seen[call.kind];
    if (call.kind == Retwis::kTimeline) ++timelines[call.a[1]];
  }
  constexpr double kShares[] = {5, 15, 30, 50};
  for (size_t kind = 0; kind < seen.size(); ++kind) EXPECT_NEAR(100.0 * seen[kind] / kRetwisDraws, kShares[kind], 2.0);
  EXPECT_EQ(timelines.size(), Retwis::kKeysMax);
  EXPECT_EQ(timelines.begin()->first, 1U);
  for (const auto& [keys, count] : timelines) EXPECT_NEAR(100.0 * count / kRetwisDraws, 5, 1.0) << keys;
}

TEST(Retwis, KeysAreDistinctInRangeAndTheSameAgain) {
  const Retwis retwis(Retwis::kKeysMax, Skew::kHot);
  Random random(2);
  for (int i = 0; i < 1'000; ++i) {
    const Call call = retwis.draw(random);
    Retwis::KeyList keys{}, again{};
    const uint32_t count = retwis.keys_of(call, keys);
    constexpr uint32_t kCounts[] = {3, 2, 5};
    EXPECT_EQ(count, call.kind == Retwis::kTimeline ? call.a[1] : kCounts[call.kind]);
    ASSERT_EQ(retwis.keys_of(call, again), count);
    EXPECT_EQ(keys, again);
    const std::set<uint64_t> distinct(keys.begin(), keys.begin() + count);
    EXPECT_EQ(distinct.size(), count);
    EXPECT_LT(*distinct.rbegin(), Retwis::kKeysMax);
  }
}

// At an exponent of 0.5 the first quarter of the records has half of the draws.
TEST(Retwis, SomeRecordsAreHot) {
  for (const auto& [skew, percent] : {std::pair{Skew::kHot, 50.0}, std::pair{Skew::kNone, 25.0}}) {
    const Retwis retwis(100'000, skew);
    Random random(3);
    int low = 0;
    for (int i = 0; i < kRetwisDraws; ++i) {
      Retwis::KeyList keys{};
      retwis.keys_of(retwis.draw(random), keys);
      low += keys[0] < 25'000 ? 1 : 0;
    }
    EXPECT_NEAR(100.0 * low / kRetwisDraws, percent, 3.0);
  }
}

// What the check finds in tables that a broken store would leave behind.
class RetwisCheck : public testing::Test {
 protected:
  static constexpr uint64_t kRecords = 20;
  struct Row {
    retwis::Record record;
    uint64_t version;
  };
  void SetUp() override {
    Random random(1);
    const Workload::Put put = [this](TableId, Key key, std::string_view value) {
      EXPECT_EQ(key.size() + value.size(), 72U);
      rows_[row_of<uint64_t>({key.data(), key.size()})] = {row_of<retwis::Record>(value), retwis::kLoadedVersion};
      return Result<void>();
    };
    ASSERT_TRUE(retwis_.load(put, random));
    rows_[3] = {retwis::record_of(3, 77, 2), 2};  // read and put once
    rows_[4] = {retwis::record_of(4, 77, 0), 3};  // put blindly, after another
    tally_.net = 3;
  }
  std::string check() const {
    return retwis_.check(
        [this](TableId, const Cluster::Visit& visit) {
          for (const auto& [key, row] : rows_) {
            visit(NodeId(0), true, bytes_of(key), bytes_of(row.record), row.version);
            visit(NodeId(1), false, bytes_of(key), "a backup is not counted", 1);
          }
        },
        tally_);
  }
  void expect(const std::string& part) const { EXPECT_NE(check().find(part), std::string::npos) << check(); }

  Retwis retwis_{kRecords, Skew::kHot};
  std::map<uint64_t, Row> rows_;
  Tally tally_;
};

TEST_F(RetwisCheck, HoldsForWhatTransactionsLeave) { EXPECT_EQ(check(), ""); }

TEST_F(RetwisCheck, AMissingRecord) {
  rows_.erase(5);
  expect("20 records were loaded, 19 are there");
}

TEST_F(RetwisCheck, ARecordUnderAnotherKey) {
  rows_[5].record.key = 6;
  expect("1 records are not as a transaction wrote them");
}

TEST_F(RetwisCheck, ARecordMixedFromTwo) {
  rows_[4].record.text[4] = retwis::record_of(4, 78, 0).text[4];
  expect("1 records are not as a transaction wrote them");
}

TEST_F(RetwisCheck, ALostUpdate) {
  rows_[3].version = 3;
  tally_.net = 4;
  expect("had not read the last one");
}

TEST_F(RetwisCheck, ALostPut) {
  tally_.net = 4;
  expect("versions moved 3 times, 4 puts were committed");
}

TEST_F(RetwisCheck, APutThatNobodyCommitted) {
  tally_.net = 2;
  expect("versions moved 3 times, 2 puts were committed");
  tally_.failed = 1;  // its outcome is not known
  EXPECT_EQ(check(), "");
}

// Few records, so that transactions conflict.
TEST(Retwis, RunsOnEveryProtocol) {
  BenchOptions options;
  options.workload = "retwis";
  options.keys_per_node = 50;
  options.cluster.limits.transactions_in_flight_max = 8;
  auto opened = Bench::open(options, nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  Bench& bench = **opened;
  DriveOptions drive_options;
  drive_options.transactions = 200;
  for (const Protocol& row : kProtocols) {
    options.cluster.protocol = row.name;
    ASSERT_TRUE(bench.change(options.cluster));
    const auto report = bench.run(drive_options);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_GE(report->committed, drive_options.transactions) << row.name;
    EXPECT_EQ(bench.check(), "") << row.name;
  }
  for (const uint64_t committed : std::span(bench.tally().committed).first(4)) EXPECT_GT(committed, 0U);
}

}  // namespace
}  // namespace weft::bench
