// ShmWire: one worker's end of the shm interconnect. Packets go through rings in memory shared with the peer's process;
// the initiator executes verbs at once in its own mapping of the peer's region (verb_queue.h).
//
// For the verbs of one post() the initiator first marks itself as inside the domain (a word in its own outbox) and then
// reads the grant in the target's control block; the target ends the grant and then checks whether somebody is inside.
// All accesses are sequentially consistent, as in Regions, but across processes. The grant is read again after every
// verb, for the one case in which the target does not wait: it left while this process lives. Then the verb may have
// landed and is refused.
//
// A peer without a link, or in an incarnation that was not accepted, takes no packets (send returns false) and refuses
// verbs. Its packets stay in its rings.
//
// Only the owning worker calls it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "weft/fabric/channel_rings.h"
#include "weft/fabric/region.h"
#include "weft/fabric/verb_queue.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"
#include "weft/wires/shm/link.h"

namespace weft {

class ShmWire final : public Wire {
 public:
  // `regions` are this node's and may be nullptr; `control_eventfd` is an eventfd that the control thread waits for.
  ShmWire(NodeId self, WorkerId worker, size_t completions_max, ShmLinks* links, Regions* regions, int control_eventfd);

  // Accepts any bytes up to half a ring; the receiving port checks their content.
  bool send(NodeId to, Flow flow, ByteView packet) override;
  size_t poll(std::span<Packet> out) override;
  void release() override;
  bool post(NodeId to, Domain domain, std::span<const Verb> verbs) override;
  size_t poll_completions(Domain domain, std::span<Completion> out) override;
  void reset(NodeId to, Domain domain) override;
  void accept_incarnation(NodeId peer, uint32_t incarnation) override;
  bool pending() const override;

  const WireCounters& counters() const { return counters_; }

 private:
  struct Peer {
    std::shared_ptr<ShmLink> link;
    uint32_t accepted = 0;  // its incarnation
    bool open = false;      // the link exists and is accepted: packets and verbs may be sent
    bool attached = false;  // its receiver is in receivers_; otherwise it is kept here
    bool broken = false;    // its ring was invalid: nothing more is read from this link
    RingWriters writers;
    RingReceiver parked;
  };

  void catch_up();
  void take_link(size_t node, const std::shared_ptr<ShmLink>& link);
  void sync_link(size_t node);
  void report_bad();

  const NodeId self_;
  const WorkerId worker_;
  ShmLinks* const links_;
  Regions* const regions_;
  const int control_eventfd_;
  uint64_t links_seen_ = 0;
  bool links_changed_ = false;  // an accepted incarnation or a broken ring waits for the end of the burst
  std::array<Peer, kNodesMax> peers_;
  RingReceiverSet<true> receivers_;
  WireCounters counters_;
  DomainQueues verbs_;
};

}  // namespace weft
