#include "weft/txn/verb_transport.h"

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/messages.h"
#include "weft/txn/plan.h"
#include "weft/txn/verb_requests.h"

namespace weft {

namespace {

constexpr size_t kPrefixBytes = sizeof(RecordHeader);  // word, then meta word (record_meta_of)

// Whether a record's first 16 bytes are as the transaction has read it, except for owner and flags.
bool same_record(const Entry& e, Word word, uint64_t meta) {
  return word.version() == e.version && !word.deleted() && !word.moved() &&
         meta == record_meta_of(e.where.form(), e.key.bytes, {e.value, e.value_bytes}, e.version);
}

Word unlocked(const Entry& e) { return {e.version, kReadable}; }

}  // namespace

void VerbTransport::post_phase(TxnSlot& slot, Phase phase, PlanStep* step) {
  slot.verbs_pending = 0;
  const unsigned bit = 1U << static_cast<int>(phase);
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if ((e.by_verb & bit) == 0) continue;
    if (phase == Phase::kLock) {
      post_lock(slot, i);
    } else if (phase == Phase::kValidate) {
      post_validate(slot, i);
    } else if (e.verb_locked && slot.stage == TxnStage::kCommitting) {
      post_install(slot, i);
    } else if (e.verb_locked) {
      post_release(slot, i);
    }
  }
  if (phase == Phase::kReplicate && !slot.ring_nodes.empty()) {
    WEFT_CHECK(log_ != nullptr, "only rows that log by verbs plan rings");
    step->send_to -= slot.ring_nodes;
    step->await_from -= slot.ring_nodes;
    for (const NodeId node : slot.ring_nodes) log_->post(slot, node);
    slot.ring_bytes = 0;
  }
}

void VerbTransport::send(TxnSlot& slot, Phase phase, VerbRequest* request) {
  count_verbs(ctx_, phase, *request);
  request->urgent = phase != Phase::kLock;  // it may hold locks
  ++slot.verbs_pending;
  verb_issuer_.send(request);
}

void VerbTransport::post_lock(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const NodeId primary = e.placement->primary();
  WEFT_CHECK(primary != ctx_.self && e.found && e.where && e.write == Write::kPut && !e.verb_locked,
             "a verb locks a record of another node that was found, for a put");
  VerbRequest* request = make_commit_request(verb_issuer_, TxnRequest::Purpose::kLock, slot, primary, index,
                                             sizeof(uint64_t) + kPrefixBytes);
  Verb swap = verb_on(e, VerbKind::kCompareSwap, request->buffer);
  swap.compare = unlocked(e).bits;
  swap.operand = unlocked(e).with_owner(ctx_.owner(ctx_.self, slot.index)).bits;
  request->add(swap);
  Verb read = verb_on(e, VerbKind::kRead, request->buffer + sizeof(uint64_t));
  read.bytes = kPrefixBytes;
  request->add(read);
  send(slot, Phase::kLock, request);
}

void VerbTransport::post_validate(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  WEFT_CHECK(e.placement->primary() != ctx_.self && e.found && e.where, "a verb checks a record that was found");
  VerbRequest* request = make_commit_request(verb_issuer_, TxnRequest::Purpose::kValidate, slot, e.placement->primary(),
                                             index, kPrefixBytes);
  Verb read = verb_on(e, VerbKind::kRead, request->buffer);
  read.bytes = kPrefixBytes;
  request->add(read);
  send(slot, Phase::kValidate, request);
}

void VerbTransport::post_install(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const RecordForm form = e.where.form();
  const size_t bytes = record_bytes(form, e.key.bytes.size(), e.new_bytes);
  WEFT_CHECK(bytes <= e.where.bytes() && e.base == e.version, "what is installed fits its block, and follows it");
  VerbRequest* request =
      make_commit_request(verb_issuer_, TxnRequest::Purpose::kInstall, slot, e.placement->primary(), index, bytes);
  record_write(request->buffer, e.key.bytes, {e.new_value, e.new_bytes}, Word(Version(e.base.value + 1), kReadable),
               form);
  Verb body = verb_on(e, VerbKind::kWrite, request->buffer + kMetaAt);
  body.offset += kMetaAt;
  body.bytes = static_cast<uint32_t>(bytes - kMetaAt);
  request->add(body);
  request->add(verb_on(e, VerbKind::kWrite, request->buffer));
  request->unsignalled = (slot.flags & kPiggybackAck) != 0 && slot.acknowledged;
  send(slot, Phase::kUnlock, request);
}

