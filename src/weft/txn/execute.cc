// Reads. Coordinator: a key with a replica at this node joins the table batch, another becomes a message to its
// primary. Participant: answers gets, and for rows that lock while reading takes the lock first.
#include <algorithm>

#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

constexpr uint32_t kGetOverhead = 152;     // headers of a get and its answer, each in a packet of its own
constexpr uint32_t kUnlockOverhead = 256;  // what releasing a lock taken while reading will need

}  // namespace

// Coordinator side.

Ticket Engine::start_get(TxnSlot& slot, TableId table, Key key, Intent intent) {
  constexpr Ticket kNone{UINT16_MAX};
  if (slot.state != SlotState::kExecuting) return kNone;
  const Entry* e = lookup_or_add(slot, table, key);
  if (e == nullptr) return kNone;
  const auto index = static_cast<uint16_t>(e - slot.entries);
  if (!e->read && e->write == Write::kNone) begin_read(slot, index, intent);
  return Ticket{index};
}

WEFT_INLINE void Engine::begin_read(TxnSlot& slot, uint16_t index, Intent intent) {
  Entry& e = slot.entry(index);
  e.read = true;
  e.done = false;
  slot.done_upto = std::min(slot.done_upto, index);
  e.locks = row_->lock_while_reading && intent == Intent::kUpdate && !slot.single;
  ++slot.reads_pending;
  if (slot.expired) {
    fail_get(slot, index, Code::kNoAnswer);
  } else if (!active_ || slot.epoch != view_->epoch.value) {
    // It began in another view, or nothing begins here any more.
    fail_get(slot, index, slot.rejected == Code::kClosed ? Code::kClosed : Code::kEpoch);
  } else {
    dispatch_get(slot, index);
  }
}

void Engine::start_single(TxnSlot& slot, TableId table, Key key) {
  slot.single = true;
  start_get(slot, table, key, Intent::kRead);
}

WEFT_INLINE void Engine::dispatch_get(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const bool at_backup = local_reads_ && !row_->backups_lag() && (!slot.single || backups_serve_single_reads(*row_));
  const bool here = e.placement->primary() == self_ || (at_backup && e.placement->held_by(self_));
  if (here && !e.locks) {
    local_gets_.push_back({&slot, index});
  } else if ((lost_peers_ >> e.placement->primary().value & 1U) != 0) {
    fail_get(slot, index, Code::kPeerLost);
  } else if (posts_ == nullptr || e.locks || !read_by_verb(slot, index)) {
    ask_primary(slot, index);
  }
}

void Engine::ask_primary(TxnSlot& slot, uint16_t index) {
  if (!send_get(slot, index)) {
    if (slot.participants != 0) {
      // It holds locks, and credit to release them, that others wait for: so it does not wait.
      WEFT_MARK("no_credit_for_a_get_with_locks_held");
      fail_get(slot, index, Code::kBusy);
    } else {
      gets_without_credit_.push_back({&slot, index});
    }
  }
}

void Engine::fail_get(TxnSlot& slot, uint16_t index, Code code) {
  Entry& e = slot.entry(index);
  e.code = code;
  if (code == Code::kPeerLost) {
    fail_for_peer(slot, &e, uint64_t{1} << e.placement->primary().value);
  } else {
    fail(slot, code, &e, Owner());
  }
  got(slot, index);
}

bool Engine::send_get(TxnSlot& slot, uint16_t index) {
  Entry& e = slot.entry(index);
  const NodeId to = e.placement->primary();
  const auto key_bytes = static_cast<uint32_t>(e.key.bytes.size());
  const uint32_t answer = kGetOverhead + key_bytes + e.table->spec().value_bytes_max;
  const uint32_t later = e.locks ? kUnlockOverhead : 0;
  if (!credit_.take(to, answer + later)) {
    WEFT_MARK("get_waits_for_credit");
    return false;
  }
  e.credit = answer;
  if (later != 0) {
    const uint64_t bit = uint64_t{1} << to.value;
    if ((slot.participants & bit) == 0) slot.credit[to.value] = 0;
    slot.participants |= bit;
    slot.credit[to.value] += later;
  }
  // A get that locks opens a record at the other side: it must not overtake the notice that closes the slot's last one.
  const Flow flow = e.locks ? Flow::kCommit : Flow::kExecution;
  std::byte* at =
      port_.reserve(to, flow, static_cast<uint8_t>(Kind::kGet), sizeof(GetRequest) + padded(key_bytes), slot.index);
  GetRequest request{};
  request.sequence = static_cast<uint32_t>(slot.sequence);
  request.table = e.table_id.value;
  request.entry = static_cast<uint8_t>(index);
  request.flags = static_cast<uint8_t>((slot.single ? kGetSingle : 0) | (e.locks ? kGetLocks : 0) |
                                       (posts_ != nullptr && to != self_ ? kGetWhere : 0));
  request.key_bytes = key_bytes;
  request.sequence_high = static_cast<uint32_t>(slot.sequence >> 32);
  store(at, request);
  copy_words(at + sizeof request, e.key.bytes.data(), key_bytes);
  if (to != self_) {
    ++counters_.remote_gets;
    ++counters_.phase_messages[static_cast<int>(Phase::kExecute)];
  }
  return true;
}

