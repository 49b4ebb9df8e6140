// VerbMemory: a node's memory for one-sided verbs, beside its tables: the log rings that peers write, and the buffers
// of the workers' own verbs, which no peer reaches. It also controls when peers may access the node's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "weft/base/bugs.h"
#include "weft/base/check.h"
#include "weft/fabric/region.h"
#include "weft/member/view.h"
#include "weft/options.h"
#include "weft/status.h"
#include "weft/txn/log_ring.h"
#include "weft/types.h"

namespace weft {

class VerbMemory {
 public:
  // Adds the ring region to `regions`, after those of the tables.
  VerbMemory(const Options& options, PlantedBugs bugs, bool shared, Regions* regions, RegionId ring_region)
      : options_(options), bugs_(bugs), shared_(shared), regions_(regions), ring_region_(ring_region) {}

  // Allocates the memory for these options; called again when they change, while no worker runs.
  Result<void> make(const Options& options);

  RegionId ring_region() const { return ring_region_; }
  size_t ring_bytes() const { return options_.limits.ring_bytes / kRingAlign * kRingAlign; }
  uint64_t ring_offset(WorkerId worker, NodeId writer) const {
    return (uint64_t{worker.value} * static_cast<uint64_t>(options_.nodes) + writer.value) * ring_bytes();
  }
  const std::byte* ring(WorkerId worker, NodeId writer) const {
    WEFT_CHECK(rings_ != nullptr && ring_offset(worker, writer) + ring_bytes() <= rings_->bytes(),
               "a ring of the node");
    return rings_->base() + ring_offset(worker, writer);
  }
  size_t request_bytes() const;  // of each worker
  std::byte* request_buffers(WorkerId worker) const {
    WEFT_CHECK(request_buffers_ != nullptr && (worker.value + 1U) * request_bytes() <= request_buffers_->bytes(),
               "a worker of the node");
    return request_buffers_->base() + worker.value * request_bytes();
  }

  // Rule O3: once it is true, no verb that a peer has posted so far, or posts before the view `epoch` is about to be
  // active, lands any more. Until then each worker that is to adopt the view calls it again; it waits for nobody, so a
  // peer that is stopped in the middle of a verb delays the recovery and nothing else. It stops all peers: what a
  // remaining member has posted belongs to the view that ends, too.
  bool stop_access(Epoch epoch);
  void grant_access(const View& view);

 private:
  Options options_;
  const PlantedBugs bugs_;
  const bool shared_;
  Regions* const regions_;
  const RegionId ring_region_;
  std::unique_ptr<Region> rings_;
  std::unique_ptr<Region> request_buffers_;
  std::mutex mutex_;
  Epoch epoch_;          // access belongs to this view, or was stopped for it
  bool access_ = false;  // whether it is granted
};

}  // namespace weft
