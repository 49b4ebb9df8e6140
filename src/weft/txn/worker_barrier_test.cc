// Steps that all workers of a node take together.
#include "weft/txn/worker_barrier.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using BarrierStep = WorkerBarrier::Step;

TEST(WorkerBarrier, OneWorkerWaitsForNobody) {
  WorkerBarrier barrier(1);
  EXPECT_FALSE(barrier.all_arrived(BarrierStep::kApply, Epoch(2)));
  barrier.arrive(BarrierStep::kApply, Epoch(2), WorkerId(0));
  EXPECT_TRUE(barrier.all_arrived(BarrierStep::kApply, Epoch(2)));
}

TEST(WorkerBarrier, TheLastWorkerLetsAllGoOn) {
  WorkerBarrier barrier(kWorkersMax);
  for (uint8_t w = 0; w < kWorkersMax; ++w) {
    EXPECT_FALSE(barrier.all_arrived(BarrierStep::kActive, Epoch(2)));
    barrier.arrive(BarrierStep::kActive, Epoch(2), WorkerId(w));
  }
  EXPECT_TRUE(barrier.all_arrived(BarrierStep::kActive, Epoch(2)));
}

TEST(WorkerBarrier, StepsDoNotStandInForEachOther) {
  WorkerBarrier barrier(1);
  barrier.arrive(BarrierStep::kCommit, Epoch(2), WorkerId(0));
  EXPECT_FALSE(barrier.all_arrived(BarrierStep::kApply, Epoch(2)));
  EXPECT_FALSE(barrier.all_arrived(BarrierStep::kFree, Epoch(2)));
  EXPECT_FALSE(barrier.all_arrived(BarrierStep::kActive, Epoch(2)));
}

// A worker that goes on to a later view has passed the steps of those before; one that is behind has not come to the
// later one.
TEST(WorkerBarrier, ALaterRecoveryCountsForTheEarlierOneAndNotTheOtherWayRound) {
  WorkerBarrier barrier(2);
  barrier.arrive(BarrierStep::kApply, Epoch(2), WorkerId(0));
  barrier.arrive(BarrierStep::kApply, Epoch(3), WorkerId(1));
  EXPECT_TRUE(barrier.all_arrived(BarrierStep::kApply, Epoch(2)));
  EXPECT_FALSE(barrier.all_arrived(BarrierStep::kApply, Epoch(3)));
}

}  // namespace
}  // namespace weft