void VerbTransport::post_release(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  VerbRequest* request = make_commit_request(verb_issuer_, TxnRequest::Purpose::kRelease, slot, e.placement->primary(),
                                             index, sizeof(uint64_t));
  Verb swap = verb_on(e, VerbKind::kCompareSwap, request->buffer);
  swap.compare = unlocked(e).with_owner(ctx_.owner(ctx_.self, slot.index)).bits;
  swap.operand = unlocked(e).bits;
  request->add(swap);
  send(slot, Phase::kUnlock, request);
}

TxnSlot* VerbTransport::on_posted(const VerbRequest& request) {
  const auto& of = request.user_as<TxnRequest>();
  TxnSlot& slot = slots_.at(of.slot);
  if (slot.stage == TxnStage::kFree || slot.sequence != of.sequence) return nullptr;
  Phase phase = Phase::kUnlock;
  if (of.purpose == TxnRequest::Purpose::kLock) phase = Phase::kLock;
  if (of.purpose == TxnRequest::Purpose::kValidate) phase = Phase::kValidate;
  if (of.purpose == TxnRequest::Purpose::kLog) phase = Phase::kReplicate;
  if (!slot.in_phases() || slot.phase != phase || slot.verbs_pending == 0) return nullptr;
  WEFT_CHECK(of.entry < slot.count, "a verb request is of a key of its transaction");
  --slot.verbs_pending;
  if (phase == Phase::kLock) on_locked(slot, request);
  if (phase == Phase::kValidate) on_validated(slot, request);
  if (phase == Phase::kUnlock) slot.entry(of.entry).verb_locked = false;
  return &slot;
}

void VerbTransport::on_locked(TxnSlot& slot, const VerbRequest& request) {
  Entry& e = slot.entry(request.user_as<TxnRequest>().entry);
  const Word old(load<uint64_t>(request.buffer));
  const Word mine = unlocked(e).with_owner(ctx_.owner(ctx_.self, slot.index));
  if (old == unlocked(e) || (old == mine && request.retried)) {
    e.verb_locked = true;
    e.base = e.version;
    const Word now(load<uint64_t>(request.buffer + sizeof(uint64_t)));
    const auto meta = load<uint64_t>(request.buffer + sizeof(uint64_t) + kMetaAt);
    if ((now == mine && same_record(e, now, meta)) || ctx_.bugs.has(PlantedBug::kReusedBlock)) return;
    WEFT_MARK("a verb has locked a block that went to another key");
    ++ctx_.counters.places_stale;
    locations_.forget(request.peer, e.table_id, e.key.hash);
    fail(slot, Code::kVersionMoved, &e, Owner());
    return;
  }
  // If this transaction owns the lock, but not by this request, it took it by message, for another key that has the
  // block now. That lock stays.
  if (old.deleted() || old.moved() || old == mine) locations_.forget(request.peer, e.table_id, e.key.hash);
  if (old.owner()) {
    fail(slot, Code::kLocked, &e, old.owner());
  } else {
    fail(slot, Code::kVersionMoved, &e, Owner());
  }
}

void VerbTransport::on_validated(TxnSlot& slot, const VerbRequest& request) {
  const Entry& e = slot.entry(request.user_as<TxnRequest>().entry);
  const Word word(load<uint64_t>(request.buffer));
  const auto meta = load<uint64_t>(request.buffer + kMetaAt);
  const Owner self = ctx_.owner(ctx_.self, slot.index);
  if (word.owner() && word.owner() != self) {
    fail(slot, Code::kLocked, &e, word.owner());
  } else if (!same_record(e, word, meta) && !(ctx_.bugs.has(PlantedBug::kReusedBlock) && word.version() == e.version)) {
    fail(slot, Code::kVersionMoved, &e, Owner());
  }
}

}  // namespace weft
