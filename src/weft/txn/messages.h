// The messages of a transaction, as bytes. All integers are little endian, all structures 8-byte aligned, keys and
// values padded to 8. The port's MessageHeader::tag holds the coordinator's slot; the sender's node and worker come
// with the packet, so (source, worker, slot) is the owner that locks name.
#pragma once

#include <cstdint>

#include "weft/base/bytes.h"
#include "weft/store/record.h"

namespace weft {

enum class Kind : uint8_t {
  kGet = 1,       // GetRequest, key             -> kGetReply
  kGetReply,      // GetReply, value
  kLock,          // CommitRequest, KeyPart...   -> kReply with the bases
  kValidate,      // CommitRequest, KeyPart...   -> kReply
  kReplicate,     // CommitRequest, KeyPart...   -> kReply
  kUnlock,        // CommitRequest, KeyPart...   -> kReply
  kReply,         // PhaseReply, bases
  kDone,          // TxnCompleteNotice...: these, and those before them in their slots, are finished: truncate
  kRecovery,      // RecoveryHeader, KeyPart...: into a new view (recovery_types.h)
  kTransfer,      // TransferHeader, ...: copies of a partition for a replica that is catching up (state_transfer.h)
  kControl,       // for the node's agent: leases
  kOutcomeQuery,  // OutcomeQuery: the outcome of a transaction   -> kOutcomeReply
  kOutcomeReply,
  kScan,      // ScanHeader, ...: keys of a partition, for scans (key_scans.h)
  kRingRead,  // RingRead: how far the sender has read the ring that the receiver writes (log_ring.h)
  kUnlocked,  // TxnCompleteNotice...: what the sender has unlocked; replaces as many kReply (passive acknowledgement)
};

enum GetFlags : uint8_t {
  kGetSingle = 1,  // has no commit phase: refuse locked keys
  kGetLocks = 2,   // lock the key for update (rows that lock while reading)
  kGetWhere = 4,   // the answer says where the record is
};

struct GetRequest {
  uint32_t sequence;  // low bits of the transaction's
  uint16_t table;
  uint8_t entry;
  uint8_t flags;
  uint32_t key_bytes;
  uint32_t sequence_high;
};
static_assert(sizeof(GetRequest) == 16);

struct GetReply {
  uint32_t sequence;
  uint8_t entry;
  uint8_t code;  // Code
  uint8_t found;
  uint8_t has_where;  // a GetWhere follows
  uint64_t word;      // of the record, or of its absence
  uint32_t holder;    // Owner, if code is kLocked
  uint32_t value_bytes;
};
static_assert(sizeof(GetReply) == 24);

// For one-sided READs by the node that asked. A hint: what is read there shows whether it is right.
struct GetWhere {
  uint64_t record;  // RecordSlot, 0: absent
  uint64_t index;   // of the table's index in its region
  uint64_t bins;
};
static_assert(sizeof(GetWhere) == 24);

// Starts every commit message. One message per transaction, phase and node (rule K1). It contains enough for a
// participant's record to tell recovery which transaction it belongs to and who else takes part.
struct CommitRequest {
  uint64_t sequence;
  uint64_t participants;  // bit n: node n takes part
  uint32_t incarnation;   // of the coordinator
  uint8_t flags;          // CommitFlags
  uint8_t keys;           // KeyParts that follow
  uint8_t writes;         // written keys of the whole transaction
  uint8_t commit;         // kUnlock: 1 commit, 0 abort
  uint8_t unused[8];
};
static_assert(sizeof(CommitRequest) == 32);

// What a transaction's row means for its participants.
enum CommitFlags : uint8_t {
  kUnanimous = 1,       // all locks together commit it
  kRefusalIsFinal = 2,  // a participant that refuses it, or aborts it, knows that it will never commit
  kPiggybackAck = 4,    // kUnlock of a commit: acknowledged by a notice
};
inline constexpr uint8_t kCommitFlagsMax = kUnanimous | kRefusalIsFinal | kPiggybackAck;

enum KeyFlags : uint8_t {
  kHasVersion = 1,  // kLock: the version that was read
  kHasValue = 2,
  kHeld = 4,            // kLock: was locked while reading; this says what the lock is for
  kByVerb = 8,          // kReplicate, to the primary: it was locked by a verb
  kOrdered = 16,        // kReplicate: applied on arrival although other writes are deferred, see `predecessor_delta`
  kDeferred = 32,       // kReplicate: a backup applies it when the transaction is finished
  kWantsReplaced = 64,  // kLock of an erase: the answer says which version of the record it replaces
};

struct KeyPart {
  uint64_t version;      // kLock, kValidate: as read; kReplicate: the new one
  uint32_t value_bytes;  // of the new value, also if it does not follow
  uint16_t table;
  uint16_t key_bytes;
  uint8_t write;  // Write
  uint8_t index;  // of the key in the transaction
  uint8_t flags;
  uint8_t unused;
  uint32_t predecessor_delta;  // kOrdered: how far its version is above the one that it replaces; 0: it replaces none
};
static_assert(sizeof(KeyPart) == 24);

struct PhaseReply {
  uint32_t sequence;
  uint8_t phase;    // Phase
  uint8_t code;     // Code
  uint8_t index;    // the key that failed
  uint8_t bases;    // kLock: versions that follow, in the order of the request's keys; 0: as the request named them
  uint32_t holder;  // Owner, if code is kLocked
  uint32_t erased;  // kLock: number of further versions that follow: of the records that its erases replace
                    // (kWantsReplaced)
};
static_assert(sizeof(PhaseReply) == 16);

struct RingRead {
  uint64_t position;
};
static_assert(sizeof(RingRead) == 8);

// Of a transaction by its slot and sequence.
struct TxnCompleteNotice {
  uint64_t bits;

  TxnCompleteNotice() = default;
  TxnCompleteNotice(uint64_t sequence, uint8_t slot) : bits(sequence << 8 | slot) {}
  uint64_t sequence() const { return bits >> 8; }
  uint8_t slot() const { return static_cast<uint8_t>(bits); }
};
static_assert(sizeof(TxnCompleteNotice) == 8);

// These two travel on a flow that is bound to the epoch: query, answer and what is answered belong to one view.
struct OutcomeQuery {
  uint64_t sequence;
  uint32_t incarnation;  // the worker is that of the packet
  uint32_t question;     // returned with the answer
};
static_assert(sizeof(OutcomeQuery) == 16);

// What one member knows of a transaction.
enum class KnownOutcome : uint8_t {
  kNothing,
  kOpen,  // it is the coordinator and has not ended it, or it has a record that is not decided
  kCommitted,
  kAborted,
};

struct OutcomeReply {
  uint32_t question;
  uint8_t standing;  // KnownOutcome
  uint8_t unused[3];
};
static_assert(sizeof(OutcomeReply) == 8);

inline constexpr size_t padded(size_t bytes) { return align_up(bytes, 8); }

// Whether none of these words is above kVersionMax, which has all bits of a version.
inline bool are_versions(const std::byte* words, size_t count) {
  static_assert((kVersionMax & (kVersionMax + 1)) == 0);
  uint64_t bits = 0;
  for (size_t i = 0; i < count; ++i) bits |= load<uint64_t>(words + i * sizeof(uint64_t));
  return bits <= kVersionMax;
}

}  // namespace weft
