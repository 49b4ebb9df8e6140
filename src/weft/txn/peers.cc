// Peers that sent what no correct peer sends: their channels are closed, and what waits for them gets an outcome.
#include "weft/base/check.h"
#include "weft/txn/engine.h"

namespace weft {

// Handlers and hooks run while the port delivers; the peer is closed in the next commit steps.
void Engine::bad_message(NodeId from, const char* what) {
  WEFT_CHECK(from != self_, what);
  bad_peers_.push_back({from, {Code::kBadPacket, "node " + std::to_string(from.value) + ": " + what}, false});
}

void Engine::handle_bad_peers() {
  while (!bad_peers_.empty()) {
    const BadPeerNote note = std::move(bad_peers_.back());
    bad_peers_.pop_back();
    if (note.closed) {
      lose_peer(note.peer, note.error);
    } else {
      port_.reject(note.peer, note.error);  // comes back as closed, once
    }
  }
}

// A peer sent what no correct peer sends, and its channel is closed. A read that waits for it fails. A commit that does
// is left as it is where views change: the peer may have applied it, so it is decided by recovery, when the agent has
// had the peer removed. Where they do not, it gets an outcome: one that has replicated nothing aborts, any other is
// unknown.
void Engine::lose_peer(NodeId peer, const Error& error) {
  if (events_ != nullptr) {
    events_->emit_of(self_.value, Level::kError, "peer_closed",
                     {{"worker", id_.value}, {"peer", peer.value}, {"why", error.text()}});
  }
  lost_peers_ |= uint64_t{1} << peer.value;
  node_->peer_closed(peer, met_[peer.value]);
  credit_came_back_ = true;  // whoever waits for credit there looks again, and is refused
  for (const auto& slot : slots_) {
    if (slot->state != SlotState::kFree) lose_peer_of(*slot, peer);
  }
}

void Engine::fail_for_peer(TxnSlot& slot, const Entry* entry, uint64_t nodes) {
  if (slot.outcome.code != Code::kOk) return;
  fail(slot, Code::kPeerLost, entry, Owner());
  slot.outcome.silent = nodes;
}

void Engine::lose_peer_of(TxnSlot& slot, NodeId peer) {
  const uint64_t bit = uint64_t{1} << peer.value;
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if (e.done || e.credit == 0 || e.placement->primary() != peer) continue;
    e.code = Code::kPeerLost;
    e.credit = 0;
    fail_for_peer(slot, &e, bit);
    got(slot, i);
  }
  if (slot.state != SlotState::kCommitting || (slot.waiting & bit) == 0 || node_->spec().recovers) return;
  fail_for_peer(slot, nullptr, bit);
  slot.waiting &= ~bit;
  slot.locked_nodes &= ~bit;
  if (slot.phase < Phase::kReplicate && !slot.row->locks_backups()) {
    if (phase_over(slot)) advance(slot);
    return;
  }
  slot.outcome.kind = OutcomeKind::kUnknown;
  tell(slot);
}

}  // namespace weft
