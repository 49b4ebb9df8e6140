#include "weft/redis/fair_scheduler.h"

namespace weft {

void FairScheduler::begin(uint64_t now_ns) {
  ++turn_;
  began_ns_ = clock_ns_ = now_ns;
  spent_ns_ = clock_spent_ns_ = 0;
  longest_ = {};
}

void FairScheduler::enter(Share& share) const {
  if (share.turn == turn_) return;
  const uint64_t idle_ns = began_ns_ - std::min(began_ns_, share.worked_ns);
  share.recent_cost_ns >>= std::min<uint64_t>(idle_ns / kHalfLifeNs, 63);
  share.worked_ns = began_ns_;
  share.turn = turn_;
  share.spent_ns = 0;
  share.virtual_ns = std::max(share.virtual_ns, virtual_ns_);
}

void FairScheduler::charge_command(Share& share, uint64_t ns, std::string_view what, bool measured) {
  share.recent_cost_ns = std::max(ns, share.recent_cost_ns - share.recent_cost_ns / 4);
  charge(share, ns, what);
  if (measured) read_clock(ns, what);
}

void FairScheduler::charge(Share& share, uint64_t ns, std::string_view what) {
  enter(share);
  share.spent_ns += ns;
  share.virtual_ns += ns;
  const uint64_t prepaid_ns = std::min(share.prepaid_ns, ns);
  share.prepaid_ns -= prepaid_ns;
  spent_ns_ += ns - prepaid_ns;
  if (ns >= kSmallNs || spent_ns_ - clock_spent_ns_ >= budget_ns_ / 4) read_clock(ns, what);
}

void FairScheduler::read_clock(uint64_t ns, std::string_view what) {
  const uint64_t now_ns = clock_->clock_ns();
  const uint64_t took_ns = now_ns - clock_ns_;
  if (took_ns > longest_.took_ns) longest_ = {what, took_ns, ns};
  clock_ns_ = now_ns;
  spent_ns_ = std::max(spent_ns_, now_ns - began_ns_);
  clock_spent_ns_ = spent_ns_;
}

bool FairScheduler::over(Share& share) const {
  enter(share);
  if (spent_ns_ < budget_ns_) return false;
  if (spent_ns_ >= kCeiling * budget_ns_) return true;
  return share.prepaid_ns == 0 && share.spent_ns + share.recent_cost_ns > kSmallNs;
}

void FairScheduler::enqueue(Share* share, WaitPoint where, std::coroutine_handle<> h) {
  enter(*share);
  Waiting& outside = large(*share) ? large_ : outside_;
  (where == WaitPoint::kInsideTxn ? inside_ : outside).emplace(share->virtual_ns, std::pair(share, h));
}

// Of the clients that may continue, the queue of the one that has had least; nullptr: there are none.
FairScheduler::Waiting* FairScheduler::next() {
  Waiting* least = nullptr;
  for (Waiting* const waiting : {&inside_, &outside_, &large_}) {
    if (waiting->empty() || (waiting == &large_ && inside_.size() >= inside_txn_max_)) continue;
    if (least == nullptr || waiting->begin()->first < least->begin()->first) least = waiting;
  }
  return least;
}

bool FairScheduler::resume_waiting() {
  bool some = false;
  while (spent_ns_ < budget_ns_) {
    Waiting* const from = next();
    if (from == nullptr) break;
    const auto [share, coroutine] = from->begin()->second;
    virtual_ns_ = std::max(virtual_ns_, from->begin()->first);
    from->erase(from->begin());
    share->worked_ns = began_ns_;  // waiting counts as activity
    enter(*share);
    if (from != &inside_) {
      share->prepaid_ns = std::min(share->recent_cost_ns, budget_ns_);
      spent_ns_ += share->prepaid_ns;
    }
    coroutine.resume();
    some = true;
  }
  return some;
}

}  // namespace weft
