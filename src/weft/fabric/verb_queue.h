// VerbQueues: one worker's queues of one access domain on a wire where the initiator executes verbs itself, at once:
// local and shm.
//
// execute_verb.h executes one. The verbs of one post take effect in order. A refused verb breaks the queue to that
// peer: verbs posted until reset() are flushed. DomainQueues has those of all domains.
//
// Only the owning worker uses it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/fabric/channel_rings.h"
#include "weft/fabric/execute_verb.h"
#include "weft/fabric/nodes.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

class VerbQueues {
 public:
  VerbQueues(size_t completions_max, WireCounters* counters);

  // Access is how the target's memory is reached:
  //   std::byte* resolve(RegionId, uint64_t offset, uint64_t bytes): nullptr if not granted or outside the region
  //   bool holds(): whether the grant that resolve() found still stands, called after the verb
  // False if there is no room for the completions; then nothing was done.
  template <class Access>
  bool post(NodeId to, std::span<const Verb> verbs, const Access& access) {
    if (!accept(verbs.size())) return false;
    VerbKind before = VerbKind::kRead;
    for (const Verb& verb : verbs) {
      if (broken(to)) {
        complete(to, VerbStatus::kFlushed, verb.tag);
        continue;
      }
      order(before, verb.kind);
      before = verb.kind;
      if (!execute_verb(verb, verb.offset % 8 == 0 ? access.resolve(verb.region, verb.offset, reach(verb)) : nullptr) ||
          !access.holds()) {
        refuse(to, verb.tag);
      } else if (verb.signalled) {
        complete(to, VerbStatus::kDone, verb.tag);
      }
    }
    return true;
  }
  // For a peer that cannot be reached: refuses the verbs.
  bool post_nowhere(NodeId to, std::span<const Verb> verbs);

  size_t poll(std::span<Completion> out);
  bool pending() const { return head_ != tail_; }
  void reset(NodeId to) { broken_.remove(to); }

 private:
  bool broken(NodeId to) const { return broken_.contains(to); }
  bool accept(size_t verbs);
  void order(VerbKind before, VerbKind after);
  void refuse(NodeId to, uint64_t tag);
  void complete(NodeId peer, VerbStatus status, uint64_t tag);

  WireCounters* const counters_;
  NodeSet broken_;                       // those that refused a verb
  std::vector<Completion> completions_;  // a ring: [head_, tail_)
  size_t head_ = 0;
  size_t tail_ = 0;
  uint64_t fences_ = 0;
};

// One worker's queues of all domains.
class DomainQueues {
 public:
  DomainQueues(size_t completions_max, WireCounters* counters);

  VerbQueues& of(Domain domain) { return queues_[index_of(domain)]; }
  bool pending() const;
  void reset(NodeId to);  // in all domains: the peer has another connection

 private:
  std::vector<VerbQueues> queues_;
};

// On x86 aligned relaxed accesses stay in order, except a store before a load and what the compiler reorders.
inline void VerbQueues::order(VerbKind before, VerbKind after) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (before == VerbKind::kWrite && after == VerbKind::kRead) {
    __atomic_fetch_add(&fences_, 1, __ATOMIC_SEQ_CST);  // a full fence that the thread sanitizer accepts
  }
}

inline void VerbQueues::refuse(NodeId to, uint64_t tag) {
  broken_.add(to);
  complete(to, VerbStatus::kRefused, tag);
}

inline void VerbQueues::complete(NodeId peer, VerbStatus status, uint64_t tag) {
  if (status != VerbStatus::kDone) ++counters_->verbs_failed;
  completions_[tail_++ % completions_.size()] = {peer, status, tag};
}

}  // namespace weft
