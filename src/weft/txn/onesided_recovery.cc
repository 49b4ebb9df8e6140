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
// by verbs is freed. True when all is done.
bool Engine::carry_out_step() {
  using Stage = MemberRecovery::Stage;
  const bool alone = posts_ == nullptr;
  if (member_.stage == Stage::kBegin) {
    if (!node_->together(Node::Together::kApply, *view_, id_)) return false;
    carry_out(false);
    member_.stage = Stage::kAborts;
  }
  if (member_.stage == Stage::kAborts) {
    if (!alone && !node_->together(Node::Together::kCommit, *view_, id_)) return false;
    carry_out(true);
    member_.stage = Stage::kCommits;
  }
  if (alone || row_->by.lock != Primitive::kOneSided) return true;
  constexpr int kBins = 256;
  if (member_.table < node_->tables()) {
    Table* table = node_->table(TableId(static_cast<uint16_t>(member_.table)));
    member_.cursor = table->free_locks(id_, member_.cursor, kBins);
    if (member_.cursor == 0) ++member_.table;
  }
  return member_.table == node_->tables();
}

}  // namespace weft
