#include "weft/txn/shipped_txns.h"

#include <algorithm>
#include <new>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/messages.h"
#include "weft/txn/truncation.h"

namespace weft {

namespace {

constexpr uint32_t kAckBytes = 256;  // an acknowledgement, in a packet of its own
constexpr uint32_t kShipOverhead = 1024;

KeyRef lock_ref(const Entry& e, uint16_t index) {
  KeyRef ref;
  ref.key = e.key;
  ref.table = e.table;
  ref.table_id = e.table_id;
  ref.index = index;
  ref.write = e.may_write ? Write::kPut : Write::kNone;
  ref.room = e.may_write ? std::min(kHeldRoom, e.table->spec().value_bytes_max) : 0;
  return ref;
}

}  // namespace

ShippedTxns::OwnReads& ShippedTxns::own_reads(ProcedureId procedure) {
  if (procedure.value >= own_reads_.size()) own_reads_.resize(procedure.value + size_t{1});
  return own_reads_[procedure.value];
}

std::optional<NodeId> ShippedTxns::executor_for(const TxnSlot& slot, ProcedureId id, const StoredProcedure& procedure) {
  if (!planner_.plan_reads(slot).ships || procedure.runs_at != StoredProcedure::RunsAt::kAnyNode) return std::nullopt;
  if (slot.stage != TxnStage::kExecuting || slot.outcome.code != Code::kOk || slot.count == 0) return std::nullopt;
  if (!ctx_.views.active() || slot.epoch != ctx_.view().epoch.value) return std::nullopt;
  std::optional<NodeId> executor;
  bool own = false, own_read = false, writes = false;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    const NodeId primary = e.placement->primary();
    if (e.announced && e.intent == Intent::kHint) return std::nullopt;
    writes |= e.may_write;
    if (primary == ctx_.self) {
      own = true;
      own_read |= !e.may_write;
    } else if (executor && *executor != primary) {
      return std::nullopt;
    } else {
      executor = primary;
    }
  }
  if (own && !writes) return std::nullopt;  // it would lock what it only reads
  if (!executor || ctx_.views.is_lost(*executor) || !ctx_.views.runs_transactions(*executor)) return std::nullopt;
  if (own_read && own_reads(id).here != 0) {
    --own_reads(id).here;
    return std::nullopt;
  }
  return executor;
}

void ShippedTxns::start(TxnSlot& slot, NodeId executor, const Call& call) {
  WEFT_CHECK(slot.stage == TxnStage::kExecuting && slot.reads_pending == 0, "what is shipped has not read anything");
  if (call.arguments.size() > kShipBytesMax || !take_credit(slot, executor)) {
    WEFT_MARK("no credit to ship");
    acks_.wake(slot);
    return;
  }
  if (!lock_own(slot, call.procedure)) {
    coordinator_.abort(slot);
    return;
  }
  const bool fits = read_own(slot);
  if (fits && slot.outcome.code == Code::kOk && send(slot, executor, call)) return;
  WEFT_MARK("too long to be shipped");
  if (slot.outcome.code == Code::kOk) fail(slot, Code::kAskInstead, nullptr, Owner());
  coordinator_.abort(slot);  // what was locked to be read must not be written by that lock
}

// For the shipped procedure and its answer, and for the acknowledgements of all that may be asked to log.
bool ShippedTxns::take_credit(TxnSlot& slot, NodeId executor) {
  NodeSet nodes = NodeSet::of(executor);
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.may_write) nodes |= e.placement->in_sync | e.placement->catching_up;
  }
  nodes.remove(ctx_.self);
  if (!(nodes & ctx_.views.lost_peers()).empty()) return false;
  NodeSet taken;
  for (const NodeId n : nodes) {
    const uint32_t need = n == executor ? 2 * kShipBytesMax + kShipOverhead : kAckBytes;
    if (!credit_.take(n, need)) {
      for (const NodeId back : taken) credit_.put_back(back, slot.credit[back.value]);
      return false;
    }
    taken.add(n);
    slot.credit[n.value] = need;
  }
  slot.credit_nodes = taken;
  slot.participants = nodes | NodeSet::of(ctx_.self);
  return true;
}

