// VerbCredit: how many one-sided verbs a worker may have in flight, so that they stay within what its NIC caches. This
// is the work-request throttling of SMART (ASPLOS 2024, Algorithm 1): a verb takes credit when it is posted and gives
// it back when it is complete, and the worker measures now and then which limit lets most of them complete.
//
// An epoch measures five limits for a period each, then keeps the best for 60 periods. A lower limit may leave more in
// flight than it allows; then nothing is posted until enough of that is complete. A worker with little to do, or whose
// verbs never wait for credit, measures nothing that says which limit is best: it keeps the one that it had.
//
// What does not fit the limit at all is posted when nothing is in flight. Urgent verbs may overdraw the credit by one
// batch. It belongs to one worker, whose issuers share it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "weft/base/bugs.h"

namespace weft {

struct VerbCreditOptions {
  uint32_t limit = 0;  // 0: measured
  uint64_t period_ns = 8'000'000;
  uint32_t stable_periods = 60;
  uint32_t completions_min = 1000;  // in a period; a worker that completes fewer is idle
  PlantedBugs bugs{};
};

class VerbCredit {
 public:
  static constexpr std::array<uint32_t, 5> kLimits = {4, 6, 8, 10, 12};

  explicit VerbCredit(const VerbCreditOptions& options);

  // Whether `verbs` more may be posted in a batch that has `batched` already.
  bool allows(size_t batched, size_t verbs, bool urgent) const {
    if (urgent) return in_flight_ <= limit_;
    if (in_flight_ + batched + verbs <= limit_) return true;
    return in_flight_ + batched == 0 && !options_.bugs.has(PlantedBug::kMoreThanAllCredit);
  }
  bool allows_all(size_t verbs) const { return in_flight_ + verbs <= limit_; }

  void take(size_t verbs) { in_flight_ += verbs; }
  // `complete`: they were executed; otherwise refused or given up.
  void give_back(size_t verbs, bool complete) {
    in_flight_ -= verbs;
    if (complete) completed_ += verbs;
  }
  // The limit as the worker's clock has it.
  void step(uint64_t now_ns) {
    if (now_ns >= due_ns_) advance(now_ns);
  }

  uint32_t limit() const { return limit_; }
  size_t in_flight() const { return in_flight_; }

  // Credit was short. A request has waited for it if it happened between its sending and its posting.
  void note_shortage() { ++shortages_; }
  uint64_t shortages() const { return shortages_; }
  void note_wait() { ++waits_; }
  uint64_t waits() const { return waits_; }

 private:
  void advance(uint64_t now_ns);
  void begin_epoch();
  bool end_period(uint64_t now_ns);

  const VerbCreditOptions options_;
  uint32_t limit_;
  size_t in_flight_ = 0;
  uint64_t completed_ = 0;  // in this period
  uint64_t shortages_ = 0;
  uint64_t waits_ = 0;

  size_t measured_ = kLimits.size();  // of kLimits in this epoch; all: the limit is stable
  uint64_t began_ns_ = 0, due_ns_ = 0;
  uint64_t shortages_before_ = 0;
  uint32_t limit_before_epoch_ = 0;
  uint64_t shortages_before_epoch_ = 0;
  uint32_t best_ = 0;
  uint64_t best_completed_ = 0;
};

}  // namespace weft
