// WorkerBarrier: steps of recovery that all workers of a node take together, since they share the tables. May be used
// from any worker's thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "weft/base/check.h"
#include "weft/options.h"
#include "weft/types.h"

namespace weft {

class WorkerBarrier {
 public:
  enum class Step : uint8_t {
    kApply,   // all members have stopped: aborts may be applied
    kCommit,  // then commits
    kFree,    // then verb locks may be freed
    kActive,  // at the leader: everything is applied at all members
  };
  static constexpr size_t kSteps = 4;

  explicit WorkerBarrier(int workers) : workers_(static_cast<size_t>(workers)) {
    WEFT_CHECK(workers >= 1 && workers <= kWorkersMax, "a node has workers, and not too many");
  }

  // This worker has come to the step, in the recovery into that view.
  void arrive(Step step, Epoch epoch, WorkerId worker) {
    WEFT_CHECK(worker.value < workers_, "only workers of the node arrive");
    reached_[static_cast<size_t>(step)][worker.value].store(epoch.value, std::memory_order_release);
  }
  bool all_arrived(Step step, Epoch epoch) const {
    const auto& reached = reached_[static_cast<size_t>(step)];
    return std::all_of(reached.begin(), reached.begin() + static_cast<ptrdiff_t>(workers_),
                       [&](const auto& at) { return at.load(std::memory_order_acquire) >= epoch.value; });
  }
  size_t workers() const { return workers_; }

 private:
  const size_t workers_;
  std::array<std::array<std::atomic<uint32_t>, kWorkersMax>, kSteps> reached_{};
};

}  // namespace weft
