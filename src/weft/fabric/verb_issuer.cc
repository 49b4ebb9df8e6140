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
      used_(kSmallest),
      peers_(static_cast<size_t>(options.nodes)),
      busy_(static_cast<size_t>(options.groups)) {
  WEFT_CHECK(bytes >= kSmallest, "memory for the word that probes read");
}

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
  return buffer != nullptr ? &make_on(buffer, bytes, peer, group) : nullptr;
}

VerbRequest& VerbIssuer::make_on(std::byte* buffer, size_t bytes, NodeId peer, uint16_t group) {
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
  return request;
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
  if (!request.probe) free(request.buffer, request.bytes);
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
  queue(*request);
}

void VerbIssuer::repeat(VerbRequest& request) {
  request.reposted = true;
  queue(request);
}

void VerbIssuer::queue(VerbRequest& request) {
  Peer& peer = peers_[request.peer.value];
  VerbCredit* const credit = options_.credit;
  if (credit != nullptr) request.shortages = credit->shortages();
  push(credit != nullptr && request.urgent ? peer.urgent : peer.queued, request.index);
  unsent_verbs_ += request.verbs;
  waits_for_credit_ = false;
}

bool VerbIssuer::flush(uint64_t now_ns) {
  const uint64_t before = doorbells_;
  waits_for_credit_ = no_room_ = false;
  if (options_.credit == nullptr || all_have_credit(now_ns)) {
    for (size_t n = 0; n < peers_.size(); ++n) {
      const NodeId id(static_cast<uint8_t>(n));
      if (!ready(id, now_ns)) continue;
      flush_peer(id, Kinds::kBoth, now_ns);
      flush_unsignalled(id, now_ns, probe_now_);
    }
  } else {
    flush_in_turns(now_ns);
  }
  probe_now_ = false;
  return doorbells_ != before;
}

bool VerbIssuer::all_have_credit(uint64_t now_ns) {
  options_.credit->step(now_ns);
  for (size_t n = 0; n < peers_.size(); ++n) ready(NodeId(static_cast<uint8_t>(n)), now_ns);
  return unsent_verbs_ == 0 || options_.credit->allows_all(unsent_verbs_);
}

// Returns false if the peer has refused verbs, and it is not yet time to post them again.
bool VerbIssuer::ready(NodeId id, uint64_t now_ns) {
  Peer& peer = peers_[id.value];
  if (!peer.broken) return true;
  if (peer.in_flight.first != kNone || now_ns < peer.retry_ns) return false;
  WEFT_MARK("refused verbs are posted again");
  wire_->reset(id, options_.domain);
  peer.broken = false;
  requeue_failed(peer);
  return true;
}

// Failed requests were posted before the queued ones.
void VerbIssuer::requeue_failed(Peer& peer) {
  if (peer.failed.first == kNone) return;
  List& list = options_.credit != nullptr ? peer.urgent : peer.queued;
  requests_[peer.failed.last].next = list.first;
  if (list.first == kNone) list.last = peer.failed.last;
  for (uint32_t i = peer.failed.first; i != list.first; i = requests_[i].next) {
    requests_[i].failed = false;
    requests_[i].retried = true;
    unsent_verbs_ += requests_[i].verbs;
  }
  list.first = peer.failed.first;
  peer.failed = List();
}

size_t VerbIssuer::gather(const List& list, Kinds kinds, Batch& batch) const {
  size_t count = 0;
  for (uint32_t index = list.first; index != kNone; index = requests_[index].next) {
    const VerbRequest& request = requests_[index];
    if (batch.verbs + request.verbs > kBatchMax || (batch.verbs != 0 && !options_.doorbell_batching)) break;
    if (!options_.pipelined_verbs && (busy_[request.group] != 0 || batch.verbs != 0)) break;
    if (batch.verbs != 0 && batch.bytes + request.bytes > kBatchBytesMax) break;
    if (kinds != Kinds::kBoth && !options_.credit->allows(batch.verbs, request.verbs, kinds == Kinds::kUrgent)) {
      batch.lacks_credit = true;
      break;
    }
    batch.bytes += request.bytes;
    for (size_t i = 0; i < request.verbs; ++i) batch.verb[batch.verbs++] = request.verb[i];
    ++count;
  }
  return count;
}

