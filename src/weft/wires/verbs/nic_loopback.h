// NicLoopbackAtomics: a node's CAS verbs on its own memory, over a queue pair from its device to the same device.
//
// A swap posts a verb and waits for it, a few microseconds on a NIC; one at a time over all workers. Nothing else is
// posted here, so no grant is needed, and the queue pair stays open while views change. Memory that is not registered
// yet, so that no peer can access it, is swapped by the CPU.
//
// If the device fails, it retries with a new queue pair. If it keeps failing, nothing is swapped any more and failed()
// returns true: there is no other safe way to take locks. The server then leaves the view and starts again with a newly
// opened device (server/server.cc).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "weft/fabric/local_atomics.h"
#include "weft/status.h"
#include "weft/wires/verbs/nic.h"
#include "weft/wires/verbs/qp.h"

namespace weft {

class NicLoopbackAtomics final : public LocalAtomics {
 public:
  // All arguments outlive it.
  static Result<std::unique_ptr<NicLoopbackAtomics>> create(const VerbsNic& nic, const Regions* regions,
                                                            const VerbsRegions* registered);

  bool swap(RegionId region, uint64_t offset, uint64_t expected, uint64_t desired) override;
  uint64_t swaps() const override { return swaps_.load(std::memory_order_relaxed); }
  bool failed() const override { return failed_.load(std::memory_order_acquire); }

 private:
  NicLoopbackAtomics(const VerbsNic& nic, const Regions* regions, const VerbsRegions* registered)
      : nic_(nic), regions_(regions), registered_(registered) {}
  Result<void> open();
  // Stores the previous word in old_; false if the device fails.
  bool swap_once(const VerbsRegions::Entry& region, uint64_t offset, uint64_t expected, uint64_t desired);

  const VerbsNic& nic_;
  const Regions* const regions_;
  const VerbsRegions* const registered_;
  std::mutex mutex_;
  VerbsMemory old_;
  std::unique_ptr<VerbsCq> cq_;
  std::unique_ptr<VerbsQp> served_;  // destroyed before the completion queue, like the other end
  std::unique_ptr<VerbsQp> posted_;
  std::atomic<uint64_t> swaps_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace weft
