#include "weft/txn/ship_server.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/messages.h"

namespace weft {

ShipServer::ShipServer(WorkerContext& ctx, Pool* pool, const Planner& planner, uint8_t row, TxnKeys& keys,
                       CreditGate& credit, Participant& participant, OwnTransport& own,
                       const MessageTransport& messages, std::span<const StoredProcedure> procedures, int slots,
                       StepOutput& output)
    : ctx_(ctx),
      pool_(pool),
      planner_(planner),
      row_(row),
      keys_(keys),
      credit_(credit),
      participant_(participant),
      own_(own),
      messages_(messages),
      procedures_(procedures),
      slots_(slots),
      output_(output),
      guest_(std::make_unique<TxnSlot>()),
      held_(static_cast<size_t>(ctx.nodes) * static_cast<size_t>(slots)) {
  guest_->owners = ctx.owners;
}

bool ShipServer::parse(const Message& m) const {
  const size_t head = CommitRequest::bytes(ctx_.nodes) + sizeof(ShipHeader);
  if (static_cast<uint8_t>(m.tag) >= slots_ || m.body.size() < head) return false;
  if ((m.tag >> 8 & 0xffU) > kCommitFlagsMax || m.body.size() > kShipBytesMax || m.source == ctx_.self) return false;
  const auto header = load<ShipHeader>(m.body.data() + CommitRequest::bytes(ctx_.nodes));
  const std::byte* at = m.body.data() + head;
  const std::byte* const end = m.body.data() + m.body.size();
  if (header.argument_bytes > kShipBytesMax || static_cast<size_t>(end - at) < padded(header.argument_bytes))
    return false;
  at += padded(header.argument_bytes);
  for (int i = 0; i < header.values; ++i) {
    if (static_cast<size_t>(end - at) < sizeof(ShippedValue)) return false;
    const auto value = load<ShippedValue>(at);
    at += sizeof value;
    if (value.version > kVersionMax || static_cast<size_t>(end - at) < padded(value.bytes)) return false;
    if (value.found == 0 && value.bytes != 0) return false;
    at += padded(value.bytes);
  }
  return at == end && header.procedure < procedures_.size() && header.waits <= 1;
}

void ShipServer::on_ship(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    step(ctx_.now_ns());  // those that came before it
    leaves_kept_ = may_wait(m);
    const ShipQueue::LockedKey* const key = handle(m, true);
    leaves_kept_ = false;
    if (key == nullptr || queue_.add(m, *key, ctx_.now_ns())) continue;
    WEFT_MARK_OUTSIDE("no room to wait for a lock");
    handle(m, false);
  }
}

bool ShipServer::step(uint64_t now_ns) {
  if (queue_.empty()) [[likely]]
    return false;
  return queue_.retry(
      ctx_.views.lost_peers(), now_ns, [this](const Message& m, bool in_time) { return handle(m, in_time); },
      [this](std::coroutine_handle<> h) { ctx_.worker->ready(h); });
}

// The key whose lock it waits for; nullptr: it was answered.
const ShipQueue::LockedKey* ShipServer::handle(const Message& m, bool in_time) {
  const CommitRequest request = CommitRequest::of(m.source, m.tag, m.body.data(), ctx_.nodes);
  begin(request);
  const bool refused = !execute(m, request) && refusal_.code != Code::kOk;
  const bool goes_on = refused && in_time && waits(m);
  if (refused && !goes_on) {
    if (!in_time) WEFT_MARK("a shipped procedure has waited for too long");
    release(request);
    answer_refusal(request);
  }
  end();
  return goes_on ? &locked_key_ : nullptr;
}

// H9: its coordinator holds nothing for it.
bool ShipServer::may_wait(const Message& m) const {
  const auto header = load<ShipHeader>(m.body.data() + CommitRequest::bytes(ctx_.nodes));
  return header.values == 0 && header.waits != 0;
}

// The same of what it has just been refused for, and it holds nothing here.
bool ShipServer::waits(const Message& m) {
  // Without a key it is the procedure that says so.
  if (refusal_.code != Code::kLocked || refusal_.index >= guest_->count || locked_ || !may_wait(m)) return false;
  WEFT_MARK("a shipped procedure waits for a lock");
  const Entry& e = guest_->entry(refusal_.index);
  return locked_key_.set(*e.table, e.key);
}

// The guest slot becomes the transaction.
void ShipServer::begin(const CommitRequest& request) {
  clear(*guest_);
  guest_->stage = TxnStage::kExecuting;
  guest_->index = request.slot;
  guest_->row = row_;
  guest_->sequence = request.sequence;
  guest_->incarnation = ctx_.views.incarnation_of(request.coordinator);
  guest_->epoch = ctx_.view().epoch.value;
  refusal_ = {};
  locked_ = false;
}

void ShipServer::end() {
  for (int i = 0; i < guest_->chunks; ++i) {
    const TxnSlot::Chunk& chunk = guest_->chunk[static_cast<size_t>(i)];
    pool_->free(chunk.block, chunk.bytes);
  }
  guest_->chunks = 0;
  guest_->count = 0;
}

