// Participant: this worker's part in the commits of other nodes' workers of the same index, and of its own. It locks,
// validates, applies and unlocks what messages name, and keeps a record of each transaction (prepared_table.h) from its
// first commit message until the coordinator says that all participants have acknowledged (rule K4). Messages say what
// to do, key by key: it knows no protocol's row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/inline.h"
#include "weft/txn/backup_writes.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/notices.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/protocol.h"

namespace weft {

class LogReceiver;

// What a phase of a commit asks of a participant, beside its keys.
struct PhaseRequest {
  NodeId coordinator;
  uint8_t slot = 0;     // the coordinator's
  uint8_t flags = 0;    // CommitFlags
  bool commit = false;  // of an unlock: commit or abort
  uint8_t writes = 0;   // written keys of the whole transaction
  uint64_t sequence = 0;
  uint64_t participants = 0;

  static PhaseRequest of(const Message& message) {
    const auto in = load<CommitRequest>(message.body.data());
    return {message.source, static_cast<uint8_t>(message.tag), in.flags, in.commit != 0, in.writes, in.sequence,
            in.participants};
  }
};

// The answer to it. `versions`, of a lock: each key's base, and then of each erase that wants it the version of the
// record that it replaces; empty if every base is the version that the request named. Valid until the next call of the
// participant.
struct PhaseResult {
  Code code = Code::kOk;
  uint8_t index = 0;  // the key that was refused
  Owner holder;
  std::span<const uint64_t> versions;
  size_t erased = 0;  // how many of the versions are of replaced records
};

class Participant {
 public:
  // `marks_readable`: backups hide what they apply until the transaction is finished (RowSet::marks_readable).
  Participant(WorkerContext& ctx, PreparedTable& records, OutcomeLog& outcomes, bool marks_readable);
  void set_log(LogReceiver* log) { log_ = log; }  // where writes wait for the ones they follow

  // The phases of a commit. Each returns false if no correct coordinator asks for it; nothing has happened then. A lock
  // or a validation that is refused has a result that says so.
  [[nodiscard]] bool lock(const PhaseRequest& request, std::span<const KeyRef> keys, PhaseResult* result);
  PhaseResult validate(const PhaseRequest& request, std::span<const KeyRef> keys);
  [[nodiscard]] bool replicate(const PhaseRequest& request, std::span<const KeyRef> keys);
  [[nodiscard]] bool unlock(const PhaseRequest& request, std::span<const KeyRef> keys);

  // The same, by messages.
  void on_lock(const Batch& batch, std::span<const Message> run);
  void on_validate(const Batch& batch, std::span<const Message> run);
  void on_replicate(const Batch& batch, std::span<const Message> run);
  void on_unlock(const Batch& batch, std::span<const Message> run);
  void on_done(const Batch& batch, std::span<const Message> run);

  // Log entries come by message or out of a ring; those from a ring get no reply.
  enum class Origin : uint8_t { kMessage, kRing };
  void take_entry(const Batch& batch, const Message& message, Origin origin);

  // Recovery has decided a transaction: applies the decision to its record, and leaves the record in place. `decided`:
  // the keys that came with the decision.
  void commit_record(PreparedTxn& record, Owner owner, const PreparedKeys* decided);
  void abort_record(PreparedTxn& record, Owner owner);
  // Records how a transaction ended, for outcome queries.
  WEFT_INLINE void note_outcome(uint32_t incarnation, uint64_t sequence, bool committed) {
    outcomes_.note(incarnation, sequence, committed, ctx_.now_ns());
  }
  // The abort is now known to have reached every participant that had locked, or their records are decided.
  void note_aborted(PreparedTxn& record);

  // All participants have acknowledged the commit: truncates the record.
  void finish_record(PreparedTxn& record);

  bool send_notices() {
    return !unlock_acks_.empty() && unlock_acks_.send(false, [](const TxnCompleteNotice&) {});
  }
  bool has_notices() const { return !unlock_acks_.empty(); }
  uint64_t deadline_ns() const { return unlock_acks_.deadline_ns(); }
  // The view ends.
  void drop_notices() { unlock_acks_.clear(); }

 private:
  Owner owner_of(const PhaseRequest& request) const { return Owner(request.coordinator, ctx_.id, request.slot); }
  PreparedTxn* open_record(const PhaseRequest& request);
  void reply(const Message& message, Phase phase, const PhaseResult& result);
  void acknowledge(const Message& message, Phase phase);  // replies that it is done
  PhaseResult lock_keys(const PhaseRequest& request, PreparedTxn& record, std::span<const KeyRef> keys);
  bool relock_held(PreparedTxn& record, const KeyRef& ref, Owner owner, LockResult* result);
  static void release_part(PreparedKeys* part, size_t keys, Owner owner);
  void commit_key(const PreparedTxn& record, PreparedKey& key, Owner owner, std::span<const KeyRef> carried);

  WorkerContext& ctx_;
  PreparedTable& records_;
  OutcomeLog& outcomes_;
  BackupWrites backup_;
  LogReceiver* log_ = nullptr;
  NoticeQueue unlock_acks_;
  std::vector<uint64_t> versions_;  // of the last lock
};

}  // namespace weft
