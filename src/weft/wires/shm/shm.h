// ShmInterconnect: the fabric between processes of one host. Packets go through rings in shared memory, one per
// (sender, receiver, worker, flow), and one-sided verbs are loads, stores and locked instructions of the initiator in
// its own mapping of the target's regions.
//
//   shm.h        this: who is connected, and what happens when that changes (control thread)
//   handshake.h  the message exchange with one peer over its unix socket (control thread)
//   messages.h   those messages
//   link.h       the shared memory of one connection, and when it is unmapped
//   wire.h       one worker's end
//
// Nothing is left behind: memory is memfds passed over the socket, which is abstract or unlinked. When the processes
// are gone, so is everything (except the file of a socket with a path, if its process was killed; the next one replaces
// it).
//
// The socket stays open, and its close means that the peer has died: the next control_step() reports kDown. Workers are
// woken and drop the link in their next poll; packets of the peer that were not polled are lost.
//
// Trust: only processes of the same user may connect. Their messages on the socket are checked; an invalid length in a
// ring closes the link (kDown names it); the port checks packets. A peer can still write anything into the memory it
// shares with us, and no mapping can be taken away from it.
//
// Grants: Regions::grant and close reach peers through the control block. closed(peer) says whether accesses that had
// begun are over, as on other wires. They are if the peer died, but not while the peer is stopped in the middle of one:
// the supervisor kills such a process. closed() does not wait for a living peer whose connection ended, by leave() here
// or there: so either close and closed come before leave, or the process has ended (the supervisor's SIGKILL and
// wait).
//
// leave(peer): a poll that begins after it returns delivers nothing from that peer.
//
// Sleeping works as in local.h, with the flag in the control block and an eventfd for the wake-up. If a process is
// stopped, not dead, between clearing the flag and writing the eventfd, its receiver sleeps until the receiver's next
// deadline.
//
// A process that uses it must not fork without exec: the child would hold the socket open, and deaths would go
// unnoticed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/fd.h"
#include "weft/base/mapping.h"
#include "weft/fabric/region.h"
#include "weft/status.h"
#include "weft/types.h"
#include "weft/wires/interconnect.h"
#include "weft/wires/shm/handshake.h"
#include "weft/wires/shm/link.h"
#include "weft/wires/shm/wire.h"

namespace weft {

struct ShmOptions {
  std::string address;  // '@' and an abstract name, or the path of a socket
  NodeId node;
  uint32_t incarnation = 1;  // 0: set_incarnation() sets it later
  int workers = 1;
  size_t ring_bytes = 256 << 10;  // per (peer, worker, flow), of what this node sends; committed when first used
  size_t completions_max = 4096;  // verbs posted whose completions were not polled yet, per worker
  HandshakeParams params;         // "wire version" and "workers" are added where they are not named
  Regions* regions = nullptr;     // outlives the interconnect; those that peers access are RegionSharing::kShared
  uint32_t setup_ms_max = 5000;   // for a set-up from the first byte to the last
  uint32_t retry_ms = 20;         // between attempts to connect; ten times that after a refusal
  size_t strangers_max = 64;      // accepted connections that are not up yet; beyond that the oldest goes
};

class ShmInterconnect final : public Interconnect, private RemoteInitiators {
 public:
  static Result<std::unique_ptr<ShmInterconnect>> create(const ShmOptions& options, Clock* clock);
  // Called on the control thread, when no worker uses its wire any more.
  ~ShmInterconnect() override;
  ShmInterconnect(const ShmInterconnect&) = delete;
  ShmInterconnect& operator=(const ShmInterconnect&) = delete;

  std::string_view name() const override { return "shm"; }
  const std::string& address() const override { return options_.address; }
  ShmWire* wire(WorkerId worker) override { return wires_[worker.value].get(); }
  int wait_fd(WorkerId worker) const override { return self_.eventfds[worker.value].get(); }
  void set_sleeping(WorkerId worker, bool sleeping) override;
  void set_incarnation(uint32_t incarnation) override;
  void join(const InterconnectPeer& peer) override;
  void leave(NodeId peer) override;
  // Always succeeds: one supervisor started all nodes on one host, where a running process can be reached, and join()
  // finds out the rest.
  void probe(const InterconnectPeer& peer, const JoinProbe&) override {
    events_.push_back({InterconnectEvent::Kind::kProbeReply, peer.node, peer.incarnation, {}, {}});
  }
  int control_fd() const override { return epoll_.get(); }
  void control_step() override;
  std::vector<InterconnectEvent> take_events() override;

 private:
  struct Peer {
    bool wanted = false;  // joined and not left; a connection that was lost is not wanted any more
    InterconnectPeer who;
    ShmHandshake* handshake = nullptr;  // while up
    ShmHandshake* trying = nullptr;     // while this side connects
    uint64_t next_try_ns = 0;
    std::string last_refusal;  // an attempt that fails like the last one is not reported again
  };

  ShmInterconnect(const ShmOptions& options, Clock* clock) : options_(options), clock_(clock) {}
  Result<void> set_up();
  Result<void> listen_to(int fd);

  void accept_all();
  void connect_due();
  void step_handshakes();
  bool step_handshake(ShmHandshake& handshake);  // false: it is over
  void decide(ShmHandshake& handshake);
  void bring_up(ShmHandshake& handshake);
  void drop_handshake(ShmHandshake& handshake);
  void take_down(Peer& peer);
  void reap();
  void wake_all();
  void refused(NodeId peer, uint32_t incarnation, const std::string& why);
  uint64_t setup_deadline() { return clock_->now_ns() + options_.setup_ms_max * uint64_t{1'000'000}; }

  void publish(NodeId peer, Domain domain, uint32_t grants) override;
  bool inside(NodeId peer, Domain domain) override;

  const ShmOptions options_;
  Clock* const clock_;
  ShmSelf self_;
  Mapping control_memory_;
  ShmControlBlock* control_ = nullptr;
  Fd epoll_;
  Fd listener_;
  Fd control_eventfd_;  // written when a worker has something to report
  std::array<Peer, kNodesMax> peers_;
  std::recursive_mutex handshakes_mutex_;                  // closed() calls inside() from a worker's thread
  std::vector<std::unique_ptr<ShmHandshake>> handshakes_;  // every open socket
  std::vector<std::shared_ptr<ShmLink>> retired_;          // withdrawn, maybe still used by a worker
  std::vector<InterconnectEvent> events_;
  ShmLinks links_;
  std::vector<std::unique_ptr<ShmWire>> wires_;
};

}  // namespace weft
