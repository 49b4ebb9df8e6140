#include "weft/cli/live_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weft::cli {
namespace {

double number(const nlohmann::json& sample, const char* key) {
  const auto at = sample.find(key);
  return at != sample.end() && at->is_number() ? at->get<double>() : 0;
}

std::string grouped(double value) {
  std::string text = fmt::format("{:.0f}", value);
  for (auto at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string latency(double us) { return us >= 1000 ? fmt::format("{:.1f}ms", us / 1000) : fmt::format("{:.0f}us", us); }

}  // namespace

std::string live_line(const View& view, const std::vector<nlohmann::json>& samples, size_t width) {
  double committed = 0, aborted = 0, p50 = 0, p99 = 0, memory = 0, memory_max = 0;
  size_t answering = 0;
  for (const nlohmann::json& sample : samples) {
    if (!sample.is_object()) continue;
    ++answering;
    committed += number(sample, "committed_s");
    aborted += number(sample, "aborted_s") + number(sample, "rejected_s");
    p50 = std::max(p50, number(sample, "p50_us"));
    p99 = std::max(p99, number(sample, "p99_us"));
    memory += number(sample, "memory_bytes");
    memory_max += number(sample, "memory_bytes_max");
  }
  std::string line =
      fmt::format("epoch {}, {} of {} nodes, {} | {} txn/s | p50 {} p99 {} | {} aborts/s | memory {:.1f}%",
                  view.epoch.value, std::min(answering, view.members.size()), samples.size(),
                  view.fully_replicated() && answering == samples.size() ? "whole" : "healing", grouped(committed),
                  latency(p50), latency(p99), grouped(aborted), memory_max > 0 ? 100 * memory / memory_max : 0.0);
  // A line that wraps could not be rewritten.
  if (line.size() > width) line.resize(width);
  return line;
}

}  // namespace weft::cli
