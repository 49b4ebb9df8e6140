// The commit driver: one function walks every protocol's row. What a commit does next follows from its slot and the
// answer that came; a phase with nothing to do is passed over, so that fewer keys or local ones cost fewer round trips.
#include <algorithm>
#include <bit>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

constexpr Kind kKindOf[] = {Kind::kGet, Kind::kLock, Kind::kValidate, Kind::kReplicate, Kind::kUnlock, Kind::kDone};
constexpr uint64_t kRideAlongNs = 1'000'000;

template <class F>
void for_each_node(uint64_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(NodeId(static_cast<uint8_t>(std::countr_zero(mask))));
}

}  // namespace

void Engine::start_commit(TxnSlot& slot) {
  if (slot.state != SlotState::kExecuting) {
    if (slot.waiter) {  // a second commit: the first one's outcome stands
      worker_->ready(slot.waiter);
      slot.waiter = {};
    }
    return;
  }
  slot.state = SlotState::kCommitting;
  if (slot.reads_pending != 0) {
    slot.commit_wanted = true;
    return;
  }
  begin_commit(slot);
}

// Runs when all reads are in; again when the slot, having waited for credit, has it.
void Engine::begin_commit(TxnSlot& slot) {
  if (slot.row == nullptr) {
    slot.writes = 0;
    uint64_t nodes = 0;
    for (uint16_t i = 0; i < slot.count; ++i) {
      Entry& e = slot.entry(i);
      if (e.write == Write::kInsert && e.read && e.found && slot.outcome.code == Code::kOk) {
        fail(slot, Code::kExists, &e, Owner());
      }
      if (e.write == Write::kErase && e.read && !e.found && slot.outcome.code == Code::kOk) {
        fail(slot, Code::kNotFound, &e, Owner());
      }
      if (e.write != Write::kNone) {
        ++slot.writes;
        nodes |= e.placement->mask;
      } else {
        nodes |= uint64_t{1} << e.placement->primary().value;
        if (row_->locks_backups()) nodes |= e.placement->mask;
      }
    }
    slot.row = slot.writes == 0 && slot.locked_nodes == 0 ? &kReadOnly : row_;
    if (slot.outcome.code != Code::kOk || slot.count == 0) {
      if (slot.outcome.code == Code::kOk) {
        tell(slot);
        finish(slot);
      } else {
        advance(slot);
      }
      return;
    }
    for_each_node(nodes & ~slot.participants, [&](NodeId n) { slot.credit[n.value] = 0; });
    slot.participants |= nodes;
    if (credit_first_ != nullptr || !take_credit(slot)) {
      if (slot.outcome.code != Code::kOk || slot.locked_nodes != 0) {
        // Holding locks, or asking for more than there will ever be: do not wait.
        if (slot.outcome.code == Code::kOk) {
          WEFT_MARK("no_credit_with_locks_held");
          fail(slot, Code::kBusy, nullptr, Owner());
        }
        advance(slot);
        return;
      }
      WEFT_MARK("commit_waits_for_credit");
      (credit_last_ != nullptr ? credit_last_->next : credit_first_) = &slot;
      credit_last_ = &slot;
      slot.next = nullptr;
      slot.listed = true;
      credit_came_back_ = true;  // look again in the next step
      return;
    }
  }
  slot.committing = slot.outcome.code == Code::kOk;
  slot.phase = Phase::kExecute;
  advance(slot);
}

uint32_t Engine::credit_for(const TxnSlot& slot, NodeId node) const {
  constexpr uint32_t kMessages = 512;  // headers of all messages and answers, each in a packet of its own
  constexpr uint32_t kKey = 3 * sizeof(KeyPart) + sizeof(uint64_t);
  uint32_t bytes = kMessages;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (!e.placement->held_by(node)) continue;
    bytes += kKey + 3 * static_cast<uint32_t>(padded(e.key.bytes.size()));
    if (e.write != Write::kNone) bytes += static_cast<uint32_t>(padded(e.new_bytes));
  }
  return bytes;
}

bool Engine::take_credit(TxnSlot& slot) {
  uint64_t taken = 0;
  bool ok = true;
  for_each_node(slot.participants, [&](NodeId n) {
    const uint32_t need = credit_for(slot, n);
    if (need > limits_.credit_bytes) {
      fail(slot, Code::kTxnTooLarge, nullptr, Owner());
      slot.outcome.kind = OutcomeKind::kRejected;
      ok = false;
    }
    if (ok && credit_.take(n, need)) {
      slot.credit[n.value] += need;
      taken |= uint64_t{1} << n.value;
    } else {
      ok = false;
    }
  });
  if (!ok) {
    for_each_node(taken, [&](NodeId n) {
      const uint32_t need = credit_for(slot, n);
      slot.credit[n.value] -= need;
      credit_.give(n, need);
    });
  }
  return ok;
}

