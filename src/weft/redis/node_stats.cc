#include "weft/redis/node_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/member/view_json.h"
#include "weft/txn/txn_worker.h"

namespace weft {

namespace {

constexpr size_t kReasonsMax = 32;
constexpr size_t kReasonBytesMax = 32;

uint64_t open_files() {
  uint64_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (readdir(folder) != nullptr) ++count;  // NOLINT(concurrency-mt-unsafe): its own stream
  closedir(folder);
  return count > 3 ? count - 3 : 0;  // ".", ".." and the directory itself
}

double ratio(uint64_t a, uint64_t b) { return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b); }

// Three decimal places are enough for people, and keep a sample short.
double rounded(double value) {
  return static_cast<double>(static_cast<int64_t>(value * 1000 + (value < 0 ? -0.5 : 0.5))) / 1000;
}

}  // namespace

uint64_t resident_bytes() {
  FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long all = 0, resident = 0;
  const bool read = std::fscanf(file, "%llu %llu", &all, &resident) == 2;
  std::fclose(file);
  return read ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

ProcessStats process_stats() {
  ProcessStats out;
  out.resident_bytes = resident_bytes();
  rusage use{};
  if (getrusage(RUSAGE_SELF, &use) == 0) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    out.cpu_seconds = seconds(use.ru_utime) + seconds(use.ru_stime);
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) out.open_files_max = files.rlim_cur;
  out.open_files = open_files();
  return out;
}

NodeStats::Roles NodeStats::roles() const {
  Roles out;
  for (const Placement& placement : view->partitions) {
    if (placement.is_catching_up(node)) ++out.catching_up;
    if (!placement.is_in_sync(node)) continue;
    ++(placement.primary() == node ? out.primary : out.backup);
  }
  return out;
}

NodeStats node_stats_of(const Node& node) {
  NodeStats out;
  out.node = node.id();
  out.protocol = node.rows().names();
  out.view = node.state().views.published() != nullptr ? node.state().views.published() : node.state().views.first();
  out.change = node.last_change();
  out.worker_count = node.workers();
  for (int w = 0; w < node.workers(); ++w) {
    const TxnWorker* const txn_worker = node.txn_worker(WorkerId(static_cast<uint8_t>(w)));
    const WorkerStats of_one = txn_worker->stats();
    out.workers.counters.add(of_one.counters);
    out.workers.in_flight += of_one.in_flight;
    out.workers.verb_limit += of_one.verb_limit;
    out.latency_ns.merge(txn_worker->acks().latency_ns());
  }
  const Options& options = node.spec().options;
  out.in_flight_max = uint64_t{options.limits.transactions_in_flight_max} * static_cast<uint64_t>(node.workers());
  const NodeStats::Roles roles = out.roles();
  const uint64_t held = roles.primary + roles.backup + roles.catching_up;
  for (size_t t = 0; t < node.tables().count(); ++t) {
    const Table& table = *node.table(TableId(static_cast<uint16_t>(t)));
    out.records += table.records();
    out.records_max += table.records_max() * held;
    out.memory_bytes += table.memory_bytes();
    out.memory_bytes_max += table.memory_bytes_max();
  }
  return out;
}

nlohmann::json status_json(const NodeStats& node_stats) {
  nlohmann::json status;
  status["cluster"] = node_stats.cluster;
  status["node"] = node_stats.node.value;
  status["pid"] = getpid();
  status["fabric"] = node_stats.fabric;
  status["membership"] = node_stats.membership;
  status["protocol"] = node_stats.protocol;
  status["whole"] = node_stats.fully_replicated;
  status["stopped"] = node_stats.unavailable_reason;
  status["cut_off_ms"] = node_stats.cut_off_ns == 0 ? 0 : std::max<uint64_t>(node_stats.cut_off_ns / 1'000'000, 1);
  status["suspects"] = nlohmann::json::array();
  for (const NodeId node : node_stats.suspects) status["suspects"].push_back(node.value);
  const ViewChange& change = node_stats.change;
  status["change"] = {{"epoch", change.epoch},
                      {"open", change.open},
                      {"adopted_ns", change.adopted_ns},
                      {"active_ns", change.active_ns},
                      {"acknowledged_ns", change.acknowledged_ns}};
  const Counters& counters = node_stats.workers.counters;
  nlohmann::json aborts = nlohmann::json::object();
  for (int code = 1; code <= static_cast<int>(kLastReason); ++code) {
    if (counters.aborts_by_code[code] == 0) continue;
    aborts[std::string(code_name(static_cast<Code>(code)))] = counters.aborts_by_code[code];
  }
  uint64_t swaps = counters.own_swaps;
  for (const uint64_t of_phase : counters.phase_swaps) swaps += of_phase;
  const auto us = [&](double q) { return rounded(static_cast<double>(node_stats.latency_ns.quantile(q)) / 1000); };
  status["figures"] = {{"committed", counters.committed},
                       {"aborted", counters.aborted},
                       {"rejected", counters.rejected},
                       {"unknown", counters.unknown},
                       {"shipped", counters.shipped},
                       {"aborts", aborts},
                       {"swaps", swaps},  // CAS verbs
                       {"latency_us", {{"p50", us(0.5)}, {"p90", us(0.9)}, {"p99", us(0.99)}, {"p999", us(0.999)}}},
                       {"in_flight", node_stats.workers.in_flight},
                       {"in_flight_max", node_stats.in_flight_max},
                       {"workers", node_stats.worker_count},
                       {"own_doorbells", node_stats.own_doorbells},
                       {"clients", node_stats.clients},
                       {"clients_max", node_stats.clients_max},
                       {"commands", node_stats.commands},
                       {"clients_output_bytes", node_stats.clients_output_bytes},
                       {"clients_input_bytes", node_stats.clients_input_bytes},
                       {"clients_unauthenticated", node_stats.clients_unauthenticated},
                       {"wrong_passwords", node_stats.wrong_passwords},
                       {"turns_too_long", node_stats.turns_too_long},
                       {"turn_longest_us", node_stats.turn_longest_ns / 1000},
                       {"records", node_stats.records},
                       {"records_max", node_stats.records_max},
                       {"memory_bytes", node_stats.memory_bytes},
                       {"memory_bytes_max", node_stats.memory_bytes_max}};
  status["view"] = nlohmann::json::parse(to_json(*node_stats.view));
  return status;
}

