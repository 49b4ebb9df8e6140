#include "weft/bench/bench.h"

#include <gtest/gtest.h>

#include <sstream>
#include <utility>

#include "weft/base/sanitized.h"
#include "weft/bench/ablation.h"
#include "weft/bench/phases.h"
#include "weft/bench/tpcc.h"
#include "weft/txn/protocol.h"

namespace weft::bench {
namespace {

constexpr const char* kWorkloads[] = {"smallbank", "tatp", "micro-4-2", "micro-1-0", "micro-0-1", "micro-2-4"};

// Few keys and several workers, so that transactions conflict.
BenchOptions small(const std::string& workload) {
  BenchOptions options;
  options.workload = workload;
  options.keys_per_node = 200;
  options.cluster.nodes = 3;
  options.cluster.replicas = 2;
  options.cluster.workers = options.cluster.threads = 2;
  options.cluster.limits.transactions_in_flight_max = 16;
  return options;
}

DriveOptions brief() {
  DriveOptions options;
  options.warmup_seconds = 0.02;
  options.seconds = 0.1;
  return options;
}

// Runs until something has committed. These tests do not depend on how long that takes on a busy machine.
auto run_some(Bench& bench, const DriveOptions& options) {
  auto report = bench.run(options);
  for (int i = 0; i < 100 && report && report->committed == 0; ++i) report = bench.run(options);
  return report;
}

TEST(Bench, EveryWorkloadHoldsUnderEveryProtocol) {
  for (const char* workload : kWorkloads) {
    auto opened = Bench::open(small(workload), nullptr);
    ASSERT_TRUE(opened) << opened.error().text();
    Bench& bench = **opened;
    for (const Protocol& row : kRows) {
      const std::string protocol(row.name);
      Options cluster = small(workload).cluster;
      cluster.protocol = protocol;
      const auto changed = bench.change(cluster);
      ASSERT_TRUE(changed) << changed.error().text();
      auto report = run_some(bench, brief());
      ASSERT_TRUE(report) << report.error().text();
      EXPECT_GT(report->committed, 0U) << workload << " " << protocol;
      EXPECT_EQ(report->protocol, protocol);
      EXPECT_EQ(bench.check(), "") << workload << " " << protocol;
    }
  }
}

TEST(Bench, SwitchesChangeOnOneLoad) {
  auto opened = Bench::open(small("smallbank"), nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  Bench& bench = **opened;
  for (const char* off :
       {"network-batching,table-batching,local-reads", "table-batching,local-reads", "local-reads", ""}) {
    Options cluster = small("smallbank").cluster;
    ASSERT_TRUE(switch_off(off, &cluster));
    ASSERT_TRUE(bench.change(cluster));
    auto report = run_some(bench, brief());
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_GT(report->committed, 0U);
    if (!cluster.network_batching) {
      EXPECT_LE(report->nw_batch, 1.0);
    }
  }
  EXPECT_EQ(bench.check(), "");
}

// The check notices if the effect of one transaction is missing.
TEST(Bench, TheCheckComparesWithWhatWasCommitted) {
  auto opened = Bench::open(small("smallbank"), nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  Bench& bench = **opened;
  ASSERT_TRUE(bench.run(brief()));
  const auto visit_table = [&](TableId table, const Cluster::Visit& visit) { bench.cluster().visit(table, visit); };
  EXPECT_EQ(bench.workload().check(visit_table, bench.tally()), "");
  Tally forgotten = bench.tally();
  forgotten.net += 500;
  EXPECT_NE(bench.workload().check(visit_table, forgotten), "");
}

TEST(Bench, OpenLoopRunsAboutAsManyAsArrive) {
  auto opened = Bench::open(small("tatp"), nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  DriveOptions options = brief();
  options.seconds = 0.5;
  options.rate = 2'000;
  auto report = run_some(**opened, options);
  // Transactions that a pause has delayed come all at once, but not every time.
  for (int i = 0; i < 10 && report && report->tps >= 2 * options.rate; ++i) report = run_some(**opened, options);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_GT(report->committed, 0U);
  // A closed loop would run a hundred times as many; twice the rate does not happen by chance.
  EXPECT_LT(report->tps, 2 * options.rate);
  EXPECT_EQ((*opened)->check(), "");
}

// So that two builds can be compared, instruction by instruction.
TEST(Bench, AFixedNumberOfTransactions) {
  auto opened = Bench::open(small("smallbank"), nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  const Options& cluster = (*opened)->cluster().options();
  const uint64_t clients =
      uint64_t{cluster.limits.transactions_in_flight_max} * static_cast<uint64_t>(cluster.nodes * cluster.workers);
  DriveOptions options = brief();
  options.transactions = 3 * clients - 1;
  const auto report = (*opened)->run(options);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->committed, 3 * clients);
  EXPECT_EQ((*opened)->check(), "");
}

// Without --seconds there is room for 3,000 orders of a district; ten seconds of any machine's fill it.
TEST(Bench, AFullTableEndsTheRunAndNothingIsWrong) {
  if (kSanitized) GTEST_SKIP() << "in the optimised build";
  BenchOptions options = small("tpcc-no");
  options.keys_per_node = options.cluster.nodes = options.cluster.replicas = 1;
  auto opened = Bench::open(options, nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  DriveOptions endless = brief();
  endless.warmup_seconds = 0;
  endless.seconds = 1e6;
  const auto report = (*opened)->run(endless);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ((*opened)->check(), "") << "the figures are valid";
  EXPECT_GE(report->committed, 30'000U);
  EXPECT_GT(report->tps, 0);
  EXPECT_LT(report->seconds, endless.seconds);
  for (const char* part : {"the measurement ended after ", "a table is full", " has room for ", " and holds ",
                           "--seconds", "--keys (warehouses a node)"}) {
    EXPECT_NE(report->ended.find(part), std::string::npos) << report->ended;
  }
  EXPECT_EQ(exit_status(*report), kExitFailed);
  EXPECT_NE(to_json(*report).find("\"ended\":"), std::string::npos);

  DriveOptions warm = brief();
  warm.warmup_seconds = 1e6;
  const auto again = (*opened)->run(warm);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->committed, 0U);
  EXPECT_TRUE(again->ended.starts_with("nothing was measured")) << again->ended;
  EXPECT_EQ((*opened)->check(), "");
}

TEST(Bench, TablesThatGrowHaveRoomForTheRun) {
  BenchOptions options = small("tpcc-no");
  options.keys_per_node = options.cluster.nodes = options.cluster.replicas = 1;
  const auto room = [&] {
    auto opened = Bench::open(options, nullptr);
    EXPECT_TRUE(opened) << opened.error().text();
    return opened ? (*opened)->workload().tables()[Tpcc::kOrder.value].capacity : 0;
  };
  const uint64_t by_default = room();
  EXPECT_EQ(by_default, 30'000U);
  if (kSanitized) return;
  options.seconds = 1;
  EXPECT_GT(room(), 3 * by_default);
  options.transactions = 40'000;
  EXPECT_GE(room(), options.transactions);
  options.transactions = uint64_t{1} << 40;
  EXPECT_LT(room(), options.transactions) << "no more than fits into the memory";
}

TEST(Bench, OneClientAloneMeetsNobody) {
  auto opened = Bench::open(small("smallbank"), nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  DriveOptions options = brief();
  options.alone = true;
  auto report = run_some(**opened, options);
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_GT(report->committed, 0U);
  EXPECT_EQ((*opened)->check(), "");
}

TEST(Bench, AnInterruptEndsTheRunInOrder) {
  auto opened = Bench::open(small("smallbank"), nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  const std::atomic<bool> interrupted{true};
  DriveOptions options = brief();
  options.seconds = 1e6;
  options.interrupted = &interrupted;
  ASSERT_TRUE((*opened)->run(options));
  EXPECT_EQ((*opened)->check(), "");
}

TEST(Bench, BadRequestsAreNamed) {
  const auto detail_of = [](const BenchOptions& options) {
    auto opened = Bench::open(options, nullptr);
    EXPECT_FALSE(opened);
    if (opened) return std::string();
    EXPECT_EQ(exit_status(opened.error()), kExitBadRequest) << opened.error().text();
    return opened.error().detail;
  };
  BenchOptions options = small("no-such");
  EXPECT_NE(detail_of(options).find("no-such"), std::string::npos);
  options = small("tatp");
  options.cluster.fabric = "pigeon";
  EXPECT_NE(detail_of(options).find("local"), std::string::npos);
  options = small("tatp");
  options.cluster.replicas = 4;
  EXPECT_NE(detail_of(options).find('4'), std::string::npos);
  options = small("tatp");
  options.cluster.protocol = "dnl3";
  EXPECT_NE(detail_of(options).find("dnl3"), std::string::npos);
  options = small("tatp");
  options.keys_per_node = uint64_t{1} << 40;
  EXPECT_NE(detail_of(options).find("1099511627776"), std::string::npos);
}

TEST(Bench, WhatDoesNotFitIntoMemoryIsRefusedBeforeItIsTried) {
  BenchOptions options = small("smallbank");
  options.keys_per_node = uint64_t{1} << 32;
  auto opened = Bench::open(options, nullptr);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kNoMemory);
  EXPECT_NE(opened.error().detail.find("GiB"), std::string::npos);
}

TEST(Bench, SwitchesAreKnownByName) {
  Options options;
  ASSERT_TRUE(switch_off("", &options));
  EXPECT_TRUE(options.network_batching && options.table_batching && options.local_reads);
  ASSERT_TRUE(switch_off("table-batching,local-reads", &options));
  EXPECT_TRUE(options.network_batching && !options.table_batching && !options.local_reads);
  EXPECT_TRUE(options.doorbell_batching && options.pipelined_verbs && options.piggyback_acks);
  EXPECT_TRUE(options.worker_doorbells);
  ASSERT_TRUE(switch_off("coroutines,pipelined-verbs,doorbell-batching,piggyback-acks,worker-doorbells", &options));
  EXPECT_TRUE(!options.doorbell_batching && !options.pipelined_verbs && !options.piggyback_acks &&
              !options.worker_doorbells && options.limits.transactions_in_flight_max == 1);
  EXPECT_EQ(options.verb_credit, "");
  ASSERT_TRUE(switch_off("verb-credit", &options));
  EXPECT_EQ(options.verb_credit, "off");
  const auto bad = switch_off("network-batching,turbo", &options);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().detail.find("turbo"), std::string::npos);
  for (const auto& [was, is] :
       {std::pair{"nw-batch", "network-batching"}, std::pair{"ht-batch", "table-batching"},
        std::pair{"outstanding", "pipelined-verbs"}, std::pair{"doorbells", "doorbell-batching"},
        std::pair{"passive-acks", "piggyback-acks"}}) {
    const auto renamed = switch_off(was, &options);
    ASSERT_FALSE(renamed) << was;
    EXPECT_NE(renamed.error().detail.find(is), std::string::npos) << renamed.error().detail;
  }
}

TEST(Bench, SwitchesOfConflictAvoidanceGoWithIt) {
  Options options;
  const auto bad = switch_off("backoff-limit", &options);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().detail.find("--conflict-avoidance"), std::string::npos) << bad.error().detail;
  EXPECT_TRUE(options.backoff_limit);
  options.conflict_avoidance = true;
  ASSERT_TRUE(switch_off("backoff-limit", &options));
  EXPECT_TRUE(options.backoff && !options.backoff_limit && options.coroutine_credit);
  ASSERT_TRUE(switch_off("backoff,coro-credit", &options));
  EXPECT_TRUE(!options.backoff && !options.coroutine_credit);
}

TEST(Ablation, PrintsEveryTable) {
  if (kSanitized) GTEST_SKIP() << "in the optimised build";
  AblationOptions options;
  options.bench = small("");
  options.more_workloads = {"retwis", "tpce-cp"};
  options.seconds = 0.05;
  options.label = "a label";
  std::ostringstream out;
  Progress progress(stderr);
  const auto wrong = run_ablation(options, out, progress);
  ASSERT_TRUE(wrong) << wrong.error().text();
  EXPECT_EQ(*wrong, "");
  const std::string text = out.str();
  for (const char* part :
       {"a label", "## smallbank", "## tatp", "## tpce-cp", "600 customers", "| hop |", "| dnl4 |", "| dnl2 |",
        "| dnl1 |", "| fasst |", "| none |", "| + local reads |", "One transaction in flight", "| record touches |"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(Phases, PrintsEveryTable) {
  if (kSanitized) GTEST_SKIP() << "in the optimised build";
  PhasesOptions options;
  options.bench = small("");
  options.bench.cluster.fabric = "shm";
  options.loads = {{"smallbank", 8}};
  options.seconds = 0.06;
  options.label = "a label";
  std::ostringstream out;
  Progress progress(stderr);
  const auto wrong = run_phases(options, out, progress);
  ASSERT_TRUE(wrong) << wrong.error().text();
  EXPECT_EQ(*wrong, "");
  const std::string text = out.str();
  for (const char* part :
       {"a label", "## smallbank, 8", "| dnl4-e-nc |", "| drtmr-m |", "| fasst |", "| validate | dnl4-e |",
        "| lock and commit |", "| + coroutines |", "| + passive acknowledgement |"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace weft::bench
