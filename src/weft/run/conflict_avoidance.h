// ConflictAvoidance: how long the operations of one worker wait before they retry after a conflict, and how many of
// them may be in progress at a time. SMART (ASPLOS 2024), section 4.3, in nanoseconds of the worker's clock.
//
// Backoff: before its i-th retry, from 0, an operation waits min(t0 * 2^i, t_max) + Rand(t0). The unit t0 is a round
// trip of the fabric. Every millisecond the worker compares its retry rate, gamma = retries / (retries + operations
// that ended), with two marks. Above 0.5 it halves the credit c_max, how many operations may be in progress, or, where
// that is 1, doubles t_max. Below 0.1 it doubles c_max, or, where that is at its depth, halves t_max.
//
// I1: t0 <= t_max <= t_M = 2^10 * t0, also while the measured t0 changes: t_max is kept as a multiple of it.
// I2: 1 <= c_max <= depth.
// I3: one evaluation changes c_max or t_max, never both, and by a factor of two.
// I4: a millisecond in which nothing ended decides nothing while operations are in progress or back off. Without those
//     it counts as one without retries: a worker that has become idle finds its c_max again.
//
// Plain data: it neither reads a clock nor wakes anybody. The caller takes credit when an operation begins, gives it
// back when it ends, and calls step() by its own timer. Whoever waits for credit must hold nothing.
#pragma once

#include <cstdint>

#include "weft/base/random.h"
#include "weft/run/round_trips.h"

namespace weft {

struct ConflictAvoidanceOptions {
  uint32_t depth = UINT32_MAX;    // operations in progress at a time, at most; at least 1
  uint64_t unit_ns = 0;           // t0; 0: the shortest round trip of the last second
  bool backoff = false;           // off: delays are 0
  bool backoff_limit = false;     // off: t_max is 2^kFixedLimit * t0
  bool coroutine_credit = false;  // off: c_max is the depth, and t_max alone follows the retry rate
};

class ConflictAvoidance {
 public:
  static constexpr uint64_t kEpochNs = 1'000'000;
  static constexpr uint32_t kLongestLimit = 10;  // t_M is 2^this * t0
  static constexpr uint32_t kFixedLimit = 5;
  // While no round trip has been measured: that of an RDMA NIC. A measured one is at least as long as a step of the
  // worker's loop on a fast fabric, and longer ones than the maximum are not the fabric's.
  static constexpr uint64_t kUnknownUnitNs = 2'000, kUnitNsMin = 500, kUnitNsMax = 1'000'000;

  ConflictAvoidance() : ConflictAvoidance(ConflictAvoidanceOptions()) {}
  explicit ConflictAvoidance(const ConflictAvoidanceOptions& options);

  bool backs_off() const { return options_.backoff; }
  // How long to wait before the retry of this number, from 0. Must not be called while holding a lock.
  uint64_t delay_ns(uint32_t retry, uint64_t now_ns, Random& random);

  // Credit.
  bool may_begin() const { return in_progress_ < credit_; }
  void begin() { ++in_progress_; }
  void end() { --in_progress_; }

  // What gamma counts: attempts that conflicted, so that trying again can help; and operations that ended otherwise.
  void count_retry() { ++retries_; }
  void count_operation() { ++operations_; }

  bool measures() const { return measures_; }
  // A worker's clock stands still during a step: what began and ended in the same one is not measured.
  void note_round_trip(uint64_t began_ns, uint64_t now_ns) {
    if (now_ns - began_ns - 1 < shortest_ns_ - 1) shortest_ns_ = now_ns - began_ns;
  }

  // The worker's timer. True if more operations may begin than before.
  bool step(uint64_t now_ns) { return now_ns >= due_ns_ && evaluate_until(now_ns); }
  uint64_t due_ns() const { return due_ns_; }  // of the next evaluation; UINT64_MAX: there is none

  uint32_t credit() const { return credit_; }                              // c_max
  uint64_t unit_ns() const { return unit_ns_; }                            // t0
  uint64_t limit_ns() const { return unit_ns_ << limit_; }                 // t_max
  uint64_t longest_limit_ns() const { return unit_ns_ << kLongestLimit; }  // t_M
  // Since the last evaluation.
  uint64_t retries() const { return retries_; }
  uint64_t operations() const { return operations_; }
  uint32_t in_progress() const { return in_progress_; }

 private:
  bool evaluate_until(uint64_t now_ns);
  void evaluate(uint64_t end_ns);
  void shrink();
  void grow();
  void measure_unit(uint64_t now_ns);

  ConflictAvoidanceOptions options_;
  bool measures_;
  uint32_t credit_;
  uint32_t limit_;  // t_max is 2^this * t0
  uint64_t unit_ns_;
  uint32_t in_progress_ = 0;
  uint64_t retries_ = 0, operations_ = 0;  // since the last evaluation
  uint64_t backs_off_until_ns_ = 0;        // the end of the last delay
  uint64_t due_ns_;
  uint64_t shortest_ns_ = UINT64_MAX;  // of the round trips since the last evaluation
  RoundTrips round_trips_;
};

}  // namespace weft
