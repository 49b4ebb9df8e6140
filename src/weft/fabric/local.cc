#include "weft/fabric/local.h"

#include "weft/base/check.h"

namespace weft {

LocalWire::LocalWire(LocalFabric& fabric, NodeId self, WorkerId worker, size_t completions_max)
    : fabric_(fabric), self_(self), worker_(worker), receivers_(fabric.nodes_), verbs_(completions_max, &counters_) {
  for (size_t n = 0; n < fabric.nodes_; ++n) {
    const NodeId peer(static_cast<uint8_t>(n));
    const size_t out = fabric.rings_index(self, peer, worker);
    const size_t in = fabric.rings_index(peer, self, worker);
    writers_.push_back(ring_writers(fabric.rings_[out], fabric.buffer(out), fabric.ring_bytes_));
    receivers_.attach(RingReceiver(peer, fabric.rings_[in], fabric.buffer(in), fabric.ring_bytes_));
  }
}

bool LocalWire::send(NodeId to, Flow flow, ByteView packet) {
  WEFT_CHECK(to != self_ && to.value < fabric_.nodes_, "a wire goes to the other nodes");
  WEFT_CHECK(frame_bytes(packet.size()) <= fabric_.ring_bytes_ / 2, "a packet is at most half a ring");
  LocalFabric::SleepState& state = fabric_.sleep_states_[fabric_.worker_index(to, worker_)];
  if (!writers_[to.value][static_cast<size_t>(flow)].write(packet, state.wake != nullptr)) {
    ++counters_.packets_refused;
    return false;
  }
  ++counters_.packets_sent;
  // Only one of several senders clears the flag and wakes the worker.
  if (state.wake != nullptr && state.sleeping.load(std::memory_order_seq_cst) && state.sleeping.exchange(false)) {
    ++counters_.wakes;
    state.wake(state.context);
  }
  return true;
}

size_t LocalWire::poll(std::span<Packet> out) {
  const size_t count = receivers_.poll(out);
  counters_.packets_received += count;
  return count;
}

void LocalWire::release() { receivers_.release(); }

bool LocalWire::post(NodeId to, Domain domain, std::span<const Verb> verbs) {
  WEFT_CHECK(to.value < fabric_.nodes_, "a node of this fabric");
  Regions* const regions = fabric_.regions_[to.value];
  if (regions == nullptr) return verbs_.of(domain).post_nowhere(to, verbs);
  return verbs_.of(domain).post(to, verbs, Regions::Section(*regions, self_, domain));
}

size_t LocalWire::poll_completions(Domain domain, std::span<Completion> out) { return verbs_.of(domain).poll(out); }

void LocalWire::reset(NodeId to, Domain domain) { verbs_.of(domain).reset(to); }

bool LocalWire::pending() const { return verbs_.pending() || receivers_.pending(); }

LocalFabric::LocalFabric(const LocalOptions& options)
    : nodes_(static_cast<size_t>(options.nodes)),
      workers_(static_cast<size_t>(options.workers)),
      ring_bytes_(align_up(options.ring_bytes, 4096)) {
  WEFT_CHECK(options.nodes >= 1 && options.nodes <= kNodesMax && options.workers >= 1 &&
                 options.workers <= kWorkersMax && ring_bytes_ >= 4 * kPacketBytesMax,
             "the caller checks its options");
  const size_t channels = nodes_ * nodes_ * workers_;
  memory_ = Mapping::or_throw(channels * channel_buffer_bytes(ring_bytes_), Mapping::Pages::kHuge);
  rings_ = std::make_unique<ChannelRings[]>(channels);
  sleep_states_ = std::make_unique<SleepState[]>(nodes_ * workers_);
  for (size_t n = 0; n < nodes_; ++n) {
    for (size_t w = 0; w < workers_; ++w) {
      wires_.emplace_back(new LocalWire(*this, NodeId(static_cast<uint8_t>(n)), WorkerId(static_cast<uint8_t>(w)),
                                        options.completions_max));
    }
  }
}

size_t LocalFabric::worker_index(NodeId node, WorkerId worker) const {
  WEFT_CHECK(node.value < nodes_ && worker.value < workers_, "a worker of this fabric");
  return node.value * workers_ + worker.value;
}

size_t LocalFabric::rings_index(NodeId from, NodeId to, WorkerId worker) const {
  return (worker.value * nodes_ + from.value) * nodes_ + to.value;
}

void LocalFabric::set_regions(NodeId node, Regions* regions) {
  WEFT_CHECK(node.value < nodes_, "a node of this fabric");
  regions_[node.value] = regions;
}

void LocalFabric::set_wake(NodeId node, WorkerId worker, void (*wake)(void*), void* context) {
  SleepState& state = sleep_states_[worker_index(node, worker)];
  state.wake = wake;
  state.context = context;
}

void LocalFabric::set_sleeping(NodeId node, WorkerId worker, bool sleeping) {
  sleep_states_[worker_index(node, worker)].sleeping.store(sleeping, std::memory_order_seq_cst);
}

}  // namespace weft
