#include "weft/server/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace weft {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string_view::npos;
}

// Takes a word from the front of a line, up to one of these characters, which stays.
std::string_view take(std::string_view& line, std::string_view until) {
  const size_t end = std::min(line.find_first_of(until), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

// {name="value",...} at the front of a line, with the escapes of the format.
bool take_labels(std::string_view& line) {
  do {
    line.remove_prefix(1);  // the brace, or a comma
    if (!is_name(take(line, "="))) return false;
    if (!line.starts_with("=\"")) return false;
    line.remove_prefix(2);
    while (!line.empty() && line[0] != '"') {
      if (line[0] == '\\' && (line.size() < 2 || std::string_view("\\\"n").find(line[1]) == std::string_view::npos)) {
        return false;
      }
      line.remove_prefix(line[0] == '\\' ? 2 : 1);
    }
    if (line.empty()) return false;
    line.remove_prefix(1);
  } while (line.starts_with(','));
  if (!line.starts_with('}')) return false;
  line.remove_prefix(1);
  return true;
}

// Reads the text strictly: every sample belongs to the family above it, no family and no sample comes twice.
std::map<std::string, double> parse(const std::string& text) {
  std::map<std::string, double> out;
  std::set<std::string> families;
  std::string family, type, line;
  EXPECT_TRUE(text.ends_with('\n'));
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    std::string_view rest = line;
    if (rest.starts_with("# HELP ")) {
      rest.remove_prefix(7);
      family = take(rest, " ");
      type.clear();
      EXPECT_TRUE(is_name(family) && rest.size() > 1) << line;
      EXPECT_TRUE(families.insert(family).second) << line;
      continue;
    }
    if (rest.starts_with("# TYPE ")) {
      rest.remove_prefix(7);
      EXPECT_EQ(take(rest, " "), family) << line;
      EXPECT_EQ(type, "") << line;
      type = rest.substr(1);
      EXPECT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << line;
      continue;
    }
    const std::string name(take(rest, "{ "));
    const bool of_histogram =
        type == "histogram" && (name == family + "_bucket" || name == family + "_sum" || name == family + "_count");
    EXPECT_TRUE(type == "histogram" ? of_histogram : name == family && !type.empty()) << line;
    EXPECT_TRUE(type != "counter" || name.ends_with("_total")) << line;
    if (rest.starts_with('{')) {
      EXPECT_TRUE(take_labels(rest)) << line;
    }
    EXPECT_TRUE(rest.starts_with(' ')) << line;
    const std::string sample = line.substr(0, line.size() - rest.size());
    size_t used = 0;
    const double value = std::stod(std::string(rest.substr(1)), &used);
    EXPECT_EQ(used, rest.size() - 1) << line;
    EXPECT_TRUE(out.emplace(sample, value).second) << line;
  }
  return out;
}

NodeStats some_figures() {
  NodeStats out;
  out.cluster = "a\"b\\c\nd";
  out.node = NodeId(1);
  out.fabric = "tcp";
  out.protocol = "dnl4";
  out.view = std::make_shared<const View>(make_view(3, 2, 6));
  out.fully_replicated = true;
  out.workers.counters.committed = 5;
  out.clients = 3;
  out.clients_max = 10;
  out.commands = 12;
  out.clients_idle = 2;
  out.clients_refused = 5;
  out.wrong_passwords = 6;
  out.workers.counters.aborts_by_code[static_cast<int>(Code::kLocked)] = 2;
  for (const uint64_t ns : {4'000U, 60'000U, 60'000U, 3'000'000U}) out.latency_ns.record(ns);
  return out;
}

TEST(Metrics, EveryLineIsOfTheFormat) {
  MetricsExtra extra;
  extra.events = {7, 1, 0};
  const auto samples = parse(metrics_text(some_figures(), process_stats(), extra));
  EXPECT_EQ(samples.at("weft_transactions_total{outcome=\"committed\"}"), 5);
  EXPECT_EQ(samples.at("weft_aborts_total{reason=\"locked\"}"), 2);
  EXPECT_EQ(samples.at("weft_events_total{level=\"info\"}"), 7);
  EXPECT_EQ(samples.at("weft_partitions{role=\"primary\"}"), 2);
  EXPECT_EQ(samples.at("weft_partitions{role=\"backup\"}"), 2);
  EXPECT_EQ(samples.at("weft_epoch"), 1);
  EXPECT_EQ(samples.at("weft_clients"), 3);
  EXPECT_EQ(samples.at("weft_clients_max"), 10);
  EXPECT_EQ(samples.at("weft_commands_total"), 12);
  EXPECT_EQ(samples.at("weft_clients_closed_total{reason=\"idle\"}"), 2);
  EXPECT_EQ(samples.at("weft_clients_refused_total"), 5);
  EXPECT_EQ(samples.at("weft_wrong_passwords_total"), 6);
  EXPECT_GT(samples.at("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(samples.at("process_open_fds"), 0);
}

TEST(Metrics, TheHistogramCountsUpwards) {
  const auto samples = parse(metrics_text(some_figures(), {}, {}));
  EXPECT_EQ(samples.at("weft_transaction_seconds_bucket{le=\"5e-06\"}"), 1);
  EXPECT_EQ(samples.at("weft_transaction_seconds_bucket{le=\"1e-04\"}"), 3);
  EXPECT_EQ(samples.at("weft_transaction_seconds_bucket{le=\"+Inf\"}"), 4);
  EXPECT_EQ(samples.at("weft_transaction_seconds_count"), 4);
  EXPECT_NEAR(samples.at("weft_transaction_seconds_sum"), 0.003124, 1e-9);
}

}  // namespace
}  // namespace weft
