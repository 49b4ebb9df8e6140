#include "weft/bench/driver.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>

#include "weft/base/hash.h"

namespace weft::bench {
namespace {

// If retries were immediate, two transactions could conflict for ever: back off a little, then longer.
constexpr RetryPolicy kPolicy{.attempts = 1'000'000, .backoff_us = 1, .backoff_us_max = 128};
constexpr uint64_t kBusyWaitNs = 1'000;         // before a retry after kBusy
constexpr uint64_t kSleepSliceNs = 10'000'000;  // the longest sleep of a client that waits for its arrival time
constexpr uint64_t kAuditPauseNs = 1'000'000;   // between two audits
constexpr int kTicksPerSecond = 4;

enum class RunPhase : uint32_t { kWarmup, kMeasure, kStop };

// One thread adds, any thread reads.
class Cell {
 public:
  void add(uint64_t n) { value_.store(get() + n, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The arrivals at one worker; whichever client is free draws the next.
struct Arrivals {
  double mean_gap_ns = 0;  // 0: closed loop
  double next_ns = 0;
  Random random{0};

  uint64_t take(uint64_t now_ns) {
    if (next_ns == 0) next_ns = static_cast<double>(now_ns);
    next_ns -= std::log(1.0 - random.unit()) * mean_gap_ns;
    return static_cast<uint64_t>(next_ns);
  }
};

struct alignas(64) State {
  Histogram latency_ns;
  Cell committed, refused, aborted;
  std::array<Cell, kCodes> aborts_by_code;
  Arrivals arrivals;
  // Read when the clients have ended.
  Tally tally;
  std::string failure;
};

// The table that is full, once there is one. Whoever waits for the run's time is woken.
class FullTable {
 public:
  void set(TableId table) {
    const std::scoped_lock lock(mutex_);
    if (!table_) table_ = table.value;
    changed_.notify_all();
  }
  std::optional<uint16_t> get() const {
    const std::scoped_lock lock(mutex_);
    return table_;
  }
  void wait_for(uint64_t ns) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return table_.has_value(); });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<uint16_t> table_;
};

struct Run {
  const Workload* workload;
  FullTable full;
  std::atomic<RunPhase> phase{RunPhase::kWarmup};
  uint64_t calls = UINT64_MAX;                 // transactions that each client runs, unless it is stopped before
  std::vector<std::unique_ptr<State>> states;  // by node, then worker
};

void count_commit(State& state, const Call& call, const Effect& effect, uint64_t latency_ns, bool measured) {
  ++state.tally.committed[call.kind];
  state.tally.refused[call.kind] += effect.refused ? 1 : 0;
  state.tally.net += effect.net;
  if (state.tally.wrong.empty()) state.tally.wrong = effect.wrong;
  if (!measured) return;
  state.committed.add(1);
  state.refused.add(effect.refused ? 1 : 0);
  state.latency_ns.record(latency_ns);
}

void count_failure(State& state, const Workload& workload, const Call& call, const Outcome& outcome) {
  if (++state.tally.failed > 1) return;
  state.failure = std::string(workload.kinds()[call.kind].name) + ": " + outcome.text();
}

// Runs one transaction until it has a final outcome.
Task<void> transact(Session& session, Run& run, State& state, const Call& call, uint64_t started_ns) {
  for (uint32_t attempt = 1;; ++attempt) {
    const uint64_t began_ns = session.now_ns();
    Effect effect;
    Task<Outcome> work = run.workload->attempt(session, call, effect);
    const Outcome outcome = co_await work;
    const RunPhase phase = run.phase.load(std::memory_order_relaxed);
    if (outcome.committed()) {
      const uint64_t now_ns = session.now_ns();
      count_commit(state, call, effect, now_ns > started_ns ? now_ns - started_ns : 0, phase == RunPhase::kMeasure);
      co_return;
    }
    if (phase == RunPhase::kMeasure) {
      state.aborted.add(1);
      state.aborts_by_code[static_cast<size_t>(outcome.code)].add(1);
    }
    if (outcome.kind == OutcomeKind::kRejected && outcome.code == Code::kTableFull) {
      run.phase.store(RunPhase::kStop, std::memory_order_relaxed);
      run.full.set(outcome.table);
      co_return;
    }
    if (outcome.kind == OutcomeKind::kAborted && effect.refused && !code_retryable(outcome.code)) {
      ++state.tally.refused[call.kind];
      co_return;
    }
    uint64_t wait_ns = kBusyWaitNs;
    const bool busy = outcome.kind == OutcomeKind::kRejected && code_retryable(outcome.code);
    if (!busy && !session.should_retry(outcome, kPolicy, attempt, began_ns, &wait_ns)) {
      count_failure(state, *run.workload, call, outcome);
      co_return;
    }
    if (phase == RunPhase::kStop) co_return;  // the run is over, so the abort is not retried
    if (wait_ns > 0) co_await session.sleep_ns(wait_ns);
  }
}

Task<void> client(Session& session, Run& run, State& state, uint64_t seed) {
  Random random(seed);
  for (uint64_t n = 0; n < run.calls && run.phase.load(std::memory_order_relaxed) != RunPhase::kStop; ++n) {
    uint64_t started_ns = session.now_ns();
    if (state.arrivals.mean_gap_ns > 0) {
      started_ns = state.arrivals.take(started_ns);
      while (session.now_ns() < started_ns && run.phase.load(std::memory_order_relaxed) != RunPhase::kStop) {
        co_await session.sleep_ns(std::min(started_ns - session.now_ns(), kSleepSliceNs));
      }
    }
    const Call call = run.workload->draw(random);
    Task<void> work = transact(session, run, state, call, started_ns);
    co_await work;
  }
}

// Audits until the run is over. An audit that meets a writer is not repeated: the next one is as good.
Task<void> auditor(Session& session, const Run& run, State& state, uint64_t seed) {
  Random random(seed);
  while (run.phase.load(std::memory_order_relaxed) != RunPhase::kStop) {
    Effect effect;
    Task<Outcome> work = run.workload->audit(session, random.next(), effect);
    const Outcome outcome = co_await work;
    state.tally.audits += outcome.committed() ? 1 : 0;
    if (state.tally.wrong.empty()) state.tally.wrong = effect.wrong;
    co_await session.sleep_ns(kAuditPauseNs);
  }
}

uint64_t clients_of(const Options& spec, const DriveOptions& options) {
  return options.alone ? 1
                       : uint64_t{spec.limits.transactions_in_flight_max} *
                             static_cast<uint64_t>(spec.transaction_nodes() * spec.workers);
}

std::vector<Cluster::Handle> spawn_clients(Cluster& cluster, Run& run, const DriveOptions& options, uint64_t now_ns) {
  const Options& spec = cluster.options();
  std::vector<Cluster::Handle> handles;
  Random seeds(options.seed);
  for (int node = 0; node < spec.nodes; ++node) {
    if (!runs_transactions(spec.roles_of(node))) continue;
    for (int worker = 0; worker < spec.workers; ++worker) {
      State* state = run.states.emplace_back(std::make_unique<State>()).get();
      if (options.rate > 0) {
        state->arrivals.mean_gap_ns = 1e9 * spec.transaction_nodes() * spec.workers / options.rate;
        state->arrivals.next_ns = static_cast<double>(now_ns);
        state->arrivals.random = Random(seeds.next());
      }
      for (uint32_t i = 0; i < (options.alone ? 1 : spec.limits.transactions_in_flight_max); ++i) {
        if (options.alone && !handles.empty()) break;
        const uint64_t seed = seeds.next();
        handles.push_back(
            cluster.spawn(NodeId(static_cast<uint8_t>(node)), WorkerId(static_cast<uint8_t>(worker)),
                          [&run, state, seed](Session& session) { return client(session, run, *state, seed); }));
      }
    }
  }
  return handles;
}

uint64_t committed_of(const Run& run) {
  uint64_t sum = 0;
  for (const auto& state : run.states) sum += state->committed.get();
  return sum;
}

double ratio(uint64_t a, uint64_t b) { return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b); }

// The calling thread's part: time, phases of the run, and progress.
class Measurement {
 public:
  Measurement(Cluster& cluster, Run& run, const DriveOptions& options, Clock& clock)
      : cluster_(cluster), run_(run), options_(options), clock_(clock) {}

