#include "weft/fabric/verb_credit.h"

namespace weft {

VerbCredit::VerbCredit(const VerbCreditOptions& options)
    : options_(options),
      limit_(options.limit != 0 ? options.limit : kLimits.back()),
      due_ns_(options.limit != 0 ? UINT64_MAX : 0) {}

void VerbCredit::advance(uint64_t now_ns) {
  if (measured_ == kLimits.size()) {
    begin_epoch();
  } else if (end_period(now_ns)) {
    ++measured_;
  } else {
    measured_ = kLimits.size();
    best_completed_ = 0;
  }
  const bool stable = measured_ == kLimits.size();
  if (!stable) {
    limit_ = kLimits[measured_];
  } else {
    const bool decided = best_completed_ >= options_.completions_min && shortages_ != shortages_before_epoch_;
    limit_ = decided ? best_ : limit_before_epoch_;
  }
  completed_ = 0;
  shortages_before_ = shortages_;
  began_ns_ = now_ns;
  due_ns_ = now_ns + options_.period_ns * (stable ? options_.stable_periods : 1);
}

void VerbCredit::begin_epoch() {
  measured_ = 0;
  limit_before_epoch_ = limit_;
  shortages_before_epoch_ = shortages_;
  best_ = limit_;
  best_completed_ = 0;
}

// Returns false if the worker was idle. A sleeping worker ends its period late: what counts is the rate.
bool VerbCredit::end_period(uint64_t now_ns) {
  const uint64_t completed = completed_ * options_.period_ns / (now_ns - began_ns_);
  if (completed < options_.completions_min && shortages_ == shortages_before_) return false;
  if (completed > best_completed_) {
    best_completed_ = completed;
    best_ = limit_;
  }
  return true;
}

}  // namespace weft
