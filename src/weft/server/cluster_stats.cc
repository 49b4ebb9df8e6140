#include "weft/server/cluster_stats.h"

#include <algorithm>
#include <utility>

#include "weft/redis/node_stats.h"

namespace weft {

namespace {

// Whether an event of received gossip is acceptable: flat, of bounded length, with what the page shows.
bool sound(const nlohmann::json& event) {
  if (!event.is_object() ||
      event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).size() > ClusterStats::kEventBytesMax) {
    return false;
  }
  for (const auto& [name, value] : event.items()) {
    if (value.is_structured()) return false;
  }
  const auto text = [&](const char* name) { return event.contains(name) && event[name].is_string(); };
  return text("time") && text("level") && text("event");
}

}  // namespace

void ClusterStats::add(NodeId node, nlohmann::json sample, uint64_t wall_ms, uint64_t now_ns) {
  Heard& heard = heard_[node.value];
  sample["at_ms"] = wall_ms;  // by this node's clock: the others' may be wrong
  heard.at_ns = now_ns;
  heard.samples.push_back(std::move(sample));
  if (heard.samples.size() > kSamples) heard.samples.pop_front();
}

void ClusterStats::add_event(nlohmann::json event) {
  events_.push_back(std::move(event));
  if (events_.size() > kEvents) events_.pop_front();
}

void ClusterStats::add_own(const std::vector<LoggedEvent>& events) {
  for (const LoggedEvent& event : events) {
    nlohmann::json parsed = nlohmann::json::parse(event.json(), nullptr, false);
    if (!sound(parsed)) continue;
    add_event(parsed);
    if (unsent_.size() < kGossipEvents) unsent_.push_back({{"number", event.number}, {"event", std::move(parsed)}});
  }
}

std::string ClusterStats::add_own(nlohmann::json sample, uint64_t wall_ms, uint64_t now_ns) {
  const nlohmann::json note = {{"sample", sample}, {"events", std::exchange(unsent_, nlohmann::json::array())}};
  add(self_, std::move(sample), wall_ms, now_ns);
  return note.dump();
}

bool ClusterStats::add_gossip(NodeId from, std::string_view text, uint64_t wall_ms, uint64_t now_ns) {
  const nlohmann::json note = nlohmann::json::parse(text, nullptr, false);
  if (!note.is_object() || !note.contains("sample") || from.value >= kNodesMax) return false;
  nlohmann::json sample = checked_sample(note["sample"]);
  if (!sample.is_object()) return false;
  Heard& heard = heard_[from.value];
  const int64_t pid = sample.contains("pid") ? sample["pid"].get<int64_t>() : 0;
  if (pid != heard.pid) heard.last_event = 0;
  heard.pid = pid;
  add(from, std::move(sample), wall_ms, now_ns);
  if (!note.contains("events") || !note["events"].is_array()) return true;
  size_t taken = 0;
  for (const nlohmann::json& said : note["events"]) {
    if (!said.is_object() || !said.contains("number") || !said["number"].is_number_unsigned() ||
        !said.contains("event") || !sound(said["event"]) || ++taken > kGossipEvents) {
      continue;
    }
    const auto number = said["number"].get<uint64_t>();
    if (number <= heard.last_event) continue;
    heard.last_event = number;
    nlohmann::json event = said["event"];
    event["node"] = from.value;
    add_event(std::move(event));
  }
  return true;
}

nlohmann::json ClusterStats::latest(uint64_t now_ns) const {
  nlohmann::json out = nlohmann::json::object();
  for (size_t n = 0; n < heard_.size(); ++n) {
    const Heard& heard = heard_[n];
    if (heard.samples.empty()) continue;
    out[std::to_string(n)] = {{"age_ms", (now_ns - std::min(now_ns, heard.at_ns)) / 1'000'000},
                              {"sample", heard.samples.back()}};
  }
  return out;
}

nlohmann::json ClusterStats::history() const {
  nlohmann::json nodes = nlohmann::json::object();
  for (size_t n = 0; n < heard_.size(); ++n) {
    if (heard_[n].samples.empty()) continue;
    nlohmann::json rows = nlohmann::json::array();
    for (const nlohmann::json& sample : heard_[n].samples) {
      nlohmann::json row = nlohmann::json::array();
      for (const std::string_view key : kHistoryKeys) {
        const auto at = sample.find(key);
        row.push_back(at == sample.end() ? nlohmann::json(0) : *at);
      }
      rows.push_back(std::move(row));
    }
    nodes[std::to_string(n)] = std::move(rows);
  }
  return {{"keys", kHistoryKeys}, {"nodes", std::move(nodes)}};
}

nlohmann::json ClusterStats::events() const {
  // Events of other nodes arrive up to a second late.
  std::vector<const nlohmann::json*> order;
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) order.push_back(&*event);
  std::stable_sort(order.begin(), order.end(), [](const nlohmann::json* a, const nlohmann::json* b) {
    return (*a)["time"].get_ref<const std::string&>() > (*b)["time"].get_ref<const std::string&>();
  });
  nlohmann::json out = nlohmann::json::array();
  for (const nlohmann::json* event : order) out.push_back(*event);
  return out;
}

}  // namespace weft
