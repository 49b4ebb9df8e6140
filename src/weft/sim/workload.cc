#include "weft/sim/workload.h"

#include "weft/base/check.h"

namespace weft::sim {

SimOutcome WorkloadContext::count(const Outcome& outcome) {
  switch (outcome.kind) {
    case OutcomeKind::kCommitted:
      ++committed;
      return SimOutcome::kOk;
    case OutcomeKind::kAborted:
      ++aborted;
      return SimOutcome::kFail;
    case OutcomeKind::kRejected:
      ++rejected;
      return SimOutcome::kFail;
    case OutcomeKind::kUnknown:
      break;
  }
  ++unknown;
  return SimOutcome::kInfo;
}

std::unique_ptr<Workload> make_workload(WorkloadContext* context) {
  switch (context->config.kind) {
    case SimWorkload::kAppend:
      return make_append(context);
    case SimWorkload::kToken:
      return make_token(context);
    case SimWorkload::kSmallBank:
      return make_smallbank(context);
    case SimWorkload::kTatp:
      break;
    case SimWorkload::kTpcc:
      WEFT_CHECK(false, "who asks for it brings it");
  }
  return make_tatp(context);
}

void load_everywhere(const std::vector<std::unique_ptr<Node>>& nodes, TableId table, Key key, std::string_view value) {
  const ByteView bytes = as_bytes({key.data(), key.size()});
  const PartitionId partition = nodes[0]->table(table)->hashed(bytes).partition;
  for (const auto& node : nodes) {
    if (!node->first_view().placement(partition).is_in_sync(node->id())) continue;
    const Result<void> loaded = node->load(table, bytes, as_bytes(value));
    WEFT_CHECK(loaded, "a simulation's tables have room for what it loads");
  }
}

}  // namespace weft::sim