// Locks the keys of this node, those only read as well (H3). False: refused.
bool ShippedTxns::lock_own(TxnSlot& slot, ProcedureId procedure) {
  refs_.cut(0);
  KeyRef* to = refs_.begin_adding(slot.count);
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.placement->primary() != ctx_.self) continue;
    if (!e.may_write && ctx_.bugs.has(PlantedBug::kReadsNotLocked)) continue;
    new (to++) KeyRef(lock_ref(e, i));
  }
  refs_.end_adding(to);
  if (refs_.empty()) return true;
  CommitRequest request{};
  request.coordinator = ctx_.self;
  request.slot = slot.index;
  request.flags = kRefusalIsFinal;
  request.sequence = slot.sequence;
  const NodeSet own = NodeSet::of(ctx_.self);
  Truncation::opens_records(slot, own);
  PhaseResult result;
  const bool taken = participant_.lock(request, participant_.gather(refs_.all()), &result);
  WEFT_CHECK(taken || ctx_.bugs.mask != 0, "this node's own requests are right");
  const bool reads = std::any_of(refs_.begin(), refs_.end(), [](const KeyRef& r) { return r.write == Write::kNone; });
  if (reads) {
    OwnReads& of = own_reads(procedure);
    ++of.calls;
    if (result.code != Code::kOk && !slot.entry(result.index).may_write) ++of.refused;
    if (of.calls == kWatched) {
      if (of.refused > kRefusedMax) WEFT_MARK("what is read here is too often locked to ship a procedure");
      of = {.here = of.refused > kRefusedMax ? kExecutedHere : 0};
    }
  }
  if (result.code != Code::kOk) {
    fail(slot, result.code, &slot.entry(result.index), result.holder);
    return false;
  }
  for (size_t i = 0; i < refs_.size(); ++i) {
    Entry& e = slot.entry(refs_.data()[i].index);
    e.locks = e.locked = true;
    e.base = e.version = Version(result.versions[i]);
  }
  slot.locked_nodes |= own;
  slot.record_nodes |= own;
  return true;
}

// Returns whether the values are short enough to go along.
bool ShippedTxns::read_own(TxnSlot& slot) {
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if (e.placement->primary() != ctx_.self) continue;
    const uint32_t room = e.announced ? std::min(kShipBytesMax, e.table->spec().value_bytes_max) : 0;
    const ReadResult read = e.table->read(e.key, ctx_.scratch.data(), room);
    ctx_.touch_record();
    if (read.found && !read.torn && e.announced && read.value_bytes > room) return false;
    ++ctx_.counters.local_gets;
    e.head = !e.announced;  // it is only written
    e.announced = e.done = false;
    e.read = true;
    e.found = read.found;
    if (!e.locked) e.version = e.base = read.word.version();
    if (read.torn) fail(slot, Code::kLocked, &e, read.word.owner());
    e.partial = e.head && e.found;
    if (read.found && !e.head && slot.outcome.code == Code::kOk) {
      keys_.keep_value(slot, e, {ctx_.scratch.data(), read.value_bytes});
    }
    e.done = true;
  }
  return true;
}

bool ShippedTxns::send(TxnSlot& slot, NodeId executor, const Call& call) {
  const std::string_view arguments = call.arguments;
  ShipHeader header{};
  header.keys = call.keys_digest;
  header.procedure = call.procedure.value;
  header.argument_bytes = static_cast<uint16_t>(arguments.size());
  header.waits = call.waits ? 1 : 0;
  size_t bytes = CommitRequest::bytes(ctx_.nodes) + sizeof header + padded(arguments.size());
  bool writes = false;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    writes |= e.may_write;
    if (e.placement->primary() != ctx_.self) continue;
    ++header.values;
    bytes += sizeof(ShippedValue) + padded(e.found ? e.value_bytes : 0);
  }
  const bool has_room = slot.bytes_taken + kShipBytesMax <= uint64_t{TxnKeys::kTakenMax} * ctx_.limits.txn_bytes_max;
  if (bytes > kShipBytesMax || !has_room) return false;  // room: for the reply
  slot.enter(TxnStage::kCommitting);
  slot.phase = slot.ack_after = Phase::kReplicate;
  slot.flags = planner_.commit_flags(slot);
  slot.read_only = !writes;
  slot.executor = slot.shipped_to = slot.waiting = NodeSet::of(executor);
  slot.early_acks = {};
  const CommitRequest request = MessageTransport::request_of(ctx_.self, slot);
  std::byte* to =
      ctx_.port.reserve(executor, Flow::kCommit, static_cast<uint8_t>(Kind::kShip), bytes, request.tag(ctx_.nodes));
  to = request.put(to, ctx_.nodes);
  store(to, header);
  to += sizeof header;
  if (!arguments.empty()) {
    store(to + padded(arguments.size()) - 8, uint64_t{0});
    std::copy(arguments.begin(), arguments.end(), reinterpret_cast<char*>(to));
    to += padded(arguments.size());
  }
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.placement->primary() != ctx_.self) continue;
    ShippedValue value{};
    value.version = e.version.value;
    value.index = i;
    value.found = e.found ? 1 : 0;
    value.bytes = e.found ? e.value_bytes & 0x7fffffffU : 0;
    store(to, value);
    to += sizeof value;
    copy_words(to, e.value, value.bytes);
    to += padded(value.bytes);
  }
  ++slot.round_trips;
  ++ctx_.counters.phase_round_trips[index_of(Phase::kReplicate)];
  ++ctx_.counters.phase_messages[index_of(Phase::kExecute)];
  ++ctx_.counters.shipped;
  if (ctx_.observer != nullptr) ctx_.observer->on_phase(ctx_.self, ctx_.id, slot);
  if (ctx_.bugs.has(PlantedBug::kToldBeforeShipped)) acks_.acknowledge(slot);
  return true;
}

