#include "weft/sim/network.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/sim/verbs.h"

namespace weft {

Network::Network(const NetworkConfig& config, int nodes, int workers, uint64_t seed, Events* events,
                 const FaultPlan* faults)
    : config_(config),
      nodes_(nodes),
      workers_(workers),
      events_(events),
      faults_(faults),
      random_(seed),
      regions_(static_cast<size_t>(nodes)),
      incarnations_(static_cast<size_t>(nodes)),
      severed_(static_cast<size_t>(nodes) * static_cast<size_t>(nodes)),
      atomics_(static_cast<size_t>(nodes)) {
  for (int n = 0; n < nodes; ++n) local_atomics_.emplace_back(this, NodeId(static_cast<uint8_t>(n)));
  for (auto& of_node : regions_) of_node.push_back(std::make_unique<Regions>());
  for (int n = 0; n < nodes; ++n) {
    for (int w = 0; w < workers; ++w) {
      wires_.push_back(
          std::make_unique<SimWire>(this, NodeId(static_cast<uint8_t>(n)), WorkerId(static_cast<uint8_t>(w))));
    }
  }
}

Network::~Network() = default;

SimWire* Network::wire(NodeId node, WorkerId worker) {
  return wires_[size_t{node.value} * static_cast<size_t>(workers_) + worker.value].get();
}

void Network::finish_atomic(NodeId node) {
  VerbQueue* const begun = std::exchange(atomics_[node.value], nullptr);
  if (begun != nullptr) begun->land_atomic();
}

bool Network::SimLocalAtomics::swap(RegionId region, uint64_t offset, uint64_t expected, uint64_t desired) {
  network_->finish_atomic(node_);
  ++swaps_;
  std::byte* const word = network_->regions(node_)->find(region)->base() + offset;
  if (load<uint64_t>(word) != expected) return false;
  store(word, desired);
  return true;
}

void Network::depart(NodeId node, WorkerId worker, uint64_t at_ns) { wire(node, worker)->depart(at_ns); }

uint64_t Network::latency(NodeId from, NodeId to, uint64_t at_ns) {
  uint64_t latency_ns = config_.base_ns + random_.below(config_.jitter_ns + 1);
  if (random_.below(1000) < config_.tail_permille) latency_ns += random_.below(config_.tail_ns + 1);
  return faults_ == nullptr ? latency_ns : faults_->latency_with_faults(from, to, at_ns, latency_ns, random_);
}

std::string Network::text() const {
  std::string text;
  for (const auto& wire : wires_) {
    for (int peer = 0; peer < nodes_; ++peer) {
      for (int flow = 0; flow < kFlows; ++flow) {
        const SimWire::Channel& channel = wire->channel(NodeId(static_cast<uint8_t>(peer)), static_cast<Flow>(flow));
        if (channel.holding == 0) continue;
        text += " n" + std::to_string(wire->node_.value) + "w" + std::to_string(wire->worker_.value) + "->n" +
                std::to_string(peer) + " flow " + std::to_string(flow) + ": " + std::to_string(channel.holding) +
                " packets (" + std::to_string(channel.in_flight.size()) + " not arrived);";
      }
    }
    if (!wire->arrived_.empty()) {
      text += " n" + std::to_string(wire->node_.value) + "w" + std::to_string(wire->worker_.value) + " has " +
              std::to_string(wire->arrived_.size()) + " arrived packets;";
    }
  }
  return text.empty() ? " nothing under way" : text;
}

SimWire::SimWire(Network* network, NodeId node, WorkerId worker)
    : network_(network),
      node_(node),
      worker_(worker),
      channels_(static_cast<size_t>(network->nodes_) * kFlows),
      admitted_(static_cast<size_t>(network->nodes_)),
      lost_(static_cast<size_t>(network->nodes_)) {
  for (int n = 0; n < network->nodes_; ++n) {
    for (const Domain domain : kAllDomains) {
      queues_.push_back(std::make_unique<VerbQueue>(this, NodeId(static_cast<uint8_t>(n)), domain));
    }
  }
}

SimWire::~SimWire() = default;

bool SimWire::send(NodeId to, Flow flow, ByteView packet) {
  WEFT_CHECK(to != node_ && to.value < network_->nodes_, "a port keeps what is for its own node");
  WEFT_CHECK(packet.size() >= sizeof(PacketHeader) && packet.size() <= kPacketBytesMax, "a packet has its bounds");
  Channel& out = channel(to, flow);
  const bool waits = network_->severed(node_, to) && !lost_[to.value];
  if (waits || out.holding >= network_->config_.channel_packets) {
    if (!waits) WEFT_MARK("sim_channel_full");
    out.refused = true;
    ++network_->refused_sends_;
    return false;
  }
  ++out.holding;
  ++out.waiting;
  out.in_flight.push_back({Bytes(packet.begin(), packet.end()), network_->incarnations_[node_.value],
                           admitted_[to.value], network_->severed(node_, to)});
  outbox_.emplace_back(to, flow);
  return true;
}

void SimWire::depart(uint64_t at_ns) {
  for (const auto& [to, flow] : outbox_) {
    Channel& out = channel(to, flow);
    --out.waiting;
    out.last_arrival_ns = std::max(out.last_arrival_ns, at_ns + network_->latency(node_, to, at_ns));
    network_->events_->set(out.last_arrival_ns, EventKind::kPacket, network_->wire(to, worker_), node_.value,
                           static_cast<uint64_t>(flow));
  }
  outbox_.clear();
  for (const auto& queue : queues_) queue->depart(at_ns);
}

void SimWire::on_event(const Event& event) {
  const NodeId source(static_cast<uint8_t>(event.a));
  const auto flow = static_cast<Flow>(event.b);
  Channel& in = network_->wire(source, worker_)->channel(node_, flow);
  WEFT_CHECK(in.in_flight.size() > in.waiting, "what arrives has departed");
  Trace& trace = network_->events_->trace();
  trace.fold(node_.value);
  trace.fold(worker_.value);
  Sent sent = std::move(in.in_flight.front());
  in.in_flight.pop_front();
  trace.fold(hash_bytes(sent.bytes.data(), sent.bytes.size(), 0));
  ++network_->packets_;
  if (sent.lost) {
    release_place(source, flow);
    return;
  }
  if (!route({source, flow, sent.from, sent.to, std::move(sent.bytes)})) return;
  network_->wake(node_, worker_);
}

size_t SimWire::poll(std::span<Packet> out) {
  WEFT_CHECK(lent_.empty(), "release before the next poll");
  const size_t count = std::min(out.size(), arrived_.size());
  for (size_t i = 0; i < count; ++i) {
    lent_.push_back(std::move(arrived_.front()));
    arrived_.pop_front();
    out[i] = {lent_.back().source, lent_.back().bytes};
  }
  return count;
}

void SimWire::release() {
  for (const Arrived& packet : lent_) release_place(packet.source, packet.flow);
  lent_.clear();
}

void SimWire::release_place(NodeId source, Flow flow) {
  Channel& in = network_->wire(source, worker_)->channel(node_, flow);
  --in.holding;
  if (!in.refused) return;
  in.refused = false;
  network_->wake(source, worker_);
}

// Returns whether the packet can be delivered now. A packet from or to an earlier incarnation is dropped; one of a
// later incarnation waits, as a real connection is made only when both ends are there.
bool SimWire::route(Arrived packet) {
  const uint32_t self = network_->incarnations_[node_.value];
  const uint32_t peer = admitted_[packet.source.value];
  if (packet.to < self || packet.from < peer) {
    release_place(packet.source, packet.flow);
    return false;
  }
  const bool now = packet.to == self && packet.from == peer;
  (now ? arrived_ : early_).push_back(std::move(packet));
  return now;
}

void SimWire::route_again() {
  std::deque<Arrived> all;
  all.swap(arrived_);
  std::move(early_.begin(), early_.end(), std::back_inserter(all));
  early_.clear();
  for (Arrived& packet : all) route(std::move(packet));
}

void SimWire::drop_from(NodeId peer) {
  for (std::deque<Arrived>* queue : {&arrived_, &early_}) {
    std::erase_if(*queue, [&](const Arrived& packet) {
      if (packet.source != peer) return false;
      release_place(peer, packet.flow);
      return true;
    });
  }
}

void SimWire::accept_incarnation(NodeId peer, uint32_t incarnation) {
  lost_[peer.value] = false;
  if (incarnation == 0) {
    admitted_[peer.value] |= 1U;  // gone for good: above its incarnation, below that of the node's next process
  } else {
    admitted_[peer.value] = 2 * incarnation;
  }
  route_again();
}

// `incarnation` 0: the process has ended.
void Network::set_incarnation(NodeId node, uint32_t incarnation) {
  uint32_t& is = incarnations_[node.value];
  is = incarnation == 0 ? is | 1U : 2 * incarnation;
  if (incarnation == 0) start_regions(node);
  for (int w = 0; w < workers_; ++w) {
    SimWire* end = wire(node, WorkerId(static_cast<uint8_t>(w)));
    if (incarnation == 0) {
      end->release();
      for (auto& completions : end->completions_) completions.clear();
      for (const auto& queue : end->queues_) queue->process_ended();
      std::fill(end->admitted_.begin(), end->admitted_.end(), 0);
    }
    end->route_again();
  }
}

void Network::sever(NodeId a, NodeId b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    severed_[pair(from, to)] = {incarnations_[from.value], incarnations_[to.value]};
    for (int w = 0; w < workers_; ++w) {
      SimWire* const end = wire(from, WorkerId(static_cast<uint8_t>(w)));
      for (int flow = 0; flow < kFlows; ++flow) {
        for (SimWire::Sent& sent : end->channel(to, static_cast<Flow>(flow)).in_flight) sent.lost = true;
      }
      for (const Domain domain : kAllDomains) end->queue(to, domain).lose_unsent(0);
      end->lost_[to.value] = true;
    }
  }
}

