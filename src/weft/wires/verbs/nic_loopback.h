// NicLoopbackAtomics: a node's CAS verbs on its own memory: a queue pair from its device to the same device.
//
// A swap is posted and waited for, a few microseconds on a NIC. One at a time, whichever worker asks. Nobody else posts
// here, so no grant is needed, and it stays open while views change. What no peer reaches yet, because it is not
// registered, is swapped by the processor.
//
// A device that fails is tried again with a new queue pair. If it goes on failing nothing is swapped any more, and that
// is said (failed): locks cannot be taken in any other way that is safe. The server then gives its place in the view up
// and begins anew, with a device that is opened again (server/server.cc).
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
  // All outlive it.
  static Result<std::unique_ptr<NicLoopbackAtomics>> create(const VerbsNic& nic, const Regions* regions,
                                                            const VerbsRegions* registered);

  bool swap(RegionId region, uint64_t offset, uint64_t expected, uint64_t desired) override;
  uint64_t swaps() const override { return swaps_.load(std::memory_order_relaxed); }
  bool failed() const override { return failed_.load(std::memory_order_acquire); }

 private:
  NicLoopbackAtomics(const VerbsNic& nic, const Regions* regions, const VerbsRegions* registered)
      : nic_(nic), regions_(regions), registered_(registered) {}
  Result<void> open();
  // Leaves what the word was in old_; false if the device does not do it.
  bool swap_once(const VerbsRegions::Entry& region, uint64_t offset, uint64_t expected, uint64_t desired);

  const VerbsNic& nic_;
  const Regions* const regions_;
  const VerbsRegions* const registered_;
  std::mutex mutex_;
  VerbsMemory old_;
  std::unique_ptr<VerbsCq> cq_;
  std::unique_ptr<VerbsQp> served_;  // destroyed before the completion queue, as the other end is
  std::unique_ptr<VerbsQp> posted_;
  std::atomic<uint64_t> swaps_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace weft
