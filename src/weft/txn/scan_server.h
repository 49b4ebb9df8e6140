// ScanServer: what a primary does for the scans of other nodes' transactions: it gives pages of its ranges, and checks
// when they commit that they still hold (rule G8).
#pragma once

#include <span>
#include <vector>

#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/participant.h"
#include "weft/txn/scan_page.h"

namespace weft {

class ScanServer {
 public:
  ScanServer(WorkerContext& ctx, TableScans& scans, Participant& participant, int slots)
      : ctx_(ctx), scans_(scans), participant_(participant), slots_(slots) {}

  bool parse_range(const Message& message) const;
  void on_range(const Batch& batch, std::span<const Message> run);
  // A kValidate with scans. The parser has checked all of it (CommitParser::parse_check_scans).
  void on_check(const Batch& batch, std::span<const Message> run);

 private:
  void answer(const Message& message);
  PhaseResult check(const Message& message, const CommitRequest& request, size_t rest);

  WorkerContext& ctx_;
  TableScans& scans_;
  Participant& participant_;
  const int slots_;
  std::vector<std::byte> page_;  // of the request that is answered
};

}  // namespace weft