  void warm_up() { pause(clock_.now_ns(), options_.warmup_seconds); }

  void begin() {
    before_ = cluster_.counters();
    run_.phase.store(RunPhase::kMeasure, std::memory_order_relaxed);
    begin_ns_ = clock_.now_ns();
  }

  void measure(DriveResult& result) {
    const int slices = std::max(1, options_.slices);
    for (int slice = 1; slice <= slices && !ended(); ++slice) {
      const uint64_t slice_ns = clock_.now_ns();
      const uint64_t committed = committed_of(run_);
      ticks(options_.seconds * slice / slices);
      const double took = static_cast<double>(clock_.now_ns() - slice_ns) / 1e9;
      if (took > 0) result.slice_tps.push_back(static_cast<double>(committed_of(run_) - committed) / took);
    }
    end(result);
  }

  // Waits until the clients have run all their transactions.
  void wait_for(const std::vector<Cluster::Handle>& handles, DriveResult& result) {
    const auto done = [](const Cluster::Handle& handle) { return handle.done(); };
    while (!ended() && !std::all_of(handles.begin(), handles.end(), done)) pause(clock_.now_ns(), 1e-3);
    end(result);
    if (result.seconds > 0) result.slice_tps.push_back(static_cast<double>(committed_of(run_)) / result.seconds);
  }

