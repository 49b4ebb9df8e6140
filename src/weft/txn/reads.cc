#include "weft/txn/reads.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/txn/messages.h"
#include "weft/txn/one_sided_reads.h"
#include "weft/txn/prepared_table.h"

namespace weft {

namespace {

constexpr uint32_t kGetOverhead = 152;     // headers of a get and its answer, each in a packet of its own
constexpr uint32_t kUnlockOverhead = 256;  // needed later to release a lock taken while reading
constexpr uint32_t kByTurn = UINT32_MAX;   // Entry::credit of a get that has its peer's turn instead

}  // namespace

Reads::Reads(WorkerContext& ctx, const ReadRules& rules, const Planner& planner, SlotTable& slots, TxnKeys& keys,
             CreditGate& credit, ClientAcks& acks, Coordinator& coordinator)
    : ctx_(ctx),
      rules_(rules),
      planner_(planner),
      slots_(slots),
      keys_(keys),
      credit_(credit),
      acks_(acks),
      coordinator_(coordinator) {
  const size_t gets = slots.size() * 16;
  local_.reserve(gets);
  batch_.reserve(gets);
  without_credit_.reserve(gets);
}

ReadHandle Reads::get_async(TxnSlot& slot, TableId table, const Key& key, Intent intent) {
  constexpr ReadHandle kNone{UINT16_MAX};
  if (slot.stage != TxnStage::kExecuting) return kNone;
  Entry* e = keys_.find_or_add(slot, table, key);
  if (e == nullptr) return kNone;
  if (intent != Intent::kHint) e->unvalidated = false;
  const auto index = static_cast<uint16_t>(e - slot.entries);
  if (!e->read && e->write == Write::kNone) {
    begin_read(slot, index, intent);
  } else if (e->head && intent != Intent::kHead) {
    read_again(slot, index);
  }
  return ReadHandle{index};
}

WEFT_INLINE void Reads::begin_read(TxnSlot& slot, uint16_t index, Intent intent) {
  Entry& e = slot.entry(index);
  WEFT_CHECK(!e.read && slot.stage == TxnStage::kExecuting, "a transaction that executes reads a key once");
  e.read = true;
  e.head = intent == Intent::kHead;
  e.unvalidated = intent == Intent::kHint;
  e.locks = intent == Intent::kUpdate && !slot.single && planner_.plan_reads(slot).lock_for_update;
  start(slot, index);
}

void Reads::begin_announced(TxnSlot& slot, uint16_t index, Intent intent) {
  Entry& e = slot.entry(index);
  e.announced = false;
  if (!e.read) {
    begin_read(slot, index, intent);
  } else if (e.head) {
    read_again(slot, index);
  }
}

bool Reads::is_here(const Entry& e) const {
  if (e.placement->primary() == ctx_.self) return true;
  return rules_.at_backups && !e.may_write && e.placement->is_in_sync(ctx_.self);
}

// The head was read, and now the value is wanted.
void Reads::read_again(TxnSlot& slot, uint16_t index) {
  Entry& e = slot.entry(index);
  e.head = false;
  if (!e.done || !e.partial || e.write != Write::kNone) return;  // its answer will be cut, and ask for more
  WEFT_MARK("a value is read whose head was read before");
  start(slot, index);
}

void Reads::check_again(TxnSlot& slot, Entry& e, bool found, Version version) {
  if (e.partial && (!found || version != e.version)) {
    WEFT_MARK("a value has changed since its head was read");
    e.code = Code::kVersionMoved;
    fail(slot, e.code, &e, Owner());
  }
  e.partial = false;
}

WEFT_INLINE void Reads::start(TxnSlot& slot, uint16_t index) {
  slot.entry(index).done = false;
  slot.done_upto = std::min(slot.done_upto, index);
  ++slot.reads_pending;
  if (slot.expired) {
    fail_read(slot, index, Code::kNoAnswer);
  } else if (!ctx_.views.active() || slot.epoch != ctx_.view().epoch.value) {
    // The transaction began in another view, or this node begins nothing any more.
    fail_read(slot, index, slot.rejected == Code::kPeerUnreachable ? Code::kPeerUnreachable : Code::kEpoch);
  } else {
    dispatch(slot, index);
  }
}

void Reads::start_single(TxnSlot& slot, TableId table, const Key& key) {
  WEFT_CHECK(slot.count == 0, "a single read is of the only key");
  slot.single = true;
  get_async(slot, table, key, Intent::kRead);
}

Code Reads::write(TxnSlot& slot, TableId table, const Key& key, Write write, std::string_view value) {
  if (slot.stage != TxnStage::kExecuting) return Code::kInvalidArgument;
  Entry* e = keys_.find_or_add(slot, table, key);
  if (e == nullptr) return slot.outcome.code;
  if (!e->read) e->done = true;
  e->unvalidated = false;
  const Write before = e->write;
  if (const Code code = keys_.write(slot, *e, write, value); code != Code::kOk) return code;
  // The key changes between put and erase within the transaction: whether it existed decides what is to be done, so
  // read it.
  if (before != Write::kNone && before != e->write && !e->read) {
    WEFT_MARK("written_both_ways_without_a_read");
    begin_read(slot, static_cast<uint16_t>(e - slot.entries), Intent::kRead);
  }
  return Code::kOk;
}

WEFT_INLINE void Reads::dispatch(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const bool at_backup = slot.single ? rules_.single_at_backups : rules_.at_backups;
  const bool here = e.placement->primary() == ctx_.self || (at_backup && e.placement->is_in_sync(ctx_.self));
  if (here && !e.locks) {
    local_.push_back({&slot, index});
  } else if (ctx_.views.is_lost(e.placement->primary())) {
    fail_read(slot, index, Code::kPeerLost);
  } else if (verbs_ == nullptr || e.locks || !verbs_->read(slot, index)) {
    ask_primary(slot, index);
  }
}

void Reads::ask_primary(TxnSlot& slot, uint16_t index) {
  if (!send_get(slot, index)) {
    if (!slot.participants.empty() && !goes_by_turn(slot.entry(index))) {
      // It holds locks that others wait for, and credit to release them: so it does not wait.
      WEFT_MARK("no_credit_for_a_get_with_locks_held");
      fail_read(slot, index, Code::kBusy);
    } else {
      without_credit_.push_back({&slot, index});
    }
  }
}

void Reads::fail_read(TxnSlot& slot, uint16_t index, Code code) {
  Entry& e = slot.entry(index);
  e.code = code;
  if (code == Code::kPeerLost) {
    fail_for_peer(slot, &e, NodeSet::of(e.placement->primary()));
  } else {
    fail(slot, code, &e, Owner());
  }
  complete_read(slot, index);
}

// As much as the answer is known to be long, if one was cut before.
uint32_t Reads::room_for(const Entry& e) const {
  if (e.head) return kHeadBytes;
  const uint32_t known = e.value_length != 0 ? e.value_length : default_get_room(ctx_.limits);
  return std::min(known, e.table->spec().value_bytes_max);
}

bool Reads::goes_by_turn(const Entry& e) const {
  return kGetOverhead + e.key.bytes.size() + room_for(e) > credit_.limit() / 4;
}

// A large answer needs no credit: there is one at a time from each peer, and the peer's queue has room for it (K3).
bool Reads::take_credit(const Entry& e, uint32_t answer, uint32_t later, uint32_t* credit) {
  const NodeId to = e.placement->primary();
  if (!goes_by_turn(e)) {
    *credit = answer;
    return credit_.take(to, answer + later);
  }
  if (large_gets_.contains(to) || (later != 0 && !credit_.take(to, later))) return false;
  WEFT_MARK("a large answer has its turn");
  large_gets_.add(to);
  *credit = kByTurn;
  return true;
}

void Reads::give_credit(NodeId from, Entry& e) {
  if (e.credit != kByTurn) {
    credit_.give(from, e.credit);
  } else {
    large_gets_.remove(from);
    credit_.retry_waiters();
  }
  e.credit = 0;
}

bool Reads::send_get(TxnSlot& slot, uint16_t index) {
  Entry& e = slot.entry(index);
  WEFT_CHECK(!e.done && e.credit == 0, "a primary is asked once for a key");
  const NodeId to = e.placement->primary();
  const auto key_bytes = static_cast<uint32_t>(e.key.bytes.size());
  const uint32_t room = room_for(e);
  const bool locks = e.locks && !e.locked;
  const uint32_t later = locks ? kUnlockOverhead : 0;
  if (!take_credit(e, kGetOverhead + key_bytes + room, later, &e.credit)) {
    e.credit = 0;
    WEFT_MARK("get_waits_for_credit");
    return false;
  }
  e.value_bytes = room;  // until it is answered
  if (later != 0) {
    if (!slot.credit_nodes.contains(to)) slot.credit[to.value] = 0;
    slot.credit_nodes.add(to);
    slot.participants.add(to);
    slot.credit[to.value] += later;
    Truncation::opens_records(slot, NodeSet::of(to));
  }
  GetRequest request{
      .slot = slot.index, .flags = 0, .entry = index, .table = e.table_id.value, .sequence = slot.sequence};
  request.room = room;
  request.head = e.head;
  const bool says_room = e.head || room > default_get_room(ctx_.limits);
  request.flags =
      static_cast<uint8_t>((slot.single ? kGetSingle : 0) | (locks ? kGetLocks : 0) |
                           (verbs_ != nullptr && to != ctx_.self ? kGetWhere : 0) | (says_room ? kGetRoom : 0));
  std::byte* at = ctx_.port.reserve(to, Flow::kCommit, static_cast<uint8_t>(Kind::kGet), request.bytes() + key_bytes,
                                    request.tag());
  copy_words(request.put(at), e.key.bytes.data(), key_bytes);
  if (to != ctx_.self) {
    ++ctx_.counters.remote_gets;
    ++ctx_.counters.phase_messages[static_cast<int>(Phase::kExecute)];
  }
  return true;
}

bool Reads::retry() {
  size_t kept = 0;
  const size_t count = without_credit_.size();
  for (size_t i = 0; i < count; ++i) {
    const Queued get = without_credit_[i];
    const NodeId to = get.slot->entry(get.entry).placement->primary();
    if (ctx_.views.is_lost(to)) {
      fail_read(*get.slot, get.entry, Code::kPeerLost);
    } else if (!send_get(*get.slot, get.entry)) {
      if (!get.slot->participants.empty() && !goes_by_turn(get.slot->entry(get.entry))) {
        fail_read(*get.slot, get.entry, Code::kBusy);  // another get of the transaction has locked meanwhile: see
                                                       // ask_primary
      } else {
        without_credit_[kept++] = get;
      }
    }
  }
  without_credit_.resize(kept);
  return kept != count;
}

bool Reads::run_batch() {
  if (local_.empty()) return false;
  batch_.swap(local_);
  ++ctx_.counters.table_batches;
  ctx_.counters.table_batched += batch_.size();
  if (ctx_.table_batching) {
    for (const Queued& get : batch_) {
      const Entry& e = get.slot->entry(get.entry);
      e.table->prefetch_index(e.key.hash);
    }
    for (const Queued& get : batch_) {
      const Entry& e = get.slot->entry(get.entry);
      e.table->prefetch_record(e.key);
    }
  }
  for (const Queued& get : batch_) read_local(*get.slot, get.entry);
  batch_.clear();
  return true;
}

WEFT_INLINE void Reads::read_local(TxnSlot& slot, uint16_t index) {
  Entry& e = slot.entry(index);
  WEFT_CHECK(!e.done && !e.locks, "a read of this node has no answer yet, and locks nothing");
  const uint32_t value_max = std::min<uint32_t>(e.table->spec().value_bytes_max, e.head ? kHeadBytes : UINT32_MAX);
  std::byte* direct = value_max <= kSmallValue ? keys_.take_bytes(slot, value_max) : nullptr;
  std::byte* to = direct != nullptr ? direct : ctx_.scratch.data();
  const ReadResult read = e.table->read(e.key, to, value_max);
  ++ctx_.counters.local_gets;
  ctx_.touch_record();
  const bool primary = e.placement->primary() == ctx_.self;
  if (!primary) ++ctx_.counters.backup_gets;
  if (slot.single) {
    // This includes absence: a tombstone that was not marked readable is not yet an answer (G4).
    const bool readable = primary || read.word.readable() || ctx_.bugs.has(PlantedBug::kReadUnreadableBackup);
    if (read.word.write_locked() || !readable) {
      if (!primary) {
        WEFT_MARK("single_get_goes_to_primary");
        if (ctx_.views.is_lost(e.placement->primary())) {
          fail_read(slot, index, Code::kPeerLost);
        } else if (!send_get(slot, index)) {
          without_credit_.push_back({&slot, index});
        }
        return;
      }
      e.code = Code::kLocked;
      fail(slot, Code::kLocked, &e, read.word.owner());
    }
  }
  if (read.torn && e.code == Code::kOk) {
    e.code = Code::kLocked;
    fail(slot, Code::kLocked, &e, read.word.owner());
  }
  check_again(slot, e, read.found, read.word.version());
  e.found = read.found;
  e.version = read.word.version();
  const bool shown = primary || read.word.readable() || ctx_.bugs.has(PlantedBug::kHiddenReads);
  e.newest = rules_.single_at_backups && shown && !read.word.write_locked() && !read.torn;
  if (direct != nullptr) {
    e.value = direct;
    e.value_bytes = std::min(read.value_bytes, value_max);
    e.value_length = read.value_bytes;
    e.partial = e.value_length > e.value_bytes;
  } else if (read.found) {
    keys_.keep_value(slot, e, {to, read.value_bytes});
  }
  complete_read(slot, index);
}

void Reads::complete_read(TxnSlot& slot, uint16_t index) {
  WEFT_CHECK(slot.reads_pending != 0 && !slot.entry(index).done, "a read has one answer");
  slot.entry(index).done = true;
  --slot.reads_pending;
  while (slot.done_upto < slot.count && slot.entry(slot.done_upto).done) ++slot.done_upto;
  if (slot.stage == TxnStage::kAwaitingReads) {
    if (slot.reads_pending == 0) coordinator_.begin_commit(slot);
    return;
  }
  if (slot.done_upto > slot.wait_upto) {
    if (slot.single) {
      acks_.wake_with_lease(slot);
    } else {
      acks_.wake(slot);
    }
  }
  if (slot.stage == TxnStage::kDraining && slot.reads_pending == 0) coordinator_.abort(slot);
}

void Reads::on_get_reply(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    GetReply reply;
    if (!GetReply::take(m.tag, m.body, &reply)) continue;  // parsed before
    TxnSlot& slot = slots_.at(reply.slot);
    if (slot.stage == TxnStage::kFree || reply.entry >= slot.count) {
      ctx_.faults.report(m.source, "an answer to no get");
      continue;
    }
    Entry& e = slot.entry(reply.entry);
    if (e.done || e.credit == 0 || e.placement->primary() != m.source) {
      ctx_.faults.report(m.source, "an answer to no get");
      continue;
    }
    if (reply.cut && (reply.length <= e.value_bytes || reply.length > e.table->spec().value_bytes_max)) {
      ctx_.faults.report(m.source, "a value is cut that there was room for, or that is too long");
      continue;
    }
    give_credit(m.source, e);
    e.value_bytes = 0;
    if (m.source != ctx_.self) ++ctx_.counters.phase_messages[static_cast<int>(Phase::kExecute)];
    e.code = reply.code;
    const Word word(reply.word);
    if (e.code == Code::kOk) check_again(slot, e, reply.found, word.version());
    e.version = word.version();
    e.found = reply.found;
    if (e.code != Code::kOk) {
      fail(slot, e.code, &e, word.owner());
    } else {
      if (e.locks && !e.locked) {
        WEFT_CHECK(slot.participants.contains(m.source), "a lock has credit to be released");
        e.locked = true;
        e.base = e.version;
        slot.locked_nodes.add(m.source);
        slot.record_nodes.add(m.source);
        // A primary refuses such a lock itself.
        if (e.version.value >= kVersionMax) fail(slot, Code::kVersionLimit, &e, Owner());
      }
      if (reply.has_where) {
        const auto where = load<GetWhere>(m.body.data() + sizeof reply.word);
        e.where = RecordSlot(where.record);
        if (verbs_ != nullptr) verbs_->remember_location(e, m.source, where);
      }
      if (reply.cut) e.value_length = static_cast<uint32_t>(reply.length);
      if (reply.cut && !e.head) {
        if (slot.outcome.code == Code::kOk) {
          WEFT_MARK("a longer value is asked for again");
          ask_again(slot, reply.entry);
          continue;
        }
        e.code = slot.outcome.code;
      } else if (e.found) {
        keys_.keep_value(slot, e, m.body.subspan(reply.bytes()));
      }
      if (reply.cut) {
        e.value_length = static_cast<uint32_t>(reply.length);
        e.partial = true;
      }
    }
    complete_read(slot, reply.entry);
  }
}

void Reads::ask_again(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  if (ctx_.views.is_lost(e.placement->primary())) {
    fail_read(slot, index, Code::kPeerLost);
  } else {
    ask_primary(slot, index);
  }
}

void Reads::on_peer_lost(TxnSlot& slot, NodeId peer) {
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if (e.done || e.credit == 0 || e.placement->primary() != peer) continue;
    e.code = Code::kPeerLost;
    if (e.credit == kByTurn) large_gets_.remove(peer);
    e.credit = 0;
    fail_for_peer(slot, &e, NodeSet::of(peer));
    complete_read(slot, i);
  }
}

}  // namespace weft
