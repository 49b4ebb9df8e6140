// TxnSlot: everything a worker keeps of one transaction: what the application read and wrote (Dandelion's TxCache), and
// how far its commit has come. Slots belong to the worker, never to the application's coroutine: a Txn is only a
// handle, and the worker finishes a slot by itself if the application goes away.
//
// A slot's life, stage by stage (TxnStage): free, executing, perhaps waiting for reads or credit, committing or
// aborting, finished, free. It is free again when the application has dropped its handle, every answer has come, and
// every TxnCompleteNotice of its own has left (truncation.h).
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/member/view.h"
#include "weft/store/table.h"
#include "weft/txn.h"
#include "weft/txn/protocol.h"

namespace weft {

class TxnWorker;
struct TxnScan;

// What the first write of a key requires of its state before: insert that it is absent, erase that it is present.
enum class Precondition : uint8_t { kNothing, kAbsent, kPresent };

// One key of a transaction. Until commit, `write` is the intended final state of the key (kPut or kErase); the plan
// combines it with the precondition into what is to be done.
struct Entry {
  HashedKey key;             // its bytes are here, or of a byte string in the slot's arena
  uint64_t integer_key = 0;  // of a table with integer keys
  uint64_t narrow_head = 0;  // of its part in messages, if its table, index and size allow a narrow one (key_part.h)
  Table* table = nullptr;
  const Placement* placement = nullptr;
  TableId table_id;
  Write write = Write::kNone;
  Precondition precondition = Precondition::kNothing;
  bool read = false;  // a get was started
  bool done = false;  // it has an answer, or needed none
  bool found = false;
  bool newest = false;    // rule G7: nobody was told of a newer version when this node's replica was read
  bool locks = false;     // the get locks the key at its primary
  bool locked = false;    // it has locked it, and the lock is still held
  Code code = Code::kOk;  // why the get failed
  Version version;        // as read: of the record, or of its absence
  Version base;           // as locked: the new version is base + 1
  Version replaced;       // of a locked erase: the record's version
  std::byte* value = nullptr;
  uint32_t value_bytes = 0;   // of what is here; until its get is answered: what that has room for
  uint32_t value_length = 0;  // of the whole value: `value` may be its beginning only
  const std::byte* new_value = nullptr;
  uint32_t new_bytes = 0;
  uint32_t credit = 0;       // held for the get in flight
  RecordSlot where;          // the record at its primary, if a get has found it
  uint8_t by_verb = 0;       // of the plan, bit p: phase p of this key goes to its primary by verbs
  bool verb_locked = false;  // a verb has locked it, and the lock is still held
  uint8_t flags = 0;         // of the plan: KeyFlags of its lock and replicate messages
  bool head = false;         // the beginning of the value is enough
  bool partial = false;      // `value` is the beginning of a longer one
  bool unvalidated = false;  // it is neither validated nor locked (Intent::kHint)
  // Of a stored procedure (procedure.h).
  bool announced = false;  // as a key to be read, by `intent`, which has not begun
  bool may_write = false;
  bool asked = false;  // its value was asked for with all keys of its primary (execute_at_once.h)
  Intent intent = Intent::kRead;
  // The plan of the commit: by phase, the nodes where this key is part of what goes there (by message, or into a ring).
  std::array<NodeSet, kPhases> at{};
};

// One phase of a commit: the nodes it is sent to, and those whose answers it awaits. A backup may answer for a primary.
struct PlanStep {
  NodeSet send_to;
  NodeSet await_from;
};

// How far a transaction has come. While it commits or aborts, TxnSlot::phase says which messages are in flight.
enum class TxnStage : uint8_t {
  kFree,
  kExecuting,       // the application reads and writes
  kDraining,        // given up; reads are in flight
  kAwaitingReads,   // commit() was called; reads are in flight
  kAwaitingCredit,  // planned; has sent nothing
  kAwaitingBatch,   // planned; involves only this node, and commits in the worker's next batch
  kCommitting,      // commits, unless a phase fails
  kAborting,        // will not commit: its last phase's answers are awaited, then its locks are released
  kFinished,        // has an outcome; its notices, or its application, may still need the slot
};

// The stages that may follow each stage, as bits.
constexpr uint16_t stages_after(TxnStage stage) {
  using enum TxnStage;
  const auto set = [](auto... next) { return static_cast<uint16_t>((0U | ... | (1U << static_cast<int>(next)))); };
  switch (stage) {
    case kFree:
      return set(kExecuting);
    case kExecuting:
      return set(kDraining, kAwaitingReads, kAwaitingCredit, kAwaitingBatch, kCommitting, kAborting);
    case kDraining:
      return set(kAborting);
    case kAwaitingReads:
      return set(kDraining, kAwaitingCredit, kAwaitingBatch, kCommitting, kAborting);
    case kAwaitingCredit:
    case kAwaitingBatch:
      return set(kCommitting, kAborting);
    case kCommitting:
      return set(kAborting, kFinished);
    case kAborting:
      return set(kFinished);
    case kFinished:
      return set(kFree);
  }
  return 0;
}
inline constexpr std::array<uint16_t, 9> kStagesAfter = [] {
  std::array<uint16_t, 9> after{};
  for (size_t i = 0; i < after.size(); ++i) after[i] = stages_after(static_cast<TxnStage>(i));
  return after;
}();

struct alignas(64) TxnSlot {
  static constexpr int kInlineEntries = 8;
  static constexpr int kInlineBytes = 768;
  static constexpr uint32_t kKeysMax = 4096;  // messages have 12 bits for the index of a key that is read
  static constexpr int kChunksMax = 64;
  static constexpr int kHotLines = 4;  // what an answer touches; prefetched when it arrives

