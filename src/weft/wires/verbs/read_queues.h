// ReadQueues: the queue pairs by which threads READ from one target, arranged by a policy, to compare what sharing them
// costs (SMART, ASPLOS '24, section 3.1; `weft bench queue-pairs`). The wire itself is arranged as kDoorbell says.
//
// Threads that share a queue pair hold its lock to post and to poll. A work request's id names the thread that posted
// it, and whoever polls marks what has completed for the others.
//
// Each thread calls post() and done() with its own index; create() and the destructor are called while none runs.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.h"
#include "weft/wires/verbs/nic.h"
#include "weft/wires/verbs/qp.h"
#include "weft/wires/verbs/worker_domain.h"

namespace weft {

enum class QueuePairPolicy : uint8_t {
  kShared,       // all threads share a queue pair
  kMultiplexed,  // `sharing` threads do
  kWorker,       // each thread has its own
  kDoorbell,     // and a doorbell register of its own
};
inline constexpr std::array<std::string_view, 4> kQueuePairPolicies = {"shared", "multiplexed", "worker", "doorbell"};

struct ReadQueuesOptions {
  QueuePairPolicy policy = QueuePairPolicy::kDoorbell;
  uint32_t threads = 1;
  uint32_t sharing = 4;
  uint32_t depth = 8;  // READs that a thread posts at a time, with one doorbell
};

class ReadQueues {
 public:
  static constexpr uint32_t kReadBytes = 8;

  // Reads `from`, which `target` has registered for the engine's domain. kBadOption names what a device does not have:
  // with kDoorbell a register for every thread. The NICs outlive it.
  static Result<std::unique_ptr<ReadQueues>> create(const VerbsNic& nic, const VerbsNic& target,
                                                    const VerbsRegions::Entry& from, const ReadQueuesOptions& options);

  // Posts one READ of kReadBytes from each of these offsets, at least one and at most `depth`. What the thread posted
  // before is done.
  Result<void> post(uint32_t thread, std::span<const uint64_t> offsets);
  // Whether what the thread posted is complete; an error says what the device reported.
  Result<bool> done(uint32_t thread);
  // What its i-th READ brought.
  const std::byte* word(uint32_t thread, size_t i) const {
    return memory_.base() + (size_t{thread} * options_.depth + i) * kReadBytes;
  }

 private:
  // Destroyed from the last to the first: the queue pairs, then what they complete to.
  struct Queue {
    std::unique_ptr<WorkerDomain> domain;
    std::unique_ptr<VerbsCq> cq, target_cq;
    std::unique_ptr<VerbsQp> target, qp;
    bool shared = false;
    std::mutex mutex;
    ibv_wc_status failed = IBV_WC_SUCCESS;
  };
  struct alignas(64) Reader {
    Queue* queue = nullptr;
    std::vector<ibv_send_wr> works;
    std::vector<ibv_sge> parts;
    bool done = true;  // under the queue's lock
  };

  ReadQueues(const VerbsNic& nic, const VerbsRegions::Entry& from, const ReadQueuesOptions& options)
      : nic_(nic), from_(from), options_(options), readers_(options.threads) {}
  Result<void> add_queue(const VerbsNic& target, uint32_t sharers);
  void prepare(uint32_t thread);
  static std::unique_lock<std::mutex> lock(Queue& queue) {
    return queue.shared ? std::unique_lock(queue.mutex) : std::unique_lock<std::mutex>();
  }

  const VerbsNic& nic_;
  const VerbsRegions::Entry from_;
  const ReadQueuesOptions options_;
  VerbsMemory memory_;
  std::deque<Queue> queues_;
  std::vector<Reader> readers_;
};

}  // namespace weft
