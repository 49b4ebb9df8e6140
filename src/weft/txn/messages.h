// The messages of a transaction, as bytes. All integers are little endian, all structures 8-byte aligned, keys and
// values padded to 8. The low byte of the port's MessageHeader::tag is the coordinator's slot, and some kinds use the
// rest of it; the sender's node and worker come with the packet, so (source, worker, slot) is the owner that locks
// name.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/base/bytes.h"
#include "weft/fabric/nodes.h"
#include "weft/options.h"
#include "weft/status.h"
#include "weft/store/record.h"
#include "weft/types.h"

namespace weft {

enum class Kind : uint8_t {
  kGet = 1,       // GetRequest, key             -> kGetReply
  kGetReply,      // GetReply, value
  kLock,          // CommitRequest, KeyPart...   -> kAck, or kReply with the bases or a refusal
  kValidate,      // CommitRequest, KeyPart...   -> kAck, or kReply with a refusal
  kReplicate,     // CommitRequest, KeyPart...   -> kAck
  kUnlock,        // CommitRequest, KeyPart...   -> kAck
  kReply,         // PhaseReply, bases
  kDone,          // TxnCompleteNotice...: these, and those before them in their slots, are finished: truncate
  kRecovery,      // RecoveryHeader, KeyPart...: into a new view (recovery_types.h)
  kTransfer,      // TransferHeader, ...: copies of a partition for a replica that is catching up (state_transfer.h)
  kControl,       // for the node's agent: leases
  kOutcomeQuery,  // OutcomeQuery: the outcome of a transaction   -> kOutcomeReply
  kOutcomeReply,
  kScan,      // ScanHeader, ...: keys of a partition, for scans (key_scans.h)
  kRingRead,  // RingRead: how far the sender has read the ring that the receiver writes (log_ring.h)
  kUnlocked,  // TxnCompleteNotice...: what the sender has unlocked; replaces as many acks (passive acknowledgement)
  kAck,       // PhaseAck...: phases that the sender has done as asked
  kPiece,     // PieceHeader, bytes: a part of a kLock, kValidate, kReplicate or kUnlock of a large commit (piece.h)
  kExecute,   // CommitRequest, KeyPart...: all that a procedure reads and may write there   -> kExecuted
  kExecuted,  // ExecutedReply, (ExecutedKey, value)...
  kShip,      // CommitRequest, ShipHeader, arguments, (ShippedValue, value)...: execute this procedure   -> kShipped
  kShipped,   // ShippedReply, reply, KeyPart...
  kReplicateFor,  // the coordinator's node, then as kReplicate: from who executed its procedure   -> kAck to it
  kScanRange,     // ScanRequest, its two bounds: a page of a range   -> kScanned
  kScanned,       // ScanReply, items (scan_page.h)
  kCheckScans,    // the bytes of (ScanCheckHead, two bounds)..., these, then as kValidate, also without keys
};

enum GetFlags : uint8_t {
  kGetSingle = 1,  // has no commit phase: refuse locked keys
  kGetLocks = 2,   // lock the key for update (rows that lock while reading)
  kGetWhere = 4,   // the answer says where the record is
  kGetRoom = 8,    // says how much of the value the answer may bring
};

// How much of a value an answer may bring if the request does not say. More is asked for when it is known to be there.
constexpr uint32_t default_get_room(const Limits& limits) {
  return std::clamp(limits.credit_bytes / 32, uint32_t{64}, uint32_t{2048});
}

// A lock that is taken while reading has room for a value of so many bytes; for a longer one it is taken again.
inline constexpr uint32_t kHeldRoom = 2048;

// A read of one key. All of it is in the tag, but for:
//   | sequence, if it locks | table, if it is not below kTablesInTag | room (32) and head (1), if kGetRoom | key |
struct GetRequest {
  uint8_t slot = 0;
  uint8_t flags = 0;   // GetFlags
  uint16_t entry = 0;  // of the key in the transaction, below 4,096
  uint16_t table = 0;
  uint64_t sequence = 0;  // of the transaction, if it locks
  uint32_t room = 0;      // kGetRoom: bytes of a value; of a longer one the answer says the length
  bool head = false;      // kGetRoom: and brings the beginning

