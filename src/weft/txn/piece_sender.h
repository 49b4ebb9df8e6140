// PieceSender: sends the phases of large commits in pieces, a little in each step of the worker, so that other
// transactions' messages go in between. What is sent is read from the transaction's slot, which stays as it is until
// the phase is answered; nothing is copied before its piece is sent.
//
// A message that was begun is sent to its end, also if its transaction has failed meanwhile; only the end of the view,
// or of a slot whose peer was lost, ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/slot.h"

namespace weft {

class PieceSender {
 public:
  PieceSender(WorkerContext& ctx, uint32_t piece_bytes);

  // Sends this phase of a commit to these nodes, this one included, in the steps that follow.
  void add(const TxnSlot& slot, Phase phase, NodeSet nodes);

  bool step();  // true if it has sent something
  bool empty() const { return sends_.empty(); }
  void clear() { sends_.clear(); }  // the view ends

 private:
  // A message on its way to one node.
  struct Send {
    const TxnSlot* slot;
    CommitRequest request;
    Phase phase;
    NodeId node;
    uint16_t count;   // entries of the slot that are looked at
    uint16_t entry;   // the next one
    uint32_t within;  // how many bytes of it are sent
    uint32_t keys, total, sent;
  };
  bool is_over(const Send& send) const;
  void measure(Send* send) const;
  void send_piece(Send& send);
  std::byte* copy_some(Send& send, std::byte* to, const std::byte* end) const;

  WorkerContext& ctx_;
  const uint32_t piece_bytes_;
  std::vector<Send> sends_;
  size_t first_ = 0;  // of sends_, whose turn it is to be served first
};

}  // namespace weft