bool Engine::retry_gets() {
  size_t kept = 0;
  const size_t count = gets_without_credit_.size();
  for (size_t i = 0; i < count; ++i) {
    const LocalGet get = gets_without_credit_[i];
    const NodeId to = get.slot->entry(get.entry).placement->primary();
    if ((lost_peers_ >> to.value & 1U) != 0) {
      fail_get(*get.slot, get.entry, Code::kPeerLost);
    } else if (!send_get(*get.slot, get.entry)) {
      if (get.slot->participants != 0) {
        fail_get(*get.slot, get.entry, Code::kBusy);  // another of its gets has locked meanwhile: see dispatch_get
      } else {
        gets_without_credit_[kept++] = get;
      }
    }
  }
  gets_without_credit_.resize(kept);
  return kept != count;
}

bool Engine::table_batch() {
  if (local_gets_.empty()) return false;
  batch_.swap(local_gets_);
  ++counters_.table_batches;
  counters_.table_batched += batch_.size();
  if (table_batching_) {
    for (const LocalGet& get : batch_) {
      const Entry& e = get.slot->entry(get.entry);
      e.table->prefetch_index(e.key.hash);
    }
    for (const LocalGet& get : batch_) {
      const Entry& e = get.slot->entry(get.entry);
      e.table->prefetch_record(e.key);
    }
  }
  for (const LocalGet& get : batch_) read_local(*get.slot, get.entry);
  batch_.clear();
  return true;
}

