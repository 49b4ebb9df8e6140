// LogWriter: logs commits at other nodes by one-sided WRITEs into their log rings (log_ring.h). An entry says the same
// as a Replicate message. Nobody replies: the completion of the WRITE is the acknowledgement.
#pragma once

#include <span>
#include <vector>

#include "weft/fabric/verb_issuer.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/log_ring.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/messages.h"
#include "weft/txn/verb_memory.h"

namespace weft {

class LogWriter {
 public:
  LogWriter(WorkerContext& ctx, const VerbMemory& memory, VerbIssuer& verb_issuer, const MessageTransport& messages);

  // Chooses slot.ring_nodes; the others get a message.
  void plan(TxnSlot& slot);
  // Reserves room for the entry in each of these rings; a node whose ring has none gets a message.
  void reserve(TxnSlot& slot);
  void give_back(TxnSlot& slot);
  void post(TxnSlot& slot, NodeId node);

  bool parse(const Message& message) const { return message.body.size() == sizeof(RingRead); }
  void on_ring_read(const Batch& batch, std::span<const Message> run);
  // The view ends.
  void begin_view();

 private:
  WorkerContext& ctx_;
  const VerbMemory& memory_;
  VerbIssuer& verb_issuer_;
  const MessageTransport& messages_;
  std::vector<LogRingWriter> rings_;  // by node
};

}  // namespace weft
