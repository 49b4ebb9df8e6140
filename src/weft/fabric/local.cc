#include "weft/fabric/local.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/fabric/carry_out.h"
#include "weft/fabric/message.h"

namespace weft {
namespace {

// Rings follow each other at a distance that is no multiple of 4 KiB: their hot beginnings must not share cache sets.
constexpr size_t kStagger = 320;

// Verbs of one queue take effect in order. Aligned relaxed accesses stay in order on x86 but for a store before a load
// and what the compiler does.
void order_verbs(VerbKind before, VerbKind after, uint64_t& fences) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (before == VerbKind::kWrite && after == VerbKind::kRead) {
    __atomic_fetch_add(&fences, 1, __ATOMIC_SEQ_CST);  // a full fence that the thread sanitizer accepts
  }
}

}  // namespace

LocalWire::LocalWire(LocalFabric& fabric, NodeId self, WorkerId worker)
    : fabric_(fabric), self_(self), worker_(worker), writers_(fabric.nodes_ * kFlows), readers_(writers_.size()) {
  popped_.reserve(readers_.size());
  for (size_t n = 0; n < fabric.nodes_; ++n) {
    inboxes_.push_back({&fabric.lanes_[fabric.lane_index(NodeId(static_cast<uint8_t>(n)), self, worker)].tail, {}});
  }
  for (size_t c = 0; c < writers_.size(); ++c) {
    const NodeId peer(static_cast<uint8_t>(c / kFlows));
    const size_t flow = c % kFlows;
    const size_t out = fabric.lane_index(self, peer, worker);
    const size_t in = fabric.lane_index(peer, self, worker);
    writers_[c] = RingWriter(fabric.buffer(out, flow), fabric.ring_bytes_, fabric.ends(out, flow));
    readers_[c] = RingReader(fabric.buffer(in, flow), fabric.ring_bytes_, fabric.ends(in, flow));
  }
}

bool LocalWire::send(NodeId to, Flow flow, ByteView packet) {
  WEFT_CHECK(to != self_ && to.value < fabric_.nodes_, "a wire goes to the other nodes");
  WEFT_CHECK(frame_bytes(packet.size()) <= fabric_.ring_bytes_ / 2, "a packet is at most half a ring");
  LocalFabric::Bed& bed = fabric_.beds_[fabric_.worker_index(to, worker_)];
  if (!writers_[channel_index(to, flow)].write(packet, bed.wake != nullptr)) {
    ++counters_.packets_refused;
    return false;
  }
  ++counters_.packets_sent;
  // One of several senders takes the flag and wakes.
  if (bed.wake != nullptr && bed.sleeping.load(std::memory_order_seq_cst) && bed.sleeping.exchange(false)) {
    ++counters_.wakes;
    bed.wake(bed.context);
  }
  return true;
}

size_t LocalWire::poll(std::span<Packet> out) {
  const size_t peers = inboxes_.size();
  const size_t first_flow = poll_flow_;
  size_t count = 0;
  size_t peer = poll_peer_;
  for (size_t i = 0; i < peers; ++i, peer = peer + 1 == peers ? 0 : peer + 1) {
    const Inbox& inbox = inboxes_[peer];
    for (size_t k = 0; k < kFlows; ++k) {
      const size_t flow = (first_flow + k) % kFlows;
      if ((*inbox.tails)[flow].load(std::memory_order_acquire) == inbox.cursors[flow]) continue;
      count += take(peer, flow, out.subspan(count));
      if (count < out.size()) continue;
      poll_flow_ = (flow + 1) % kFlows;
      poll_peer_ = k + 1 == kFlows ? (peer + 1) % peers : peer;
      counters_.packets_received += count;
      return count;
    }
  }
  counters_.packets_received += count;
  return count;
}

size_t LocalWire::take(size_t peer, size_t flow, std::span<Packet> out) {
  const size_t channel = peer * kFlows + flow;
  RingReader& reader = readers_[channel];
  size_t count = 0;
  while (count < out.size() && !reader.empty_now()) {
    const ByteView bytes = reader.front();
    reader.pop(bytes);
    out[count++] = {NodeId(static_cast<uint8_t>(peer)), bytes};
  }
  inboxes_[peer].cursors[flow] = reader.cursor();
  popped_.push_back(channel);
  return count;
}

void LocalWire::release() {
  for (const size_t channel : popped_) readers_[channel].release();
  popped_.clear();
}