// What a phase involves.

bool Engine::lock_part(const TxnSlot& slot, const Entry& e, NodeId node) const {
  if (slot.row->lock.at == Replicas::kNone) return false;
  const bool wanted = e.write != Write::kNone ? !e.locked || e.write == Write::kErase
                                              : slot.row->locks_reads() && e.read && !e.locked;
  if (!wanted) return false;
  return slot.row->locks_backups() ? e.placement->held_by(node) : e.placement->primary() == node;
}

bool Engine::replicate_part(const TxnSlot& slot, const Entry& e, NodeId node) const {
  if (!slot.row->replicates() || e.write == Write::kNone || !e.placement->held_by(node)) return false;
  if (e.placement->primary() != node || slot.row->replicates_to_primary()) return true;
  // K2: a lock that does not carry the value leaves it at the backups and the coordinator; if these are not more than f
  // different nodes, the primary gets it too.
  return !slot.row->lock_carries_value && e.placement->held_by(self_) && node != self_;
}

bool Engine::unlock_part(const TxnSlot& slot, const Entry& e, NodeId node) const {
  // Keys go along only to bring a value that the lock's holder does not have yet.
  if (!slot.committing || e.write == Write::kNone || e.write == Write::kErase) return false;
  if (e.placement->primary() != node && !slot.row->locks_backups()) return false;
  const bool has_it = slot.row->lock_carries_value && !bugs_.has(Bug::kLockWithoutValue);
  return !has_it && e.placement->held_by(node) && !replicate_part(slot, e, node);
}

bool Engine::takes_part(const TxnSlot& slot, const Entry& e, Phase phase, NodeId node) const {
  switch (phase) {
    case Phase::kLock:
      return lock_part(slot, e, node);
    case Phase::kValidate:
      return slot.row->validate && e.read && e.write == Write::kNone && !e.locked && e.placement->primary() == node &&
             !bugs_.has(Bug::kSkipValidation);
    case Phase::kReplicate:
      return replicate_part(slot, e, node);
    case Phase::kUnlock:
      return unlock_part(slot, e, node);
    case Phase::kExecute:
    case Phase::kDone:
      break;
  }
  return false;
}

uint64_t Engine::targets(const TxnSlot& slot, Phase phase) const {
  if (phase == Phase::kUnlock) return slot.locked_nodes;
  uint64_t mask = 0;
  for_each_node(slot.participants, [&](NodeId n) {
    for (uint16_t i = 0; i < slot.count; ++i) {
      if (takes_part(slot, slot.entry(i), phase, n)) {
        mask |= uint64_t{1} << n.value;
        break;
      }
    }
  });
  return mask;
}

bool Engine::carries_value(const TxnSlot& slot, const Entry& e, Phase phase) const {
  if (e.write != Write::kPut && e.write != Write::kInsert) return false;
  if (phase == Phase::kLock) return slot.row->lock_carries_value && !bugs_.has(Bug::kLockWithoutValue);
  return phase == Phase::kReplicate || phase == Phase::kUnlock;
}

KeyPart Engine::key_part(const TxnSlot& slot, const Entry& e, uint8_t index, Phase phase) const {
  KeyPart part{};
  part.table = e.table_id.value;
  part.write = static_cast<uint8_t>(e.write);
  part.index = index;
  part.key_bytes = static_cast<uint16_t>(e.key.bytes.size());
  part.value_bytes = e.write == Write::kNone ? 0 : e.new_bytes;
  if (carries_value(slot, e, phase)) part.flags |= kHasValue;
  if (phase == Phase::kReplicate) {
    part.version = e.base.value + 1;
  } else if (e.read) {
    part.version = e.version.value;
    part.flags |= kHasVersion;
  }
  if (phase == Phase::kLock && e.locked) part.flags |= kHeld;
  return part;
}

