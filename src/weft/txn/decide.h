// decide: the outcome of a transaction that was open when the view changed. A pure function: the table in
// docs/recovery.md.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/base/bugs.h"
#include "weft/txn/recovery_types.h"

namespace weft {

// What the leader knows in addition to the reports of the transaction itself.
struct DecideFacts {
  bool coordinator_lives = false;  // it is a member, in the incarnation that began the transaction
  NodeSet was_active;              // members that were active before, so what they do not know did not reach them
  bool finished_commit = false;    // a member has finished it, or a later one of the same slot, as a commit
  NodeSet finished_abort;          // members that have finished it as an abort
  bool unanimous = false;          // of its row: all locks together commit it
};

struct DecideResult {
  Ending ending = Ending::kAbort;
  bool everywhere = false;  // every replica has it: nothing to send
  std::string_view why;     // the rule
};

DecideResult decide(const OpenTransaction& open, const DecideFacts& facts);

}  // namespace weft
