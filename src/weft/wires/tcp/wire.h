// TcpWire: a worker's end of its tcp connections, one to the same worker of each peer.
//
// Writing: send() and post() only append to the connection's output, unless kEagerBytes have gathered; poll() begins by
// writing everything that waits, one system call per connection. A worker's loop polls right after it flushes, so that
// costs no time, and the packets of all flows to a peer share a segment. release() writes as well, since a port takes
// several turns to work off what one poll brought. Output that waits for a socket that takes more is pending().
//
// Reading: events are edge-triggered, so that a socket costs an epoll_ctl once in its life; what they said is kept in
// the link. poll() asks for events once, and then reads at most once from each connection that has something, into the
// connection's buffer, from which packets are handed out in place. Connections take turns, and one poll serves at most
// kVerbWorkBytes of verbs of one peer, so that none starves.
//
// Whom it talks to: a link is used only while its incarnation is the admitted one. Until then nothing of it is read
// (what the peer sends waits in the socket, and then at the peer). Links of an incarnation before the admitted one are
// closed. send() waits (returns false) while the admitted incarnation is not connected yet. When its connection is
// lost, and while nobody is admitted, packets are taken and go nowhere, counted as dropped: the loss was reported, and
// what a port above still holds must not keep its worker awake for ever. Verbs posted without a connection are flushed.
//
// Threads: the worker calls what Wire has; the control thread calls offer, withdraw and wake. A gate makes withdraw
// sharp: it is odd while the worker is inside poll(). The worker passes it and then looks for changes, the control
// thread notes its change and then looks at the gate, all sequentially consistent: either the worker sees the change
// and drops the link before it does anything with it, or the control thread sees the worker inside and waits until it
// is out. So after withdraw() returns, no poll() delivers anything of the link, and no verb of it lands. Packets that a
// poll() has handed out before that are the worker's; their bytes stay valid until release().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/fabric/wire.h"
#include "weft/types.h"
#include "weft/wires/tcp/link.h"
#include "weft/wires/tcp/stream.h"
#include "weft/wires/tcp/verbs.h"

namespace weft {

struct TcpCounters {
  uint64_t packets_sent = 0, packets_refused = 0, packets_dropped = 0, packets_received = 0;
  uint64_t reads = 0, bytes_read = 0, writes = 0, bytes_written = 0;
  uint64_t doorbells = 0, verbs = 0, verbs_served = 0;
};

class TcpWire final : public Wire {
 public:
  static constexpr size_t kEagerBytes = 64 << 10;
  static constexpr size_t kVerbWorkBytes = 256 << 10;
  static constexpr size_t kTlsReadBytes = 64 << 10;  // decrypting takes time; a plain read takes what is there

  // `reports` is an eventfd: written when the control thread has to look after a link of this wire.
  TcpWire(NodeId self, size_t completions_max, int reports);

  bool send(NodeId to, Flow flow, ByteView packet) override;
  size_t poll(std::span<Packet> out) override;
  void release() override;
  bool post(NodeId to, std::span<const Verb> verbs) override;
  size_t poll_completions(std::span<Completion> out) override { return completions_.poll(out); }
  void reset(NodeId to) override;
  void accept_incarnation(NodeId peer, uint32_t incarnation) override;
  bool pending() const override;

  const TcpCounters& counters() const { return counters_; }

  // For a wire that sets its own connections up over this one (verbs).
  // Names the connection in use; 0 if there is none. Another one has another name.
  uint64_t connection(NodeId peer) const;
  // Nobody is admitted, or the admitted incarnation was connected and is no more.
  bool is_lost(NodeId peer) const;
  // A connection has come or gone, and the next poll() takes note.
  bool has_changes() const { return reconsider_ || changes_.load(std::memory_order_seq_cst) != seen_changes_; }
  // The connection is of no use any more, `fault` says why: as if it had failed here.
  void give_up(NodeId peer, const TcpFault& fault);

  // The control thread's.
  int wait_fd() const { return epoll_.get(); }
  Completions* completions() { return &completions_; }
  void offer(TcpLink* link);
  // After `dead` was set on it. True if the worker never got the link; else it will say `released`.
  bool withdraw(TcpLink* link);
  void wake();  // the worker polls once more, if it is asleep

 private:
  struct Slot {
    TcpLink* link = nullptr;
    uint32_t admitted = 0;
    uint32_t lost = 0;        // the incarnation whose link was let go of last
    TcpLink* past = nullptr;  // this link, if it was dead when the incarnation was admitted
    uint64_t connection = 0;  // counts what was activated
  };

  Slot& slot_of(NodeId peer);
  TcpLink* usable(const Slot& slot) const;
  bool waits_for_connection(const Slot& slot) const;
  void take_changes();
  void install(size_t peer, TcpLink* link);
  void activate(size_t peer);
  void fail(TcpLink& link, const TcpFault& fault);
  void let_go(size_t peer);
  void report() const;
  void look();
  void announce_grants();
  void write_waiting();
  void write(TcpLink& link);
  size_t serve(TcpLink& link, std::span<Packet> out);
  bool fill(TcpLink& link);
  bool take_verb(TcpLink& link, const TcpFrame& frame);

  const NodeId self_;
  const int reports_;
  Descriptor epoll_;
  Descriptor bell_;
  std::array<std::atomic<TcpLink*>, kNodesMax> offered_{};
  std::atomic<uint64_t> changes_{0};
  std::atomic<uint64_t> gate_{0};

  // The worker's. Bit n of a mask: the link to node n ...
  std::array<Slot, kNodesMax> slots_{};
  uint64_t seen_changes_ = 0;
  uint64_t connections_ = 0;
  bool reconsider_ = false;  // a link failed, or another incarnation was admitted
  uint64_t active_ = 0;      // is the admitted one and works
  uint64_t ready_ = 0;       // and may have something to read or to decode
  uint64_t waiting_ = 0;     // has output
  uint64_t blocked_ = 0;     // whose socket takes no more
  size_t first_ = 0;         // the peer that is served first
  Completions completions_;
  TcpCounters counters_;
};

}  // namespace weft
