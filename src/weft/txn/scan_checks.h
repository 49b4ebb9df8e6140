// ScanChecks: how a commit checks that what its transaction has scanned still holds (rule G8), at the coordinator's
// side. The primaries scan the same ranges again, in the phase that validates, when all locks are taken.
#pragma once

#include <cstddef>

#include "weft/txn/context.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/row_set.h"
#include "weft/txn/scan_page.h"
#include "weft/txn/slot.h"

namespace weft {

class ScanChecks {
 public:
  ScanChecks(WorkerContext& ctx, const RowSet& rows, TableScans& tables, const MessageTransport& messages)
      : ctx_(ctx), rows_(rows), tables_(tables), messages_(messages) {}

  // Adds the primaries of what was scanned to the plan. A row that cannot is refused.
  NodeSet plan(TxnSlot& slot) const;

  // The phase begins: from now on nothing that the transaction has seen absent may come and go.
  void begin(TxnSlot& slot) const;
  // Checks the scans of which this node is the primary. If they do not hold, the transaction has failed.
  void check_own(TxnSlot& slot);
  // Which of these nodes have scans to check; they get one message for all that is validated there.
  static NodeSet nodes_with_scans(const TxnSlot& slot, NodeSet nodes);
  void send(const TxnSlot& slot, NodeSet nodes);
  // All have answered.
  void end(TxnSlot& slot) const;

 private:
  WorkerContext& ctx_;
  const RowSet& rows_;
  TableScans& tables_;
  const MessageTransport& messages_;
};

}  // namespace weft