void Engine::send_phase(TxnSlot& slot, Phase phase, NodeId node) {
  size_t bytes = sizeof(CommitRequest);
  uint8_t keys = 0;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (!takes_part(slot, e, phase, node)) continue;
    ++keys;
    bytes += sizeof(KeyPart) + padded(e.key.bytes.size()) + (carries_value(slot, e, phase) ? padded(e.new_bytes) : 0);
  }
  std::byte* at =
      port_.reserve(node, Flow::kCommit, static_cast<uint8_t>(kKindOf[static_cast<int>(phase)]), bytes, slot.index);
  CommitRequest request{};
  request.sequence = slot.sequence;
  request.participants = slot.participants;
  request.incarnation = slot.incarnation;
  request.row = row_index_;
  request.keys = keys;
  request.entries = static_cast<uint8_t>(slot.count);
  request.writes = slot.writes;
  request.commit = slot.committing;
  store(at, request);
  at += sizeof request;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (!takes_part(slot, e, phase, node)) continue;
    store(at, key_part(slot, e, static_cast<uint8_t>(i), phase));
    at += sizeof(KeyPart);
    if (!e.key.bytes.empty()) std::memcpy(at, e.key.bytes.data(), e.key.bytes.size());
    at += padded(e.key.bytes.size());
    if (carries_value(slot, e, phase)) {
      if (e.new_bytes != 0) std::memcpy(at, e.new_value, e.new_bytes);
      at += padded(e.new_bytes);
    }
  }
  if (node != self_) ++counters_.phase_messages[static_cast<int>(phase)];
}

// Walking the row.

void Engine::enter(TxnSlot& slot, Phase phase) {
  slot.phase = phase;
  slot.waiting = targets(slot, phase);
  if (slot.waiting == 0) return;
  if (phase == Phase::kReplicate) slot.record_nodes |= slot.waiting;
  for_each_node(slot.waiting, [&](NodeId n) { send_phase(slot, phase, n); });
  if (!slot.told && (slot.waiting & ~(uint64_t{1} << self_.value)) != 0) ++slot.round_trips;
}

// Called when the answers of slot.phase are all in (or there were none to wait for).
void Engine::advance(TxnSlot& slot) {
  for (;;) {
    if (slot.outcome.code != Code::kOk && slot.phase != Phase::kUnlock) {
      slot.committing = false;
      if (!abort_told_after_acks(*slot.row) || slot.locked_nodes == 0) tell(slot);
      enter(slot, Phase::kUnlock);
    } else {
      if (slot.committing && slot.phase == told_after(*slot.row)) {
        if (witness_ != nullptr && slot.writes != 0 && slot.phase < Phase::kUnlock) {
          witness_->on_commit_point(self_, id_, slot);
        }
        tell(slot);
      }
      const bool last = slot.phase == Phase::kUnlock || (slot.row == &kReadOnly && slot.phase == Phase::kValidate);
      if (last) {
        tell(slot);
        finish(slot);
        return;
      }
      const auto next = static_cast<Phase>(static_cast<int>(slot.phase) + 1);
      if (next == Phase::kUnlock && witness_ != nullptr && !slot.told) {
        witness_->on_commit_point(self_, id_, slot);
      }
      enter(slot, next);
      if (next == Phase::kReplicate && bugs_.has(Bug::kUnlockEarly)) continue;
    }
    if (slot.waiting != 0) return;
  }
}

void Engine::fail(TxnSlot& slot, Code code, const Entry* entry, Owner holder) {
  if (slot.outcome.code != Code::kOk) return;
  Outcome& out = slot.outcome;
  out.code = code;
  out.kind = slot.rejected != Code::kOk ? OutcomeKind::kRejected : OutcomeKind::kAborted;
  if (code == Code::kTableFull || code == Code::kBinFull || code == Code::kVersionLimit) {
    out.kind = OutcomeKind::kRejected;
  }
  if (entry != nullptr) {
    out.table = entry->table_id;
    out.key_bytes = static_cast<uint16_t>(entry->key.bytes.size());
    std::memcpy(out.key_start, entry->key.bytes.data(), std::min(entry->key.bytes.size(), sizeof out.key_start));
  }
  if (holder) {
    out.has_holder = true;
    out.holder_node = holder.node();
    out.holder_worker = holder.worker();
  }
}

void Engine::tell(TxnSlot& slot) {
  if (slot.told) return;
  slot.told = true;
  const Outcome& out = slot.outcome;
  if (out.code == Code::kOk) {
    ++counters_.committed;
    ++counters_.commits_counted;
    counters_.commit_round_trips += slot.round_trips;
  } else {
    ++(out.kind == OutcomeKind::kRejected ? counters_.rejected : counters_.aborted);
    ++counters_.aborts_by_code[static_cast<int>(out.code)];
  }
  if (slot.waiter) {
    worker_->ready(slot.waiter);
    slot.waiter = {};
  }
}

