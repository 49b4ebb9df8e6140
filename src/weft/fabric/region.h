// A region: memory that a node registers for one-sided access. Its content is addressed by (region, offset).
//
// The memory is reserved once, on huge pages where the kernel gives them, and stays at one address until the region is
// destroyed. It is private to the process, or a memory file that the shm wire hands to the other processes of the host.
// Access by peers is off until granted; see Regions.
//
// A region belongs to one access domain for life. What peers may do is granted and closed by peer and domain, and each
// domain has queues of its own on every wire: a view change closes the engine's domain and disturbs no other, and a
// refused verb breaks the queue of its own domain only. A verb that names a region of another domain is refused.
//
// Thread-safety: base(), bytes() and fd() never change; discard and pin may be called by any thread. add and
// set_remote_initiators belong to the node's control thread; grant, close and revoke may be called by any thread, for
// one domain by one at a time; closed() and resolve() by any.
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

enum class Domain : uint8_t {
  kEngine,  // tables, absence words and logs of transactions: granted by a view, closed when it ends
  kFar,     // structures that clients operate by verbs alone; nothing of the engine grants it
};
inline constexpr int kDomains = 2;
inline constexpr std::array<Domain, kDomains> kAllDomains = {Domain::kEngine, Domain::kFar};
constexpr size_t index_of(Domain domain) { return static_cast<size_t>(domain); }
using DomainGrants = std::array<uint32_t, kDomains>;  // Regions::grant_of of each domain

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
  virtual void publish(NodeId peer, Domain domain, uint32_t grants) = 0;
  // Whether an access by this peer that began before the last publish() may still be in progress. False once the peer
  // has died.
  virtual bool inside(NodeId peer, Domain domain) = 0;
};

// The regions of one node, and who may reach them.
class Regions {
 public:
  static constexpr size_t kRegionsMax = 256;

  // The region must outlive this object. Ids count from 0.
  RegionId add(Region* region, Domain domain = Domain::kEngine);
  // Replaces a region that nobody accesses any more, by one of the same domain.
  void replace(RegionId id, Region* region);
  Region* find(RegionId id) const;                                    // nullptr if there is none
  Domain domain_of(RegionId id) const { return domains_[id.value]; }  // of a region that was added
  size_t count() const { return count_.load(std::memory_order_acquire); }

  // Peers have no access until granted. close() ends the grant at once and waits for nobody: no access begins any more
  // under it, and once closed() is true, nothing that the peer posted under it lands. The wires of this process enter a
  // Section around every access they execute for a peer; RemoteInitiators know of those of other processes. So a peer
  // that is stopped in the middle of an access holds up only who waits for closed(). revoke() is close() and that wait,
  // for callers that have nothing else to do.
  void grant(NodeId peer, Domain domain);
  void close(NodeId peer, Domain domain);
  bool closed(NodeId peer, Domain domain) const;
  void revoke(NodeId peer, Domain domain);
  bool granted(NodeId peer, Domain domain) const { return grant_of(peer, domain) != 0; }
  // The number of the peer's current grant; 0 if it has none. A wire that executes a verb later than it was posted
  // compares it: a verb posted under one grant does not land under the next.
  uint32_t grant_of(NodeId peer, Domain domain) const;
  DomainGrants grants_of(NodeId peer) const;
  // Counts grants and ends of grants, of all peers and domains: a wire that announces grants looks here first.
  uint64_t changes() const { return changes_.load(std::memory_order_seq_cst); }

  // `initiators` learns of the current grants at once and of every later one; nullptr: nobody does. It must outlive
  // being set.
  void set_remote_initiators(RemoteInitiators* initiators);

  // One or more accesses to a domain that a wire executes for a peer: closed() is false until it is destroyed. Keep it
  // short.
  class Section {
   public:
    Section(Regions& regions, NodeId peer, Domain domain);
    uint32_t grant() const { return grant_; }  // grant_of() inside this section
    ~Section();
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
    // nullptr if the peer has no grant, or the range is outside the region, or that is of another domain.
    std::byte* resolve(RegionId id, uint64_t offset, uint64_t bytes) const;
    bool holds() const { return true; }  // the grant cannot end inside

   private:
    Regions& regions_;
    const NodeId peer_;
    const Domain domain_;
    uint32_t grant_ = 0;
  };

 private:
  struct alignas(64) Gate {
    std::atomic<uint32_t> grants{0};  // number of grants and ends of grants: odd while granted
    std::atomic<uint32_t> inside{0};  // accesses in progress for this peer
  };
  using Gates = std::array<Gate, kDomains>;
  Gate& gate(NodeId peer, Domain domain) const { return gates_[peer.value][index_of(domain)]; }
  void set_granted(NodeId peer, Domain domain, bool granted);

  std::array<std::atomic<Region*>, kRegionsMax> regions_{};
  std::array<Domain, kRegionsMax> domains_{};  // written before the region is
  std::atomic<uint16_t> count_{0};
  std::atomic<uint64_t> changes_{0};
  mutable std::array<Gates, kNodesMax + 1> gates_;
  RemoteInitiators* initiators_ = nullptr;
};

}  // namespace weft
