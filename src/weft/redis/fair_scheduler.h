// FairScheduler: how much work for clients one turn (loop iteration) of a worker does, and which client goes next.
//
// A worker that does not return to its loop for longer than a lease is considered dead, whatever it did meanwhile. So
// a turn has a budget, in estimated nanoseconds (cost.h) that the clock corrects upwards. A client that would continue
// when the budget is spent waits for a later turn. There are two places to wait: before a transaction has begun, and
// inside one, between two of its commands, where it holds one of the worker's slots. The client that has had least so
// far goes next, as in fair queueing: a client that comes after a pause starts level with the others. So many
// expensive clients share the budget, and a cheap one does not wait for them: each client may use up to kSmallNs in a
// turn whose budget is spent, until the turn is kCeiling times as long as it should be.
//
// A client that waited before its transaction prepays what its commands recently cost, so that no more begin than the
// budget has room for. Expensive clients do not begin while `inside_txn_max` wait inside transactions: the worker's
// slots are for everybody.
//
// It is owned by its worker's thread.
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
  static constexpr uint64_t kHalfLifeNs = 10'000'000;  // time in which the recent cost of an idle client is halved

  // A client's share of the worker's time.
  struct Share {
    uint64_t turn = 0;        // in which it last worked
    uint64_t worked_ns = 0;   // when that turn began
    uint64_t spent_ns = 0;    // in that turn
    uint64_t virtual_ns = 0;  // virtual time: what it has had so far, level with the others
    // cost of its commands: the most expensive counts, decaying with every command and with time
    uint64_t recent_cost_ns = 0;
    uint64_t prepaid_ns = 0;
  };
  // What took longest in this turn, by the clock.
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

  // `clock` is the worker, and outlives this object.
  FairScheduler(uint64_t budget_ns, size_t inside_txn_max, const Worker* clock)
      : budget_ns_(budget_ns), inside_txn_max_(inside_txn_max), clock_(clock) {}

  // A turn begins now.
  void begin(uint64_t now_ns);
  // Resumes waiting clients as long as the budget lasts. Returns whether there were any.
  bool resume_waiting();
  // Charges work done for a client; `what` names it for people.
  void charge(Share& share, uint64_t ns, std::string_view what);
  // The same for a command. `measured`: the estimate is poor, so read the clock.
  void charge_command(Share& share, uint64_t ns, std::string_view what, bool measured = false);
  // Whether a client that is about to do something has to wait instead.
  bool over(Share& share) const;
  // Its last commands were expensive, and enough such clients wait inside transactions.
  bool full(const Share& share) const { return large(share) && inside() >= inside_txn_max_; }
  // Its transactions are so expensive that nobody should queue behind them.
  bool heavy(const Share& share) const { return share.recent_cost_ns > budget_ns_; }
  // Resumes in a later turn.
  Wait wait(Share& share, WaitPoint where) { return {this, &share, where}; }

  uint64_t budget_ns() const { return budget_ns_; }
  uint64_t spent_ns() const { return spent_ns_; }  // in this turn
  // The approximate time: the clock as last read, plus the work done since. It may go back a little when a turn
  // begins.
  uint64_t now_ns() const { return clock_ns_ + (spent_ns_ - clock_spent_ns_); }
  void set_budget_ns(uint64_t ns) { budget_ns_ = ns; }
  const Longest& longest() const { return longest_; }
  size_t inside() const { return inside_.size(); }
  bool waiting() const { return !inside_.empty() || !outside_.empty() || !large_.empty(); }

 private:
  using Waiting = std::multimap<uint64_t, std::pair<Share*, std::coroutine_handle<>>>;  // by virtual_ns

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
  uint64_t clock_ns_ = 0;        // when the clock was last read
  uint64_t clock_spent_ns_ = 0;  // spent_ns_ at that time
  uint64_t virtual_ns_ = 0;      // virtual time of the clients that are being resumed
  Longest longest_;
  Waiting inside_, outside_;
  Waiting large_;  // expensive clients before their transaction
};

}  // namespace weft
