#include "weft/fabric/verb_issuer.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

namespace {

constexpr size_t kRequestsMax = size_t{1} << 24;
// A doorbell takes its first request whatever its size; the others add at most kVerbBytesMax. That is half of what a
// wire takes, which leaves room for headers.
static_assert((VerbRequest::kVerbsMax + 1) * kVerbBytesMax <= kPostBytesMax / 2);

uint64_t tag_of(uint32_t generation, uint32_t index, size_t verb) {
  return uint64_t{generation} << 32 | uint64_t{index} << 8 | verb;
}

}  // namespace

VerbIssuer::VerbIssuer(const VerbIssuerOptions& options, Wire* wire, CostModel* cost_model, std::byte* memory,
                       size_t bytes)
    : options_(options),
      wire_(wire),
      cost_model_(cost_model),
      memory_(memory),
      memory_bytes_(bytes),
      peers_(static_cast<size_t>(options.nodes)),
      busy_(static_cast<size_t>(options.groups)) {}

std::byte* VerbIssuer::allocate(size_t bytes) {
  const size_t c = class_of(bytes);
  WEFT_CHECK(c < kClasses, "limits bound what a request carries");
  if (std::byte* const block = free_blocks_[c]) {
    free_blocks_[c] = load<std::byte*>(block);
    return block;
  }
  const size_t size = kSmallest << c;
  if (used_ + size > memory_bytes_) return nullptr;
  used_ += size;
  return memory_ + used_ - size;
}

void VerbIssuer::free(std::byte* block, size_t bytes) {
  const size_t c = class_of(bytes);
  store(block, free_blocks_[c]);
  free_blocks_[c] = block;
}

VerbRequest* VerbIssuer::make(NodeId peer, uint16_t group, size_t bytes) {
  WEFT_CHECK(group < busy_.size(), "an existing group");
  std::byte* const buffer = allocate(bytes);
  if (buffer == nullptr) return nullptr;
  if (free_ == kNone) {
    WEFT_CHECK(requests_.size() < kRequestsMax, "limits bound the requests in flight");
    requests_.emplace_back();
    free_ = requests_.back().index = static_cast<uint32_t>(requests_.size() - 1);
    requests_.back().next = kNone;
  }
  VerbRequest& request = requests_[free_];
  const uint32_t generation = request.generation + 1;
  const uint32_t index = free_;
  free_ = request.next;
  request = VerbRequest();
  request.index = index;
  request.live = true;
  request.peer = peer;
  request.group = group;
  request.generation = generation;
  request.buffer = buffer;
  request.bytes = static_cast<uint32_t>(bytes);
  ++live_;
  return &request;
}

void VerbIssuer::push(List& list, uint32_t index) {
  requests_[index].next = kNone;
  (list.last != kNone ? requests_[list.last].next : list.first) = index;
  list.last = index;
}

uint32_t VerbIssuer::pop(List& list) {
  const uint32_t index = list.first;
  list.first = requests_[index].next;
  if (list.first == kNone) list.last = kNone;
  return index;
}

void VerbIssuer::release(uint32_t index) {
  VerbRequest& request = requests_[index];
  free(request.buffer, request.bytes);
  request.live = false;
  request.next = free_;
  free_ = index;
  --live_;
}

void VerbIssuer::send(VerbRequest* request) {
  WEFT_CHECK(request->verbs > 0, "a request is filled, then sent");
  for (size_t i = 0; i < request->verbs; ++i) {
    // Checked on every wire, so that a request which only some wires refuse fails on all.
    WEFT_CHECK(request->verb[i].bytes <= kVerbBytesMax, "what is longer goes by message");
    request->verb[i].signalled = i + 1 == request->verbs && !request->unsignalled;
    request->verb[i].ordered_after_previous = i != 0;
    request->verb[i].tag = tag_of(request->generation, request->index, i);
  }
  push(peers_[request->peer.value].queued, request->index);
  ++unsent_;
}

