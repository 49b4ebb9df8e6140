// /metrics: a node's statistics in Prometheus's text format, version 0.0.4. docs/operations.md explains every name.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "weft/base/event_log.h"
#include "weft/redis/node_stats.h"

namespace weft {

struct MetricsExtra {
  std::array<uint64_t, kLevels> events{};
  uint64_t events_dropped = 0;
  uint64_t http_requests = 0;
  uint64_t http_wrong_passwords = 0;
};

std::string metrics_text(const NodeStats& node_stats, const ProcessStats& process, const MetricsExtra& extra);

}  // namespace weft
