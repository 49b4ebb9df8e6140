// VerbTransport: executes the phases of a commit by one-sided verbs, for the keys and nodes that the plan gives it.
//
//   lock      CAS of the word from (version as read, unlocked) to (the same, owner), followed by a READ of word and
//             meta word: the meta word binds key and value, so it shows if the block went to another key meanwhile
//   validate  READ of word and meta word
//   log       WRITE of an entry into the node's log ring (log_writer.h)
//   commit    WRITE of the record except its word, then WRITE of the word, which unlocks
//   abort     CAS of the word back: if the lock was taken on another key by mistake, the word may have changed
//
// The primary keeps nothing of such a lock but the word, which names the owner (rule O1). What it needs to finish the
// transaction without its coordinator is in the log, which goes there too (protocol.h); locks of transactions that
// never came to log are found by looking at all words (Table::release_orphaned_locks).
#pragma once

#include <cstdint>

#include "weft/fabric/verb_issuer.h"
#include "weft/txn/context.h"
#include "weft/txn/locations.h"
#include "weft/txn/log_writer.h"
#include "weft/txn/slot_table.h"

namespace weft {

class VerbTransport {
 public:
  // `log`: nullptr if no row logs by verbs.
  VerbTransport(WorkerContext& ctx, VerbIssuer& verb_issuer, LocationCache& locations, LogWriter* log, SlotTable& slots)
      : ctx_(ctx), verb_issuer_(verb_issuer), locations_(locations), log_(log), slots_(slots) {}

  // Chooses the nodes to log at by verbs; called before the credit is taken.
  void plan(TxnSlot& slot) {
    if (log_ != nullptr) log_->plan(slot);
  }
  void reserve(TxnSlot& slot) { log_->reserve(slot); }
  void give_back(TxnSlot& slot) { log_->give_back(slot); }
  // Issues what goes by verbs in this phase, and leaves in `step` what goes by message.
  void post_phase(TxnSlot& slot, Phase phase, PlanStep* step);
  // A verb request of a phase has completed. Returns the slot, if it is still concerned.
  TxnSlot* on_posted(const VerbRequest& request);

 private:
  void post_lock(TxnSlot& slot, uint16_t entry);
  void post_validate(TxnSlot& slot, uint16_t entry);
  void post_install(TxnSlot& slot, uint16_t entry);
  void post_release(TxnSlot& slot, uint16_t entry);
  void on_locked(TxnSlot& slot, const VerbRequest& request);
  void on_validated(TxnSlot& slot, const VerbRequest& request);
  void send(TxnSlot& slot, Phase phase, VerbRequest* request);

  WorkerContext& ctx_;
  VerbIssuer& verb_issuer_;
  LocationCache& locations_;
  LogWriter* const log_;
  SlotTable& slots_;
};

}  // namespace weft
