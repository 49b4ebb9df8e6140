// The local wire: nodes in one process, connected by single-producer rings in plain memory.
//
// LocalFabric owns the rings: one per worker index, ordered pair of nodes, and flow. It outlives the ports on it. A
// LocalWire is one worker's end, used by that worker's thread only; two ends may be on one thread or on two.
//
// The initiator executes one-sided verbs at once (verb_queue.h), inside a Section of the target's Regions.
//
// Sleeping: a worker that is about to block calls set_sleeping(true), checks pending() once more, and only then blocks.
// A sender publishes its packet and then reads the flag. All four accesses are sequentially consistent, so one side
// sees the other and no wake-up is lost. A worker without a wake hook never sleeps, and sends to it skip the fence.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/base/mapping.h"
#include "weft/fabric/channel_rings.h"
#include "weft/fabric/region.h"
#include "weft/fabric/verb_queue.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

struct LocalOptions {
  int nodes = 1;
  int workers = 1;
  size_t ring_bytes = 256 << 10;  // per (sender, receiver, worker, flow); pages are committed when first used
  size_t completions_max = 4096;  // verbs posted whose completions were not polled yet, per worker
};

class LocalFabric;

class LocalWire final : public Wire {
 public:
  // Accepts any bytes up to half a ring; the receiving port checks their content.
  bool send(NodeId to, Flow flow, ByteView packet) override;
  size_t poll(std::span<Packet> out) override;
  void release() override;
  bool post(NodeId to, Domain domain, std::span<const Verb> verbs) override;
  size_t poll_completions(Domain domain, std::span<Completion> out) override;
  void reset(NodeId to, Domain domain) override;
  bool pending() const override;

  const WireCounters& counters() const { return counters_; }

 private:
  friend class LocalFabric;
  LocalWire(LocalFabric& fabric, NodeId self, WorkerId worker, size_t completions_max);

  LocalFabric& fabric_;
  const NodeId self_;
  const WorkerId worker_;
  std::vector<RingWriters> writers_;  // by node
  RingReceiverSet<false> receivers_;
  WireCounters counters_;
  DomainQueues verbs_;
};

class LocalFabric {
 public:
  explicit LocalFabric(const LocalOptions& options);
  LocalFabric(const LocalFabric&) = delete;
  LocalFabric& operator=(const LocalFabric&) = delete;

  LocalWire* wire(NodeId node, WorkerId worker) { return wires_[worker_index(node, worker)].get(); }

  // Call both before any worker runs. A node without regions refuses all verbs. Any worker's thread may call the hook,
  // even once after the sleeping worker has woken up.
  void set_regions(NodeId node, Regions* regions);
  void set_wake(NodeId node, WorkerId worker, void (*wake)(void*), void* context);

  // Called by the worker itself.
  void set_sleeping(NodeId node, WorkerId worker, bool sleeping);

 private:
  friend class LocalWire;

  struct alignas(64) SleepState {
    std::atomic<bool> sleeping{false};
    void (*wake)(void*) = nullptr;
    void* context = nullptr;
  };

  size_t worker_index(NodeId node, WorkerId worker) const;
  size_t rings_index(NodeId from, NodeId to, WorkerId worker) const;
  std::byte* buffer(size_t rings) const { return memory_.base() + rings * channel_buffer_bytes(ring_bytes_); }

  const size_t nodes_;
  const size_t workers_;
  const size_t ring_bytes_;
  Mapping memory_;
  std::unique_ptr<ChannelRings[]> rings_;
  std::unique_ptr<SleepState[]> sleep_states_;
  std::array<Regions*, kNodesMax + 1> regions_{};
  std::vector<std::unique_ptr<LocalWire>> wires_;
};

}  // namespace weft