bool ShipServer::refuse(Code code, uint16_t index, Owner holder) {
  if (refusal_.code == Code::kOk) refusal_ = {code, index, holder};
  return false;
}

// Because the transaction has failed, at the key that its outcome names. What is rejected for a limit is said by name
// where it was called.
bool ShipServer::refuse_failed() {
  if (guest_->rejected != Code::kOk) return ask_instead();
  const Outcome& outcome = guest_->outcome;
  uint16_t index = 0;
  for (; index < guest_->count; ++index) {
    const Entry& e = guest_->entry(index);
    const size_t start = std::min(e.key.bytes.size(), sizeof outcome.key_start);
    if (e.table_id == outcome.table && e.key.bytes.size() == outcome.key_bytes &&
        std::memcmp(e.key.bytes.data(), outcome.key_start, start) == 0) {
      break;
    }
  }
  return refuse(outcome.code, index);
}

// It is executed by its caller instead.
bool ShipServer::ask_instead() { return refuse(Code::kAskInstead); }

bool ShipServer::execute(const Message& m, const CommitRequest& request) {
  if (participant_.has_had(request)) {
    ctx_.faults.report(m.source, "a procedure that was shipped before");
    return false;
  }
  if (!held(request.coordinator, request.slot).nodes.empty()) {
    ctx_.faults.report(m.source, "a procedure before the last one of its slot was unlocked");
    return false;
  }
  const std::byte* at = m.body.data() + CommitRequest::bytes(ctx_.nodes);
  const auto header = load<ShipHeader>(at);
  at += sizeof header;
  const std::string_view arguments = as_text({at, header.argument_bytes});
  if (!ctx_.views.runs_transactions()) return ask_instead();
  const StoredProcedure& procedure = procedures_[header.procedure];
  ProcedureKeys keys(keys_, *guest_);
  keys.collect(procedure, arguments);
  if (guest_->outcome.code != Code::kOk) return refuse_failed();
  if (keys.digest() != header.keys) {
    WEFT_MARK_OUTSIDE("a shipped procedure names other keys here");
    return refuse(Code::kImpure);
  }
  if (!take_values(m, at + padded(header.argument_bytes), header.values)) return false;
  if (!lock(request) || !read(request) || !run(procedure, arguments, keys)) return false;
  return plan(request);
}

// Of a key whose head is enough a procedure gets no more than that, wherever it is executed.
void ShipServer::keep(Entry& e, ByteView value, uint32_t length) {
  if (e.intent == Intent::kHead && value.size() > kHeadBytes) value = value.first(kHeadBytes);
  keys_.keep_value(*guest_, e, value);
  if (e.value == nullptr) return;
  e.value_length = length;
  e.partial = value.size() < length;
}

// The coordinator has sent all keys that it holds, and those only.
bool ShipServer::take_values(const Message& m, const std::byte* at, uint16_t values) {
  const auto fault = [&](const char* what) {
    ctx_.faults.report(m.source, what);
    return false;
  };
  for (int i = 0; i < values; ++i) {
    const auto value = load<ShippedValue>(at);
    at += sizeof value;
    if (value.index >= guest_->count) return fault("a shipped value of no key of its procedure");
    Entry& e = guest_->entry(value.index);
    if (e.placement->primary() != m.source || e.locked) return fault("a shipped value of a key that it does not hold");
    if (value.bytes > e.table->spec().value_bytes_max) return fault("a shipped value that is too long");
    if (e.may_write && value.version >= kVersionMax) return fault("a shipped value of the last version");
    e.read = e.locked = true;
    e.locks = e.may_write;
    e.done = false;
    e.found = value.found != 0;
    e.version = e.base = Version(value.version);
    if (e.found) keep(e, {at, value.bytes}, value.bytes);
    e.done = true;
    at += padded(value.bytes);
  }
  if (guest_->outcome.code != Code::kOk) return refuse_failed();
  bool here = false;
  for (uint16_t i = 0; i < guest_->count; ++i) {
    const Entry& e = guest_->entry(i);
    const NodeId primary = e.placement->primary();
    here |= primary == ctx_.self;
    if (primary == m.source ? !e.locked : primary != ctx_.self)
      return fault("a shipped procedure without all its keys");
  }
  if (!here) return fault("a shipped procedure with no key of this node");
  return true;
}

