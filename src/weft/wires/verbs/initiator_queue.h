// VerbsInitiatorQueue: the one-sided verbs of a worker to one access domain of a peer, over a separate queue pair, so
// that a refused verb affects neither packets, nor the peer's verbs, nor other domains.
//
// The queue is opened under a grant: the peer sends the grant's number, this side asks for a queue, the peer opens one
// (handshake.h). When the grant ends, the peer destroys its end of the queue and then announces it; this side destroys
// its end then, or when the device reports that the peer does not respond.
//
// Data passes through a window of registered memory, so that Verb::local may be any memory, and nothing is written
// through it after a completion was reported: results of READs and atomics are copied out when they are retired, WRITEs
// are copied in when they are posted. Small WRITEs go inline instead.
//
// I1: verbs of one post take effect in order. The device sends in order, but may execute a WRITE or an atomic before an
//     earlier READ (or atomic): such a verb, and all behind it, is held back here until the earlier ones are complete.
//     A device could do that itself (IBV_SEND_FENCE), but a fenced atomic that Soft-RoCE (Linux 6.1) retransmits,
//     because its reply is late, waits for itself and blocks the queue, without an error. No post of the worker needs
//     this.
// I2: a verb that must be refused but that a device might accept (an offset that is not a multiple of 8, a region that
//     does not exist) is posted as a READ beyond the end of a region, so that the peer's device refuses it in order.
// I3: the outstanding verbs fit into the window, the send queue and the completions. From time to time an unsignalled
//     verb is signalled to us, so that these do not fill with verbs that completed long ago.
//
// Only the worker that owns the connection uses it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/fabric/wire.h"
#include "weft/status.h"
#include "weft/types.h"
#include "weft/wires/completions.h"
#include "weft/wires/verbs/qp.h"

namespace weft {

struct VerbsCounters {
  uint64_t packets_sent = 0, packets_refused = 0, packets_dropped = 0, packets_received = 0;
  uint64_t doorbells = 0, verbs = 0;  // doorbells of verbs
  uint64_t reads = 0, writes = 0, compare_swaps = 0, fetch_adds = 0;
  uint64_t queues_opened = 0;  // for verbs of peers and of the local node
  uint64_t held = 0;           // verbs that were held back (I1)
};

class VerbsInitiatorQueue {
 public:
  static constexpr size_t kVerbsMax = 512;           // outstanding
  static constexpr size_t kVerbBytesMax = 64 << 10;  // of one READ or WRITE
  static constexpr size_t kWindowBytes = 1 << 20;    // of all that are outstanding
  static constexpr uint32_t kInlineBytes = 256;

  // `window` outlives it, and is made, of kWindowBytes, when the first queue is asked for.
  VerbsInitiatorQueue(NodeId peer, Domain domain, VerbsMemory* window, Completions* completions,
                      VerbsCounters* counters);
  ~VerbsInitiatorQueue();  // flushes

  // Accepts all verbs or none; false if there is no room now, or the queue is being opened.
  bool post(std::span<const Verb> verbs);
  void completed(const ibv_wc& wc, uint32_t index);
  uint16_t generation() const { return generation_; }  // 0: there is no queue
  void reset() { broken_ = false; }

  // Announced by the peer.
  void set_region(RegionId region, uint64_t base, uint64_t bytes, uint32_t key);
  void set_grant(uint32_t grant);
  // Connects to the other end, if it is for the queue pair that asked.
  Result<void> open(uint32_t asked, const QpAddress& address);

  // The grant under which to ask for a queue; 0: not now.
  uint32_t wants_queue() const { return qp_ == nullptr && !broken_ ? grant_ : 0; }
  // Makes this end of it. The generation is not 0, and no other queue pair of the wire has it.
  Result<QpAddress> ask(const VerbsNic& nic, const VerbsCq& cq, uint16_t generation, uint32_t sequence);

  // Reports everything outstanding as flushed, and closes the queue.
  void flush();

 private:
  struct Pending {
    std::byte* local;
    const std::byte* staged;  // where a READ or an atomic lands
    uint64_t tag;
    uint64_t window_end;
    uint32_t returned;  // bytes to copy out
    bool signalled;
    bool waits;  // until those before it are complete
  };
  struct Remote {
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint32_t key = 0;
  };

  Pending& at(uint32_t index) { return pending_[index % kVerbsMax]; }
  size_t staged_bytes(const Verb& verb) const;
  // Where the next allocation begins: each is contiguous.
  static uint64_t staged_at(uint64_t tail, size_t bytes) {
    const size_t left = kWindowBytes - tail % kWindowBytes;
    return bytes > left ? tail + left : tail;
  }
  bool window_fits(std::span<const Verb> verbs) const;
  void post_nowhere(std::span<const Verb> verbs);
  // Applied to the verbs of one post in turn: must this one wait for those before it?
  struct Order {
    bool read = false, atomic = false;  // there is one before it in this post that was not waited for
    bool waits(const Verb& verb);
  };
  void put(const Verb& verb, bool waits);
  void send();
  void aim(const Verb& verb, ibv_send_wr& work, ibv_sge& part) const;
  void count(VerbKind kind);
  void retire(VerbStatus status);
  void fail(VerbStatus first);
  void close();

  const NodeId peer_;
  const Domain domain_;
  VerbsMemory* const window_;
  Completions* const completions_;
  VerbsCounters* const counters_;
  std::unique_ptr<Pending[]> pending_;    // [retired_, posted_)
  std::unique_ptr<ibv_send_wr[]> works_;  // as pending_
  std::unique_ptr<ibv_sge[]> parts_;
  std::vector<Remote> remotes_;  // by region

  std::unique_ptr<VerbsQp> qp_;
  bool open_ = false;
  bool received_grant_ = false;
  bool broken_ = false;
  uint32_t grant_ = 0;
  uint16_t generation_ = 0;
  uint32_t posted_ = 0;
  uint32_t sent_ = 0;  // given to the device; the rest is held back
  uint32_t retired_ = 0;
  uint64_t window_head_ = 0;  // [head, tail) is in use; both only grow
  uint64_t window_tail_ = 0;
  uint32_t silent_ = 0;  // posted since the last signalled one
  uint64_t silent_bytes_ = 0;
  bool holds_ = false;  // all or some of the current post is held back
};

}  // namespace weft