 private:
  void end(DriveResult& result) {
    run_.phase.store(RunPhase::kStop, std::memory_order_relaxed);
    result.seconds = static_cast<double>(clock_.now_ns() - begin_ns_) / 1e9;
    result.counters = counters_between(before_, cluster_.counters());
  }

  bool ended() const { return run_.full.get() || (options_.interrupted != nullptr && options_.interrupted->load()); }

  void pause(uint64_t begin_ns, double until_seconds) {
    const uint64_t end_ns = begin_ns + static_cast<uint64_t>(until_seconds * 1e9);
    for (uint64_t now_ns = clock_.now_ns(); now_ns < end_ns && !ended(); now_ns = clock_.now_ns()) {
      run_.full.wait_for(std::min<uint64_t>(end_ns - now_ns, 20'000'000));
    }
  }

  // Waits until `until_seconds` after the beginning, reporting progress meanwhile.
  void ticks(double until_seconds) {
    const auto elapsed = [&] { return static_cast<double>(clock_.now_ns() - begin_ns_) / 1e9; };
    while (!ended() && elapsed() < until_seconds) {
      const uint64_t tick_ns = clock_.now_ns();
      const uint64_t committed = committed_of(run_);
      pause(begin_ns_, std::min(until_seconds, elapsed() + 1.0 / kTicksPerSecond));
      const double took = static_cast<double>(clock_.now_ns() - tick_ns) / 1e9;
      if (options_.on_progress && took > 0) {
        report(elapsed(), static_cast<double>(committed_of(run_) - committed) / took);
      }
    }
  }

  void report(double seconds, double tps) {
    LiveStats live{.seconds = seconds, .tps = tps};
    Histogram latency;
    uint64_t aborted = 0;
    for (const auto& state : run_.states) {
      latency.merge(state->latency_ns);
      aborted += state->aborted.get();
    }
    live.p50_us = static_cast<double>(latency.quantile(0.5)) / 1e3;
    live.p99_us = static_cast<double>(latency.quantile(0.99)) / 1e3;
    live.abort_share = ratio(aborted, aborted + committed_of(run_));
    const Counters now = counters_between(before_, cluster_.counters());
    live.nw_batch = ratio(now.messages_sent, now.packets_sent);
    live.ht_batch = ratio(now.table_batched, now.table_batches);
    options_.on_progress(live);
  }

  Cluster& cluster_;
  Run& run_;
  const DriveOptions& options_;
  Clock& clock_;
  Counters before_;
  uint64_t begin_ns_ = 0;
};

}  // namespace

Counters counters_between(const Counters& before, const Counters& after) {
  // All fields of Counters are 64-bit counts, so they are subtracted as an array and no field is forgotten.
  static_assert(std::is_trivially_copyable_v<Counters> && sizeof(Counters) % sizeof(uint64_t) == 0);
  using Raw = std::array<uint64_t, sizeof(Counters) / sizeof(uint64_t)>;
  const Raw a = std::bit_cast<Raw>(before), b = std::bit_cast<Raw>(after);
  Raw out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = b[i] - a[i];
  return std::bit_cast<Counters>(out);
}

DriveResult drive(Cluster& cluster, const Workload& workload, const DriveOptions& options, Clock& clock) {
  DriveResult result;
  Run run{.workload = &workload, .full = {}, .states = {}};
  Measurement measurement(cluster, run, options, clock);
  if (options.transactions != 0) {
    const uint64_t clients = clients_of(cluster.options(), options);
    run.calls = (options.transactions + clients - 1) / clients;
    measurement.begin();
  }
  const std::vector<Cluster::Handle> handles = spawn_clients(cluster, run, options, clock.now_ns());
  Cluster::Handle audit;
  if (workload.audits()) {
    State& state = *run.states.front();
    const uint64_t seed = mix64(options.seed);
    int node = 0;
    while (!runs_transactions(cluster.options().roles_of(node))) ++node;
    audit = cluster.spawn(NodeId(static_cast<uint8_t>(node)), WorkerId(0),
                          [&run, &state, seed](Session& session) { return auditor(session, run, state, seed); });
  }
  if (options.transactions != 0) {
    measurement.wait_for(handles, result);
  } else {
    measurement.warm_up();
    if (!run.full.get()) {
      measurement.begin();
      measurement.measure(result);
    }
  }
  for (const Cluster::Handle& handle : handles) handle.wait();
  if (workload.audits()) audit.wait();

  result.full = run.full.get();
  for (const auto& state : run.states) {
    result.committed += state->committed.get();
    result.refused += state->refused.get();
    result.aborted += state->aborted.get();
    for (size_t code = 0; code < result.aborts_by_code.size(); ++code) {
      result.aborts_by_code[code] += state->aborts_by_code[code].get();
    }
    result.latency_ns.merge(state->latency_ns);
    result.tally.add(state->tally);
    if (result.failure.empty()) result.failure = state->failure;
  }
  return result;
}

}  // namespace weft::bench
