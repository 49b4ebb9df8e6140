// LogReceiver: takes the entries that peers have logged out of this worker's rings (log_ring.h), and hands them to the
// participant like Replicate messages: before any message is handled, in every poll, and when the worker stops for
// another view.
//
// It also keeps the Replicate messages that wait for the write they follow (Participant::on_replicate).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/run/service.h"
#include "weft/txn/batch.h"
#include "weft/txn/commit_parser.h"
#include "weft/txn/context.h"
#include "weft/txn/log_ring.h"
#include "weft/txn/participant.h"
#include "weft/txn/verb_memory.h"

namespace weft {

class LogReceiver final : public Service {
 public:
  LogReceiver(WorkerContext& ctx, const VerbMemory& memory, CommitParser& parser, Participant& participant);

  // Handles the entries in the rings.
  void drain();
  bool has_entries() const;
  // Tells writers how far their rings have been read, and retries the deferred messages.
  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override;
  // The view ends, and its landed entries were drained.
  void begin_view();

  // Keeps a Replicate message that cannot be handled before the write it follows.
  void defer(const Message& message);
  bool has_deferred() const { return !deferred_.empty(); }

 private:
  struct Deferred {
    NodeId source;
    uint32_t tag;
    std::vector<std::byte> body;
  };
  void handle(Message message, Participant::Origin origin);

  WorkerContext& ctx_;
  CommitParser& parser_;
  Participant& participant_;
  std::vector<LogRingReader> rings_;  // by node
  mutable std::vector<std::byte> scratch_;
  std::vector<Deferred> deferred_;
  Batch batch_;
};

}  // namespace weft
