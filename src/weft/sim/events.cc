#include "weft/sim/events.h"

#include <array>

namespace weft {

namespace {

// Nanoseconds of one server core, coarse: the sizes of the machine table in orders of magnitude. Profiles of real
// hardware replace them.
constexpr std::array<uint64_t, static_cast<size_t>(Step::kCount)> kCostNs = [] {
  std::array<uint64_t, static_cast<size_t>(Step::kCount)> cost{};
  cost[static_cast<size_t>(Step::kLoop)] = 60;
  cost[static_cast<size_t>(Step::kResume)] = 20;
  cost[static_cast<size_t>(Step::kLookup)] = 60;
  cost[static_cast<size_t>(Step::kMessage)] = 15;
  cost[static_cast<size_t>(Step::kPacket)] = 120;
  cost[static_cast<size_t>(Step::kCopyLine)] = 4;
  cost[static_cast<size_t>(Step::kVerb)] = 100;
  return cost;
}();

}  // namespace

void SimCharges::charge(Step step, uint64_t n) { total_ns_ += kCostNs[static_cast<size_t>(step)] * n; }

}  // namespace weft
