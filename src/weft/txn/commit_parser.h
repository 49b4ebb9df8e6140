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
  bool parse_keys(const Message& message, Batch* batch);
  // kReplicateFor: a kReplicate, after the coordinator's node. kShipped: its keys, if it has any.
  bool parse_replicate_for(const Message& message, Batch* batch);
  bool parse_shipped(const Message& message, Batch* batch);
  bool parse_check_scans(const Message& message, Batch* batch);
  bool parse_unlock(const Message& message, Batch* batch);
  bool parse_done(const Message& message, Batch* batch) const;

 private:
  // What the narrow keys of one table have in common if they are written alike, with values of one size: all of their
  // heads but version and index. It was checked with the first of them.
  struct Shape {
    uint64_t bits = UINT64_MAX;  // of no narrow head
    Table* table = nullptr;
    uint32_t part_bytes = 0;
    uint32_t value_bytes = 0;
    uint32_t room = 0;
    Write write = Write::kNone;
    uint8_t flags = 0;
  };
  using Shapes = std::array<Shape, NarrowHead::kTables>;

  bool check_request(const Message& message) const;
  template <Kind kKind>
  bool take_keys(const Message& message, size_t before, Shapes* shapes, Batch* batch) const;
  bool take_other_key(Kind kind, uint32_t allowed, const std::byte** at, const std::byte* end, KeyRef* to) const;
  bool take_known_key(const Shapes& shapes, const std::byte** at, const std::byte* end, KeyRef* to) const;
  static void note_shape(const std::byte* from, const std::byte* end, const KeyRef& key, Shapes* shapes);
  void prefetch_keys(const PreparedKeys* part, Batch* batch) const;

  WorkerContext& ctx_;
  PreparedTable& records_;
  const size_t request_bytes_;                       // of a CommitRequest
  const uint8_t* const roles_;                       // of this node, by partition (view_state.h)
  Shapes locks_, validates_, replicates_, unlocks_;  // by table: the last one in messages of these kinds
};

}  // namespace weft
