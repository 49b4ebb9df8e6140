// Recovery from one view into the next: the messages, and what is known of open transactions.
//
// A worker that adopts a view stops: it drops what its peers sent in the old epoch, aborts transactions that are still
// executing, and reports to the view's leader (View::leader) what it knows of open transactions: its records of them,
// which ones it has finished, and how far its own commits have come. The leader's worker of the same index decides each
// of them (recovery_leader.h), writes the decisions at every member, lets them be applied, and says when the view is
// active. All of a worker's transactions are known only to the workers of its index, so each index recovers by itself;
// the leader's workers wait for each other before they say active, since they all share the tables.
//
//   leader    ask ->                    decide..., write ->          apply ->             active ->
//   member          -> record..., reported          -> wrote               -> applied
//
// The recovery flow is exempt from epochs, so every message names its own; those of another epoch are ignored, and the
// leader asks again until a member has come to its epoch. A written decision is reported as such: if recovery is
// interrupted by another view, it wins over everything else.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/store/table.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/txn_observer.h"
#include "weft/types.h"

namespace weft {

enum class RecoveryStep : uint8_t {
  kAsk,
  kRecord,    // a record, or one part of it: its keys follow
  kDecided,   // a decision that was written in an earlier recovery: its keys follow
  kFinished,  // the last transaction of a slot that is finished here
  kSlot,      // one of the reporting worker's own transactions, and how far it has come
  kReported,
  kDecide,  // all writes of the transaction follow, unless every replica has them
  kWrite,   // all decisions have been sent
  kWrote,
  kApply,
  kApplied,
  kActive,
};

enum class Ending : uint8_t { kOpen, kCommit, kAbort };

struct RecoveryHeader {
  NodeSet participants;
  uint32_t epoch;
  uint32_t sequence_low;  // of the transaction
  uint32_t incarnation;
  uint32_t decided_epoch;
  uint8_t step;         // RecoveryStep
  uint8_t coordinator;  // NodeId
  uint8_t slot;
  uint8_t state;      // of a record: PreparedState bits; of a decision: 0
  uint8_t unanimous;  // all locks together commit it
  uint8_t ending;     // Ending
  uint8_t served;     // kReported: this worker was active once, so what it does not know did not reach it
  uint8_t unused;
  uint16_t writes;  // written keys of the whole transaction
  uint16_t keys;    // KeyParts that follow; version is the new one
  uint32_t sequence_high;

  uint64_t sequence() const { return uint64_t{sequence_high} << 32 | sequence_low; }
  void set_sequence(uint64_t to) {
    sequence_low = static_cast<uint32_t>(to);
    sequence_high = static_cast<uint32_t>(to >> 32);
  }
};
static_assert(sizeof(RecoveryHeader) == 40);

// A decision that was written here (decision_log.h). It is kept beside the record, since the slot's record may still be
// that of an earlier transaction, whose end was lost in the view change.
struct Decision {
  NodeId coordinator;
  uint8_t slot;
  uint64_t sequence;
  uint32_t incarnation;
  uint32_t epoch;  // the one whose recovery decided first
  bool commit;
  bool applied = false;
  PreparedKeys* keys = nullptr;  // all writes of the transaction
  uint32_t before = 0;           // DecisionLog: the decision on the slot before this one
};

// One of the worker's own transactions when it stopped.
struct CoordinatedTxn {
  uint64_t sequence;
  uint8_t slot;
  bool unanimous;
  Ending ending;
};

// At the leader: a transaction that some member has a record of, or that its coordinator has not finished.
struct OpenTransaction {
  struct Write {
    uint16_t table = 0;
    uint8_t write = 0;
    uint64_t version = 0;
    bool has_value = false;
    std::string key, value;
  };
  // By index in the transaction, in that order. Most have few, and reports name them in order.
  class Writes {
   public:
    Write& operator[](uint16_t index) {
      const auto at = std::lower_bound(all_.begin(), all_.end(), index,
                                       [](const auto& pair, uint16_t i) { return pair.first < i; });
      if (at != all_.end() && at->first == index) return at->second;
      return all_.insert(at, {index, Write{}})->second;
    }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.end(); }

   private:
    std::vector<std::pair<uint16_t, Write>> all_;
  };
  bool unanimous = false;
  uint16_t writes = 0;
  NodeSet participants;
  NodeSet locked, replicated, committed;  // the nodes whose record says so
  Ending written = Ending::kOpen;         // a decision that was written in an earlier recovery
  uint32_t decided_epoch = 0;
  bool own_report = false;  // the coordinator is a member, and has not finished it
  Ending own_ending = Ending::kOpen;
  Writes keys;
  size_t bytes = 0;  // of these keys and values, padded

  Ending decision = Ending::kOpen;
  bool everywhere = false;  // finished at a member, so every replica has it: nothing to send
};

// Identifies a transaction in a recovery.
struct RecoveryId {
  NodeId coordinator;
  uint32_t incarnation;
  uint8_t slot;
  uint64_t sequence;
  friend auto operator<=>(const RecoveryId&, const RecoveryId&) = default;
};

// What recovery needs of its worker; a test can stand in for it.
class RecoveryHost {
 public:
  virtual ~RecoveryHost() = default;
  virtual void send(NodeId to, const RecoveryHeader& header, ByteView keys) = 0;
  virtual size_t queued_bytes(NodeId to) const = 0;  // of what was sent there
  // At the leader: its workers wait for each other before they say that the view is active.
  virtual void arrive() = 0;
  virtual bool all_arrived() const = 0;
  // The leader has come to a step.
  virtual void on_leader_step(TxnObserver::Recovered step, NodeSet members) = 0;
};

inline RecoveryHeader recovery_header(RecoveryStep step, Epoch epoch) {
  RecoveryHeader header{};
  header.step = static_cast<uint8_t>(step);
  header.epoch = epoch.value;
  return header;
}

}  // namespace weft
