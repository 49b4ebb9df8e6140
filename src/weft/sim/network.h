// The sim wire: packets and one-sided verbs in virtual time.
//
// All nodes of a simulation share a Network, which gives each worker its SimWire. What a worker sends or posts during a
// step leaves when the step ends (depart). Then:
// - a packet arrives after a latency drawn for it. Packets of one (sender, receiver, worker, flow) keep their order;
//   all others may overtake each other. A channel holds a bounded number of packets from send to release; send()
//   returns false when it is full, and the sender is woken when there is room again.
// - verbs behave as verbs.h says. Each node has one device, which executes one CAS or FAA at a time, including those of
//   the node's own LocalAtomics.
//
// One thread runs a simulation.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/fabric/local_atomics.h"
#include "weft/fabric/region.h"
#include "weft/fabric/wire.h"
#include "weft/sim/events.h"
#include "weft/sim/faults.h"
#include "weft/types.h"

namespace weft {

struct NetworkConfig {
  uint64_t base_ns = 1500;        // one-way latency of a packet or verb
  uint64_t jitter_ns = 500;       // at most this much more
  uint32_t tail_permille = 0;     // this often it is late
  uint64_t tail_ns = 0;           // by at most this much more
  uint32_t channel_packets = 64;  // in flight per (sender, receiver, worker, flow)
  uint32_t queue_verbs = 128;     // posted and not completed, per (sender, receiver, worker)
  uint64_t line_gap_ns = 40;      // at most this long before each line of a verb
  uint32_t late_percent = 0;      // this share of READs and atomics is late at the target,
  uint64_t late_ns = 3000;        // by at most this much,
  uint32_t hasty_percent = 0;     // and this share of WRITEs and atomics overtakes them, where the wire allows it
  bool atomic_with_cpu = true;    // else a CAS or FAA loads first and stores later
  uint64_t atomic_gap_ns = 1000;  // at most this much later
  bool local_atomics = false;     // whether nodes have LocalAtomics
};

// Told when a worker has something to do: packets or completions have arrived, or a channel has room.
class Wakeups {
 public:
  virtual ~Wakeups() = default;
  virtual void wake(NodeId node, WorkerId worker) = 0;
};

class SimWire;
class VerbQueue;

class Network {
 public:
  // `faults` may be nullptr. Both outlive the network.
  Network(const NetworkConfig& config, int nodes, int workers, uint64_t seed, Events* events, const FaultPlan* faults);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  SimWire* wire(NodeId node, WorkerId worker);
  Regions* regions(NodeId node) { return regions_[node.value].back().get(); }
  LocalAtomics* local_atomics(NodeId node) { return config_.local_atomics ? &local_atomics_[node.value] : nullptr; }
  void set_wakeups(Wakeups* wakeups) { wakeups_ = wakeups; }

  // The step of this worker ends at `at_ns`; what it sent and posted leaves then.
  void depart(NodeId node, WorkerId worker, uint64_t at_ns);

  // A node has an incarnation while it is a member. 0: not yet a member, or its process has ended; nothing reaches it.
  void set_incarnation(NodeId node, uint32_t incarnation);

  // The next process of this node is about to start; it gets new regions.
  void start_regions(NodeId node) { regions_[node.value].push_back(std::make_unique<Regions>()); }

  // sever: the connection between these two processes breaks. What is in flight is lost, and so is all that they send
  // until they have admitted each other again and mend() restores it. An end that has admitted the other waits for
  // that.
  void sever(NodeId a, NodeId b);
  void mend(NodeId a, NodeId b);
  bool severed(NodeId a, NodeId b) const {
    return severed_[pair(a, b)] == std::pair(incarnations_[a.value], incarnations_[b.value]) &&
           incarnations_[a.value] != 0;
  }
  // This end notices the break: packets that have arrived and were not polled yet are dropped.
  void drop_undelivered(NodeId node, NodeId peer);

  // A process is about to end: of what it has sent and has not arrived, some of the most recent is lost with it.
  void lose_unsent(NodeId node, Random& random);

  uint64_t packets() const { return packets_; }
  uint64_t verbs() const { return verbs_; }
  uint64_t refused_sends() const { return refused_sends_; }
  // What is in flight, for a person who looks for a stuck transaction.
  std::string text() const;

