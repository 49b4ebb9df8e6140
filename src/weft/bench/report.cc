#include "weft/bench/report.h"
#include "weft/txn/protocol.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <numeric>

namespace weft::bench {
namespace {

double per(uint64_t a, uint64_t b) { return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b); }

void spread(const DriveResult& result, Report& report) {
  std::vector<double> slices = result.slice_tps;
  if (slices.empty()) return;
  std::sort(slices.begin(), slices.end());
  report.tps_min = slices.front();
  report.tps_median = slices[slices.size() / 2];
  report.tps_max = slices.back();
}

}  // namespace

Report make_report(const std::string& workload, const Options& options, const DriveResult& result) {
  Report report;
  report.workload = workload;
  report.protocol = options.protocol;
  report.fabric = options.fabric + (options.tls.ca.empty() ? "" : "+tls");
  report.nodes = options.nodes;
  report.replicas = options.replicas;
  report.threads = options.threads > 0 ? options.threads : options.workers;
  report.inflight = options.limits.transactions_in_flight_max;
  report.seconds = result.seconds;
  report.committed = result.committed;
  report.refused = result.refused;
  report.aborted = result.aborted;
  report.tps = result.seconds > 0 ? static_cast<double>(result.committed) / result.seconds : 0;
  report.tps_per_thread = report.tps / report.threads;
  spread(result, report);
  const auto us = [&](double q) { return static_cast<double>(result.latency_ns.quantile(q)) / 1e3; };
  report.p50_us = us(0.5);
  report.p90_us = us(0.9);
  report.p99_us = us(0.99);
  report.p999_us = us(0.999);
  const Counters& c = result.counters;
  report.nw_batch = per(c.messages_sent, c.packets_sent);
  report.ht_batch = per(c.table_batched, c.table_batches);
  report.packets_per_txn = per(c.packets_sent, result.committed);
  report.messages_per_txn = per(c.messages_sent, result.committed);
  report.bytes_per_txn = per(c.bytes_sent, result.committed);
  const auto all = [](const uint64_t(&phases)[5]) { return std::accumulate(phases, phases + 5, uint64_t{0}); };
  report.reads_per_txn = per(all(c.phase_reads), result.committed);
  report.writes_per_txn = per(all(c.phase_writes), result.committed);
  report.swaps_per_txn = per(all(c.phase_swaps), result.committed);
  report.doorbells_per_txn = per(c.doorbells, result.committed);
  report.verb_limit = per(c.verb_limits, c.doorbells);
  report.verb_credit_waits_per_txn = per(c.verb_credit_waits, result.committed);
  for (int p = 0; p < kPhases; ++p) {
    const std::string name(phase_name(static_cast<Phase>(p)));
    const uint64_t verbs = c.phase_reads[p] + c.phase_writes[p] + c.phase_swaps[p];
    if (c.phase_messages[p] != 0) report.messages_by_phase[name] = per(c.phase_messages[p], result.committed);
    if (verbs != 0) report.verbs_by_phase[name] = per(verbs, result.committed);
  }
  report.touches_per_txn = per(c.records_touched, result.committed);
  report.attempts_per_txn = per(result.committed + result.aborted, result.committed);
  report.commit_round_trips = per(c.commit_round_trips, c.commits_counted);
  report.local_share = per(c.local_gets, c.local_gets + c.remote_gets);  // local_gets includes those at a backup
  for (size_t i = 0; i < result.aborts_by_code.size(); ++i) {
    if (result.aborts_by_code[i] == 0) continue;
    report.abort_reasons[std::string(code_name(static_cast<Code>(i)))] = result.aborts_by_code[i];
  }
  return report;
}

std::string with_commas(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t i = digits.size(); i > 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string millions(double per_second) {
  return per_second >= 99'950 ? fmt::format("{:.2f} M", per_second / 1e6) : fmt::format("{:.1f} k", per_second / 1e3);
}

std::string micros(double us) { return fmt::format("{:.{}f}", us, us < 10 ? 2 : us < 100 ? 1 : 0); }

void print_text(std::ostream& out, const Report& r) {
  fmt::print(out, "{}, {}, {} fabric: {} nodes, {} replicas, {} threads, {} in flight a worker, {:.1f} s\n", r.workload,
             r.protocol, r.fabric, r.nodes, r.replicas, r.threads, r.inflight, r.seconds);
  fmt::print(out, "  committed    {} ({} of them answered no)\n", with_commas(r.committed), with_commas(r.refused));
  fmt::print(out, "  throughput   {} txn/s, {} a thread (slices: {} to {}, median {})\n", millions(r.tps),
             millions(r.tps_per_thread), millions(r.tps_min), millions(r.tps_max), millions(r.tps_median));
  fmt::print(out, "  latency      p50 {} us, p90 {} us, p99 {} us, p99.9 {} us\n", micros(r.p50_us), micros(r.p90_us),
             micros(r.p99_us), micros(r.p999_us));
  fmt::print(out, "  aborts       {} of {} attempts", with_commas(r.aborted), with_commas(r.committed + r.aborted));
  for (const auto& [name, count] : r.abort_reasons) fmt::print(out, ", {} {}", name, with_commas(count));
  fmt::print(out, "\n  batches      {:.1f} messages a packet, {:.1f} keys a table batch\n", r.nw_batch, r.ht_batch);
  fmt::print(
      out,
      "  a commit     {:.2f} round trips, {:.2f} packets, {:.2f} messages, {:.0f} bytes, {:.2f} records touched; "
      "{:.0f} % of reads on their own node\n",
      r.commit_round_trips, r.packets_per_txn, r.messages_per_txn, r.bytes_per_txn, r.touches_per_txn,
      100 * r.local_share);
}

}  // namespace weft::bench
