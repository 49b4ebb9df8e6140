#include "weft/fabric/verb_queue.h"

#include <algorithm>

namespace weft {

VerbQueues::VerbQueues(size_t completions_max, WireCounters* counters)
    : counters_(counters), completions_(std::max<size_t>(completions_max, 1)) {}

bool VerbQueues::accept(size_t verbs) {
  if (verbs > completions_.size() - (tail_ - head_)) return false;
  ++counters_->doorbells;
  counters_->verbs += verbs;
  return true;
}

bool VerbQueues::post_nowhere(NodeId to, std::span<const Verb> verbs) {
  if (!accept(verbs.size())) return false;
  for (const Verb& verb : verbs) {
    if (broken(to)) {
      complete(to, VerbStatus::kFlushed, verb.tag);
    } else {
      refuse(to, verb.tag);
    }
  }
  return true;
}

DomainQueues::DomainQueues(size_t completions_max, WireCounters* counters) {
  for (int i = 0; i < kDomains; ++i) queues_.emplace_back(completions_max, counters);
}

bool DomainQueues::pending() const {
  return std::any_of(queues_.begin(), queues_.end(), [](const VerbQueues& queues) { return queues.pending(); });
}

void DomainQueues::reset(NodeId to) {
  for (VerbQueues& queues : queues_) queues.reset(to);
}

size_t VerbQueues::poll(std::span<Completion> out) {
  size_t count = 0;
  while (count < out.size() && head_ != tail_) out[count++] = completions_[head_++ % completions_.size()];
  return count;
}

}  // namespace weft
