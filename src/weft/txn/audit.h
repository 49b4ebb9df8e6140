// CommitAudit: checks the rules at every commit point of a simulated cluster, against what the participants have on
// record at that moment:
//   K2:     each written key's new value is on more than f nodes, counting the coordinator once; if the written keys
//           have several primaries, it is on every in-sync replica;
//   H5:     the log of a shipped transaction is on every in-sync replica of every key that it writes;
//   dnl1:   every participant, also of keys only read, has a LOCKED record.
// It reads other workers' records directly, so it works only where all workers run on one thread.
#pragma once

#include <string>
#include <vector>

#include "weft/txn/node.h"
#include "weft/txn/txn_observer.h"

namespace weft {

class CommitAudit final : public TxnObserver {
 public:
  CommitAudit() = default;
  explicit CommitAudit(std::vector<Node*> nodes) : nodes_(std::move(nodes)) {}
  void set_nodes(std::vector<Node*> nodes) { nodes_ = std::move(nodes); }

  void on_commit_point(NodeId coordinator, WorkerId worker, const TxnSlot& slot) override;

  std::vector<std::string> violations;
  uint64_t commit_points = 0;

 private:
  std::vector<Node*> nodes_;
};

}  // namespace weft
