// The commit driver: one function walks every protocol's plan. What a commit does next follows from its slot and the
// answer that came; a phase with nothing to do is passed over, so that fewer keys or local ones cost fewer round trips.
#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

void Engine::start_commit(TxnSlot& slot) {
  if (slot.state != SlotState::kExecuting) {
    if (slot.waiter) {  // a second commit: the first one's outcome stands
      worker_->ready(slot.waiter);
      slot.waiter = {};
    }
    return;
  }
  if (slot.expired) {  // what it has under way is let come in, and then released
    give_up(slot, Code::kNoAnswer);
    wake(slot);
    return;
  }
  slot.state = SlotState::kCommitting;
  if (slot.reads_pending != 0) {
    slot.commit_wanted = true;
    return;
  }
  begin_commit(slot);
}

// Runs when all reads are in.
void Engine::begin_commit(TxnSlot& slot) {
  plan(slot);
  if (slot.outcome.code == Code::kOk && slot.count == 0) {
    tell(slot);
    finish(slot);
    return;
  }
  if (slot.alone) {
    alone_.push_back(&slot);
  } else if (slot.outcome.code == Code::kOk && credit_first_ == nullptr && take_credit(slot)) {
    walk(slot);
  } else if (slot.outcome.code != Code::kOk) {
    advance(slot);
  } else if (slot.locked_nodes != 0) {
    WEFT_MARK("no_credit_with_locks_held");
    fail(slot, Code::kBusy, nullptr, Owner());
    advance(slot);
  } else {
    WEFT_MARK("commit_waits_for_credit");
    (credit_last_ != nullptr ? credit_last_->next : credit_first_) = &slot;
    credit_last_ = &slot;
    slot.next = nullptr;
    credit_came_back_ = true;  // look again in the next step
  }
}

// First come, first served, so that a large transaction is not starved by small ones.
bool Engine::retry_commits() {
  bool busy = false;
  while (credit_first_ != nullptr) {
    TxnSlot& slot = *credit_first_;
    if ((slot.participants & lost_peers_) != 0) fail_for_peer(slot, nullptr, slot.participants & lost_peers_);
    const bool got_it = slot.outcome.code == Code::kOk && take_credit(slot);
    if (!got_it && slot.outcome.code == Code::kOk) break;
    credit_first_ = slot.next;
    if (credit_first_ == nullptr) credit_last_ = nullptr;
    slot.next = nullptr;
    if (got_it) {
      walk(slot);
    } else {
      advance(slot);
    }
    busy = true;
  }
  return busy;
}

void Engine::walk(TxnSlot& slot) {
  slot.committing = true;
  advance(slot);
}

// Walking the plan.

void Engine::enter(TxnSlot& slot, Phase phase) {
  slot.phase = phase;
  slot.waiting = phase == Phase::kUnlock ? slot.locked_nodes : slot.targets[static_cast<size_t>(phase)];
  if (posts_ != nullptr) post_phase(slot, phase);
  if (phase_over(slot)) return;
  if (phase == Phase::kReplicate) slot.record_nodes |= slot.targets[static_cast<size_t>(phase)];
  if (slot.waiting != 0) send_phase(slot, phase, slot.waiting);
  const bool remote = (slot.waiting & ~(uint64_t{1} << self_.value)) != 0 || slot.posts_waiting != 0;
  if (!slot.told && remote) {
    ++slot.round_trips;
    ++counters_.phase_round_trips[static_cast<size_t>(phase)];
  }
  if (witness_ != nullptr) witness_->on_phase(self_, id_, slot);
}

// A replica that is filling may be made whole by the next view: what is told, or seen by others, has reached it.
Phase Engine::tell_phase(const TxnSlot& slot) const {
  if (bugs_.has(Bug::kToldEarly) && slot.writes != 0) return Phase::kValidate;
  const Phase phase = told_after(*slot.row);
  return slot.fill_nodes == 0 ? phase : std::max(phase, Phase::kReplicate);
}

// Called when the answers of slot.phase are all in (or there were none to wait for).
void Engine::advance(TxnSlot& slot) {
  for (;;) {
    if (slot.outcome.code != Code::kOk && slot.phase != Phase::kUnlock) {
      slot.committing = false;
      if (!abort_told_after_acks(*slot.row) || slot.locked_nodes == 0) tell(slot);
      enter(slot, Phase::kUnlock);
    } else {
      if (slot.committing && slot.phase == slot.tell_after) {
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
    if (!phase_over(slot)) return;
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
  note_told(slot);
  if (out.code == Code::kOk) {
    ++counters_.committed;
    ++counters_.commits_counted;
    counters_.commit_round_trips += slot.round_trips;
    latency_ns_.record(worker_->now_ns() - slot.begun_ns);
  } else {
    ++(out.kind == OutcomeKind::kRejected  ? counters_.rejected
       : out.kind == OutcomeKind::kUnknown ? counters_.unknown
                                           : counters_.aborted);
    ++counters_.aborts_by_code[static_cast<int>(out.code)];
    if (slot.round_trips != 0) {
      ++counters_.aborts_counted;
      counters_.abort_round_trips += slot.round_trips;
    }
  }
  wake_leased(slot);
}

void Engine::finish(TxnSlot& slot) {
  slot.state = SlotState::kFinished;
  for_each_node(slot.participants, [&](NodeId n) { credit_.give(n, slot.credit[n.value]); });
  if (slot.participants != 0) credit_came_back_ = true;
  slot.participants = slot.locked_nodes = slot.fill_nodes = 0;
  if (slot.ring_bytes != 0) give_back_rings(slot);
  if (slot.committing) {
    for_each_node(slot.record_nodes, [&](NodeId n) {
      dones_.add(n, {static_cast<uint32_t>(slot.sequence), slot.index}, worker_->now_ns());
      ++slot.dones_pending;
    });
  }
  maybe_free(slot);
}

void Engine::give_up(TxnSlot& slot, Code why) {
  fail(slot, why == Code::kOk ? Code::kApplication : why, nullptr, Owner());
  slot.told = true;  // whoever gave up knows
  if (!slot.single) note_told(slot);
  slot.state = SlotState::kDraining;
  if (slot.reads_pending == 0) release(slot);
}

// A transaction that was given up, when all its reads are in: unlocks what they locked.
void Engine::release(TxnSlot& slot) {
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
      continue;
    }
    if (slot.phase >= Phase::kReplicate && static_cast<Code>(answer.code) != Code::kOk) {
      bad_message(m.source, "a refusal of what cannot be refused");
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
        if ((e.at[static_cast<size_t>(Phase::kLock)] & bit) == 0 || n >= answer.bases) continue;
        const Version base(load<uint64_t>(bases + n++ * sizeof(uint64_t)));
        if (e.write != Write::kNone && e.base != Version() && e.base != base && !e.locked) {
          fail(slot, Code::kVersionMoved, &e, Owner());
        }
        e.base = base;
      }
      bases += answer.bases * sizeof(uint64_t);
      uint32_t erased = 0;
      for (uint16_t i = 0; answer.erased != 0 && i < slot.count; ++i) {
        Entry& e = slot.entry(i);
        const bool locked_there = (e.at[static_cast<size_t>(Phase::kLock)] & bit) != 0;
        if (!locked_there || e.write != Write::kErase || erased >= answer.erased) continue;
        e.replaced = Version(load<uint64_t>(bases + erased++ * sizeof(uint64_t)));
      }
    }
    if (phase_over(slot)) advance(slot);
  }
}

}  // namespace weft