WEFT_INLINE void Engine::read_local(TxnSlot& slot, uint16_t index) {
  Entry& e = slot.entry(index);
  const uint32_t value_max = e.table->spec().value_bytes_max;
  std::byte* direct = value_max <= kSmallValue ? take_bytes(slot, value_max) : nullptr;
  std::byte* to = direct != nullptr ? direct : scratch_.data();
  const ReadResult read = e.table->read(e.key, to, value_max);
  ++counters_.local_gets;
  ++counters_.records_touched;
  charge(Step::kLookup, 1);
  const bool primary = e.placement->primary() == self_;
  if (!primary) ++counters_.backup_gets;
  if (slot.single) {
    // Absence too: a tombstone that was not raised is not yet an answer (G4).
    const bool readable = primary || read.word.readable() || bugs_.has(Bug::kReadUnreadableBackup);
    if (read.word.write_locked() || !readable) {
      if (!primary) {
        WEFT_MARK("single_get_goes_to_primary");
        if ((lost_peers_ >> e.placement->primary().value & 1U) != 0) {
          fail_get(slot, index, Code::kPeerLost);
        } else if (!send_get(slot, index)) {
          gets_without_credit_.push_back({&slot, index});
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
  e.found = read.found;
  e.version = read.word.version();
  if (direct != nullptr) {
    e.value = direct;
    e.value_bytes = read.value_bytes;
  } else if (read.found) {
    keep_value(slot, e, {to, read.value_bytes});
  }
  got(slot, index);
}

void Engine::keep_value(TxnSlot& slot, Entry& e, ByteView value) {
  e.value = take_bytes(slot, value.size());
  if (e.value == nullptr) {
    e.code = Code::kTxnTooLarge;
    reject(slot, Code::kTxnTooLarge, &e, bytes_limit(slot, value.size()));
    return;
  }
  copy_words(e.value, value.data(), value.size());
  e.value_bytes = static_cast<uint32_t>(value.size());
}

void Engine::got(TxnSlot& slot, uint16_t index) {
  slot.entry(index).done = true;
  --slot.reads_pending;
  while (slot.done_upto < slot.count && slot.entry(slot.done_upto).done) ++slot.done_upto;
  if (slot.commit_wanted) {
    if (slot.reads_pending == 0) {
      slot.commit_wanted = false;
      begin_commit(slot);
    }
    return;
  }
  if (slot.done_upto > slot.wait_upto) {
    if (slot.single) {
      wake_leased(slot);
    } else {
      wake(slot);
    }
  }
  if (slot.state == SlotState::kDraining && slot.reads_pending == 0) release(slot);
}

void Engine::on_get_reply(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    const auto reply = load<GetReply>(m.body.data());
    TxnSlot& slot = *slots_[m.spare];
    if (static_cast<uint32_t>(slot.sequence) != reply.sequence || reply.entry >= slot.count) {
      bad_message(m.source, "an answer to no get");
      continue;
    }
    Entry& e = slot.entry(reply.entry);
    if (e.done || e.credit == 0 || e.placement->primary() != m.source) {
      bad_message(m.source, "an answer to no get");
      continue;
    }
    credit_.give(m.source, e.credit);
    credit_came_back_ = true;
    e.credit = 0;
    if (m.source != self_) ++counters_.phase_messages[static_cast<int>(Phase::kExecute)];
    e.code = static_cast<Code>(reply.code);
    const Word word(reply.word);
    e.version = word.version();
    e.found = reply.found != 0;
    if (e.code != Code::kOk) {
      fail(slot, e.code, &e, Owner(reply.holder));
    } else {
      if (e.locks) {
        e.locked = true;
        e.base = e.version;
        slot.locked_nodes |= uint64_t{1} << m.source.value;
        slot.record_nodes |= uint64_t{1} << m.source.value;
      }
      const std::byte* at = m.body.data() + sizeof reply;
      if (reply.has_where != 0) {
        e.where = RecordSlot(load<GetWhere>(at).record);
        note_place(e, m.source, load<GetWhere>(at));
        at += sizeof(GetWhere);
      }
      if (e.found) keep_value(slot, e, {at, reply.value_bytes});
    }
    got(slot, reply.entry);
  }
}

// Participant side.

void Engine::on_get(std::span<const Message> run) {
  for (const Message& m : run) {
    if (parsed(m).ok) answer_get(m, keys_[parsed(m).first_key]);
  }
}

WEFT_INLINE void Engine::answer_get(const Message& m, const KeyRef& ref) {
  const auto request = load<GetRequest>(m.body.data());
  GetReply answer{};
  answer.sequence = request.sequence;
  answer.entry = request.entry;
  Owner holder;
  Version base;
  Code code = Code::kOk;
  if ((request.flags & kGetLocks) != 0) code = lock_for_get(m, ref, &holder, &base);
  ReadResult read;
  if (code == Code::kOk) {
    read = ref.table->read(ref.key, scratch_.data(), ref.table->spec().value_bytes_max);
    ++counters_.records_touched;
    charge(Step::kLookup, 1);
    if (((request.flags & kGetSingle) != 0 && read.word.write_locked()) || read.torn) {
      code = Code::kLocked;
      holder = read.word.owner();
    }
  }
  answer.code = static_cast<uint8_t>(code);
  answer.found = read.found;
  answer.word = (request.flags & kGetLocks) != 0 ? Word(base, 0).bits : read.word.bits;
  answer.holder = holder.bits;
  answer.value_bytes = code == Code::kOk && read.found ? read.value_bytes : 0;
  answer.has_where = code == Code::kOk && (request.flags & kGetWhere) != 0;
  const size_t where_bytes = answer.has_where != 0 ? sizeof(GetWhere) : 0;
  std::byte* at = port_.reserve(m.source, Flow::kExecution, static_cast<uint8_t>(Kind::kGetReply),
                                sizeof answer + where_bytes + padded(answer.value_bytes), m.spare);
  store(at, answer);
  at += sizeof answer;
  if (answer.has_where != 0) {
    const IndexPlace index = ref.table->index_place();
    store(at, GetWhere{ref.table->where(ref.key).bits, index.offset, index.bins});
    at += sizeof(GetWhere);
  }
  copy_words(at, scratch_.data(), answer.value_bytes);
}

Code Engine::lock_for_get(const Message& m, const KeyRef& ref, Owner* holder, Version* base) {
  const auto request = load<GetRequest>(m.body.data());
  LogRecord& record = log_.at(m.source, static_cast<uint8_t>(m.spare));
  if (record.state != 0 && static_cast<uint32_t>(record.sequence) != request.sequence) {
    bad_message(m.source, "a slot is used again before its record was truncated");
    return Code::kBusy;
  }
  // Room for the largest value: the write is not known yet, and its commit must not fail.
  const LockResult result =
      ref.table->lock(ref.key, owner_of(m), Write::kPut, std::nullopt, ref.table->spec().value_bytes_max);
  charge(Step::kLookup, 1);
  if (result.code != Code::kOk) {
    *holder = result.holder;
    return result.code;
  }
  *base = result.locked.base;
  std::byte* rest;
  LogPart* part = log_.make_part({&ref, 1}, 0, &rest);
  LogKey& key = part->all()[0];
  key.locked = result.locked;
  key.room = ref.table->spec().value_bytes_max;
  key.index = request.entry;
  part->next = record.locked;
  record.locked = part;
  record.sequence = uint64_t{request.sequence_high} << 32 | request.sequence;
  record.incarnation = incarnation_of(m.source);
  record.row = row_index_;
  record.state |= kLogLocked;
  return Code::kOk;
}

}  // namespace weft
