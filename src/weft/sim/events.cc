#include "weft/sim/events.h"

#include <array>

namespace weft {

namespace {

// Nanoseconds on one server core, by order of magnitude. Profiles of real hardware can replace them.
constexpr std::array<uint64_t, static_cast<size_t>(CostStep::kCount)> kCostNs = [] {
  std::array<uint64_t, static_cast<size_t>(CostStep::kCount)> cost{};
  cost[static_cast<size_t>(CostStep::kLoop)] = 60;
  cost[static_cast<size_t>(CostStep::kResume)] = 20;
  cost[static_cast<size_t>(CostStep::kLookup)] = 60;
  cost[static_cast<size_t>(CostStep::kMessage)] = 15;
  cost[static_cast<size_t>(CostStep::kPacket)] = 120;
  cost[static_cast<size_t>(CostStep::kCopyLine)] = 4;
  cost[static_cast<size_t>(CostStep::kVerb)] = 100;
  return cost;
}();

}  // namespace

void SimCostModel::charge(CostStep step, uint64_t n) { total_ns_ += kCostNs[static_cast<size_t>(step)] * n; }

}  // namespace weft
