#include "weft/txn/verb_memory.h"

#include <string>
#include <utility>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/txn/slot_table.h"

namespace weft {

// For everything that limits allow a worker to have in flight: each transaction reads records, and commits them as
// images of records and log entries to every replica. Reserved, and touched as it is used.
size_t VerbMemory::request_bytes() const {
  const Limits& limits = options_.limits;
  const size_t of_one = 4 * (size_t{limits.txn_bytes_max} + size_t{limits.txn_keys_max} * 256) +
                        2 * static_cast<size_t>(options_.replicas) * ring_bytes() / 4;
  const auto slots = static_cast<size_t>(SlotTable::slots_for(limits));
  return align_up(of_one * 2 * slots + (size_t{16} << 20), kHugePageBytes);
}

Result<void> VerbMemory::make(const Options& options) {
  options_ = options;
  WEFT_CHECK(options_.workers > 0 && options_.nodes > 0 && ring_bytes() >= kRingAlign, "options that were checked");
  const auto workers = static_cast<size_t>(options_.workers);
  const size_t bytes = align_up(ring_offset(WorkerId(static_cast<uint8_t>(workers)), NodeId(0)), kHugePageBytes);
  auto buffers = Region::create(workers * request_bytes());
  if (!buffers) return buffers.error();
  request_buffers_ = std::move(*buffers);
  if (rings_ != nullptr && rings_->bytes() >= bytes) {
    // Remade with other switches: nothing of an earlier use may look like an entry.
    rings_->discard(0, rings_->bytes());
    return {};
  }
  if (rings_ != nullptr && shared_) {
    return Error{Code::kBadOption, "protocol " + options_.protocol + " needs " + std::to_string(bytes) +
                                       " bytes for verbs with these limits, there are " +
                                       std::to_string(rings_->bytes()) + " since the cluster was opened"};
  }
  auto region = Region::create(bytes, RegionKind::kHost, shared_ ? RegionSharing::kShared : RegionSharing::kPrivate);
  if (!region) return region.error();
  if (rings_ != nullptr) {
    regions_->replace(ring_region_, region->get());
    rings_ = std::move(*region);
    return {};
  }
  rings_ = std::move(*region);
  const RegionId id = regions_->add(rings_.get());
  WEFT_CHECK(id == ring_region_, "the region of the rings comes after those of the tables");
  return {};
}

bool VerbMemory::stop_access(Epoch epoch) {
  const std::scoped_lock lock(mutex_);
  const bool first = epoch_ < epoch;
  if (first) {
    epoch_ = epoch;
    access_ = false;
  }
  if (bugs_.has(PlantedBug::kRevokeLate)) return true;
  bool closed = true;
  for (int n = 0; n < options_.nodes; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    if (first) regions_->close(node, Domain::kEngine);
    closed &= regions_->closed(node, Domain::kEngine);
  }
  return closed;
}

void VerbMemory::grant_access(const View& view) {
  const std::scoped_lock lock(mutex_);
  if (epoch_ > view.epoch || access_) return;
  WEFT_CHECK(rings_ != nullptr, "memory is there before peers may reach it");
  epoch_ = view.epoch;
  access_ = true;
  if (bugs_.has(PlantedBug::kRevokeLate)) {
    for (int n = 0; n < options_.nodes; ++n) regions_->revoke(NodeId(static_cast<uint8_t>(n)), Domain::kEngine);
  }
  for (const Member& member : view.members) regions_->grant(member.node, Domain::kEngine);
}

}  // namespace weft