  // The first cache lines are what every answer reads.
  uint64_t sequence = 0;
  Entry* entries = nullptr;
  std::coroutine_handle<> waiter;
  NodeSet waiting;       // nodes whose answer to the current phase is outstanding
  NodeSet locked_nodes;  // nodes where this transaction holds locks
  NodeSet record_nodes;  // nodes that keep a record of it
  NodeSet participants;
  NodeSet credit_nodes;        // those where it holds credit (commit_credit.h)
  NodeSet catching_up_nodes;   // those of them that are catching up on a partition of a written key
  NodeSet nonvoting_nodes;     // those of these that have no other part in it: they have no vote
  NodeSet executor;            // who executes its procedure and has not answered (shipped_txns.h)
  NodeSet shipped_to;          // who executes or has executed its procedure
  NodeSet early_acks;          // those that have acknowledged before the executor
  NodeSet ring_nodes;          // those of its replication targets whose log is a ring
  uint32_t need_ring = 0;      // upper bound of what the entry takes in each of these
  uint32_t ring_bytes = 0;     // reserved in each, until the entry is written
  uint16_t verbs_pending = 0;  // verb requests (fabric/verb_issuer.h) of the current phase that have not completed
  // Reads. done_upto: all entries below it have their answers.
  uint16_t count = 0;
  uint16_t capacity = kInlineEntries;
  uint16_t done_upto = 0;
  uint16_t reads_pending = 0;
  uint16_t wait_upto = 0;        // the waiter waits until entries 0 .. wait_upto are done
  uint16_t notices_pending = 0;  // TxnCompleteNotices that have not left
  uint8_t index = 0;
  TxnStage stage = TxnStage::kFree;
  Phase phase = Phase::kExecute;
  Phase ack_after = Phase::kUnlock;  // of a commit: acknowledge it after the answers of this phase
  bool attached = false;             // an application holds a Txn
  bool single = false;               // get_one: has no commit phase
  bool has_credit = false;           // it counts as an operation in progress (conflict_avoidance.h)
  bool read_only = false;            // of the plan: it neither writes nor holds locks
  bool unanimous = false;            // of the plan: every replica locks, and all locks together commit it
  bool lock_brings_values = false;   // of the plan: the lock message carries the new values
  uint8_t row = 0;                   // index in the cluster's rows (row_set.h)
  uint8_t flags = 0;                 // of the plan: CommitFlags
  bool in_pieces = false;            // it is large: its commit messages travel in pieces (piece.h)
  bool acknowledged = false;
  bool expired = false;  // nobody waits any more for what is in flight
  bool left = false;     // in commit: its client was answered that the outcome is unknown, and it goes on
  uint16_t writes = 0;
  uint8_t round_trips = 0;
  uint8_t chunks = 0;
  Code rejected = Code::kOk;              // a limit was exceeded: commit answers kRejected
  std::array<PlanStep, kPhases> steps{};  // by phase: all keys' plans together
  ByteView reply;                         // of its procedure, if that was executed elsewhere
  Outcome outcome;
  uint64_t begun_ns = 0;  // by the worker's clock, that of its step
  uint64_t asked_ns = 0;  // when the current phase left for other nodes, if that is measured; else 0
  uint64_t until_ns = 0;  // deadline of its outcome; 0: each wait has a timeout of its own
  uint64_t due_ns = 0;    // when the current wait expires
  NodeSet silent;         // left: nodes that it was waiting for
  uint32_t incarnation = 0;
  uint32_t epoch = 0;        // of the view it began in
  uint32_t bytes_used = 0;   // keys, and values that it writes
  uint32_t bytes_read = 0;   // values that it has read
  uint32_t bytes_taken = 0;  // memory for these, and for what it has overwritten
  uint32_t inline_used = 0;
  uint32_t chunk_left = 0;
  std::byte* chunk_next = nullptr;
  uint16_t last_entry = 0;     // the last one that was looked up
  uint16_t place_mask = 0;     // one less than the number of places
  uint16_t* places = nullptr;  // if there are many entries: a table from hashes to index + 1; 0: none
  TxnScan* scans = nullptr;    // in the order of their beginning (txn_scan.h)
  TxnScan* awaited_scan = nullptr;
  TxnWorker* txn_worker = nullptr;
  OwnerFormat owners{1, kSlotsMax};
  // Of the slot, not of its transaction (truncation.h): the nodes that may still have a record of a finished one, since
  // when the first of these does, and the last finished one.
  NodeSet untruncated;
  uint64_t untruncated_since_ns = 0;
  uint64_t finished_ns = 0;
  uint64_t finished_sequence = 0;
  TxnSlot* next = nullptr;  // in the worker's list of slots that wait for credit