void VerbIssuer::repeat(VerbRequest& request) {
  request.reposted = true;
  push(peers_[request.peer.value].queued, request.index);
  ++unsent_;
}

bool VerbIssuer::flush(uint64_t now_ns) {
  const uint64_t before = doorbells_;
  for (size_t n = 0; n < peers_.size(); ++n) {
    Peer& peer = peers_[n];
    const NodeId id(static_cast<uint8_t>(n));
    if (peer.broken) {
      if (peer.in_flight.first != kNone || now_ns < peer.retry_ns) continue;
      WEFT_MARK("refused verbs are posted again");
      wire_->reset(id, options_.domain);
      peer.broken = false;
      // Failed requests were posted before the queued ones.
      if (peer.failed.first != kNone) {
        requests_[peer.failed.last].next = peer.queued.first;
        if (peer.queued.first == kNone) peer.queued.last = peer.failed.last;
        for (uint32_t i = peer.failed.first; i != peer.queued.first; i = requests_[i].next) {
          requests_[i].failed = false;
          requests_[i].retried = true;
          ++unsent_;
        }
        peer.queued.first = peer.failed.first;
        peer.failed = List();
      }
    }
    if (peer.queued.first != kNone) flush_peer(id, now_ns);
    flush_unsignalled(id, now_ns);
  }
  probe_now_ = false;
  return doorbells_ != before;
}

void VerbIssuer::flush_peer(NodeId id, uint64_t now_ns) {
  Peer& peer = peers_[id.value];
  std::array<Verb, kBatchMax> batch;
  while (peer.queued.first != kNone) {
    size_t verbs = 0;
    size_t bytes = 0;
    const size_t first = requests_[peer.queued.first].verbs;
    const uint32_t second = requests_[peer.queued.first].next;
    uint32_t end = peer.queued.first;  // the first that is not in the batch
    for (; end != kNone; end = requests_[end].next) {
      const VerbRequest& request = requests_[end];
      if (verbs + request.verbs > kBatchMax || (verbs != 0 && !options_.doorbell_batching)) break;
      if (!options_.pipelined_verbs && (busy_[request.group] != 0 || verbs != 0)) break;
      if (verbs != 0 && bytes + request.bytes > kBatchBytesMax) break;
      bytes += request.bytes;
      for (size_t i = 0; i < request.verbs; ++i) batch[verbs++] = request.verb[i];
    }
    if (verbs == 0) return;
    if (!wire_->post(id, options_.domain, {batch.data(), verbs})) {
      WEFT_MARK("no room for verbs");
      if (verbs == first || !wire_->post(id, options_.domain, {batch.data(), first})) return;
      verbs = first;
      end = second;
    }
    peer.used = true;
    ++doorbells_;
    if (cost_model_ != nullptr) cost_model_->charge(CostStep::kVerb, verbs);
    while (peer.queued.first != end) {
      const uint32_t index = pop(peer.queued);
      VerbRequest& request = requests_[index];
      request.posted_ns = now_ns;
      if (!request.unsignalled) ++busy_[request.group];
      push(peer.in_flight, index);
      --unsent_;
    }
  }
}

bool VerbIssuer::all_unsignalled(const Peer& peer) const {
  for (uint32_t i = peer.in_flight.first; i != kNone; i = requests_[i].next) {
    if (!requests_[i].unsignalled) return false;
  }
  return peer.in_flight.first != kNone;
}

