// ReadServer: answers the reads of other nodes' transactions, and for rows that lock while reading takes the lock
// first.
#pragma once

#include <cstdint>
#include <span>

#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/log.h"

namespace weft {

class ReadServer {
 public:
  // `row_index`: of the cluster's row, for records of locks that are taken while reading.
  ReadServer(WorkerContext& ctx, LogTable& records, uint8_t row_index)
      : ctx_(ctx), records_(records), row_index_(row_index) {}

  void on_get(const Batch& batch, std::span<const Message> run);

 private:
  void answer(const Message& message, const KeyRef& ref);
  Code lock(const Message& message, const KeyRef& ref, Owner* holder, Version* base);

  WorkerContext& ctx_;
  LogTable& records_;
  const uint8_t row_index_;
};

}  // namespace weft
