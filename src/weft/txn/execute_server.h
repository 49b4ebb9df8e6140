// ExecuteServer: locks and reads what a stored procedure of another node needs of this one, all of it or nothing.
#pragma once

#include <span>
#include <vector>

#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/participant.h"

namespace weft {

class ExecuteServer {
 public:
  ExecuteServer(WorkerContext& ctx, Participant& participant) : ctx_(ctx), participant_(participant) {}

  void on_execute(const Batch& batch, std::span<const Message> run);

 private:
  void answer(const Message& message, const CommitRequest& request, std::span<const KeyRef> keys,
              const PhaseResult& result);

  WorkerContext& ctx_;
  Participant& participant_;
  KeyBuffer locks_;               // of the request that is handled
  std::vector<std::byte> bytes_;  // of its answer
};

}  // namespace weft