void Engine::finish(TxnSlot& slot) {
  slot.state = SlotState::kFinished;
  for_each_node(slot.participants, [&](NodeId n) { credit_.give(n, slot.credit[n.value]); });
  if (slot.participants != 0) credit_came_back_ = true;
  slot.participants = slot.locked_nodes = 0;
  if (slot.committing) {
    for_each_node(slot.record_nodes, [&](NodeId n) {
      DoneQueue& queue = dones_[n.value];
      if (queue.items.empty()) queue.oldest_ns = worker_->now_ns();
      queue.items.push_back({slot.index, static_cast<uint32_t>(slot.sequence)});
      ++slot.dones_pending;
      ++dones_queued_;
    });
  }
  maybe_free(slot);
}

void Engine::abort(TxnSlot& slot) {
  if (slot.state != SlotState::kExecuting && slot.state != SlotState::kDraining) return;
  fail(slot, Code::kApplication, nullptr, Owner());
  slot.told = true;  // nobody waits for this outcome
  if (slot.reads_pending != 0) {
    slot.state = SlotState::kDraining;
    return;
  }
  slot.row = row_;
  slot.committing = false;
  slot.state = SlotState::kCommitting;
  advance(slot);
}

void Engine::on_reply(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    const auto answer = load<PhaseReply>(m.body.data());
    TxnSlot& slot = *slots_[m.spare];
    const uint64_t bit = uint64_t{1} << m.source.value;
    if (m.source != self_ && answer.phase < kPhases) ++counters_.phase_messages[answer.phase];
    if (slot.state != SlotState::kCommitting || static_cast<uint32_t>(slot.sequence) != answer.sequence ||
        static_cast<Phase>(answer.phase) != slot.phase || (slot.waiting & bit) == 0) {
      WEFT_MARK("answer_out_of_phase");
      continue;
    }
    slot.waiting &= ~bit;
    if (static_cast<Code>(answer.code) != Code::kOk) {
      fail(slot, static_cast<Code>(answer.code), answer.index < slot.count ? &slot.entry(answer.index) : nullptr,
           Owner(answer.holder));
    } else if (slot.phase == Phase::kLock) {
      slot.locked_nodes |= bit;
      slot.record_nodes |= bit;
      const std::byte* bases = m.body.data() + sizeof answer;
      int n = 0;
      for (uint16_t i = 0; i < slot.count; ++i) {
        Entry& e = slot.entry(i);
        if (!takes_part(slot, e, Phase::kLock, m.source) || n >= answer.bases) continue;
        const Version base(load<uint64_t>(bases + n++ * sizeof(uint64_t)));
        if (e.write != Write::kNone && e.base != Version() && e.base != base && !e.locked) {
          WEFT_MARK("replicas_lock_different_versions");
          fail(slot, Code::kVersionMoved, &e, Owner());
        }
        e.base = base;
      }
    }
    if (slot.waiting == 0) advance(slot);
  }
}

// Notices that a transaction is finished everywhere: they ride on commit messages that go to that node anyway, and go
// alone when a millisecond has passed, or when slots run short.

bool Engine::send_dones() {
  const uint32_t before = dones_queued_;
  const bool short_of_slots = free_slots_.size() < slots_.size() / 8 + 1;
  for (int n = 0; n < nodes_; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    const DoneQueue& queue = dones_[node.value];
    if (queue.items.empty()) continue;
    if (node == self_ || short_of_slots || port_.has_open(node, Flow::kCommit) ||
        worker_->now_ns() >= queue.oldest_ns + kRideAlongNs) {
      if (!port_.has_open(node, Flow::kCommit) && node != self_) WEFT_MARK("notice_goes_alone");
      send_dones_to(node);
    }
  }
  return dones_queued_ != before;
}

void Engine::send_dones_to(NodeId node) {
  DoneQueue& queue = dones_[node.value];
  for (const DoneItem& item : queue.items) {
    std::byte* at = port_.reserve(node, Flow::kCommit, static_cast<uint8_t>(Kind::kDone), sizeof(DoneNotice), item.slot);
    store(at, DoneNotice{item.sequence, 0});
    if (node != self_) ++counters_.phase_messages[static_cast<int>(Phase::kUnlock)];
    TxnSlot& slot = *slots_[item.slot];
    --slot.dones_pending;
    maybe_free(slot);
  }
  dones_queued_ -= static_cast<uint32_t>(queue.items.size());
  queue.items.clear();
}

}  // namespace weft
