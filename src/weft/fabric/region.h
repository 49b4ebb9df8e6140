// A region: memory that a node registers for one-sided access. Its content is addressed by (region, offset).
//
// The memory is reserved once, on huge pages where the kernel gives them, and stays at one address until the region is
// destroyed. It is private to the process, or a memory file that the shm wire hands to the other processes of the host.
// Access by peers is off until granted; see Regions::grant and revoke.
//
// Thread-safety: base(), bytes() and fd() never change; discard and pin may be called by any thread. add and
// set_remote_initiators belong to the node's control thread; grant and revoke may be called by any thread, by one at a
// time; resolve() by any worker or wire.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "weft/base/fd.h"
#include "weft/base/mapping.h"
#include "weft/status.h"
#include "weft/types.h"

namespace weft {

using RegionId = Id<struct RegionTag, uint16_t>;

enum class RegionKind : uint8_t { kHost };
enum class RegionSharing : uint8_t { kPrivate, kShared };

class Region {
 public:
  // Reserves `bytes` of address space, rounded up to 2 MiB; pages are committed when first touched.
  static Result<std::unique_ptr<Region>> create(size_t bytes, RegionKind kind = RegionKind::kHost,
                                                RegionSharing sharing = RegionSharing::kPrivate);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* base() const { return mapping_.base(); }
  size_t bytes() const { return mapping_.bytes(); }
  RegionKind kind() const { return kind_; }
  int fd() const { return file_.get(); }  // of the memory file; -1 if private

  // Touches [offset, offset + bytes) so that no page fault is left for the data path.
  void prefault(size_t offset, size_t bytes);
  // Returns the pages of [offset, offset + bytes) to the kernel; the range reads as zero afterwards, also where it
  // covers only part of a page. Both numbers are multiples of 8.
  void discard(size_t offset, size_t bytes);
  // Called before a NIC registers the pages: from now on discard() only zeroes. A page that was returned and touched
  // again would be a different one, and the NIC would continue to use the old one.
  void pin();

 private:
  Region(Mapping mapping, Fd file, RegionKind kind)
      : mapping_(std::move(mapping)), file_(std::move(file)), kind_(kind) {}
  const Mapping mapping_;
  const Fd file_;
  const RegionKind kind_;
  std::mutex pages_;  // held while pages are returned
  bool pinned_ = false;
};

// Initiators outside this process, whose accesses no Section covers: the shm wire publishes grants to them in shared
// memory, the verbs wire opens and closes the queue pairs that serve them.
class RemoteInitiators {
 public:
  virtual ~RemoteInitiators() = default;
  // `grants` as in Regions: odd while the peer has a grant. After this no access begins under an earlier grant.
  virtual void publish(NodeId peer, uint32_t grants) = 0;
  // Whether an access by this peer that began before the last publish() may still be in progress. False once the peer
  // has died.
  virtual bool inside(NodeId peer) = 0;
};

// The regions of one node, and who may reach them.
class Regions {
 public:
  static constexpr size_t kRegionsMax = 256;

  // The region must outlive this object. Ids count from 0.
  RegionId add(Region* region);
  // Replaces a region that nobody accesses any more.
  void replace(RegionId id, Region* region);
  Region* find(RegionId id) const;  // nullptr if there is none
  size_t count() const { return count_.load(std::memory_order_acquire); }

  // Peers have no access until granted. After revoke(peer) returns, nothing that peer posted earlier lands: the wires
  // of this process enter a Section around every access they execute for a peer, and revoke() waits for those of other
  // processes unless they have died (RemoteInitiators).
  void grant(NodeId peer);
  void revoke(NodeId peer);
  bool granted(NodeId peer) const { return grant_of(peer) != 0; }
  // The number of the peer's current grant; 0 if it has none. A wire that executes a verb later than it was posted
  // compares it: a verb posted under one grant does not land under the next.
  uint32_t grant_of(NodeId peer) const;

  // `initiators` learns of the current grants at once and of every later one; nullptr: nobody does. It must outlive
  // being set.
  void set_remote_initiators(RemoteInitiators* initiators);

  // One or more accesses that a wire executes for a peer: revoke(peer) waits until it is destroyed. Keep it short, and
  // never open one inside revoke.
  class Section {
   public:
    Section(Regions& regions, NodeId peer);
    uint32_t grant() const { return grant_; }  // grant_of() inside this section
    ~Section();
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
    // nullptr if the peer has no grant or the range is outside the region.
    std::byte* resolve(RegionId id, uint64_t offset, uint64_t bytes) const;
    bool holds() const { return true; }  // the grant cannot end inside

   private:
    Regions& regions_;
    const NodeId peer_;
    uint32_t grant_ = 0;
  };

 private:
  struct alignas(64) Gate {
    std::atomic<uint32_t> grants{0};  // number of grants and revokes: odd while granted
    std::atomic<uint32_t> inside{0};  // accesses in progress for this peer
  };
  std::array<std::atomic<Region*>, kRegionsMax> regions_{};
  std::atomic<uint16_t> count_{0};
  mutable std::array<Gate, kNodesMax + 1> gates_;
  RemoteInitiators* initiators_ = nullptr;
};

}  // namespace weft
