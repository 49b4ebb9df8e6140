// PieceReceiver: puts the messages of large commits together from their pieces (piece.h), and has the participant do
// what they say, a little in each step of the worker.
//
// Until its last piece is here a message has not arrived: nothing is locked, applied or recorded, and the end of the
// view throws it away. Then:
//   lock      takes all locks at once, or none; the values stay in the block in which they were put together
//   validate  at once
//   replicate applies key after key; the record says REPLICATED, and the ack is sent, after the last one
//   unlock    installs and releases key after key; the record says COMMITTED, and the ack is sent, after the last one
// When the view ends what was begun is brought to its end in the steps that follow, without an ack, before this worker
// reports to recovery. So recovery finds every message handled or not arrived, as if it had come in one piece (rule
// K1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "weft/run/service.h"
#include "weft/txn/batch.h"
#include "weft/txn/commit_parser.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/participant.h"
#include "weft/txn/piece.h"
#include "weft/txn/prepared_table.h"

namespace weft {

class PieceReceiver final : public Service {
 public:
  PieceReceiver(WorkerContext& ctx, CommitParser& parser, PreparedTable& records, Participant& participant,
                size_t message_bytes_max);

  bool parse(const Message& message) const;
  void on_piece(const Batch& batch, std::span<const Message> run);

  // Does some of what arrived messages say; true if there was any. The worker's loop asks empty() first.
  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override { return UINT64_MAX; }
  void on_view_ended() override;
  bool has_left_view() const override { return jobs_.empty(); }

  bool empty() const { return jobs_.empty(); }

 private:
  // A message of which pieces are missing. Its bytes are where they stay: in a block of keys.
  struct Assembly {
    NodeId source;
    uint8_t slot;
    Kind kind;
    uint32_t tag, total, have;
    PreparedKeys* block;
    std::byte* bytes;
  };
  // A replicate or an unlock that has arrived.
  struct Job {
    CommitRequest request;
    PreparedTxn* record;
    PreparedKeys* part;          // what comes next, and
    uint32_t next;               // its key
    std::span<std::byte> room;   // of a replicate: for old values
    std::vector<uint8_t> roles;  // and what this node was for each key when it arrived
    PreparedKeys* carried;       // of an unlock: the block with the values that it brought
    std::vector<KeyRef> values;  // and these
    bool unlocks;
    bool answers = true;  // its view has not ended
  };

  const char* take(const Message& message, const PieceHeader& header);
  void arrived(const Assembly& assembly);
  void handle(const Message& message, PreparedKeys* block, std::span<std::byte> room);
  void handle_unlock(const Message& message, PreparedKeys* block);
  bool run(Job& job, size_t* bytes);
  void end(Job& job);

  WorkerContext& ctx_;
  CommitParser& parser_;
  PreparedTable& records_;
  Participant& participant_;
  const size_t message_bytes_max_;
  std::vector<Assembly> assemblies_;
  std::deque<Job> jobs_;
  Batch batch_;
};

}  // namespace weft
