// ShmLink: the memory that two processes share, as one of them sees it, and how it is handed to the workers.
//
// Each node has a control block: a sleeping flag per worker, and the grants it gives. Every peer maps it. For each peer
// it also has an outbox: the rings it writes, worker by worker, and beside them a word that names the access domain of
// the peer's that the worker is currently inside, if there is one. So each word is written by one process, except the
// heads of the rings, which the reader writes, and the sleeping flags, which a sender clears when it wakes the sleeper.
//
//   outbox:  | ShmChannel of worker 0 | of worker 1 | ... | to 4 KiB | buffers of worker 0 | of worker 1 | ...
//
// Lifetime: the control thread makes a link, and ShmLinks publishes it to the workers. A worker takes a reference when
// it next polls, and drops it in the poll after the link was withdrawn, when it uses no packet in the rings any more.
// The control thread, which keeps its own reference, unmaps when that is the only one left. So neither waits for the
// other, and nothing is unmapped under a reader.
//
// A process that dies leaves only complete frames, since a frame counts when the tail is published behind it. It may
// leave its `inside` words set: they are read only while its socket is open.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/fd.h"
#include "weft/base/mapping.h"
#include "weft/fabric/channel_rings.h"
#include "weft/fabric/region.h"
#include "weft/types.h"

namespace weft {

struct ShmSleepFlag {
  alignas(64) std::atomic<uint32_t> sleeping{0};
};

struct ShmControlBlock {
  std::array<ShmSleepFlag, kWorkersMax> sleep_flags;
  // By node and domain, as Regions counts: odd while granted.
  alignas(64) std::array<std::array<std::atomic<uint32_t>, kDomains>, kNodesMax + 1> grants;
};
static_assert(sizeof(ShmControlBlock) == 64 * kWorkersMax + 4 * kDomains * (kNodesMax + 1));
static_assert(std::atomic<uint32_t>::is_always_lock_free);
inline constexpr size_t kShmControlBytes = align_up(sizeof(ShmControlBlock), 4096);

constexpr uint32_t shm_inside(Domain domain) { return static_cast<uint32_t>(index_of(domain)) + 1; }

struct ShmChannel {
  ChannelRings rings;
  alignas(64) std::atomic<uint32_t> inside{0};  // shm_inside() of the domain; 0: of none
};
static_assert(sizeof(ShmChannel) == 192);

class ShmOutbox {
 public:
  static constexpr size_t kRingBytesMin = 4 * kPacketBytesMax;
  static constexpr size_t kRingBytesMax = size_t{1} << 30;
  static size_t bytes(size_t workers, size_t ring_bytes);

  ShmOutbox() = default;
  ShmOutbox(Mapping memory, size_t workers, size_t ring_bytes);

  bool mapped() const { return memory_.base() != nullptr; }
  ShmChannel& channel(size_t worker) const { return reinterpret_cast<ShmChannel*>(memory_.base())[worker]; }
  std::byte* buffer(size_t worker) const;
  size_t ring_bytes() const { return ring_bytes_; }
  bool anyone_inside(Domain domain) const;

 private:
  Mapping memory_;
  size_t workers_ = 0;
  size_t ring_bytes_ = 0;
};

class ShmLink {
 public:
  ShmLink(NodeId peer, uint32_t incarnation, ShmOutbox out)
      : peer_(peer), incarnation_(incarnation), out_(std::move(out)) {}
  ShmLink(const ShmLink&) = delete;
  ShmLink& operator=(const ShmLink&) = delete;

  // Called by the control thread: the first before any worker has the link, the second at any time. False: the id is
  // invalid or in use.
  void set_base(ShmOutbox in, Mapping control, std::vector<Fd> eventfds);
  bool add_region(RegionId id, Domain domain, Mapping memory);
  bool has_base() const { return in_.mapped(); }
  // Whether the peer is currently accessing our regions of this domain.
  bool peer_inside(Domain domain) const { return in_.mapped() && in_.anyone_inside(domain); }

  // Called by any thread that has a reference.
  NodeId peer() const { return peer_; }
  uint32_t incarnation() const { return incarnation_; }
  const ShmOutbox& out() const { return out_; }
  const ShmOutbox& in() const { return in_; }
  ShmControlBlock& control() const { return *reinterpret_cast<ShmControlBlock*>(control_.base()); }
  // nullptr if the range is outside the region, or that is of another domain.
  std::byte* resolve(Domain domain, RegionId id, uint64_t offset, uint64_t bytes) const;
  void wake(size_t worker) const;

  // A worker reports invalid lengths in the peer's ring; the control thread checks for it and closes the link.
  void report_broken(WorkerId worker, size_t flow, uint64_t position);
  std::optional<std::string> broken() const;

 private:
  struct Window {
    std::atomic<std::byte*> base{nullptr};
    uint64_t bytes = 0;  // written before base
    Domain domain = Domain::kEngine;
    Mapping memory;
  };
  enum Report : uint8_t { kNone, kWriting, kMade };

  const NodeId peer_;
  const uint32_t incarnation_;
  const ShmOutbox out_;
  ShmOutbox in_;
  Mapping control_;
  std::vector<Fd> eventfds_;  // of the peer's workers
  std::array<Window, Regions::kRegionsMax> windows_;
  std::atomic<uint8_t> report_{kNone};
  WorkerId broken_worker_;
  size_t broken_flow_ = 0;
  uint64_t broken_position_ = 0;
};

// The links that the control thread publishes to all workers of its node: at most one per peer.
class ShmLinks {
 public:
  using Table = std::array<std::shared_ptr<ShmLink>, kNodesMax>;

  void set(NodeId peer, std::shared_ptr<ShmLink> link);
  // Changes with every set(). Ordered after the seq_cst store by which a worker marks itself as sleeping.
  uint64_t version() const { return version_.load(std::memory_order_seq_cst); }
  // Calls take(peer, link) for each peer, link null or not; returns the version they belong to. Allocates nothing.
  template <class Take>
  uint64_t look(const Take& take) {
    const std::lock_guard lock(mutex_);
    for (size_t n = 0; n < table_.size(); ++n) take(n, table_[n]);
    return version_.load(std::memory_order_relaxed);
  }

 private:
  std::mutex mutex_;
  Table table_;
  std::atomic<uint64_t> version_{0};
};

}  // namespace weft
