// StatsCollector: samples a node once a second, keeps what the cluster's nodes report about themselves
// (cluster_stats.h), and serves /status, /metrics and / from it. It is owned by the control thread and reads what
// workers publish; it asks nothing of them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "weft/base/clock.h"
#include "weft/base/event_log.h"
#include "weft/member/node_agent.h"
#include "weft/redis/node_stats.h"
#include "weft/server/cluster_stats.h"
#include "weft/server/http_routes.h"

namespace weft {

class StatsCollector {
 public:
  static constexpr uint64_t kPeriodNs = 1'000'000'000;

  struct Sources {
    std::function<std::optional<NodeStats>()> node_stats;  // nothing while the node is not in the cluster
    std::string cluster;
    int nodes = 0;  // the largest possible number
    EventLog* events = nullptr;
    HttpRoutes* http_routes = nullptr;  // may be nullptr
    Clock* clock = nullptr;
  };

  StatsCollector(NodeId self, Sources sources);
  ~StatsCollector();  // removes its pages
  StatsCollector(const StatsCollector&) = delete;
  StatsCollector& operator=(const StatsCollector&) = delete;

  // Does what is due: handles received gossip, and once a second takes a sample, which it returns (empty otherwise).
  std::string step(NodeAgent* agent);
  uint64_t due_ns() const { return due_ns_; }  // of the next sample

 private:
  void say_wrong_passwords();
  std::string status() const;
  std::string history() const;
  std::string metrics() const;

  const NodeId self_;
  const Sources from_;
  ClusterStats cluster_stats_;
  std::optional<NodeStats> before_;
  uint64_t before_ns_ = 0;
  uint64_t due_ns_ = 0;
  uint64_t last_event_ = 0;
  uint64_t wrong_passwords_ = 0;  // already logged
};

extern const std::string_view kStatusPage;  // status_page.html

}  // namespace weft
