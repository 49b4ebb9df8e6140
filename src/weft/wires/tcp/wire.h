// TcpWire: a worker's end of its tcp connections, one to the same worker of each peer.
//
// Writing: send() and post() only append to the connection's output, unless kEagerBytes have gathered; poll() begins by
// writing all output, with one system call per connection. A worker's loop polls right after it flushes, so this adds
// no delay, and the packets of all flows to a peer share a segment. release() writes as well, since a port needs
// several iterations to handle what one poll returned. Output that waits for a socket that has room again is pending().
//
// Reading: events are edge-triggered, so that a socket needs only one epoll_ctl; the link keeps their state. poll()
// gets events once, and then reads at most once from each readable connection into the connection's buffer, from which
// packets are handed out in place. Connections are served round-robin, and one poll executes at most kVerbWorkBytes of
// verbs of one peer, so that none starves.
//
// Incarnations: a link is used only while its incarnation is the accepted one. Until then nothing is read from it (what
// the peer sends waits in the socket, and then at the peer). Links of an incarnation before the accepted one are
// closed. send() waits (returns false) while the accepted incarnation is not connected yet. When its connection is
// lost, and while no incarnation is accepted, packets are taken and dropped, and counted as such: the loss was
// reported, and packets that a port still holds must not keep its worker awake forever. Verbs posted without a
// connection are flushed.
//
// Threads: the worker calls the functions of Wire; the control thread calls offer, withdraw and wake. A gate makes
// withdraw take effect at once: it is odd while the worker is inside poll(). The worker enters it and then checks for
// changes, the control thread records its change and then reads the gate, all sequentially consistent: either the
// worker sees the change and drops the link before it uses it, or the control thread sees the worker inside and waits
// until it is out. So after withdraw() returns, no poll() delivers anything from the link, and no verb of it lands.
// Packets that a poll() handed out before belong to the worker; their bytes stay valid until release().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/fabric/nodes.h"
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
  static constexpr size_t kTlsReadBytes = 64 << 10;  // decrypting takes time; a plain read takes all there is

  // `reports` is an eventfd that is written when the control thread must handle a link of this wire.
  TcpWire(NodeId self, size_t completions_max, int reports);

  bool send(NodeId to, Flow flow, ByteView packet) override;
  size_t poll(std::span<Packet> out) override;
  void release() override;
  bool post(NodeId to, Domain domain, std::span<const Verb> verbs) override;
  size_t poll_completions(Domain domain, std::span<Completion> out) override {
    return completions_.of(domain).poll(out);
  }
  void reset(NodeId to, Domain domain) override;
  void accept_incarnation(NodeId peer, uint32_t incarnation) override;
  bool pending() const override;

  const TcpCounters& counters() const { return counters_; }

  // For a wire that sets up its own connections over this one (verbs). A number that identifies the connection in use;
  // 0 if there is none. It is unique per connection.
  uint64_t connection(NodeId peer) const;
  // True if no incarnation is accepted, or the accepted one was connected and is not any more.
  bool is_lost(NodeId peer) const;
  // True if a connection was added or lost, which the next poll() handles.
  bool has_changes() const { return reconsider_ || changes_.load(std::memory_order_seq_cst) != seen_changes_; }
  // Fails the connection for the reason in `fault`, as if it had failed here.
  void give_up(NodeId peer, const TcpFault& fault);

  // For the control thread.
  int wait_fd() const { return epoll_.get(); }
  DomainCompletions* completions() { return &completions_; }
  void offer(TcpLink* link);
  // Call it after setting `dead`. True if the worker never got the link; else the worker will set `released`.
  bool withdraw(TcpLink* link);
  void wake();  // the worker polls once more, if it is asleep

 private:
  struct Slot {
    TcpLink* link = nullptr;
    uint32_t accepted = 0;
    uint32_t lost = 0;        // the incarnation whose link was dropped last
    TcpLink* past = nullptr;  // this link, if it was dead when the incarnation was accepted
    uint64_t connection = 0;  // counts activated links
  };

  Slot& slot_of(NodeId peer);
  TcpLink* usable(const Slot& slot) const;
  bool waits_for_connection(const Slot& slot) const;
  void take_changes();
  void install(NodeId peer, TcpLink* link);
  void activate(NodeId peer);
  void fail(TcpLink& link, const TcpFault& fault);
  void let_go(NodeId peer);
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
  Descriptor wakeup_eventfd_;
  std::array<std::atomic<TcpLink*>, kNodesMax> offered_{};
  std::atomic<uint64_t> changes_{0};
  std::atomic<uint64_t> gate_{0};

  // For the worker. A set has the nodes whose link ...
  std::array<Slot, kNodesMax> slots_{};
  uint64_t seen_changes_ = 0;
  uint64_t connections_ = 0;
  bool reconsider_ = false;  // a link failed, or another incarnation was accepted
  NodeSet active_;           // ... is of the accepted incarnation and works
  NodeSet ready_;            // ... does, and may have something to read or to decode
  NodeSet waiting_;          // ... has output
  NodeSet blocked_;          // ... has a full socket
  NodeId first_;             // the peer to serve first
  DomainCompletions completions_;
  TcpCounters counters_;
};

}  // namespace weft