VerbIssuer::Flushed VerbIssuer::flush_peer(NodeId id, Kinds kinds, uint64_t now_ns) {
  Peer& peer = peers_[id.value];
  if (peer.queued.first == kNone && peer.urgent.first == kNone) return Flushed::kAll;
  Batch& batch = batch_;
  bool any = false;
  for (;;) {
    batch.verbs = batch.bytes = 0;
    batch.lacks_credit = false;
    const bool any_urgent = peer.urgent.first != kNone && kinds != Kinds::kOther;
    size_t urgent = any_urgent ? gather(peer.urgent, kinds, batch) : 0;
    size_t others = kinds != Kinds::kUrgent ? gather(peer.queued, kinds, batch) : 0;
    if (batch.verbs == 0) break;
    if (!post(id, {batch.verb.data(), batch.verbs})) {
      WEFT_MARK("no room for verbs");
      const size_t first = requests_[urgent != 0 ? peer.urgent.first : peer.queued.first].verbs;
      if (batch.verbs == first || !post(id, {batch.verb.data(), first})) {
        no_room_ = true;
        return Flushed::kAll;
      }
      others = urgent != 0 ? 0 : 1;
      urgent = std::min<size_t>(urgent, 1);
    }
    peer.used = any = true;
    if (urgent != 0) move_to_flight(peer, peer.urgent, urgent, now_ns);
    move_to_flight(peer, peer.queued, others, now_ns);
    if (peer.queued.first == kNone && peer.urgent.first == kNone) break;
  }
  if (!batch.lacks_credit) return Flushed::kAll;
  return any ? Flushed::kSome : Flushed::kNone;
}

bool VerbIssuer::post(NodeId id, std::span<const Verb> verbs) {
  if (!wire_->post(id, options_.domain, verbs)) return false;
  count_doorbell();
  if (cost_model_ != nullptr) cost_model_->charge(CostStep::kVerb, verbs.size());
  return true;
}

void VerbIssuer::count_doorbell() {
  ++doorbells_;
  if (options_.credit != nullptr) limits_sum_ += options_.credit->limit();
}

void VerbIssuer::move_to_flight(Peer& peer, List& list, size_t requests, uint64_t now_ns) {
  VerbCredit* const credit = options_.credit;
  for (; requests != 0; --requests) {
    const uint32_t index = pop(list);
    VerbRequest& request = requests_[index];
    request.posted_ns = now_ns;
    if (!request.unsignalled) ++busy_[request.group];
    push(peer.in_flight, index);
    unsent_verbs_ -= request.verbs;
    if (credit == nullptr) continue;
    credit->take(request.verbs);
    request.has_credit = true;
    if (request.shortages != credit->shortages()) credit->note_wait();
  }
}

// A peer that lacks credit for its next request has the first turn of the next flush; one that used all of it has the
// last.
void VerbIssuer::flush_in_turns(uint64_t now_ns) {
  bool lacks = false;
  for (const Kinds kind : {Kinds::kUrgent, Kinds::kOther}) {
    size_t& turn = turns_[static_cast<size_t>(kind)];
    for (size_t i = 0, n = turn; i < peers_.size() && !lacks; ++i, n = (n + 1) % peers_.size()) {
      if (peers_[n].broken || silent(peers_[n], now_ns)) continue;
      const Flushed flushed = flush_peer(NodeId(static_cast<uint8_t>(n)), kind, now_ns);
      lacks = flushed != Flushed::kAll;
      if (lacks) turn = flushed == Flushed::kSome ? (n + 1) % peers_.size() : n;
    }
  }
  if (lacks) {
    WEFT_MARK("verbs wait for credit");
    options_.credit->note_shortage();
  }
  waits_for_credit_ = lacks;
  for (size_t n = 0; n < peers_.size(); ++n) {
    if (peers_[n].broken) continue;
    flush_unsignalled(NodeId(static_cast<uint8_t>(n)), now_ns, probe_now_ || lacks);
    if (lacks && silent(peers_[n], now_ns)) take_all_credit(peers_[n]);
  }
  if (no_room_) waits_for_credit_ = false;
}

