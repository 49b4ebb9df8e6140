#include "weft/redis/command_stats.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "weft/redis/commands.h"

namespace weft {

size_t error_place(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  const auto at = std::find(kErrorNames.begin(), kErrorNames.end(), word);
  return at == kErrorNames.end() ? kErrorNames.size() - 1 : static_cast<size_t>(at - kErrorNames.begin());
}

void CommandTotals::add(const CommandStats& worker) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const CommandStats::Row& row = worker.rows[i];
    rows[i].calls += row.calls.read();
    rows[i].ns += row.ns.read();
    rows[i].rejected += row.rejected.read();
    rows[i].failed += row.failed.read();
  }
  for (size_t i = 0; i < errors.size(); ++i) errors[i] += worker.errors[i].read();
  connections += worker.connections.read();
  connections_refused += worker.connections_refused.read();
  read_bytes += worker.read_bytes.read();
  written_bytes += worker.written_bytes.read();
  expired_keys += worker.expired_keys.read();
  hits += worker.hits.read();
  misses += worker.misses.read();
}

void CommandTotals::subtract(const CommandTotals& before) {
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].calls -= before.rows[i].calls;
    rows[i].ns -= before.rows[i].ns;
    rows[i].rejected -= before.rows[i].rejected;
    rows[i].failed -= before.rows[i].failed;
  }
  for (size_t i = 0; i < errors.size(); ++i) errors[i] -= before.errors[i];
  commands -= before.commands;
  connections -= before.connections;
  connections_refused -= before.connections_refused;
  read_bytes -= before.read_bytes;
  written_bytes -= before.written_bytes;
  expired_keys -= before.expired_keys;
  hits -= before.hits;
  misses -= before.misses;
}

uint64_t CommandTotals::all_errors() const {
  uint64_t all = 0;
  for (const uint64_t count : errors) all += count;
  return all;
}

CommandStats* NodeCommandStats::of(WorkerId worker) {
  std::unique_ptr<CommandStats>& stats = workers_[worker.value];
  if (stats == nullptr) stats = std::make_unique<CommandStats>();
  return stats.get();
}

CommandTotals NodeCommandStats::all(uint64_t commands) const {
  CommandTotals totals;
  totals.commands = commands;
  for (const auto& worker : workers_) {
    if (worker != nullptr) totals.add(*worker);
  }
  return totals;
}

CommandTotals NodeCommandStats::totals(uint64_t commands) const {
  const std::scoped_lock lock(mutex_);
  CommandTotals totals = all(commands);
  totals.subtract(before_);
  return totals;
}

void NodeCommandStats::reset(uint64_t commands) {
  const std::scoped_lock lock(mutex_);
  before_ = all(commands);
}

uint64_t NodeCommandStats::rate(uint64_t commands, uint64_t now_ns) {
  constexpr uint64_t kWhileNs = 100'000'000;
  constexpr double kNsOfSecond = 1e9;
  const std::scoped_lock lock(mutex_);
  if (now_ns < asked_ns_ + kWhileNs) return rate_;
  const uint64_t passed_ns = now_ns - asked_ns_;
  rate_ = asked_ns_ == 0 ? 0
                         : static_cast<uint64_t>(static_cast<double>(commands - asked_commands_) * kNsOfSecond /
                                                 static_cast<double>(passed_ns));
  asked_ns_ = now_ns;
  asked_commands_ = commands;
  return rate_;
}

void IterationTimes::end(uint64_t took_ns, CommandStats& to) {
  if (count_ == 1) {  // mostly
    to.rows[ids_[0]].ns.add(took_ns);
    of_[ids_[0]] = 0;
    count_ = 0;
    return;
  }
  uint64_t all = 0;
  for (size_t i = 0; i < count_; ++i) all += of_[ids_[i]];
  for (size_t i = 0; i < count_; ++i) {
    uint64_t& of_one = of_[ids_[i]];
    const double part = static_cast<double>(of_one) / static_cast<double>(all);
    to.rows[ids_[i]].ns.add(static_cast<uint64_t>(std::llround(static_cast<double>(took_ns) * part)));
    of_one = 0;
  }
  count_ = 0;
}

std::string commandstats_text(const CommandTotals& totals) {
  std::string out;
  for (const Command* command : all_commands()) {
    const CommandTotals::Row& row = totals.rows[command->id];
    if (row.calls == 0 && row.rejected == 0 && row.failed == 0) continue;
    const uint64_t us = row.ns / 1000;
    const double us_per_call =
        row.calls == 0 ? 0.0 : static_cast<double>(row.ns) / 1000 / static_cast<double>(row.calls);
    char text[256];
    const int bytes = std::snprintf(
        text, sizeof text,
        "cmdstat_%s:calls=%llu,usec=%llu,usec_per_call=%.2f,rejected_calls=%llu,failed_calls=%llu\r\n", command->name,
        static_cast<unsigned long long>(row.calls), static_cast<unsigned long long>(us), us_per_call,
        static_cast<unsigned long long>(row.rejected), static_cast<unsigned long long>(row.failed));
    out.append(text, static_cast<size_t>(bytes));
  }
  return out;
}

std::string errorstats_text(const CommandTotals& totals) {
  std::string out;
  for (size_t i = 0; i < kErrorNames.size(); ++i) {
    if (totals.errors[i] == 0) continue;
    out.append("errorstat_").append(kErrorNames[i]).append(":count=").append(std::to_string(totals.errors[i])) +=
        "\r\n";
  }
  return out;
}

}  // namespace weft
