#include "weft/bench/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace weft::bench {
namespace {

DriveResult sample() {
  DriveResult result;
  result.seconds = 2;
  result.committed = 1'000;
  result.aborted = 250;
  result.aborts_by_code[static_cast<size_t>(Code::kLocked)] = 200;
  result.aborts_by_code[static_cast<size_t>(Code::kVersionMoved)] = 50;
  for (uint64_t i = 1; i <= 1'000; ++i) result.latency_ns.record(i * 1'000);
  result.slice_tps = {300, 700, 500};
  result.counters.packets_sent = 500;
  result.counters.messages_sent = 4'000;
  result.counters.bytes_sent = 64'000;
  result.counters.table_batches = 100;
  result.counters.table_batched = 1'200;
  result.counters.commit_round_trips = 2'100;
  result.counters.commits_counted = 600;
  return result;
}

Report sample_report() {
  Options options;
  options.nodes = 5;
  options.threads = options.workers = 2;
  return make_report("smallbank", options, sample());
}

TEST(Report, JsonHasExactlyTheStatedKeys) {
  const auto json = nlohmann::ordered_json::parse(to_json(sample_report()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  const std::vector<std::string> stated = {"workload",
                                           "protocol",
                                           "fabric",
                                           "nodes",
                                           "replicas",
                                           "threads",
                                           "seconds",
                                           "committed",
                                           "aborted",
                                           "tps",
                                           "tps_per_thread",
                                           "latency_us",
                                           "nw_batch",
                                           "ht_batch",
                                           "packets_per_txn",
                                           "messages_per_txn",
                                           "bytes_per_txn",
                                           "commit_round_trips",
                                           "abort_reasons",
                                           "reads_per_txn",
                                           "writes_per_txn",
                                           "swaps_per_txn",
                                           "doorbells_per_txn",
                                           "verb_limit",
                                           "verb_credit_waits_per_txn",
                                           "messages_by_phase",
                                           "verbs_by_phase"};
  EXPECT_EQ(keys, stated);
  EXPECT_EQ(json["latency_us"].size(), 4U);
  EXPECT_EQ(json["abort_reasons"].size(), 2U);
  EXPECT_EQ(json["abort_reasons"]["locked"], 200);
  EXPECT_EQ(json["tps"], 500.0);
  EXPECT_EQ(json["tps_per_thread"], 250.0);
  EXPECT_EQ(json["nw_batch"], 8.0);
  EXPECT_EQ(json["ht_batch"], 12.0);
  EXPECT_EQ(json["commit_round_trips"], 3.5);
  EXPECT_EQ(to_json(sample_report()).find('\n'), std::string::npos);
}

TEST(Report, WithoutAbortsTheReasonsAreAnEmptyObject) {
  EXPECT_EQ(nlohmann::json::parse(to_json(Report{}))["abort_reasons"], nlohmann::json::object());
}

// The histogram is accurate to 1/64; it never reports a quantile that is too low.
TEST(Report, PercentilesAreThoseOfTheRecordedLatencies) {
  const Report report = sample_report();
  const auto close = [](double got, double exact) {
    EXPECT_GE(got, exact);
    EXPECT_LE(got, exact * (1 + 1.0 / 64));
  };
  close(report.p50_us, 500);
  close(report.p90_us, 900);
  close(report.p99_us, 990);
  close(report.p999_us, 999);
}

TEST(Report, SpreadIsOverTheSlices) {
  const Report report = sample_report();
  EXPECT_EQ(report.tps_min, 300);
  EXPECT_EQ(report.tps_median, 500);
  EXPECT_EQ(report.tps_max, 700);
}

TEST(Report, NothingMeasuredIsZerosAndNoDivision) {
  const Report report = make_report("tatp", Options{}, DriveResult{});
  EXPECT_EQ(report.tps, 0);
  EXPECT_EQ(report.bytes_per_txn, 0);
  std::ostringstream out;
  print_text(out, report);
  EXPECT_EQ(out.str().find("nan"), std::string::npos);
}

TEST(Report, NumbersForPeople) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1'000), "1,000");
  EXPECT_EQ(with_commas(1'234'567), "1,234,567");
  EXPECT_EQ(millions(1'234'567), "1.23 M");
  EXPECT_EQ(millions(12'345), "12.3 k");
  EXPECT_EQ(micros(1.234), "1.23");
  EXPECT_EQ(micros(123.4), "123");
}

TEST(Report, CountersSubtractFieldByField) {
  Counters before, after;
  before.committed = 3;
  after.committed = 10;
  before.aborts_by_code[2] = 1;
  after.aborts_by_code[2] = 4;
  after.steps = 9;
  const Counters between = counters_between(before, after);
  EXPECT_EQ(between.committed, 7U);
  EXPECT_EQ(between.aborts_by_code[2], 3U);
  EXPECT_EQ(between.steps, 9U);
}

}  // namespace
}  // namespace weft::bench