 private:
  friend class SimWire;
  friend class VerbQueue;
  class SimLocalAtomics final : public LocalAtomics {
   public:
    SimLocalAtomics(Network* network, NodeId node) : network_(network), node_(node) {}
    bool swap(RegionId region, uint64_t offset, uint64_t expected, uint64_t desired) override;
    uint64_t swaps() const override { return swaps_; }

   private:
    Network* const network_;
    const NodeId node_;
    uint64_t swaps_ = 0;
  };

  // Completes the atomic that this node's device has begun, if there is one.
  void finish_atomic(NodeId node);
  uint64_t latency(NodeId from, NodeId to, uint64_t at_ns);
  size_t pair(NodeId a, NodeId b) const { return size_t{a.value} * static_cast<size_t>(nodes_) + b.value; }
  void wake(NodeId node, WorkerId worker) {
    if (wakeups_ != nullptr) wakeups_->wake(node, worker);
  }

  const NetworkConfig config_;
  const int nodes_;
  const int workers_;
  Events* const events_;
  const FaultPlan* const faults_;
  Random random_;
  Wakeups* wakeups_ = nullptr;
  std::vector<std::vector<std::unique_ptr<Regions>>> regions_;  // by node, then by process: the last one runs
  std::vector<uint32_t> incarnations_;                          // doubled, plus 1 when it has ended
  std::vector<std::pair<uint32_t, uint32_t>> severed_;          // by (node, node): incarnations, doubled
  std::vector<std::unique_ptr<SimWire>> wires_;
  std::vector<VerbQueue*> atomics_;             // by node: the queue whose atomic its device has begun
  std::vector<SimLocalAtomics> local_atomics_;  // by node
  uint64_t packets_ = 0;
  uint64_t verbs_ = 0;
  uint64_t refused_sends_ = 0;
};

class SimWire final : public Wire, public EventSink {
 public:
  SimWire(Network* network, NodeId node, WorkerId worker);
  ~SimWire() override;

  bool send(NodeId to, Flow flow, ByteView packet) override;
  size_t poll(std::span<Packet> out) override;
  void release() override;
  bool post(NodeId to, Domain domain, std::span<const Verb> verbs) override;
  size_t poll_completions(Domain domain, std::span<Completion> out) override;
  void reset(NodeId to, Domain domain) override;
  void accept_incarnation(NodeId peer, uint32_t incarnation) override;
  bool atomic_with_cpu() const override { return network_->config_.atomic_with_cpu; }
  bool pending() const override;

  void on_event(const Event& event) override;  // a packet arrives at this wire

 private:
  friend class Network;
  friend class VerbQueue;
  using Bytes = std::vector<std::byte>;

  struct Sent {
    Bytes bytes;
    uint32_t from, to;  // incarnations, doubled
    bool lost = false;
  };
  struct Channel {               // to one peer on one flow
    std::deque<Sent> in_flight;  // sent, not yet arrived
    uint32_t holding = 0;        // from send to release
    uint32_t waiting = 0;        // at the end of in_flight: not yet departed
    uint64_t last_arrival_ns = 0;
    bool refused = false;  // a send found no room since the last release
  };
  struct Arrived {
    NodeId source;
    Flow flow;
    uint32_t from, to;
    Bytes bytes;
  };

  void release_place(NodeId source, Flow flow);  // frees the place of a packet in that channel
  bool route(Arrived packet);
  void drop_from(NodeId peer);
  void route_again();
  Channel& channel(NodeId to, Flow flow) { return channels_[size_t{to.value} * kFlows + static_cast<size_t>(flow)]; }
  void depart(uint64_t at_ns);
  void complete(Domain domain, const Completion& completion);
  VerbQueue& queue(NodeId to, Domain domain) { return *queues_[size_t{to.value} * kDomains + index_of(domain)]; }

  Network* const network_;
  const NodeId node_;
  const WorkerId worker_;
  std::vector<Channel> channels_;                // by (peer, flow)
  std::vector<std::pair<NodeId, Flow>> outbox_;  // packets of this step, in order
  std::vector<uint32_t> admitted_;               // by peer; doubled, plus 1 when it is gone
  std::vector<bool> lost_;                       // by peer: the connection has broken since the peer was admitted
  std::deque<Arrived> arrived_;
  std::deque<Arrived> early_;                       // from or to an incarnation that is not admitted yet
  std::vector<Arrived> lent_;                       // returned by poll and not yet released
  std::vector<std::unique_ptr<VerbQueue>> queues_;  // by (peer, domain)
  std::array<std::deque<Completion>, kDomains> completions_;
};

}  // namespace weft
