// CommitParser: parses the transaction messages that name keys or records at this node, checks them against the node's
// tables, limits and view, and prefetches the records they name.
#pragma once

#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/prepared_table.h"

namespace weft {

class CommitParser {
 public:
  CommitParser(WorkerContext& ctx, PreparedTable& records) : ctx_(ctx), records_(records) {}

  // Returns true if the message is well-formed; its keys are then appended to the batch.
  bool parse_get(const Message& message, Batch* batch) const;
  bool parse_keys(const Message& message, Batch* batch) const;
  bool parse_unlock(const Message& message, Batch* batch) const;
  bool parse_done(const Message& message, Batch* batch) const;

 private:
  void prefetch_keys(const PreparedKeys* part, Batch* batch) const;

  WorkerContext& ctx_;
  PreparedTable& records_;
};

}  // namespace weft
