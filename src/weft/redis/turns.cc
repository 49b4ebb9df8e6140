#include "weft/redis/turns.h"

namespace weft {

void Turns::begin(uint64_t now_ns) {
  ++turn_;
  began_ns_ = looked_ns_ = now_ns;
  spent_ns_ = looked_at_ns_ = 0;
  longest_ = {};
}

void Turns::enter(Share& share) const {
  if (share.turn == turn_) return;
  const uint64_t idle_ns = began_ns_ - std::min(began_ns_, share.worked_ns);
  share.lately_ns >>= std::min<uint64_t>(idle_ns / kForgetNs, 63);
  share.worked_ns = began_ns_;
  share.turn = turn_;
  share.spent_ns = 0;
  share.had_ns = std::max(share.had_ns, level_ns_);
}

void Turns::charge_command(Share& share, uint64_t ns, std::string_view what, bool looks) {
  share.lately_ns = std::max(ns, share.lately_ns - share.lately_ns / 4);
  charge(share, ns, what);
  if (looks) look(ns, what);
}

void Turns::charge(Share& share, uint64_t ns, std::string_view what) {
  enter(share);
  share.spent_ns += ns;
  share.had_ns += ns;
  const uint64_t paid_ns = std::min(share.paid_ns, ns);
  share.paid_ns -= paid_ns;
  spent_ns_ += ns - paid_ns;
  if (ns >= kSmallNs || spent_ns_ - looked_at_ns_ >= budget_ns_ / 4) look(ns, what);
}

void Turns::look(uint64_t ns, std::string_view what) {
  const uint64_t now_ns = clock_->clock_ns();
  const uint64_t took_ns = now_ns - looked_ns_;
  if (took_ns > longest_.took_ns) longest_ = {what, took_ns, ns};
  looked_ns_ = now_ns;
  spent_ns_ = std::max(spent_ns_, now_ns - began_ns_);
  looked_at_ns_ = spent_ns_;
}

bool Turns::over(Share& share) const {
  enter(share);
  if (spent_ns_ < budget_ns_) return false;
  if (spent_ns_ >= kCeiling * budget_ns_) return true;
  return share.paid_ns == 0 && share.spent_ns + share.lately_ns > kSmallNs;
}

void Turns::stand(Share* share, Where where, std::coroutine_handle<> h) {
  enter(*share);
  Waiting& outside = large(*share) ? large_ : outside_;
  (where == Where::kInside ? inside_ : outside).emplace(share->had_ns, std::pair(share, h));
}

// Of those who may go on, the queue of who has had least; nullptr: there is nobody.
Turns::Waiting* Turns::next() {
  Waiting* least = nullptr;
  for (Waiting* const waiting : {&inside_, &outside_, &large_}) {
    if (waiting->empty() || (waiting == &large_ && inside_.size() >= inside_max_)) continue;
    if (least == nullptr || waiting->begin()->first < least->begin()->first) least = waiting;
  }
  return least;
}

bool Turns::go_on() {
  bool some = false;
  while (spent_ns_ < budget_ns_) {
    Waiting* const from = next();
    if (from == nullptr) break;
    const auto [share, coroutine] = from->begin()->second;
    level_ns_ = std::max(level_ns_, from->begin()->first);
    from->erase(from->begin());
    share->worked_ns = began_ns_;  // it has asked all the time
    enter(*share);
    if (from != &inside_) {
      share->paid_ns = std::min(share->lately_ns, budget_ns_);
      spent_ns_ += share->paid_ns;
    }
    coroutine.resume();
    some = true;
  }
  return some;
}

}  // namespace weft
