#include "weft/run/conflict_avoidance.h"

#include <algorithm>

#include "weft/base/check.h"

namespace weft {

namespace {

// Evaluations of an idle worker, one after another, after which c_max and t_max are where no retry would leave them.
constexpr uint64_t kQuietMax = 32 + ConflictAvoidance::kLongestLimit;

}  // namespace

ConflictAvoidance::ConflictAvoidance(const ConflictAvoidanceOptions& options)
    : options_(options),
      measures_(options.backoff && options.unit_ns == 0),
      credit_(options.depth),
      limit_(options.backoff_limit ? 0 : kFixedLimit),
      unit_ns_(options.unit_ns != 0 ? options.unit_ns : kUnknownUnitNs),
      due_ns_(options.coroutine_credit || options.backoff ? 0 : UINT64_MAX) {
  WEFT_CHECK(options.depth >= 1, "one operation may always be in progress");
}

uint64_t ConflictAvoidance::delay_ns(uint32_t retry, uint64_t now_ns, Random& random) {
  if (!options_.backoff) return 0;
  const uint64_t delay_ns = (unit_ns_ << std::min(retry, limit_)) + random.below(unit_ns_ + 1);
  backs_off_until_ns_ = std::max(backs_off_until_ns_, now_ns + delay_ns);
  return delay_ns;
}

// Time passes between two calls; what was counted meanwhile belongs to the first evaluation.
bool ConflictAvoidance::evaluate_until(uint64_t now_ns) {
  const uint32_t credit_before = credit_;
  if (due_ns_ == 0) due_ns_ = now_ns + kEpochNs;  // the first call
  measure_unit(now_ns);
  for (uint64_t n = 0; n < kQuietMax && due_ns_ <= now_ns; ++n) {
    evaluate(due_ns_);
    due_ns_ += kEpochNs;
  }
  if (due_ns_ <= now_ns) due_ns_ = now_ns + kEpochNs;
  return credit_ > credit_before;
}

void ConflictAvoidance::evaluate(uint64_t end_ns) {
  const uint64_t all = retries_ + operations_;
  const bool quiet = all == 0 && in_progress_ == 0 && end_ns >= backs_off_until_ns_;
  if (all != 0 && retries_ * 2 > all) shrink();
  if (quiet || (all != 0 && retries_ * 10 < all)) grow();
  retries_ = operations_ = 0;
}

void ConflictAvoidance::shrink() {
  if (options_.coroutine_credit && credit_ > 1) {
    credit_ /= 2;
  } else if (options_.backoff_limit && limit_ < kLongestLimit) {
    ++limit_;
  }
}

void ConflictAvoidance::grow() {
  if (options_.coroutine_credit && credit_ < options_.depth) {
    credit_ = credit_ > options_.depth / 2 ? options_.depth : credit_ * 2;
  } else if (options_.backoff_limit && limit_ > 0) {
    --limit_;
  }
}

void ConflictAvoidance::measure_unit(uint64_t now_ns) {
  if (!measures_) return;
  if (shortest_ns_ != UINT64_MAX) round_trips_.note(shortest_ns_, now_ns);
  shortest_ns_ = UINT64_MAX;
  const uint64_t shortest_ns = round_trips_.shortest_ns(now_ns);
  if (shortest_ns != UINT64_MAX) unit_ns_ = std::clamp(shortest_ns, kUnitNsMin, kUnitNsMax);
}

}  // namespace weft
