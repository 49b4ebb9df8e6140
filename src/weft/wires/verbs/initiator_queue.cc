#include "weft/wires/verbs/initiator_queue.h"

#include <algorithm>
#include <cstring>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/fabric/execute_verb.h"
#include "weft/wires/verbs/packets.h"

namespace weft {
namespace {

constexpr uint32_t kSilentVerbsMax = VerbsInitiatorQueue::kVerbsMax / 8;
constexpr uint64_t kSilentBytesMax = VerbsInitiatorQueue::kWindowBytes / 8;

ibv_wr_opcode opcode_of(VerbKind kind) {
  switch (kind) {
    case VerbKind::kRead:
      return IBV_WR_RDMA_READ;
    case VerbKind::kWrite:
      return IBV_WR_RDMA_WRITE;
    case VerbKind::kCompareSwap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case VerbKind::kFetchAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  return IBV_WR_RDMA_READ;
}

// Bytes that the device moves: a WRITE is padded with zeroes (execute_verb.h).
uint32_t moved_bytes(const Verb& verb) {
  return static_cast<uint32_t>(verb.kind == VerbKind::kWrite ? align_up(verb.bytes, 8) : reach(verb));
}

}  // namespace

VerbsInitiatorQueue::VerbsInitiatorQueue(NodeId peer, Domain domain, VerbsMemory* window, Completions* completions,
                                         VerbsCounters* counters)
    : peer_(peer),
      domain_(domain),
      window_(window),
      completions_(completions),
      counters_(counters),
      remotes_(Regions::kRegionsMax) {}

VerbsInitiatorQueue::~VerbsInitiatorQueue() { flush(); }

// A WRITE that is sent inline at once uses no window; one that is held back is sent later and does.
size_t VerbsInitiatorQueue::staged_bytes(const Verb& verb) const {
  const uint32_t bytes = moved_bytes(verb);
  if (verb.kind == VerbKind::kWrite && bytes == verb.bytes && bytes <= qp_->inline_bytes() && !holds_) return 0;
  return align_up(bytes, 8);
}

bool VerbsInitiatorQueue::window_fits(std::span<const Verb> verbs) const {
  uint64_t tail = window_tail_;
  for (const Verb& verb : verbs) tail = staged_at(tail, staged_bytes(verb)) + staged_bytes(verb);
  const bool fits = tail - window_head_ <= kWindowBytes;
  WEFT_CHECK(fits || posted_ != retired_, "one post fits into an empty window");
  return fits;
}

bool VerbsInitiatorQueue::post(std::span<const Verb> verbs) {
  for (const Verb& verb : verbs) {
    WEFT_CHECK(is_atomic(verb.kind) || verb.bytes <= kVerbBytesMax, "a verb is at most kVerbBytesMax");
  }
  WEFT_CHECK(verbs.size() <= kVerbsMax, "one post fits into an empty queue");
  if (verbs.empty()) return true;
  const bool nowhere = broken_ || (received_grant_ && grant_ == 0);
  if (!nowhere) {
    if (!open_ || posted_ - retired_ + verbs.size() > kVerbsMax) return false;
    if (posted_ == retired_) window_head_ = window_tail_ = 0;
    Order order;
    holds_ = sent_ != posted_;
    for (const Verb& verb : verbs) holds_ |= order.waits(verb);
    if (!window_fits(verbs)) return false;
  }
  if (!completions_->reserve(verbs.size())) return false;
  ++counters_->doorbells;
  counters_->verbs += verbs.size();
  if (nowhere) {
    post_nowhere(verbs);
    return true;
  }
  Order order;
  for (const Verb& verb : verbs) put(verb, order.waits(verb));
  send();
  return true;
}

// Hands the device what need not wait.
void VerbsInitiatorQueue::send() {
  while (sent_ != posted_ && (!at(sent_).waits || retired_ == sent_)) {
    ibv_send_wr* const first = &works_[sent_ % kVerbsMax];
    ibv_send_wr* last = first;
    while (++sent_ != posted_ && !at(sent_).waits) {
      last->next = &works_[sent_ % kVerbsMax];
      last = last->next;
    }
    last->next = nullptr;
    if (qp_->post(first) != 0) return fail(VerbStatus::kRefused);
  }
}

void VerbsInitiatorQueue::post_nowhere(std::span<const Verb> verbs) {
  for (const Verb& verb : verbs) {
    completions_->add({peer_, broken_ ? VerbStatus::kFlushed : VerbStatus::kRefused, verb.tag});
    broken_ = true;
  }
}

bool VerbsInitiatorQueue::Order::waits(const Verb& verb) {
  if (!verb.ordered_after_previous) read = atomic = false;
  const bool must = (verb.kind == VerbKind::kWrite && (read || atomic)) || (is_atomic(verb.kind) && read);
  if (must) read = atomic = false;
  read |= verb.kind == VerbKind::kRead;
  atomic |= is_atomic(verb.kind);
  return must;
}

void VerbsInitiatorQueue::put(const Verb& verb, bool waits) {
  ibv_send_wr& work = works_[posted_ % kVerbsMax];
  ibv_sge& part = parts_[posted_ % kVerbsMax];
  const size_t staged = staged_bytes(verb);
  window_tail_ = staged_at(window_tail_, staged);
  std::byte* const at_window = window_->base() + window_tail_ % kWindowBytes;
  window_tail_ += staged;
  part = {reinterpret_cast<uint64_t>(staged == 0 ? verb.local : at_window), moved_bytes(verb), window_->key()};
  if (verb.kind == VerbKind::kWrite && staged != 0) {
    std::memset(at_window + staged - 8, 0, 8);
    std::memcpy(at_window, verb.local, verb.bytes);
  }
  work = {};
  work.wr_id = VerbsTag{VerbsWork::kVerb, domain_, peer_, generation_, posted_}.pack();
  work.sg_list = &part;
  work.num_sge = part.length == 0 ? 0 : 1;
  work.opcode = opcode_of(verb.kind);
  if (verb.kind == VerbKind::kWrite && part.length <= qp_->inline_bytes()) work.send_flags |= IBV_SEND_INLINE;
  if (waits) {
    // The previous verb is of the same post and not sent yet; this one waits for its completion.
    works_[(posted_ - 1) % kVerbsMax].send_flags |= IBV_SEND_SIGNALED;
    ++counters_->held;
  }
  aim(verb, work, part);
  silent_bytes_ += staged;
  if (++silent_ >= kSilentVerbsMax || silent_bytes_ >= kSilentBytesMax || verb.signalled) {
    work.send_flags |= IBV_SEND_SIGNALED;
    silent_ = 0;
    silent_bytes_ = 0;
  }
  const uint32_t returned = verb.kind == VerbKind::kWrite ? 0 : part.length;
  at(posted_++) = {verb.local, at_window, verb.tag, window_tail_, returned, verb.signalled, waits};
  count(verb.kind);
}

void VerbsInitiatorQueue::aim(const Verb& verb, ibv_send_wr& work, ibv_sge& part) const {
  const Remote* remote = verb.region.value < remotes_.size() ? &remotes_[verb.region.value] : nullptr;
  const uint64_t bytes = reach(verb);
  if (remote != nullptr && verb.offset % 8 == 0 && verb.offset <= remote->bytes &&
      bytes <= remote->bytes - verb.offset && remote->bytes != 0) {
    if (is_atomic(verb.kind)) {
      work.wr.atomic.remote_addr = remote->base + verb.offset;
      work.wr.atomic.rkey = remote->key;
      work.wr.atomic.compare_add = verb.kind == VerbKind::kCompareSwap ? verb.compare : verb.operand;
      work.wr.atomic.swap = verb.operand;
    } else {
      work.wr.rdma.remote_addr = remote->base + verb.offset;
      work.wr.rdma.rkey = remote->key;
    }
    return;
  }
  // I2. Nothing is returned, so any window will do.
  if (remote == nullptr || remote->bytes == 0) remote = &remotes_.front();
  part = {reinterpret_cast<uint64_t>(window_->base()), 8, window_->key()};
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.send_flags &= ~static_cast<unsigned int>(IBV_SEND_INLINE);
  work.wr.rdma.remote_addr = remote->base + remote->bytes;
  work.wr.rdma.rkey = remote->key;
}

void VerbsInitiatorQueue::count(VerbKind kind) {
  uint64_t* const counters[] = {&counters_->reads, &counters_->writes, &counters_->compare_swaps,
                                &counters_->fetch_adds};
  ++*counters[static_cast<size_t>(kind)];
}

void VerbsInitiatorQueue::completed(const ibv_wc& wc, uint32_t index) {
  if (index - retired_ >= posted_ - retired_) return;
  while (retired_ != index) retire(VerbStatus::kDone);  // the queue is in order: those before it are complete
  if (wc.status == IBV_WC_SUCCESS) {
    retire(VerbStatus::kDone);
    if (sent_ != posted_) send();
  } else {
    fail(wc.status == IBV_WC_WR_FLUSH_ERR ? VerbStatus::kFlushed : VerbStatus::kRefused);
  }
}

void VerbsInitiatorQueue::retire(VerbStatus status) {
  const Pending& pending = at(retired_++);
  window_head_ = pending.window_end;
  if (status == VerbStatus::kDone && pending.returned != 0) {
    std::memcpy(pending.local, pending.staged, pending.returned);
  }
  if (pending.signalled || status != VerbStatus::kDone) {
    completions_->add({peer_, status, pending.tag});
  } else {
    completions_->forgo();
  }
}

// Ends the queue.
void VerbsInitiatorQueue::fail(VerbStatus first) {
  close();
  broken_ |= retired_ != posted_;
  sent_ = posted_;
  for (VerbStatus status = first; retired_ != posted_; status = VerbStatus::kFlushed) retire(status);
}

void VerbsInitiatorQueue::close() {
  qp_.reset();
  open_ = false;
  generation_ = 0;
  silent_ = 0;
  silent_bytes_ = 0;
}

void VerbsInitiatorQueue::flush() {
  fail(VerbStatus::kFlushed);
  broken_ = received_grant_ = false;
  grant_ = 0;
  std::fill(remotes_.begin(), remotes_.end(), Remote());
}

void VerbsInitiatorQueue::set_region(RegionId region, uint64_t base, uint64_t bytes, uint32_t key) {
  remotes_[region.value] = {base, bytes, key};
}

void VerbsInitiatorQueue::set_grant(uint32_t grant) {
  if (received_grant_ && grant == grant_) return;
  received_grant_ = true;
  grant_ = grant;
  fail(VerbStatus::kRefused);
}

Result<QpAddress> VerbsInitiatorQueue::ask(const VerbsNic& nic, const VerbsCq& cq, uint16_t generation,
                                           uint32_t sequence) {
  if (!*window_) {
    auto made = VerbsMemory::create(nic, kWindowBytes);
    if (!made) return made.error();
    *window_ = std::move(*made);
  }
  if (pending_ == nullptr) {
    pending_ = std::make_unique<Pending[]>(kVerbsMax);
    works_ = std::make_unique<ibv_send_wr[]>(kVerbsMax);
    parts_ = std::make_unique<ibv_sge[]>(kVerbsMax);
  }
  VerbsQp::Options options;
  options.sends = kVerbsMax;
  options.inline_bytes = kInlineBytes;
  options.sequence = sequence;
  auto made = VerbsQp::create(nic, cq, options);
  if (!made) return made.error();
  qp_ = std::move(*made);
  generation_ = generation;
  return qp_->address();
}

Result<void> VerbsInitiatorQueue::open(uint32_t asked, const QpAddress& address) {
  if (qp_ == nullptr || open_ || asked != qp_->number()) return {};  // a reply to an earlier ask
  auto connected = qp_->connect(address, true);
  open_ = static_cast<bool>(connected);
  return connected;
}

}  // namespace weft