void Network::mend(NodeId a, NodeId b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    severed_[pair(from, to)] = {};
    for (int w = 0; w < workers_; ++w) wake(from, WorkerId(static_cast<uint8_t>(w)));
  }
}

void Network::drop_undelivered(NodeId node, NodeId peer) {
  for (int w = 0; w < workers_; ++w) wire(node, WorkerId(static_cast<uint8_t>(w)))->drop_from(peer);
}

void Network::lose_unsent(NodeId node, Random& random) {
  for (int w = 0; w < workers_; ++w) {
    for (SimWire::Channel& channel : wire(node, WorkerId(static_cast<uint8_t>(w)))->channels_) {
      if (channel.in_flight.empty() || random.chance(50)) continue;
      const size_t kept = random.below(channel.in_flight.size() + 1);
      for (size_t i = kept; i < channel.in_flight.size(); ++i) channel.in_flight[i].lost = true;
    }
    for (const auto& queue : wire(node, WorkerId(static_cast<uint8_t>(w)))->queues_) {
      if (queue->not_arrived() == 0 || random.chance(50)) continue;
      queue->lose_unsent(random.below(queue->not_arrived() + 1));
    }
  }
}

bool SimWire::post(NodeId to, Domain domain, std::span<const Verb> verbs) {
  WEFT_CHECK(to.value < network_->nodes_, "a peer of this cluster");
  return queue(to, domain).post(verbs);
}

size_t SimWire::poll_completions(Domain domain, std::span<Completion> out) {
  std::deque<Completion>& completions = completions_[index_of(domain)];
  const size_t count = std::min(out.size(), completions.size());
  for (size_t i = 0; i < count; ++i) {
    out[i] = completions.front();
    completions.pop_front();
  }
  return count;
}

void SimWire::reset(NodeId to, Domain domain) { queue(to, domain).reset(); }

bool SimWire::pending() const {
  return !arrived_.empty() ||
         std::any_of(completions_.begin(), completions_.end(), [](const auto& of) { return !of.empty(); });
}

void SimWire::complete(Domain domain, const Completion& completion) {
  completions_[index_of(domain)].push_back(completion);
  network_->wake(node_, worker_);
}

}  // namespace weft
