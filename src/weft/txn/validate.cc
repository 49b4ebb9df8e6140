// Validation: every key that was only read is still at the version that was read, at its primary, and not locked by
// another transaction (rule G2).
#include "weft/txn/engine.h"

namespace weft {

void Engine::on_validate(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    Code code = Code::kOk;
    uint8_t index = 0;
    Owner holder;
    for (const KeyRef& ref : keys_of(m)) {
      code = ref.table->validate(ref.key, ref.version, owner_of(m), &holder);
      ++counters_.records_touched;
      charge(Step::kLookup, 1);
      if (code != Code::kOk) {
        index = ref.index;
        break;
      }
    }
    // Nobody can commit what was refused here: it is not replicated yet.
    if (code != Code::kOk) {
      note_outcome(incarnation_of(m.source), load<CommitRequest>(m.body.data()).sequence, false);
    }
    reply(m, Phase::kValidate, code, index, holder);
  }
}

}  // namespace weft