  static constexpr uint16_t kTablesInTag = 255;
  uint32_t tag() const {
    const uint32_t in_tag = table < kTablesInTag ? table : kTablesInTag;
    return slot | uint32_t{flags} << 8 | uint32_t{entry} << 12 | in_tag << 24;
  }
  size_t bytes() const {
    return ((flags & kGetLocks) != 0 ? sizeof(uint64_t) : 0) + (table < kTablesInTag ? 0 : sizeof(uint64_t)) +
           ((flags & kGetRoom) != 0 ? sizeof(uint64_t) : 0);
  }
  // Returns the end.
  std::byte* put(std::byte* to) const {
    if ((flags & kGetLocks) != 0) {
      store(to, sequence);
      to += sizeof(uint64_t);
    }
    if (table >= kTablesInTag) {
      store(to, uint64_t{table});
      to += sizeof(uint64_t);
    }
    if ((flags & kGetRoom) == 0) return to;
    store(to, uint64_t{head} << 32 | room);
    return to + sizeof(uint64_t);
  }
  // Returns false if it does not parse. The key is what remains of the body.
  static bool take(uint32_t tag, ByteView body, GetRequest* out, ByteView* key) {
    *out = {static_cast<uint8_t>(tag),
            static_cast<uint8_t>(tag >> 8 & 15U),
            static_cast<uint16_t>(tag >> 12 & 0xfffU),
            static_cast<uint16_t>(tag >> 24),
            0,
            0,
            false};
    const size_t bytes = out->bytes();
    if (body.size() < bytes) return false;
    const std::byte* at = body.data();
    if ((out->flags & kGetLocks) != 0) {
      out->sequence = load<uint64_t>(at);
      at += sizeof(uint64_t);
    }
    if (out->table == kTablesInTag) {
      out->table = static_cast<uint16_t>(load<uint64_t>(at));
      at += sizeof(uint64_t);
    }
    if ((out->flags & kGetRoom) != 0) {
      const auto word = load<uint64_t>(at);
      out->room = static_cast<uint32_t>(word);
      out->head = word >> 32 != 0;
    }
    *key = body.subspan(bytes);
    return true;
  }
};

// What a peer may answer: why a transaction does not go on. The codes after these are of configurations and files.
constexpr bool is_answer(Code code) { return code <= Code::kPeerLost; }

// The answer. Its body: | word | GetWhere, if has_where | length, if cut | value, as much as remains |
struct GetReply {
  uint8_t slot = 0;
  Code code = Code::kOk;
  uint16_t entry = 0;
  bool found = false;
  bool has_where = false;
  bool cut = false;     // the value is longer than what the request had room for
  uint64_t word = 0;    // of the record, or of its absence; if code is kLocked: of its holder
  uint64_t length = 0;  // of the value, if it is cut

  uint32_t tag() const {
    return slot | static_cast<uint32_t>(code) << 8 | uint32_t{entry} << 16 | uint32_t{found} << 28 |
           uint32_t{has_where} << 29 | uint32_t{cut} << 30;
  }
  size_t bytes() const { return sizeof word + (has_where ? kWhereBytes : 0) + (cut ? sizeof length : 0); }
  static constexpr size_t kWhereBytes = 24;
  static bool take(uint32_t tag, ByteView body, GetReply* out) {
    *out = {static_cast<uint8_t>(tag),
            static_cast<Code>(tag >> 8 & 0xffU),
            static_cast<uint16_t>(tag >> 16 & 0xfffU),
            (tag >> 28 & 1U) != 0,
            (tag >> 29 & 1U) != 0,
            (tag >> 30 & 1U) != 0,
            0,
            0};
    if (body.size() < out->bytes() || !is_answer(out->code)) return false;
    out->word = load<uint64_t>(body.data());
    if (out->cut) out->length = load<uint64_t>(body.data() + out->bytes() - sizeof out->length);
    return !out->cut || (out->found && out->length <= UINT32_MAX);
  }
};

// For one-sided READs by the node that asked. A hint: what is read there shows whether it is right.
struct GetWhere {
  uint64_t record;  // RecordSlot, 0: absent
  uint64_t index;   // of the table's index in its region
  uint64_t bins;
};
static_assert(sizeof(GetWhere) == GetReply::kWhereBytes);

// What a transaction's row means for its participants.
enum CommitFlags : uint8_t {
  kUnanimous = 1,       // all locks together commit it
  kRefusalIsFinal = 2,  // a participant that refuses it, or aborts it, knows that it will never commit
  kPiggybackAck = 4,    // kUnlock of a commit: acknowledged by a notice
  kCommits = 8,         // kUnlock: of a commit, not of an abort
};
inline constexpr uint8_t kCommitFlagsMax = kUnanimous | kRefusalIsFinal | kPiggybackAck | kCommits;

// Starts every commit message. One message per transaction, phase and node (rule K1). It contains enough for a
// participant's record to tell recovery which transaction it belongs to and who else takes part. Slot and flags are in
// the tag, and in clusters of up to kNodesInTag nodes the participants as well. The body:
//
//   0            6        8
//   | sequence   | writes | participants, if not in the tag | KeyPart...
//
struct CommitRequest {
  NodeId coordinator;
  uint8_t slot = 0;     // the coordinator's
  uint8_t flags = 0;    // CommitFlags
  uint16_t writes = 0;  // written keys of the whole transaction
  uint64_t sequence = 0;
  NodeSet participants;