  std::array<Entry, kInlineEntries> inline_entries;
  // Keys and values: bytes come from here, then from blocks of the worker's pool.
  alignas(8) std::array<std::byte, kInlineBytes> bytes;
  // Per node.
  std::array<uint32_t, kNodesMax + 1> credit;  // taken; valid for credit_nodes
  std::array<uint32_t, kNodesMax + 1> need;    // what the commit takes
  struct Chunk {
    std::byte* block;
    uint32_t bytes;
  };
  std::array<Chunk, kChunksMax> chunk;

  Entry& entry(size_t i) { return entries[i]; }
  const Entry& entry(size_t i) const { return entries[i]; }
  TxnId id(WorkerId worker) const { return {incarnation, worker, sequence}; }
  bool phase_over() const { return waiting.empty() && verbs_pending == 0; }
  bool in_phases() const { return stage == TxnStage::kCommitting || stage == TxnStage::kAborting; }
  // Changes the stage, and checks that the change is allowed.
  void enter(TxnStage to) {
    WEFT_CHECK((kStagesAfter[static_cast<size_t>(stage)] >> static_cast<int>(to) & 1U) != 0,
               "a transaction goes from stage to stage as slot.h says");
    stage = to;
  }
};

// An abort that another transaction caused: trying again can help, and trying later helps more.
constexpr bool is_conflict(Code code) { return code == Code::kLocked || code == Code::kVersionMoved; }

// Which limit was exceeded, and by how much.
struct ExceededLimit {
  const char* name = nullptr;
  uint64_t is = 0, asked = 0;
};

// Makes it a transaction without keys, of no stage, row or id.
void clear(TxnSlot& slot);
// Whether others may commit it whatever this node does. A finished commit that waits for a lease to be acknowledged is
// also one of those.
bool others_may_commit(const TxnSlot& slot);
// The transaction will not commit. The first reason is kept.
void fail(TxnSlot& slot, Code code, const Entry* entry, Owner holder);
// The same, because of peers whose channel is closed.
void fail_for_peer(TxnSlot& slot, const Entry* entry, NodeSet nodes);
// The same, because the application asked for what no attempt can get. Returns `code`.
Code reject(TxnSlot& slot, Code code, const Entry* entry, const ExceededLimit& limit);

}  // namespace weft