void VerbIssuer::give_back(VerbRequest& request, bool complete) {
  options_.credit->give_back(request.verbs, complete);
  request.has_credit = false;
  waits_for_credit_ = false;
}

bool VerbIssuer::silent(const Peer& peer, uint64_t now_ns) const {
  return peer.in_flight.first != kNone && now_ns >= requests_[peer.in_flight.first].posted_ns + kSilentNs;
}

void VerbIssuer::take_all_credit(Peer& peer) {
  WEFT_MARK("a silent peer gives up its credit");
  for (uint32_t i = peer.in_flight.first; i != kNone; i = requests_[i].next) {
    if (requests_[i].has_credit) give_back(requests_[i], false);
  }
}

bool VerbIssuer::all_unsignalled(const Peer& peer) const {
  for (uint32_t i = peer.in_flight.first; i != kNone; i = requests_[i].next) {
    if (!requests_[i].unsignalled) return false;
  }
  return peer.in_flight.first != kNone;
}

void VerbIssuer::flush_unsignalled(NodeId id, uint64_t now_ns, bool at_once) {
  Peer& peer = peers_[id.value];
  if (peer.in_flight.first == kNone || !requests_[peer.in_flight.first].unsignalled) return;
  if (!at_once && now_ns < requests_[peer.in_flight.first].posted_ns + kUnsignalledNs) return;
  if (peer.broken || !all_unsignalled(peer)) return;
  const VerbRequest first = requests_[peer.in_flight.first];
  Verb word;
  word.kind = VerbKind::kRead;
  word.region = first.verb[0].region;
  word.offset = first.verb[0].offset / 8 * 8;
  word.bytes = 8;
  // All probes read into the same word: nobody looks at it, and requests that wait for credit may have all other
  // memory.
  VerbRequest& request = make_on(memory_, kSmallest, id, first.group);
  request.probe = true;
  WEFT_MARK("unsignalled verbs are asked for");
  word.local = request.buffer;
  word.tag = tag_of(request.generation, request.index, 0);
  request.add(word);
  // Posted at once, without credit: the queued requests may wait for just those that it probes.
  if (!wire_->post(id, options_.domain, {&word, 1})) {
    no_room_ = true;
    release(request.index);
    return;
  }
  count_doorbell();
  request.posted_ns = now_ns;
  push(peer.in_flight, request.index);
}

void VerbIssuer::answer(Peer& peer, uint32_t index, void (*answered)(void*, VerbRequest&), void* context) {
  if (requests_[index].has_credit) give_back(requests_[index], !requests_[index].failed);
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
    for (List* const list : {&peer.urgent, &peer.queued, &peer.failed}) {
      while (list->first != kNone) release(pop(*list));
    }
    for (uint32_t i = peer.in_flight.first; i != kNone; i = requests_[i].next) {
      requests_[i].abandoned = true;
      if (requests_[i].has_credit) give_back(requests_[i], false);
    }
    peer.broken = false;
    if (peer.used) wire_->reset(NodeId(static_cast<uint8_t>(n)), options_.domain);
  }
  unsent_verbs_ = 0;
  waits_for_credit_ = false;
}

uint64_t VerbIssuer::deadline_ns() const {
  uint64_t deadline = UINT64_MAX;
  for (const Peer& peer : peers_) {
    if (peer.broken) deadline = std::min(deadline, peer.retry_ns);
    if (peer.in_flight.first == kNone) continue;
    const VerbRequest& first = requests_[peer.in_flight.first];
    if (first.unsignalled) deadline = std::min(deadline, first.posted_ns + kUnsignalledNs);
    if (waits_for_credit_ && first.has_credit) deadline = std::min(deadline, first.posted_ns + kSilentNs);
  }
  return deadline;
}

}  // namespace weft