  static constexpr int kNodesInTag = 16;
  static constexpr uint64_t kSequenceMax = (uint64_t{1} << 48) - 1;
  static constexpr size_t bytes(int nodes) { return nodes <= kNodesInTag ? 8 : 16; }

  bool commits() const { return (flags & kCommits) != 0; }
  uint32_t tag(int nodes) const {
    const uint32_t in_tag = nodes <= kNodesInTag ? static_cast<uint32_t>(participants.bits()) << 16 : 0;
    return slot | uint32_t{flags} << 8 | in_tag;
  }
  // Returns the end.
  std::byte* put(std::byte* to, int nodes) const {
    store(to, sequence | uint64_t{writes} << 48);
    if (nodes <= kNodesInTag) return to + 8;
    store(to + 8, participants.bits());
    return to + 16;
  }
  // The body has at least bytes(nodes).
  static CommitRequest of(NodeId coordinator, uint32_t tag, const std::byte* body, int nodes) {
    const auto word = load<uint64_t>(body);
    const uint64_t participants = nodes <= kNodesInTag ? tag >> 16 : load<uint64_t>(body + 8);
    return {coordinator,
            static_cast<uint8_t>(tag),
            static_cast<uint8_t>(tag >> 8),
            static_cast<uint16_t>(word >> 48),
            word & kSequenceMax,
            NodeSet::from_bits(participants)};
  }
};

enum KeyFlags : uint8_t {
  kHasVersion = 1,  // kLock: the version that was read
  kHasValue = 2,
  kHeld = 4,            // kLock: was locked while reading; this says what the lock is for
  kByVerb = 8,          // kReplicate, to the primary: it was locked by a verb
  kOrdered = 16,        // kReplicate: applied on arrival although other writes are deferred, see `predecessor_delta`
  kDeferred = 32,       // kReplicate: a backup applies it when the transaction is finished
  kWantsReplaced = 64,  // kLock of an erase: the answer says which version of the record it replaces
  kBlind = 128,         // kExecute: will be written without being read, so the answer brings no value
};

// One key of a message (key_part.h has its bytes).
struct KeyPart {
  uint64_t version;  // kLock, kValidate: as read; kReplicate: the new one
  uint32_t key_bytes;
  uint32_t value_bytes;  // of the new value, also if it does not follow
  uint16_t table;
  uint16_t index;  // of the key in the transaction
  uint8_t write;   // Write
  uint8_t flags;
  uint32_t predecessor_delta;  // kOrdered: how far its version is above the one that it replaces; 0: it replaces none
};

// The answer to a phase that is more than an ack; the tag is the slot.
struct PhaseReply {
  uint32_t sequence;  // low bits of the transaction's
  uint8_t phase;      // Phase
  uint8_t code;       // Code
  uint16_t index;     // the key that failed
  uint16_t bases;     // kLock: versions that follow, in the order of the request's keys; 0: as the request named them
  uint16_t erased;    // kLock: number of further versions that follow: of the records that its erases replace
                      // (kWantsReplaced)
  uint32_t holder;    // Owner, if code is kLocked
};
static_assert(sizeof(PhaseReply) == 16);

// One of the acks of a kAck message: the phase was done as asked.
struct PhaseAck {
  uint8_t slot;
  uint8_t phase;      // Phase
  uint16_t sequence;  // low bits of the transaction's
};
static_assert(sizeof(PhaseAck) == 4);

// The answer to kExecute; the tag is the slot. For each key of the request, in its order, an ExecutedKey and its value
// follow; nothing if it was refused.
struct ExecutedReply {
  uint32_t sequence;  // low bits of the transaction's
  uint8_t code;       // Code
  uint8_t unused;
  uint16_t index;   // the key that was refused
  uint32_t holder;  // Owner, if code is kLocked
  uint32_t keys;
};
static_assert(sizeof(ExecutedReply) == 16);

struct ExecutedKey {
  uint64_t version;      // of the record, or of its absence
  uint32_t bytes;        // of the value that follows
  uint32_t length : 30;  // of the whole value; if it is more than `bytes`, nothing follows
  uint32_t found : 1;
  uint32_t torn : 1;  // another transaction was writing it
};
static_assert(sizeof(ExecutedKey) == 16);

// How much of each value the answer to a kExecute of this many keys may bring.
constexpr uint32_t executed_room(const Limits& limits, size_t keys) {
  const uint32_t room = default_get_room(limits);
  return keys <= 8 ? room : std::max(static_cast<uint32_t>(room * 8 / keys), uint32_t{64});
}

// Asks a node to execute a procedure: it is the primary of those of its keys that the coordinator does not hold. The
// arguments follow, padded, and then the coordinator's keys, which are locked: their values as they are there.
struct ShipHeader {
  uint64_t keys;  // ProcedureKeys::digest of those that the procedure has named there
  uint16_t procedure;
  uint16_t values;
  uint16_t argument_bytes;
  uint16_t waits;  // 1: it may wait there for a lock (H9)
};
static_assert(sizeof(ShipHeader) == 16);

struct ShippedValue {
  uint64_t version;
  uint32_t index;       // of the key in the transaction
  uint32_t bytes : 31;  // of the value that follows
  uint32_t found : 1;
};
static_assert(sizeof(ShippedValue) == 16);

// The answer; the tag is the slot. The reply follows, padded, and then, if there are keys, what the coordinator's node
// logs of the transaction: a CommitRequest and its keys. A refusal has neither.
struct ShippedReply {
  uint32_t sequence;  // low bits of the transaction's
  uint8_t code;       // Code
  uint8_t holds;      // locks at the executor, which the coordinator has to release
  uint16_t index;     // the key that was refused
  uint32_t holder;    // Owner, if code is kLocked
  uint16_t writes;    // of the whole transaction
  uint16_t keys;
  uint32_t reply_bytes;
  uint32_t unused;
  NodeSet logged;  // the nodes that acknowledge to the coordinator
};
static_assert(sizeof(ShippedReply) == 32);

// Longer ones are not shipped: of each message about them, without the packet's headers.
inline constexpr uint32_t kShipBytesMax = 4096;

// Asks for what a range has from its beginning on; the tag is the slot. The bounds follow, each padded.
struct ScanRequest {
  uint32_t sequence;  // low bits of the transaction's
  uint16_t scan;      // its index in the transaction
  uint16_t table;
  uint32_t items_max;
  uint32_t room;  // bytes of items that the answer may bring
  uint32_t from_bytes;
  uint32_t to_bytes : 31;
  uint32_t backward : 1;
};
static_assert(sizeof(ScanRequest) == 24);

// The answer; the tag is the slot. A refusal has no items.
struct ScanReply {
  uint64_t erases;  // Table::erases() of the partition before the first item was read
  uint64_t needed;  // the first item takes so many bytes, more than there was room for; 0: it does not
  uint32_t sequence;
  uint16_t scan;
  uint8_t code;  // Code
  uint8_t more;  // there may be more in the range
  uint32_t items;
  uint32_t holder;  // Owner, if code is kLocked
};
static_assert(sizeof(ScanReply) == 32);

// A scan as its partition's primary checks it (ScanCheck in scan_page.h).
struct ScanCheckHead {
  uint64_t digest[2];
  uint64_t erases;
  uint32_t items;
  uint16_t table;
  uint16_t scan;
  uint32_t from_bytes;
  uint32_t to_bytes : 31;
  uint32_t has_erases : 1;
};
static_assert(sizeof(ScanCheckHead) == 40);

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