// Locks the keys that it may write here. If it writes only elsewhere, it locks what it reads here: the coordinator's
// unlock is what brings the credit for the logs back (H7).
bool ShipServer::lock(const CommitRequest& request) {
  bool writes = false, writes_here = false;
  for (uint16_t i = 0; i < guest_->count; ++i) {
    const Entry& e = guest_->entry(i);
    writes |= e.may_write;
    writes_here |= e.may_write && e.placement->primary() == ctx_.self;
  }
  writes_ = writes;
  refs_.cut(0);
  KeyRef* to = refs_.begin_adding(guest_->count);
  for (uint16_t i = 0; i < guest_->count; ++i) {
    const Entry& e = guest_->entry(i);
    if (e.placement->primary() != ctx_.self || !(e.may_write || (writes && !writes_here))) continue;
    if (leaves_kept_ && queue_.keeps(*e.table, e.key)) {
      WEFT_MARK_OUTSIDE("a shipped procedure finds a key that is kept");
      refs_.end_adding(to);
      return refuse(Code::kLocked, i);
    }
    KeyRef& ref = *new (to++) KeyRef();
    ref.key = e.key;
    ref.table = e.table;
    ref.table_id = e.table_id;
    ref.index = i;
    ref.write = e.may_write ? Write::kPut : Write::kNone;
    ref.room = e.may_write ? std::min(kHeldRoom, e.table->spec().value_bytes_max) : 0;
  }
  refs_.end_adding(to);
  return lock_refs(request);
}

bool ShipServer::lock_refs(const CommitRequest& request) {
  if (refs_.empty()) return true;
  CommitRequest locks = request;
  locks.flags = 0;          // whether a refusal is final is not known yet: release()
  locks.participants = {};  // what the transaction writes is not known yet
  locks.writes = 0;
  PhaseResult result;
  if (!participant_.lock(locks, participant_.gather(refs_.all()), &result)) return false;  // a fault was reported
  if (result.code != Code::kOk) return refuse(result.code, result.index, result.holder);
  locked_ = true;
  for (size_t i = 0; i < refs_.size(); ++i) {
    Entry& e = guest_->entry(refs_.data()[i].index);
    e.locked = true;
    e.locks = e.may_write;
    e.base = result.versions.empty() ? refs_.data()[i].version : Version(result.versions[i]);
    if (e.base.value >= kVersionMax && e.may_write) return refuse(Code::kVersionLimit, refs_.data()[i].index);
  }
  return true;
}

// Reads what is here, and then looks whether what is not locked has stayed (H1).
bool ShipServer::read(const CommitRequest& request) {
  for (uint16_t i = 0; i < guest_->count; ++i) {
    Entry& e = guest_->entry(i);
    if (e.placement->primary() != ctx_.self) continue;
    const bool whole = e.announced && e.intent != Intent::kHead;
    const uint32_t most = whole ? kValueMax : e.announced ? uint32_t{kHeadBytes} : 0;
    const uint32_t room = std::min(most, e.table->spec().value_bytes_max);
    const ReadResult read = e.table->read(e.key, ctx_.scratch.data(), room);
    ctx_.touch_record();
    if (read.torn) return refuse(Code::kLocked, i, read.word.owner());
    if (read.found && whole && read.value_bytes > room) {
      WEFT_MARK("a value too long to be read while a message is handled");
      return ask_instead();
    }
    e.head = !e.announced;  // it is only written
    e.announced = e.done = false;
    e.read = true;
    e.found = read.found;
    e.version = e.locked ? e.base : read.word.version();
    e.partial = e.head && e.found;
    if (e.found && !e.head) keep(e, {ctx_.scratch.data(), std::min(read.value_bytes, room)}, read.value_bytes);
    e.done = true;
    if (guest_->outcome.code != Code::kOk) return refuse_failed();
  }
  return check_reads(request);
}

// After the last lock: what is read and not locked is as it was.
bool ShipServer::check_reads(const CommitRequest& request) {
  const Owner owner = ctx_.owner(request.coordinator, request.slot);
  for (uint16_t i = 0; i < guest_->count; ++i) {
    const Entry& e = guest_->entry(i);
    if (e.locked || !e.read) continue;
    Owner holder;
    const Code code = e.table->validate(e.key, e.version, owner, &holder);
    if (code != Code::kOk) return refuse(code, i, holder);
  }
  return true;
}

bool ShipServer::run(const StoredProcedure& procedure, std::string_view arguments, const ProcedureKeys& keys) {
  ProcedureKeys::Room room;
  const Code code = output_.run(procedure, arguments, keys.values(&room));
  if (output_.wants_more()) {
    WEFT_MARK_OUTSIDE("a shipped procedure reads more");
    return ask_instead();  // it reads more keys
  }
  // What it is rejected for is said by name where it was called.
  if (code == Code::kImpure || code == Code::kReplyTooLong) return ask_instead();  // it is wrong
  if (code != Code::kOk) return refuse(code);
  if (sizeof(ShippedReply) + padded(output_.reply().size()) > kShipBytesMax) return ask_instead();  // a long reply
  bool both_ways = false;
  output_.write(keys_, *guest_, [&](TableId table, const Key& key, Write write, std::string_view value) {
    Entry& e = *keys_.find_known(*guest_, table, key);
    const Write before = e.write;
    keys_.write(*guest_, e, write, value);
    both_ways |= before != Write::kNone && before != e.write && !e.read;
  });
  if (both_ways) return ask_instead();  // whether a key existed decides what is written
  if (guest_->outcome.code != Code::kOk) return refuse_failed();
  return true;
}

}  // namespace weft
