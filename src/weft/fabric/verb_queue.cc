#include "weft/fabric/verb_queue.h"

#include <algorithm>
#include <atomic>

#include "weft/base/bytes.h"

namespace weft {

VerbQueues::VerbQueues(size_t completions_max, LaneCounters* counters)
    : counters_(counters), completions_(std::max<size_t>(completions_max, 1)) {}

bool VerbQueues::accept(size_t verbs) {
  if (verbs > completions_.size() - (tail_ - head_)) return false;
  ++counters_->doorbells;
  counters_->verbs += verbs;
  return true;
}

// Aligned relaxed accesses stay in order on x86 but for a store before a load and what the compiler does.
void VerbQueues::order(VerbKind before, VerbKind after) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (before == VerbKind::kWrite && after == VerbKind::kRead) {
    __atomic_fetch_add(&fences_, 1, __ATOMIC_SEQ_CST);  // a full fence that the thread sanitizer accepts
  }
}

bool VerbQueues::carry_out(const Verb& verb, std::byte* target) {
  if (target == nullptr) return false;
  auto* const word = reinterpret_cast<uint64_t*>(target);
  switch (verb.kind) {
    case VerbKind::kRead:
      copy_from_shared(verb.local, target, verb.bytes);
      break;
    case VerbKind::kWrite:
      copy_to_shared(target, verb.local, verb.bytes);
      break;
    case VerbKind::kCompareSwap: {
      uint64_t old = verb.compare;
      __atomic_compare_exchange_n(word, &old, verb.operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      store(verb.local, old);
      break;
    }
    case VerbKind::kFetchAdd:
      store(verb.local, __atomic_fetch_add(word, verb.operand, __ATOMIC_SEQ_CST));
      break;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
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

void VerbQueues::refuse(NodeId to, uint64_t tag) {
  broken_ |= bit(to);
  complete(to, VerbStatus::kRefused, tag);
}

void VerbQueues::complete(NodeId peer, VerbStatus status, uint64_t tag) {
  if (status != VerbStatus::kDone) ++counters_->verbs_failed;
  completions_[tail_++ % completions_.size()] = {peer, status, tag};
}

size_t VerbQueues::poll(std::span<Completion> out) {
  size_t count = 0;
  while (count < out.size() && head_ != tail_) out[count++] = completions_[head_++ % completions_.size()];
  return count;
}

}  // namespace weft
