// The local wire: nodes in one process, joined by single-producer rings in plain memory.
//
// LocalFabric owns the rings: for each worker index, from each node to each other, one per flow. It outlives the ports
// on it. A LocalWire is one worker's end, used by that worker's thread only; two ends may be on one thread or on two.
//
// One-sided verbs are carried out at once by the poster: real loads and stores of 8 bytes (base/bytes.h), and locked
// instructions for compare-and-swap and fetch-and-add, inside a Section of the target's Regions. Verbs of one post take
// effect in order. Offsets are multiples of 8, else the verb is refused; a WRITE whose length is not a multiple of 8
// zeroes the rest of its last word, since shared objects are padded to 8; `bytes` of the atomic verbs is ignored. A
// refused verb breaks the queue to that peer: what is posted until reset() is flushed.
//
// Sleeping: a worker that is about to block says set_sleeping(true), looks at pending() once more, and only then
// blocks; a sender publishes its packet and then looks at the flag. All four are sequentially consistent, so one of the
// two sees the other, and no wake-up is lost. A worker without a wake hook never sleeps, and sends to it skip the
// fence.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/fabric/mapping.h"
#include "weft/fabric/region.h"
#include "weft/fabric/ring.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

struct LocalOptions {
  int nodes = 1;
  int workers = 1;
  size_t ring_bytes = 256 << 10;  // per (sender, receiver, worker, flow); committed as it is used
  size_t completions_max = 4096;  // verbs posted whose completions were not polled yet, per worker
};

struct LocalCounters {
  uint64_t packets_sent = 0, packets_refused = 0, packets_received = 0;
  uint64_t wakes = 0;
  uint64_t doorbells = 0, verbs = 0, verbs_failed = 0;  // failed: refused or flushed
};

class LocalFabric;

class LocalWire final : public Wire {
 public:
  // Takes any bytes up to half a ring: what is in them is checked by the port that receives them.
  bool send(NodeId to, Flow flow, ByteView packet) override;
  size_t poll(std::span<Packet> out) override;
  void release() override;
  bool post(NodeId to, std::span<const Verb> verbs) override;
  size_t poll_completions(std::span<Completion> out) override;
  void reset(NodeId to) override;
  bool pending() const override;

  const LocalCounters& counters() const { return counters_; }

 private:
  friend class LocalFabric;
  LocalWire(LocalFabric& fabric, NodeId self, WorkerId worker);

  // What poll() looks at for one peer: the published tails of its flows against where this end stands.
  struct Inbox {
    const std::array<std::atomic<uint64_t>, kFlows>* tails = nullptr;
    std::array<uint64_t, kFlows> cursors{};
  };

  size_t take(size_t peer, size_t flow, std::span<Packet> out);
  void complete(NodeId peer, VerbStatus status, uint64_t tag);

  LocalFabric& fabric_;
  const NodeId self_;
  const WorkerId worker_;
  std::vector<RingWriter> writers_;  // by channel: to that node
  std::vector<RingReader> readers_;  // by channel: from that node
  std::vector<Inbox> inboxes_;       // by node
  std::vector<size_t> popped_;       // channels with packets handed out since the last release()
  size_t poll_peer_ = 0;             // the channel after the one that filled the last poll, so that none starves
  size_t poll_flow_ = 0;
  uint64_t broken_ = 0;                  // bit n: a verb to node n was refused
  std::vector<Completion> completions_;  // a ring: [completion_head_, completion_tail_)
  size_t completion_head_ = 0;
  size_t completion_tail_ = 0;
  uint64_t fences_ = 0;
  LocalCounters counters_;
};

class LocalFabric {
 public:
  explicit LocalFabric(const LocalOptions& options);
  LocalFabric(const LocalFabric&) = delete;
  LocalFabric& operator=(const LocalFabric&) = delete;

  LocalWire* wire(NodeId node, WorkerId worker) { return wires_[worker_index(node, worker)].get(); }

  // Both before any worker runs. A node without regions refuses all verbs. The hook may be called by any worker's
  // thread, and once more after its worker woke.
  void set_regions(NodeId node, Regions* regions);
  void set_wake(NodeId node, WorkerId worker, void (*wake)(void*), void* context);

  // By the worker itself.
  void set_sleeping(NodeId node, WorkerId worker, bool sleeping);

 private:
  friend class LocalWire;

  // The shared words of the rings from one worker to another. Each line has one writer, and a receiver that polls looks
  // at one line per peer for all flows.
  struct Lane {
    alignas(64) std::array<std::atomic<uint64_t>, kFlows> tail{};
    std::array<std::atomic<uint64_t>, kFlows> restart{};
    alignas(64) std::array<std::atomic<uint64_t>, kFlows> head{};
  };
  static_assert(sizeof(Lane) == 128);

  struct alignas(64) Bed {
    std::atomic<bool> sleeping{false};
    void (*wake)(void*) = nullptr;
    void* context = nullptr;
  };

  size_t worker_index(NodeId node, WorkerId worker) const;
  size_t lane_index(NodeId from, NodeId to, WorkerId worker) const;
  RingEnds ends(size_t lane, size_t flow);
  std::byte* buffer(size_t lane, size_t flow) const;

  const size_t nodes_;
  const size_t workers_;
  const size_t ring_bytes_;
  Mapping memory_;
  std::unique_ptr<Lane[]> lanes_;
  std::unique_ptr<Bed[]> beds_;
  std::array<Regions*, kNodesMax + 1> regions_{};
  std::vector<std::unique_ptr<LocalWire>> wires_;
};

}  // namespace weft
