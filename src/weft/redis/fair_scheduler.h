// FairScheduler: how much work for clients one turn of a worker does, and who goes on next.
//
// A worker that is away from its loop for longer than a lease is taken for dead, whatever it did meanwhile. So a turn
// has a budget, in estimated nanoseconds (cost.h) that the clock corrects upwards. Whoever would go on when it is spent
// waits for a later turn. There are two places to wait: outside, before a transaction has begun, and inside one,
// between two of its commands, where a slot of the worker's is held. Next goes who has had least so far, as fair
// queueing has it: a client that comes after a pause starts level with those that are there. So many clients that ask
// for much share the budget, and one that asks for little does not wait for them: up to kSmallNs are allowed to each
// client in a turn that is spent, until the turn is kCeiling times as long as it should be.
//
// Who waited outside pays what its commands cost lately in advance, so that no more begin than the budget has room for.
// Of those whose commands cost much none begins while `inside_max` wait inside: the worker's slots are for everybody.
//
// It belongs to its worker's thread.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "weft/run/worker.h"

namespace weft {

class FairScheduler {
 public:
  static constexpr uint64_t kSmallNs = 20'000;
  static constexpr uint64_t kCeiling = 4;
  static constexpr uint64_t kHalfLifeNs = 10'000'000;  // of a client that asks for nothing: half of what it asked for

  // A client's.
  struct Share {
    uint64_t turn = 0;            // in which it worked last
    uint64_t worked_ns = 0;       // when that began
    uint64_t spent_ns = 0;        // in that one
    uint64_t virtual_ns = 0;      // so far, on the scale of those that share
    uint64_t recent_cost_ns = 0;  // what its commands cost: the dearest counts, less with every command and with time
    uint64_t prepaid_ns = 0;      // in advance
  };
  // What has taken longest in this turn, by the clock.
  struct Longest {
    std::string_view what;
    uint64_t took_ns = 0, estimated_ns = 0;
  };
  enum class WaitPoint : uint8_t { kBeforeTxn, kInsideTxn };

  struct [[nodiscard]] Wait {
    FairScheduler* scheduler;
    Share* share;
    WaitPoint where;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const { scheduler->enqueue(share, where, h); }
    void await_resume() const noexcept {}
  };

  // The clock is the worker's, and outlives it.
  FairScheduler(uint64_t budget_ns, size_t inside_txn_max, const Worker* clock)
      : budget_ns_(budget_ns), inside_txn_max_(inside_txn_max), clock_(clock) {}

  // A turn begins now.
  void begin(uint64_t now_ns);
  // Resumes those who waited, as long as the budget lasts. True if there was somebody.
  bool resume_waiting();
  // Work was done for a client, named for people.
  void charge(Share& share, uint64_t ns, std::string_view what);
  // It was a command. `looks`: what it cost is not known well, the clock knows.
  void charge_command(Share& share, uint64_t ns, std::string_view what, bool measured = false);
  // A client that is about to do something is to wait instead.
  bool over(Share& share) const;
  // It asked for much, last, and so do enough others.
  bool full(const Share& share) const { return large(share) && inside() >= inside_txn_max_; }
  // A transaction of so much: nobody should wait for it in a line.
  bool heavy(const Share& share) const { return share.recent_cost_ns > budget_ns_; }
  // Goes on in a later turn.
  Wait wait(Share& share, WaitPoint where) { return {this, &share, where}; }

  uint64_t budget_ns() const { return budget_ns_; }
  uint64_t spent_ns() const { return spent_ns_; }  // in this turn
  // About now: the clock as it was read last, and what was done since. It may go back a little when a turn begins.
  uint64_t now_ns() const { return clock_ns_ + (spent_ns_ - clock_spent_ns_); }
  void set_budget_ns(uint64_t ns) { budget_ns_ = ns; }
  const Longest& longest() const { return longest_; }
  size_t inside() const { return inside_.size(); }
  bool waiting() const { return !inside_.empty() || !outside_.empty() || !large_.empty(); }

 private:
  using Waiting = std::multimap<uint64_t, std::pair<Share*, std::coroutine_handle<>>>;  // by had_ns

  void enqueue(Share* share, WaitPoint where, std::coroutine_handle<> h);
  static bool large(const Share& share) { return share.recent_cost_ns > kSmallNs; }
  void enter(Share& share) const;
  void read_clock(uint64_t ns, std::string_view what);
  Waiting* next();

  uint64_t budget_ns_;
  const size_t inside_txn_max_;
  const Worker* const clock_;
  uint64_t turn_ = 1;
  uint64_t began_ns_ = 0;
  uint64_t spent_ns_ = 0;
  uint64_t clock_ns_ = 0;        // the clock then
  uint64_t clock_spent_ns_ = 0;  // what was spent then
  uint64_t virtual_ns_ = 0;      // what those who go on have had
  Longest longest_;
  Waiting inside_, outside_;
  Waiting large_;  // outside
};

}  // namespace weft
