// VerbsLink: one connection between two workers of the verbs wire; it lives as long as the tcp connection below.
//
// Set-up: both send hello over tcp, connect their queue pair for packets when they receive the other's, and send ready.
// When both have sent it, packets may be sent. From then on the two exchange messages over that queue pair, between the
// packets, and tcp only shows when the other process ends. A packet sent after a grant arrives after the message about
// the grant.
//
// Only the worker that owns the connection uses it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "weft/base/random.h"
#include "weft/types.h"
#include "weft/wires/completions.h"
#include "weft/wires/tcp/wire.h"
#include "weft/wires/verbs/handshake.h"
#include "weft/wires/verbs/initiator_queue.h"
#include "weft/wires/verbs/nic.h"
#include "weft/wires/verbs/packets.h"
#include "weft/wires/verbs/qp.h"
#include "weft/wires/verbs/target_queue.h"
#include "weft/wires/verbs/worker_domain.h"

namespace weft {

// What the wires of a node share.
struct VerbsNode {
  NodeId self;
  int nodes;  // at most
  const VerbsNic& nic;
  Regions* const regions;  // may be nullptr
  VerbsRegions* const registered;
  const VerbsCq& target_cq;  // of all target queues: nothing completes there
  bool worker_doorbells;
};

// Shared by the links of one worker.
struct VerbsShared : VerbsNode {
  std::unique_ptr<WorkerDomain> worker_domain;
  std::unique_ptr<VerbsCq> cq;
  std::array<std::array<VerbsTargetQueue, kDomains>, kNodesMax> served;  // the control thread closes them
  std::array<std::array<VerbsMemory, kDomains>, kNodesMax> windows;      // of initiator queues, by peer
  DomainCompletions completions;
  VerbsCounters counters;
  Random random;
  uint16_t last_generation = 0;

  uint16_t generation() { return ++last_generation == 0 ? ++last_generation : last_generation; }
  VerbsTargetQueue& served_to(NodeId peer, Domain domain) { return served[peer.value][index_of(domain)]; }
  void close(NodeId peer) {
    for (VerbsTargetQueue& queue : served[peer.value]) queue.close();
  }
  uint32_t grant_to(NodeId peer, Domain domain) const {
    return regions == nullptr ? 0 : regions->grant_of(peer, domain);
  }
  uint32_t sequence() { return static_cast<uint32_t>(random.below(kVerbsNumberMax + 1)); }
};

class VerbsLink {
 public:
  // The number of completions that may be in the completion queue at a time.
  static constexpr size_t kWorkMax =
      VerbsPackets::kSends + VerbsPackets::kReceives + kDomains * VerbsInitiatorQueue::kVerbsMax;

  // `connection` as TcpWire names it. `memory` has VerbsPackets::kMemoryBytes and outlives it.
  static Result<std::unique_ptr<VerbsLink>> create(VerbsShared* shared, NodeId peer, uint64_t connection,
                                                   const VerbsMemory& memory);
  ~VerbsLink();
  VerbsLink(const VerbsLink&) = delete;
  VerbsLink& operator=(const VerbsLink&) = delete;

  uint64_t connection() const { return connection_; }
  bool up() const { return ready_sent_ && ready_received_; }
  bool waiting() const { return packets_->waiting() || answers_waiting_ != 0; }
  VerbsInitiatorQueue& posted(Domain domain) { return posted_[index_of(domain)]; }
  VerbsPackets& packets() { return *packets_; }

  // False if there is no room now.
  bool send(ByteView packet);
  // Sends the messages that are due and hands them to the device. False if the connection is broken; `fault` says why.
  bool step(TcpWire& tcp, TcpFault* fault);
  // Handles a message received over tcp, or between packets.
  bool on_message(ByteView bytes, bool over_tcp, TcpFault* fault);

 private:
  VerbsLink(VerbsShared* shared, NodeId peer, uint64_t connection, std::unique_ptr<VerbsPackets> packets);
  bool on_setup_message(const VerbsMessage& message, TcpFault* fault);
  bool answer(const VerbsMessage& ask, TcpFault* fault);
  bool send_setup(TcpWire& tcp);
  bool send_control(const VerbsMessage& message) { return packets_->send_control(as_bytes(verbs_encode(message))); }
  bool announce(TcpFault* fault);
  bool announce_regions(TcpFault* fault);
  bool announce_grant(Domain domain);
  void send_answers();
  bool ask(Domain domain, TcpFault* fault);
  bool broken(const Error& error, TcpFault* fault) const;

  VerbsShared* const shared_;
  const NodeId peer_;
  const uint64_t connection_;
  std::unique_ptr<VerbsPackets> packets_;
  std::deque<VerbsInitiatorQueue> posted_;  // by domain
  bool hello_sent_ = false;
  bool hello_received_ = false;
  bool ready_sent_ = false;
  bool ready_received_ = false;
  std::array<std::optional<uint32_t>, kDomains> announced_;  // the grants that were announced to the peer
  uint64_t announced_changes_ = UINT64_MAX;                  // Regions::changes() when all had been
  bool granted_ = false;                                     // one of them is a grant
  size_t regions_announced_ = 0;
  std::array<std::optional<VerbsMessage>, kDomains> open_answers_;  // replies to the peer's last asks, not sent yet
  int answers_waiting_ = 0;
};

}  // namespace weft
