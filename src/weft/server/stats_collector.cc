#include "weft/server/stats_collector.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "weft/server/metrics.h"

namespace weft {

namespace {

constexpr const char* kJson = "application/json";

std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

StatsCollector::StatsCollector(NodeId self, Sources sources)
    : self_(self), from_(std::move(sources)), cluster_stats_(self) {
  if (from_.http_routes == nullptr) return;
  from_.http_routes->route("/", "text/html; charset=utf-8", [] { return std::string(kStatusPage); });
  from_.http_routes->route("/status", kJson, [this] { return status(); });
  from_.http_routes->route("/history", kJson, [this] { return history(); });
  from_.http_routes->route("/metrics", "text/plain; version=0.0.4; charset=utf-8", [this] { return metrics(); });
}

StatsCollector::~StatsCollector() {
  if (from_.http_routes == nullptr) return;
  for (const char* path : {"/", "/status", "/history", "/metrics"}) from_.http_routes->route(path, {}, {});
}

std::string StatsCollector::step(NodeAgent* agent) {
  const uint64_t now_ns = from_.clock->now_ns();
  const uint64_t wall_ms = from_.events->wall_ms();
  if (agent != nullptr) {
    for (const NodeAgent::Gossip& note : agent->take_gossip())
      cluster_stats_.add_gossip(note.from, note.text, wall_ms, now_ns);
  }
  if (from_.events->last() != last_event_) {
    const std::vector<LoggedEvent> events = from_.events->since(last_event_);
    last_event_ = events.back().number;
    cluster_stats_.add_own(events);
  }
  if (now_ns < due_ns_) return {};
  due_ns_ = now_ns + kPeriodNs;
  say_wrong_passwords();
  std::optional<NodeStats> now = from_.node_stats();
  if (!now) return {};
  const double seconds = static_cast<double>(now_ns - before_ns_) / 1e9;
  nlohmann::json sample = sample_of(before_ ? *before_ : *now, *now, seconds);
  before_ = std::move(now);
  before_ns_ = now_ns;
  const std::string text = dump(sample);
  const std::string note = cluster_stats_.add_own(std::move(sample), wall_ms, now_ns);
  if (agent != nullptr) agent->send_gossip(note);
  return text;
}

void StatsCollector::say_wrong_passwords() {
  const uint64_t count = from_.http_routes == nullptr ? 0 : from_.http_routes->wrong_passwords();
  const uint64_t more = count - std::exchange(wrong_passwords_, count);
  if (more != 0) from_.events->emit(Level::kWarn, "http_password_wrong", {{"count", more}});
}

std::string StatsCollector::status() const {
  nlohmann::json status;
  if (const std::optional<NodeStats> node_stats = from_.node_stats()) {
    status = status_json(*node_stats);
  } else {
    status = {{"cluster", from_.cluster}, {"node", self_.value}, {"pid", getpid()}, {"whole", false}};
    status["stopped"] = "this node is not in the cluster yet";
  }
  status["nodes_max"] = from_.nodes;
  status["nodes"] = cluster_stats_.latest(from_.clock->now_ns());
  status["events"] = cluster_stats_.events();
  status["now_ms"] = from_.events->wall_ms();
  return dump(status);
}

std::string StatsCollector::history() const { return dump(cluster_stats_.history()); }

std::string StatsCollector::metrics() const {
  const std::optional<NodeStats> node_stats = from_.node_stats();
  if (!node_stats) return {};
  const MetricsExtra extra{from_.events->counts(), from_.events->dropped(), from_.http_routes->requests(),
                           from_.http_routes->wrong_passwords()};
  return metrics_text(*node_stats, process_stats(), extra);
}

}  // namespace weft
