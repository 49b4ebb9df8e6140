#include "weft/wires/shm/wire.h"

#include <unistd.h>

#include <atomic>

#include "weft/base/check.h"

namespace weft {
namespace {

// The time that the initiator is inside a domain of one peer.
class Visit {
 public:
  Visit(const ShmLink& link, WorkerId worker, NodeId self, Domain domain)
      : link_(link),
        domain_(domain),
        inside_(link.out().channel(worker.value).inside),
        grants_(link.control().grants[self.value][index_of(domain)]) {
    inside_.store(shm_inside(domain), std::memory_order_seq_cst);
    grant_ = grants_.load(std::memory_order_seq_cst);
  }
  ~Visit() { inside_.store(0, std::memory_order_release); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  std::byte* resolve(RegionId id, uint64_t offset, uint64_t bytes) const {
    return grant_ % 2 == 1 && holds() ? link_.resolve(domain_, id, offset, bytes) : nullptr;
  }
  bool holds() const {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // not before the accesses above
    return grants_.load(std::memory_order_seq_cst) == grant_;
  }

 private:
  const ShmLink& link_;
  const Domain domain_;
  std::atomic<uint32_t>& inside_;
  const std::atomic<uint32_t>& grants_;
  uint32_t grant_;
};

}  // namespace

ShmWire::ShmWire(NodeId self, WorkerId worker, size_t completions_max, ShmLinks* links, Regions* regions,
                 int control_eventfd)
    : self_(self),
      worker_(worker),
      links_(links),
      regions_(regions),
      control_eventfd_(control_eventfd),
      receivers_(kNodesMax),
      verbs_(completions_max, &counters_) {}

bool ShmWire::send(NodeId to, Flow flow, ByteView packet) {
  WEFT_CHECK(to != self_ && to.value < kNodesMax, "a wire goes to the other nodes");
  Peer& peer = peers_[to.value];
  if (!peer.open) {
    ++counters_.packets_refused;
    return false;
  }
  WEFT_CHECK(frame_bytes(packet.size()) <= peer.link->out().ring_bytes() / 2, "a packet is at most half a ring");
  if (!peer.writers[static_cast<size_t>(flow)].write(packet, true)) {
    ++counters_.packets_refused;
    return false;
  }
  ++counters_.packets_sent;
  // Only one of several senders clears the flag and wakes the worker. If it dies in between, the sleeper's control
  // thread sees the socket close and wakes all its workers.
  std::atomic<uint32_t>& sleeping = peer.link->control().sleep_flags[worker_.value].sleeping;
  if (sleeping.load(std::memory_order_seq_cst) != 0 && sleeping.exchange(0) != 0) {
    ++counters_.wakes;
    peer.link->wake(worker_.value);
  }
  return true;
}

size_t ShmWire::poll(std::span<Packet> out) {
  if (links_changed_ || links_->version() != links_seen_) [[unlikely]]
    catch_up();
  const size_t count = receivers_.poll(out);
  counters_.packets_received += count;
  if (receivers_.bad() != nullptr) [[unlikely]] {
    report_bad();
    if (count == 0) release();  // the caller need not call it
  }
  return count;
}

void ShmWire::release() { receivers_.release(); }

void ShmWire::catch_up() {
  links_seen_ = links_->look([this](size_t node, const std::shared_ptr<ShmLink>& link) {
    if (peers_[node].link != link) take_link(node, link);
  });
  links_changed_ = false;
  for (size_t node = 0; node < peers_.size(); ++node) sync_link(node);
}

void ShmWire::take_link(size_t node, const std::shared_ptr<ShmLink>& link) {
  Peer& peer = peers_[node];
  const NodeId id(static_cast<uint8_t>(node));
  if (peer.attached) receivers_.detach(id);
  peer.attached = peer.open = peer.broken = false;
  peer.writers = {};
  peer.parked = {};
  peer.link = link;
  if (link == nullptr) return;
  const ShmOutbox& out = link->out();
  const ShmOutbox& in = link->in();
  peer.writers = ring_writers(out.channel(worker_.value).rings, out.buffer(worker_.value), out.ring_bytes());
  peer.parked = RingReceiver(id, in.channel(worker_.value).rings, in.buffer(worker_.value), in.ring_bytes());
  verbs_.reset(id);
}

void ShmWire::sync_link(size_t node) {
  Peer& peer = peers_[node];
  peer.open = peer.link != nullptr && !peer.broken && peer.link->incarnation() == peer.accepted;
  if (peer.open == peer.attached) return;
  if (peer.open) {
    receivers_.attach(peer.parked);
  } else {
    peer.parked = receivers_.detach(NodeId(static_cast<uint8_t>(node)));
  }
  peer.attached = peer.open;
}

void ShmWire::report_bad() {
  const auto& bad = *receivers_.bad();
  Peer& peer = peers_[bad.peer.value];
  peer.broken = true;
  peer.open = false;
  links_changed_ = true;
  peer.link->report_broken(worker_, bad.flow, bad.position);
  receivers_.forget_bad();
  const uint64_t one = 1;
  (void)!write(control_eventfd_, &one, sizeof one);
}

bool ShmWire::post(NodeId to, Domain domain, std::span<const Verb> verbs) {
  WEFT_CHECK(to.value < kNodesMax, "a node of this cluster");
  VerbQueues& queues = verbs_.of(domain);
  if (to == self_) {
    if (regions_ == nullptr) return queues.post_nowhere(to, verbs);
    return queues.post(to, verbs, Regions::Section(*regions_, self_, domain));
  }
  const Peer& peer = peers_[to.value];
  if (!peer.open) return queues.post_nowhere(to, verbs);
  return queues.post(to, verbs, Visit(*peer.link, worker_, self_, domain));
}

size_t ShmWire::poll_completions(Domain domain, std::span<Completion> out) { return verbs_.of(domain).poll(out); }

void ShmWire::reset(NodeId to, Domain domain) { verbs_.of(domain).reset(to); }

void ShmWire::accept_incarnation(NodeId id, uint32_t incarnation) {
  WEFT_CHECK(id.value < kNodesMax, "a node of this cluster");
  Peer& peer = peers_[id.value];
  if (peer.accepted == incarnation) return;
  peer.accepted = incarnation;
  peer.open = false;
  verbs_.reset(id);
  links_changed_ = true;
  if (!receivers_.in_burst()) catch_up();
}

bool ShmWire::pending() const {
  return links_changed_ || links_->version() != links_seen_ || verbs_.pending() || receivers_.pending();
}

}  // namespace weft
