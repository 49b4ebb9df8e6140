#include "weft/wires/verbs/target_queue.h"

#include <utility>

namespace weft {

Result<std::optional<QpAddress>> VerbsTargetQueue::open(const VerbsNic& nic, const VerbsCq& cq, const Regions& regions,
                                                        NodeId peer, Domain domain, uint32_t grant,
                                                        const QpAddress& asker, uint32_t sequence) {
  const std::scoped_lock lock(mutex_);
  if (grant == 0 || regions.grant_of(peer, domain) != grant) return std::optional<QpAddress>();
  qp_.reset();
  VerbsQp::Options options;
  options.sequence = sequence;
  options.protection = nic.protection(domain);
  options.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  auto made = VerbsQp::create(nic, cq, options);
  if (!made) return made.error();
  if (const auto connected = (*made)->connect(asker, false); !connected) return connected.error();
  qp_ = std::move(*made);
  return std::optional(qp_->address());
}

void VerbsTargetQueue::close() {
  const std::scoped_lock lock(mutex_);
  qp_.reset();
}

}  // namespace weft
