// Conflict avoidance under the simulator: what it is worth in virtual time, and that nothing goes wrong with it.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "weft/base/sanitized.h"
#include "weft/bench/campaign.h"
#include "weft/bench/micro.h"
#include "weft/bench/simulated.h"
#include "weft/bench/smallbank.h"
#include "weft/txn/protocol.h"

namespace weft::bench {
namespace {

// Three nodes of two workers, each with eight clients, on a network without tails.
void hot_cluster(SimConfig& config) {
  config.options.nodes = config.initial_members = 3;
  config.options.replicas = 3;
  config.options.workers = 2;
  config.options.partitions = 0;
  config.options.limits = Limits();
  config.options.limits.transactions_in_flight_max = 8;
  config.options.network_batching = config.options.table_batching = config.options.local_reads = true;
  config.options.doorbell_batching = config.options.pipelined_verbs = config.options.piggyback_acks = true;
  config.network = NetworkConfig();
  config.faults = FaultMask();
  config.step_jitter_ns = 0;
  config.piece_bytes = 0;
  config.answer_ns = 0;
  config.visitors = false;
  config.workload.clients = 8;
}

struct Part {
  const char* name;
  bool on, backoff, limit, credit;
};
constexpr Part kParts[] = {
    {"RetryPolicy", false, false, false, false},    {"all", true, true, true, true},
    {"--off backoff", true, false, true, true},     {"--off backoff-limit", true, true, false, true},
    {"--off coro-credit", true, true, true, false}, {"--off backoff-limit,coro-credit", true, true, false, false}};

template <class Make>
SimulatedFigures measure(const Part& part, const char* protocol, int txns, Make make) {
  SimulatedFigures figures;
  figures.from_ns = 8'000'000;  // until then the workers learn
  SimOptions options;
  options.divided = false;
  options.protocol = protocol;
  options.workload = SimWorkload::kTpcc;  // none of the simulator's own
  options.workload_of = [&](sim::WorkloadContext* context) { return simulated(context, make(), &figures); };
  options.change = [&](SimConfig& config) {
    hot_cluster(config);
    config.workload.txns = txns;
    config.options.conflict_avoidance = part.on;
    config.options.backoff = part.backoff;
    config.options.backoff_limit = part.limit;
    config.options.coroutine_credit = part.credit;
  };
  const CheckedRun run = run_checked(options);
  EXPECT_TRUE(run.result.violations.empty()) << part.name << ": " << run.result.violations.front();
  EXPECT_GT(figures.committed, 3'000U);
  std::printf("%-10s %-32s %7.3f aborts a commit, p50 %6.1f us, p99 %8.1f us, %.0f thousand commits a second\n",
              protocol, part.name, static_cast<double>(figures.aborted) / static_cast<double>(figures.committed),
              static_cast<double>(figures.latency_ns.quantile(0.5)) / 1e3,
              static_cast<double>(figures.latency_ns.quantile(0.99)) / 1e3,
              static_cast<double>(run.result.committed) * 1e6 / static_cast<double>(run.result.virtual_ns));
  return figures;
}

double aborts_per_commit(const SimulatedFigures& figures) {
  return static_cast<double>(figures.aborted) / static_cast<double>(figures.committed);
}

TEST(Conflicts, AHotMicroAbortsLessWithAvoidance) {
  const int txns = kSanitized ? 200 : 400;  // of a client
  for (const char* protocol : {"dnl4", "farm"}) {
    const auto micro = [] { return std::make_unique<Micro>(2, 2, 1'000, 0.99); };
    const double before = aborts_per_commit(measure(kParts[0], protocol, txns, micro));
    EXPECT_LT(aborts_per_commit(measure(kParts[1], protocol, txns, micro)), before);
    for (size_t i = 2; i < std::size(kParts) && !kSanitized; ++i) measure(kParts[i], protocol, txns, micro);
  }
}

TEST(Conflicts, AHotSmallBankAbortsLessWithAvoidance) {
  const int txns = kSanitized ? 700 : 1500;
  for (const char* protocol : {"dnl4", "farm"}) {
    const auto smallbank = [] { return std::make_unique<SmallBank>(1'000, Skew::kHot, SmallBank::kValueBytes); };
    const double before = aborts_per_commit(measure(kParts[0], protocol, txns, smallbank));
    EXPECT_LT(aborts_per_commit(measure(kParts[1], protocol, txns, smallbank)), before);
    for (size_t i = 2; i < std::size(kParts) && !kSanitized; ++i) measure(kParts[i], protocol, txns, smallbank);
  }
}

// With faults, crashes and joins, whatever the seed draws; each part on or off.
TEST(Conflicts, SeedsAreCleanWithAvoidance) {
  for (const Protocol& row : kProtocols) {
    for (uint64_t seed = 1; seed <= (kSanitized ? 2 : 12); ++seed) {
      SimOptions options;
      options.seed = seed;
      options.protocol = std::string(row.name);
      options.transactions = 150;
      options.change = [&](SimConfig& config) {
        config.options.conflict_avoidance = true;
        config.options.backoff = (seed & 3U) != 1;
        config.options.backoff_limit = (seed & 4U) == 0;
        config.options.coroutine_credit = (seed & 3U) != 2;
        config.options.backoff_unit_ns = (seed & 8U) == 0 ? 0 : 5'000;
      };
      const CheckedRun run = run_checked(options);
      EXPECT_TRUE(run.result.violations.empty())
          << row.name << ", seed " << seed << ": " << run.result.violations.front();
    }
  }
}

}  // namespace
}  // namespace weft::bench
