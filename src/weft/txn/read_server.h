// ReadServer: answers the reads of other nodes' transactions. For rows that lock while reading, it takes the lock
// first.
#pragma once

#include <span>

#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/prepared_table.h"

namespace weft {

class Participant;

class ReadServer {
 public:
  ReadServer(WorkerContext& ctx, PreparedTable& records, Participant& participant)
      : ctx_(ctx), records_(records), participant_(participant) {}

  void on_get(const Batch& batch, std::span<const Message> run);

 private:
  size_t queued_max() const;
  void answer(const Message& message, const KeyRef& ref);
  Code lock(NodeId from, const GetRequest& request, const KeyRef& ref, Owner* holder, Version* base);

  WorkerContext& ctx_;
  PreparedTable& records_;
  Participant& participant_;
};

}  // namespace weft