void VerbIssuer::flush_unsignalled(NodeId id, uint64_t now_ns) {
  Peer& peer = peers_[id.value];
  if (peer.in_flight.first == kNone || !requests_[peer.in_flight.first].unsignalled) return;
  if (!probe_now_ && now_ns < requests_[peer.in_flight.first].posted_ns + kUnsignalledNs) return;
  if (peer.broken || !all_unsignalled(peer)) return;
  const VerbRequest first = requests_[peer.in_flight.first];
  Verb word;
  word.kind = VerbKind::kRead;
  word.region = first.verb[0].region;
  word.offset = first.verb[0].offset / 8 * 8;
  word.bytes = 8;
  VerbRequest* request = make(id, first.group, kSmallest);
  if (request == nullptr) return;
  request->probe = true;
  WEFT_MARK("unsignalled verbs are asked for");
  word.local = request->buffer;
  word.tag = tag_of(request->generation, request->index, 0);
  request->add(word);
  // Posted at once: the queued requests may wait for just those that it probes.
  if (!wire_->post(id, options_.domain, {&word, 1})) {
    release(request->index);
    return;
  }
  ++doorbells_;
  push(peer.in_flight, request->index);
}

void VerbIssuer::answer(Peer& peer, uint32_t index, void (*answered)(void*, VerbRequest&), void* context) {
  if (!requests_[index].unsignalled && !requests_[index].probe) --busy_[requests_[index].group];
  if (requests_[index].abandoned) {
    release(index);
  } else if (requests_[index].probe) {
    release(index);
  } else if (requests_[index].failed) {
    push(peer.failed, index);
  } else {
    VerbRequest& request = requests_[index];
    request.reposted = false;
    answered(context, request);
    if (!request.reposted) release(index);
  }
}

bool VerbIssuer::poll(uint64_t now_ns, void (*answered)(void*, VerbRequest&), void* context) {
  std::array<Completion, 64> completions;
  bool any = false;
  for (;;) {
    const size_t count = wire_->poll_completions(options_.domain, completions);
    for (size_t i = 0; i < count; ++i) {
      const Completion& done = completions[i];
      const auto index = static_cast<uint32_t>(done.tag >> 8 & 0xffffff);
      const auto verb = static_cast<size_t>(done.tag & 0xff);
      any = true;
      if (index >= requests_.size() || requests_[index].generation != static_cast<uint32_t>(done.tag >> 32)) continue;
      if (!requests_[index].live) continue;  // complete already
      Peer& peer = peers_[done.peer.value];
      if (done.status != VerbStatus::kDone) {
        ++refused_;
        requests_[index].failed = true;
        if (!requests_[index].abandoned) peer.broken = true;
        peer.retry_ns = now_ns + kRetryNs;
      }
      if (verb + 1 != requests_[index].verbs) continue;
      if (options_.conflicts != nullptr && !requests_[index].failed && !requests_[index].probe) {
        options_.conflicts->note_round_trip(requests_[index].posted_ns, now_ns);
      }
      // Every request posted to this peer before it is complete as well.
      while (peer.in_flight.first != kNone) {
        const uint32_t first = pop(peer.in_flight);
        answer(peer, first, answered, context);
        if (first == index) break;
      }
    }
    if (count < completions.size()) return any;
  }
}

void VerbIssuer::drop() {
  for (size_t n = 0; n < peers_.size(); ++n) {
    Peer& peer = peers_[n];
    while (peer.queued.first != kNone) {
      release(pop(peer.queued));
      --unsent_;
    }
    while (peer.failed.first != kNone) release(pop(peer.failed));
    for (uint32_t i = peer.in_flight.first; i != kNone; i = requests_[i].next) requests_[i].abandoned = true;
    peer.broken = false;
    if (peer.used) wire_->reset(NodeId(static_cast<uint8_t>(n)), options_.domain);
  }
}

uint64_t VerbIssuer::deadline_ns() const {
  uint64_t deadline = UINT64_MAX;
  for (const Peer& peer : peers_) {
    if (peer.broken) deadline = std::min(deadline, peer.retry_ns);
    if (peer.in_flight.first != kNone && requests_[peer.in_flight.first].unsignalled) {
      deadline = std::min(deadline, requests_[peer.in_flight.first].posted_ns + kUnsignalledNs);
    }
  }
  return deadline;
}

}  // namespace weft
