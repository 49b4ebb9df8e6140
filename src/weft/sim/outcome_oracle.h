// OutcomeOracle keeps a workload's transactions by id, with the outcomes that were acknowledged to their clients. Other
// clients query the outcomes while the transactions run, after they were acknowledged, and after their coordinator has
// crashed. All answers about one transaction must agree. A commit that was acknowledged and wrote something must be
// known as long as a replica of it is a member.
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

  // `executor`: the incarnation that it was shipped to; 0: it was not.
  size_t begun(TxnId id, uint32_t executor = 0);
  // The client has an outcome: committed, aborted or rejected.
  void acknowledged(size_t at, const Outcome& outcome, bool wrote, Session session);
  // The client does not know the outcome. `record` is called once: when another client has learned it, or at the end.
  void lost(size_t at, Record record);

  bool wants_to_ask(Random& random) const;
  Task<void> ask(Client* client, Session session);
  Task<void> ask_at_end(Client* client, Session session);
  void end();

 private:
  struct Entry {
    TxnId id;
    uint32_t executor = 0;
    std::optional<TxnStatus> status;
    // Of an acknowledged commit that wrote: the incarnations that were members then, and the least number of replicas.
    std::vector<uint32_t> members;
    int copies = 0;
    Record record;
  };

  Task<void> ask_for(Client* client, Session session, size_t at);
  static void mark_shipped(const Entry& entry, const View& view, TxnStatus status);
  void learn(size_t at, TxnStatus status, const std::string& who);
  void record_outcome(Entry& entry, SimOutcome outcome);

  WorkloadContext* const context_;
  std::vector<Entry> entries_;
  std::vector<size_t> lost_;
};

}  // namespace weft::sim
