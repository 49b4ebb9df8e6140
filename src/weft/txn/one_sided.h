// OneSided: the parts of a worker that exist only in rows with one-sided verbs, and how they stop when a view ends.
#pragma once

#include <optional>

#include "weft/fabric/verb_credit.h"
#include "weft/fabric/verb_issuer.h"
#include "weft/options.h"
#include "weft/status.h"
#include "weft/txn/context.h"
#include "weft/txn/locations.h"
#include "weft/txn/log_receiver.h"
#include "weft/txn/log_writer.h"
#include "weft/txn/one_sided_reads.h"
#include "weft/txn/row_set.h"
#include "weft/txn/verb_memory.h"
#include "weft/txn/verb_transport.h"

namespace weft {

inline constexpr uint32_t kVerbCreditMax = 4096;
// What Options::verb_credit says; nothing if it is off. kBadOption says what is wrong with it.
Result<std::optional<VerbCreditOptions>> verb_credit_of(const Options& options);

class OneSided {
 public:
  // `credit_period_ns`: test only, how long a limit is measured; 0: as usual.
  OneSided(WorkerContext& ctx, const RowSet& rows, const Options& options, VerbMemory& memory, LocationCache locations,
           const Planner& planner, const MessageTransport& messages, SlotTable& slots, uint64_t credit_period_ns = 0);
  // Connects what needs the other parts of the worker.
  void connect(Reads& reads, TxnKeys& keys, CommitParser& parser, Participant& participant);

  VerbTransport& transport() { return transport_; }
  OneSidedReads& reads() { return *reads_; }
  LogWriter* log_writer() { return log_writer_ ? &*log_writer_ : nullptr; }  // nullptr: no row logs by verbs
  LogReceiver* log_receiver() { return log_receiver_ ? &*log_receiver_ : nullptr; }
  const LogReceiver* log_receiver() const { return log_receiver_ ? &*log_receiver_ : nullptr; }
  VerbIssuer& verb_issuer() { return verb_issuer_; }
  const VerbIssuer& verb_issuer() const { return verb_issuer_; }
  const VerbCredit* credit() const { return credit_ ? &*credit_ : nullptr; }  // nullptr: it is off

  // Hands each completed verb request to the part it belongs to. The coordinator goes on with slots whose phase is
  // over.
  bool poll(Coordinator& coordinator);
  // No entry is left in the rings, and no deferred message waits.
  bool idle() const { return !log_receiver_ || !(log_receiver_->has_entries() || log_receiver_->has_deferred()); }

  // Rule O3: first no verb lands any more (stop_access is true), then what this worker has posted is abandoned (stop),
  // and the landed entries are taken out of the rings, still in the view that ends (finish_view).
  bool stop_access(Epoch next) { return memory_.stop_access(next); }
  void stop() { verb_issuer_.drop(); }
  void finish_view();

 private:
  struct Answered {
    OneSided* self;
    Coordinator* coordinator;
  };
  void on_posted(VerbRequest& request, Coordinator& coordinator);

  WorkerContext& ctx_;
  VerbMemory& memory_;
  const Planner& planner_;
  SlotTable& slots_;
  LocationCache locations_;
  std::optional<VerbCredit> credit_;
  VerbIssuer verb_issuer_;
  std::optional<LogWriter> log_writer_;
  VerbTransport transport_;
  std::optional<OneSidedReads> reads_;
  std::optional<LogReceiver> log_receiver_;
};

}  // namespace weft