nlohmann::json sample_of(const NodeStats& before, const NodeStats& now, double seconds) {
  const Counters& a = before.workers.counters;
  const Counters& b = now.workers.counters;
  const auto rate = [&](uint64_t from, uint64_t to) {
    return seconds <= 0 ? 0.0 : rounded(static_cast<double>(to - from) / seconds);
  };
  Histogram latency = now.latency_ns;
  latency.subtract(before.latency_ns);
  const auto us = [&](double q) { return rounded(static_cast<double>(latency.quantile(q)) / 1000); };
  nlohmann::json out = {
      {"pid", getpid()},
      {"epoch", now.view->epoch.value},
      {"committed_s", rate(a.committed, b.committed)},
      {"aborted_s", rate(a.aborted, b.aborted)},
      {"rejected_s", rate(a.rejected, b.rejected)},
      {"p50_us", us(0.5)},
      {"p90_us", us(0.9)},
      {"p99_us", us(0.99)},
      {"p999_us", us(0.999)},
      {"packet_messages", rounded(ratio(b.messages_sent - a.messages_sent, b.packets_sent - a.packets_sent))},
      {"table_batch", rounded(ratio(b.table_batched - a.table_batched, b.table_batches - a.table_batches))},
      {"in_flight", now.workers.in_flight},
      {"in_flight_max", now.in_flight_max},
      {"records", now.records},
      {"records_max", now.records_max},
      {"memory_bytes", now.memory_bytes},
      {"memory_bytes_max", now.memory_bytes_max},
      {"resident_bytes", process_stats().resident_bytes},
  };
  const uint64_t commits = b.commits_counted - a.commits_counted;
  out["round_trips"] = rounded(ratio(b.commit_round_trips - a.commit_round_trips, commits));
  for (size_t p = 0; p < kPhaseNames.size(); ++p) {
    const std::string phase(kPhaseNames[p]);
    out["rt_" + phase] = rounded(ratio(b.phase_round_trips[p] - a.phase_round_trips[p], commits));
    out["msg_" + phase] = rounded(ratio(b.phase_messages[p] - a.phase_messages[p], commits));
  }
  out["aborts"] = nlohmann::json::object();
  for (int code = 1; code <= static_cast<int>(kLastReason); ++code) {
    const double per_s = rate(a.aborts_by_code[code], b.aborts_by_code[code]);
    if (per_s > 0) out["aborts"][std::string(code_name(static_cast<Code>(code)))] = per_s;
  }
  return out;
}

nlohmann::json checked_sample(const nlohmann::json& sample) {
  nlohmann::json out;
  if (!sample.is_object()) return out;
  out = nlohmann::json::object();
  for (const std::string_view key : kSampleKeys) {
    const auto at = sample.find(key);
    if (at != sample.end() && at->is_number()) out[std::string(key)] = *at;
  }
  out["aborts"] = nlohmann::json::object();
  const auto aborts = sample.find("aborts");
  if (aborts == sample.end() || !aborts->is_object()) return out;
  for (const auto& [reason, rate] : aborts->items()) {
    if (out["aborts"].size() >= kReasonsMax || reason.size() > kReasonBytesMax || !rate.is_number()) continue;
    out["aborts"][reason] = rate;
  }
  return out;
}

}  // namespace weft
