// Recovery: from one view into the next. What a worker keeps while it is stopped, and the messages.
//
// A worker that adopts a view stops: it drops what its peers sent in the old epoch, aborts what still executes, and
// reports to the view's leader (View::leader) what it knows of open transactions: its records of them, which ones it
// has finished, and how far its own commits have come. The leader's worker of the same index decides each of them
// (recovery_leader.cc), writes the decisions at every member, lets them be carried out, and says when the view is
// active. All of a worker's transactions are known to the workers of its index only, so each index recovers by itself;
// the leader's workers wait for each other before they say active, since the tables belong to all of them.
//
//   leader    ask ->                    decide..., write ->          apply ->             active ->
//   member          -> record..., reported          -> wrote               -> applied
//
// The flow for recovery is exempt from epochs, so every message names its own; those of another epoch are ignored, and
// the leader asks again until a member has come to its epoch. A written decision is reported as such: it wins, if
// recovery is interrupted by another view, over everything else.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/store/table.h"
#include "weft/txn/log.h"
#include "weft/types.h"

namespace weft {

enum class RecoveryStep : uint8_t {
  kAsk,
  kRecord,    // a record, or one part of it: its keys follow
  kDecided,   // a decision that was written down in an earlier recovery: its keys follow
  kFinished,  // the last transaction of a slot that is finished here
  kSlot,      // one of the reporting worker's own transactions, and how far it is
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
  uint64_t participants;
  uint32_t epoch;
  uint32_t sequence;  // of the transaction, low bits
  uint32_t incarnation;
  uint32_t decided_epoch;
  uint8_t step;         // RecoveryStep
  uint8_t coordinator;  // NodeId
  uint8_t slot;
  uint8_t state;   // of a record: LogState bits; of a decision: 0
  uint8_t row;     // index into kRows
  uint8_t writes;  // written keys of the whole transaction
  uint8_t ending;  // Ending
  uint8_t keys;    // KeyParts that follow; version is the new one
  uint8_t served;  // kReported: this worker was active once, so that what it does not know did not reach it
  uint8_t spare[3];
  uint32_t sequence_high;  // the other half of the transaction's, for those who note how it ended
};
static_assert(sizeof(RecoveryHeader) == 40);

// A decision that was written down here: beside the record, since the slot's record may still be that of an earlier
// transaction, whose end the view change kept from coming.
struct Decision {
  NodeId coordinator;
  uint8_t slot;
  uint32_t sequence;
  uint32_t incarnation;
  uint32_t epoch;  // the one whose recovery decided first
  uint32_t sequence_high;
  bool commit;
  bool carried_out = false;
  LogPart* keys = nullptr;  // all writes of the transaction
};

// One of the worker's own transactions when it stopped.
struct OwnTransaction {
  uint64_t sequence;
  uint8_t slot;
  Ending ending;
};

// What a member's worker keeps from stopping to active.
struct MemberRecovery {
  bool asked = false;
  bool reported = false;
  bool wrote = false;     // all decisions
  bool applying = false;  // told to; waits for leases of removed members to run out
  enum class Stage : uint8_t { kBegin, kAborts, kCommits, kLocks } stage = Stage::kBegin;  // carried out, or begun
  size_t table = 0;    // whose locks of verbs are freed
  uint64_t piece = 0;  // and where
  bool applied = false;
  bool all_applied = false;  // the leader says that the view is active
  size_t next = 0;           // of what there is to report
};

// At the leader: a transaction that somebody has a record of, or that its coordinator has not finished.
struct OpenTransaction {
  struct Write {
    uint16_t table;
    uint8_t write;
    uint64_t version = 0;
    bool has_value = false;
    std::string key, value;
  };
  uint8_t row = 0;
  uint8_t writes = 0;
  uint32_t sequence_high = 0;
  uint64_t participants = 0;
  uint64_t locked = 0, replicated = 0, committed = 0;  // bit n: by the record at node n
  Ending written = Ending::kOpen;                      // a decision that was written in an earlier recovery
  uint32_t decided_epoch = 0;
  bool own_report = false;  // the coordinator lives, and has not finished it
  Ending own_ending = Ending::kOpen;
  std::map<uint8_t, Write> keys;  // by index in the transaction

  Ending decision = Ending::kOpen;
  bool everywhere = false;  // finished at a member, so every replica has it: nothing to send
};

struct LeaderRecovery {
  enum class Stage : uint8_t { kGather, kDecide, kWrite, kApply, kBarrier };
  struct Id {
    NodeId coordinator;
    uint32_t incarnation;
    uint8_t slot;
    uint32_t sequence;
    friend auto operator<=>(const Id&, const Id&) = default;
  };
  struct Finished {
    uint32_t incarnation = 0;
    uint32_t sequence = 0;
    bool committed = false;
  };

  Stage stage = Stage::kGather;
  uint64_t members = 0;
  uint64_t waiting = 0;  // members that have not answered
  uint64_t served = 0;   // members that were active before
  uint64_t ask_again_ns = 0;
  std::array<size_t, kNodesMax + 1> reported{};  // by member: transactions that it was the first to report
  std::map<Id, OpenTransaction> open;
  std::map<std::pair<NodeId, uint16_t>, Finished> finished;  // by member; by coordinator and slot
  // Sending decisions: to this node next, from this transaction on.
  uint8_t to = 0;
  std::map<Id, OpenTransaction>::const_iterator next;
};

}  // namespace weft
