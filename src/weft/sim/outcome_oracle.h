// OutcomeOracle: a workload's transactions by their ids, what their clients were told of them, and what survivors
// answer to other clients who ask for them, while they run, after they were told, and after their coordinator has
// crashed. All that is said of one must agree; and what was told as committed, and wrote, is known for as long as a
// replica of it is a member.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/sim/workload.h"

namespace weft::sim {

class OutcomeOracle {
 public:
  using Record = std::function<void(SimOutcome)>;

  explicit OutcomeOracle(WorkloadContext* context) : context_(context) {}

  size_t begun(TxnId id);
  // Committed, aborted or rejected.
  void acknowledged(size_t at, const Outcome& outcome, bool wrote, Session session);
  // Its client does not know. `record` is called once: when another client has learned it, or at the end.
  void lost(size_t at, Record record);

  bool wants_to_ask(Random& random) const;
  Task<void> ask(Client* client, Session session);
  Task<void> ask_at_end(Client* client, Session session);
  void end();

 private:
  struct Entry {
    TxnId id;
    std::optional<TxnStatus> status;
    // Of a commit that was told and wrote: the incarnations that were members then, and at how many it is at least.
    std::vector<uint32_t> members;
    int copies = 0;
    Record record;
  };

  Task<void> ask_for(Client* client, Session session, size_t at);
  void learn(size_t at, TxnStatus status, const std::string& who);
  void record_outcome(Entry& entry, SimOutcome outcome);

  WorkloadContext* const context_;
  std::vector<Entry> entries_;
  std::vector<size_t> lost_;
};

}  // namespace weft::sim
