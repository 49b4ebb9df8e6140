// VerbsInitiatorQueue: the one-sided verbs of a worker to one peer, over a queue pair of their own, so that a refused
// verb breaks no packets and no verbs of the peer.
//
// The queue is opened under a grant: the peer says the grant's number, this side asks for a queue, the peer opens one
// (verbs_talk.h). When the grant ends, the peer destroys its end of the queue and then says so; this side destroys its
// own end then, or when the device reports that nobody answers.
//
// What is read and written passes through a window of registered memory, so that Verb::local may be any memory, and
// nothing is written through it after a completion was reported: READ and atomics are copied out when they are retired,
// WRITEs are copied in when they are posted. Small WRITEs go inline instead.
//
// I1: verbs of one post take effect in order. The device keeps the order of what it sends, but may carry out a WRITE or
//     an atomic before a READ (or an atomic) in front of it: such a verb is held back here, and with it all behind it,
//     until those in front of it are done. A device could do that itself (IBV_SEND_FENCE), but a fenced atomic that
//     Soft-RoCE (Linux 6.1) sends again, because its answer is late, waits for itself, and with it the queue, without
//     an error. No post of the worker needs this.
// I2: a verb that the contract refuses and a device might not (an offset that is no multiple of 8, a region that is not
//     there) is posted as a READ beyond the end of a region: the peer's device refuses it in its turn.
// I3: what is outstanding fits into the window, the send queue and the completions. An unsignalled verb is signalled to
//     us now and then, so that these do not fill with verbs that are long done.
//
// Only the worker that has the connection uses it.
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
  uint64_t queues_opened = 0;  // for verbs of peers and of the own node
  uint64_t held = 0;           // verbs that waited for those in front of them
};

class VerbsInitiatorQueue {
 public:
  static constexpr size_t kVerbsMax = 1024;          // outstanding
  static constexpr size_t kVerbBytesMax = 64 << 10;  // of one READ or WRITE
  static constexpr size_t kWindowBytes = 1 << 20;    // of all that are outstanding
  static constexpr uint32_t kInlineBytes = 256;

  // `window` has kWindowBytes and outlives it.
  VerbsInitiatorQueue(NodeId peer, std::byte* window, uint32_t key, Completions* completions, VerbsCounters* counters);
  ~VerbsInitiatorQueue();  // flushes

  // Takes all verbs or none; false if there is no room now, or the queue is being opened.
  bool post(std::span<const Verb> verbs);
  void completed(const ibv_wc& wc, uint32_t index);
  uint16_t generation() const { return generation_; }  // 0: there is no queue
  void reset() { broken_ = false; }

  // What the peer says.
  void set_region(RegionId region, uint64_t base, uint64_t bytes, uint32_t key);
  void set_grant(uint32_t grant);
  // The other end of the queue that asked.
  Result<void> open(uint32_t asked, const QpAddress& address);

  // A queue under this grant is to be asked for; 0: not now.
  uint32_t wants_queue() const { return qp_ == nullptr && !broken_ ? grant_ : 0; }
  // Makes this end of it. No other queue pair of the wire has this generation; it is not 0.
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
    bool waits;  // until those in front of it are done
  };
  struct Remote {
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint32_t key = 0;
  };

  Pending& at(uint32_t index) { return pending_[index % kVerbsMax]; }
  size_t staged_bytes(const Verb& verb) const;
  // Where the next piece begins: each lies in one part.
  static uint64_t staged_at(uint64_t tail, size_t bytes) {
    const size_t left = kWindowBytes - tail % kWindowBytes;
    return bytes > left ? tail + left : tail;
  }
  bool window_fits(std::span<const Verb> verbs) const;
  void post_nowhere(std::span<const Verb> verbs);
  // Of verbs of one post, one after the other: must this one wait for those in front?
  struct Order {
    bool read = false, atomic = false;  // there is one in front, in this post, that nobody has waited for
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
  std::byte* const window_;
  const uint32_t key_;
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
  uint32_t sent_ = 0;  // to the device; the rest is held back
  uint32_t retired_ = 0;
  uint64_t window_head_ = 0;  // [head, tail) is in use; both count on
  uint64_t window_tail_ = 0;
  uint32_t silent_ = 0;  // posted since the last one that is signalled
  uint64_t silent_bytes_ = 0;
  bool holds_ = false;  // the post under way is held back, all or some of it
};

}  // namespace weft