void ShippedTxns::on_shipped(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    TxnSlot& slot = slots_.at(m.tag);
    const auto reply = load<ShippedReply>(m.body.data());
    ++ctx_.counters.phase_messages[index_of(Phase::kExecute)];
    if (!slot.in_phases() || !slot.executor.contains(m.source) ||
        static_cast<uint32_t>(slot.sequence) != reply.sequence || (slot.read_only && reply.writes != 0)) {
      ctx_.faults.report(m.source, "an answer to what was not shipped to it");
      continue;
    }
    const NodeSet others = slot.participants - NodeSet::of(ctx_.self) - NodeSet::of(m.source);
    if (!(reply.logged - others).empty() || !may_log(slot, m.source, batch.keys_of(m))) {
      ctx_.faults.report(m.source, "a shipped transaction logged where it has no part");
      continue;
    }
    take(slot, batch, m);
  }
}

// Whether these are keys that the executor may write: its own, and those of this node that are locked to be written.
bool ShippedTxns::may_log(const TxnSlot& slot, NodeId executor, std::span<const KeyRef> keys) const {
  uint32_t next = 0;
  for (const KeyRef& key : keys) {
    if (key.index < next) return false;  // they are in order
    next = key.index + 1U;
    const NodeId primary = ctx_.view().placement(key.key.partition).primary();
    if (primary != ctx_.self && primary != executor) return false;
    if (key.index >= slot.count) {  // it was named when the procedure ran
      if (primary == ctx_.self) return false;
      continue;
    }
    const Entry& e = slot.entry(key.index);
    if (e.table != key.table || as_text(e.key.bytes) != as_text(key.key.bytes)) return false;
    if (primary != ctx_.self) continue;
    const bool locked = e.locked && e.may_write && key.write != Write::kErase && key.value.size() <= kHeldRoom;
    if (!locked || key.version.value != e.base.value + 1) return false;
  }
  return true;
}

void ShippedTxns::take(TxnSlot& slot, const Batch& batch, const Message& m) {
  const auto reply = load<ShippedReply>(m.body.data());
  const auto code = static_cast<Code>(reply.code);
  if (code != Code::kOk) {
    slot.executor = slot.waiting = {};
    fail(slot, code, reply.index < slot.count ? &slot.entry(reply.index) : nullptr, Owner(reply.holder));
    coordinator_.on_answered(slot);
    return;
  }
  const std::byte* const bytes = m.body.data() + sizeof reply;
  slot.writes = reply.writes;
  log_own(slot, batch.keys_of(m));
  const NodeSet own = NodeSet::of(ctx_.self), executor = slot.executor;
  if (reply.holds != 0) slot.locked_nodes |= executor;
  slot.record_nodes |= reply.logged;
  if (reply.holds != 0) slot.record_nodes |= executor;
  if (reply.keys != 0) slot.record_nodes |= own;
  Truncation::opens_records(slot, slot.record_nodes);
  if (reply.reply_bytes != 0) {
    std::byte* const kept = keys_.take_bytes(slot, reply.reply_bytes);
    WEFT_CHECK(kept != nullptr, "there was room for the reply when it was shipped");
    std::copy(bytes, bytes + reply.reply_bytes, kept);
    slot.reply = {kept, reply.reply_bytes};
  }
  slot.waiting = reply.logged - slot.early_acks - own;
  slot.executor = {};
  const NodeSet lost = ctx_.recovers ? NodeSet() : slot.waiting & ctx_.views.lost_peers();
  if (!lost.empty()) {  // no view removes them, and they never answer
    fail_for_peer(slot, nullptr, lost);
    slot.waiting -= lost;
    slot.outcome.kind = OutcomeKind::kUnknown;
    acks_.acknowledge(slot);
    return;
  }
  if (slot.phase_over()) coordinator_.on_answered(slot);
}

// Logs at this node what the executor has told it to, as a message would.
void ShippedTxns::log_own(const TxnSlot& slot, std::span<const KeyRef> keys) {
  if (keys.empty()) return;
  const CommitRequest request = MessageTransport::request_of(ctx_.self, slot);
  const bool taken = participant_.replicate(request, participant_.gather(keys));
  WEFT_CHECK(taken || ctx_.bugs.mask != 0, "this node's own requests are right");
}

}  // namespace weft
