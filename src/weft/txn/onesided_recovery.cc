// What verbs add to recovery (recovery.cc): stopping them, and what they leave in the tables.
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

// Rule O3: first no verb lands any more, then what has landed is taken out of the rings, still by the view that ends.
void Engine::stop_verbs(const View& next) {
  node_->stop_access(next.epoch);
  posts_->drop();
  if (rings_ != nullptr) {
    // Others were active in a view that this worker was not, and have logged here: it is active now, for a moment.
    // Everything was carried out here before they were.
    if (!active_ && !retired_ && member_.applied && rings_have_entries()) {
      WEFT_MARK("logged at a worker that was not active yet");
      activate();  // the node did not go active with it: what was to be settled still is
    }
    if (!bugs_.has(Bug::kRingNotDrained)) drain_rings();
    for (LogRingWriter& ring : rings_->to) ring.begin();
    for (LogRingReader& ring : rings_->from) ring.begin();
  }
  parked_.clear();
  for (IndexPlace& index : indexes_) index = IndexPlace();
}

// All workers of the node begin together: see Node::last_active. Aborts first: an undo brings back the version that an
// earlier commit's raise waits for. Where peers have reached the tables by verbs all workers also go on to the commits
// together, for an undo of one may bring back what a commit of another is to replace; and then what peers have locked
// by verbs is freed.
Engine::Progress Engine::carry_out_step() {
  using Stage = MemberRecovery::Stage;
  const bool alone = posts_ == nullptr;
  if (member_.stage == Stage::kBegin) {
    if (!node_->together(Node::Together::kApply, *view_, id_)) return Progress::kWaits;
    carry_out(false);
    member_.stage = Stage::kAborts;
  }
  if (member_.stage == Stage::kAborts) {
    if (!alone && !node_->together(Node::Together::kCommit, *view_, id_)) return Progress::kWaits;
    carry_out(true);
    member_.stage = Stage::kCommits;
  }
  if (alone || row_->by.lock != Primitive::kOneSided) return Progress::kDone;
  if (member_.stage == Stage::kCommits) {
    if (!node_->together(Node::Together::kFree, *view_, id_)) return Progress::kWaits;
    member_.stage = Stage::kLocks;
    member_.piece = id_.value;
  }
  return free_locks_step() ? Progress::kDone : Progress::kGoesOn;
}

// All workers of the node have carried everything out, so whatever is still locked here was locked by a verb of a
// transaction that never came to log. They look for that together: each at every so many-th piece, one at a time, so
// that leases go on. True when there is none left.
bool Engine::free_locks_step() {
  const auto workers = static_cast<uint64_t>(node_->workers());
  bool looked = false;
  for (; member_.table < node_->tables(); ++member_.table, member_.piece = id_.value) {
    Table* table = node_->table(TableId(static_cast<uint16_t>(member_.table)));
    while (member_.piece < table->lock_pieces()) {
      if (looked) return false;
      table->free_locks(member_.piece);
      member_.piece += workers;
      looked = true;
    }
  }
  return true;
}

}  // namespace weft