bool LocalWire::post(NodeId to, std::span<const Verb> verbs) {
  WEFT_CHECK(to.value < fabric_.nodes_, "a node of this fabric");
  const size_t room = completions_.size() - (completion_tail_ - completion_head_);
  if (verbs.size() > room) return false;
  ++counters_.doorbells;
  counters_.verbs += verbs.size();
  const uint64_t bit = uint64_t{1} << to.value;
  Regions* const regions = fabric_.regions_[to.value];
  if (regions == nullptr || (broken_ & bit) != 0) {
    bool refused = (broken_ & bit) == 0;
    for (const Verb& verb : verbs) {
      complete(to, refused ? VerbStatus::kRefused : VerbStatus::kFlushed, verb.tag);
      refused = false;
    }
    if (!verbs.empty()) broken_ |= bit;
    return true;
  }
  const Regions::Section section(*regions, self_);
  VerbKind before = VerbKind::kRead;
  for (const Verb& verb : verbs) {
    if ((broken_ & bit) != 0) {
      complete(to, VerbStatus::kFlushed, verb.tag);
      continue;
    }
    order_verbs(before, verb.kind, fences_);
    before = verb.kind;
    if (!carry_out(section, verb)) {
      broken_ |= bit;
      complete(to, VerbStatus::kRefused, verb.tag);
    } else if (verb.signalled) {
      complete(to, VerbStatus::kDone, verb.tag);
    }
  }
  return true;
}

void LocalWire::complete(NodeId peer, VerbStatus status, uint64_t tag) {
  if (status != VerbStatus::kDone) ++counters_.verbs_failed;
  completions_[completion_tail_++ % completions_.size()] = {peer, status, tag};
}

size_t LocalWire::poll_completions(std::span<Completion> out) {
  size_t count = 0;
  while (count < out.size() && completion_head_ != completion_tail_) {
    out[count++] = completions_[completion_head_++ % completions_.size()];
  }
  return count;
}

void LocalWire::reset(NodeId to) { broken_ &= ~(uint64_t{1} << to.value); }

bool LocalWire::pending() const {
  if (completion_head_ != completion_tail_) return true;
  for (const Inbox& inbox : inboxes_) {
    for (size_t flow = 0; flow < kFlows; ++flow) {
      // Ordered after this worker's own set_sleeping(true).
      if ((*inbox.tails)[flow].load(std::memory_order_seq_cst) != inbox.cursors[flow]) return true;
    }
  }
  return false;
}

LocalFabric::LocalFabric(const LocalOptions& options)
    : nodes_(static_cast<size_t>(options.nodes)),
      workers_(static_cast<size_t>(options.workers)),
      ring_bytes_(align_up(options.ring_bytes, 4096)) {
  WEFT_CHECK(options.nodes >= 1 && options.nodes <= kNodesMax && options.workers >= 1 &&
                 options.workers <= kWorkersMax && ring_bytes_ >= 4 * kPacketBytesMax,
             "the caller checks its options");
  const size_t lanes = nodes_ * nodes_ * workers_;
  memory_ = Mapping::or_throw(lanes * kFlows * (ring_bytes_ + kStagger));
  lanes_ = std::make_unique<Lane[]>(lanes);
  beds_ = std::make_unique<Bed[]>(nodes_ * workers_);
  for (size_t n = 0; n < nodes_; ++n) {
    for (size_t w = 0; w < workers_; ++w) {
      wires_.emplace_back(new LocalWire(*this, NodeId(static_cast<uint8_t>(n)), WorkerId(static_cast<uint8_t>(w))));
      wires_.back()->completions_.resize(std::max<size_t>(options.completions_max, 1));
    }
  }
}

size_t LocalFabric::worker_index(NodeId node, WorkerId worker) const {
  WEFT_CHECK(node.value < nodes_ && worker.value < workers_, "a worker of this fabric");
  return node.value * workers_ + worker.value;
}

size_t LocalFabric::lane_index(NodeId from, NodeId to, WorkerId worker) const {
  return (worker.value * nodes_ + from.value) * nodes_ + to.value;
}

RingEnds LocalFabric::ends(size_t lane, size_t flow) {
  Lane& l = lanes_[lane];
  return {&l.tail[flow], &l.restart[flow], &l.head[flow]};
}

std::byte* LocalFabric::buffer(size_t lane, size_t flow) const {
  return memory_.base() + (lane * kFlows + flow) * (ring_bytes_ + kStagger);
}

void LocalFabric::set_regions(NodeId node, Regions* regions) {
  WEFT_CHECK(node.value < nodes_, "a node of this fabric");
  regions_[node.value] = regions;
}

void LocalFabric::set_wake(NodeId node, WorkerId worker, void (*wake)(void*), void* context) {
  Bed& bed = beds_[worker_index(node, worker)];
  bed.wake = wake;
  bed.context = context;
}

void LocalFabric::set_sleeping(NodeId node, WorkerId worker, bool sleeping) {
  beds_[worker_index(node, worker)].sleeping.store(sleeping, std::memory_order_seq_cst);
}

}  // namespace weft
