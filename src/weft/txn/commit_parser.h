// CommitParser: parses the transaction messages that name keys or records at this node, checks them against the node's
// tables, limits and view, and prefetches the records they name.
#pragma once

#include <array>
#include <cstdint>

#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/prepared_table.h"

namespace weft {

class CommitParser {
 public:
  CommitParser(WorkerContext& ctx, PreparedTable& records);

  // Returns true if the message is well-formed; its keys are then appended to the batch.
  bool parse_get(const Message& message, Batch* batch) const;
  template <Kind kKind>  // kLock (also for kValidate), kReplicate
  bool parse_keys(const Message& message, Batch* batch) const;
  bool parse_unlock(const Message& message, Batch* batch) const;
  bool parse_done(const Message& message, Batch* batch) const;

 private:
  bool check_request(const Message& message) const;
  template <Kind kKind>
  bool take_keys(const Message& message, Batch* batch) const;
  bool take_other_key(Kind kind, uint32_t allowed, const std::byte** at, const std::byte* end, KeyRef* to) const;
  bool take_integer_key(uint32_t allowed, const std::byte** at, const std::byte* end, KeyRef* to) const;

  // What is needed to parse a narrow key of a table with integer keys; table is nullptr for others.
  struct IntegerTable {
    Table* table = nullptr;
    uint32_t value_bytes_max = 0;
  };
  void prefetch_keys(const PreparedKeys* part, Batch* batch) const;

  WorkerContext& ctx_;
  PreparedTable& records_;
  const size_t request_bytes_;                                      // of a CommitRequest
  const uint8_t* const roles_;                                      // of this node, by partition (view_state.h)
  std::array<IntegerTable, NarrowHead::kTables> integer_tables_{};  // by table, those that narrow heads name
};

}  // namespace weft
