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
#include "weft/txn/ack_queue.h"
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
class ShipServer;

// What a participant answers to a phase. `versions`, of a lock: each key's base, and then of each erase that wants it
// the version of the record that it replaces; empty if every base is the version that the request named. Valid until
// the next call of the participant.
struct PhaseResult {
  Code code = Code::kOk;
  uint16_t index = 0;  // the key that was refused
  Owner holder;
  std::span<const uint64_t> versions;
  size_t erased = 0;  // how many of the versions are of replaced records
};

class Participant {
 public:
  // `marks_readable`: backups hide what they apply until the transaction is finished (RowSet::marks_readable).
  Participant(WorkerContext& ctx, PreparedTable& records, OutcomeLog& outcomes, bool marks_readable);
  void set_log(LogReceiver* log) { log_ = log; }  // where writes wait for the ones they follow

  void set_ship_server(ShipServer* server) { ship_server_ = server; }  // whose executions commits end here

  // The phases of a commit. Each returns false if no correct coordinator asks for it; nothing has happened then. A lock
  // or a validation that is refused has a result that says so. A part belongs to the participant from then on.
  [[nodiscard]] bool lock(const CommitRequest& request, const PreparedTable::NewPart& part, PhaseResult* result);
  PhaseResult validate(const CommitRequest& request, std::span<const KeyRef> keys);
  [[nodiscard]] bool replicate(const CommitRequest& request, const PreparedTable::NewPart& part);
  [[nodiscard]] bool unlock(const CommitRequest& request, std::span<const KeyRef> keys);

  // The same for messages of which a little is done at a time (piece_receiver.h). begin_replicate and begin_unlock
  // return nullptr if no correct coordinator asks for it; a replicate's part is gone then. From begin to end no other
  // message may be about the record.
  PreparedTxn* begin_replicate(const CommitRequest& request, PreparedKeys* part);
  // `role` is that of role_of() when the message arrived: the view may have changed since.
  void replicate_key(PreparedTxn& record, PreparedKey& key, uint8_t role, std::span<std::byte>* room);
  uint8_t role_of(const KeyRef& key) const { return backup_.role_of(key); }
  void end_replicate(const CommitRequest& request, PreparedTxn& record, bool answers);
  PreparedTxn* begin_unlock(const CommitRequest& request);  // that commits
  void unlock_key(const PreparedTxn& record, PreparedKey& key, const CommitRequest& request,
                  std::span<const KeyRef> carried);
  void end_unlock(const CommitRequest& request, PreparedTxn& record, bool answers);
  void answer(const CommitRequest& request, Phase phase, const PhaseResult& result);

  // Whether the transaction, or a later one of its slot, has locked or logged here.
  bool has_had(const CommitRequest& request) const {
    const PreparedTxn& record = records_.at(request.coordinator, request.slot);
    const uint32_t incarnation = ctx_.views.incarnation_of(request.coordinator);
    if (record.state != 0) return record.incarnation == incarnation && record.sequence >= request.sequence;
    return record.was_finished(incarnation, request.sequence);
  }
  PreparedTable::NewPart gather(std::span<const KeyRef> keys) { return records_.gather_part(keys); }

  // The same, by messages.
  void on_lock(const Batch& batch, std::span<const Message> run);
  void on_validate(const Batch& batch, std::span<const Message> run);
  void on_replicate(const Batch& batch, std::span<const Message> run);
  // From who has executed the procedure of the coordinator that the message names.
  void on_replicate_for(const Batch& batch, std::span<const Message> run);
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
  void drop_notices() {
    unlock_acks_.clear();
    acks_.clear();
  }
  // Sends the acks of this step.
  void flush() { acks_.flush(); }
  bool has_acks() const { return !acks_.empty(); }

 private:
  CommitRequest request_of(const Message& message) const {
    return CommitRequest::of(message.source, message.tag, message.body.data(), ctx_.nodes);
  }
  Owner owner_of(const CommitRequest& request) const { return ctx_.owner(request.coordinator, request.slot); }
  void take(const Batch& batch, const Message& message, Origin origin);
  void finish(PreparedTxn& record);
  static bool is_locked(const PreparedTxn& record, const CommitRequest& request) {
    return record.sequence == request.sequence && record.locked != nullptr && (record.state & kCommitted) == 0 &&
           !record.in_progress;
  }
  void acknowledge_unlock(const CommitRequest& request);
  PreparedTxn* open_record(const CommitRequest& request) { return open_record(request, request.coordinator); }
  PreparedTxn* open_record(const CommitRequest& request, NodeId sender);
  bool log(PreparedTxn* record, const PreparedTable::NewPart& part);
  void reply(const CommitRequest& request, Phase phase, const PhaseResult& result);
  // Replies that it is done.
  WEFT_INLINE void acknowledge(const CommitRequest& request, Phase phase) {
    acks_.add(request.coordinator,
              {request.slot, static_cast<uint8_t>(phase), static_cast<uint16_t>(request.sequence)});
  }
  PhaseResult lock_keys(const CommitRequest& request, PreparedTxn& record, PreparedKeys* part);
  static bool relock_held(PreparedTxn& record, const KeyRef& ref, Owner owner, LockResult* result);
  static void release_part(PreparedKeys* part, size_t keys, Owner owner);
  void commit_key(const PreparedTxn& record, PreparedKey& key, Owner owner, std::span<const KeyRef> carried);

  WorkerContext& ctx_;
  PreparedTable& records_;
  OutcomeLog& outcomes_;
  BackupWrites backup_;
  LogReceiver* log_ = nullptr;
  ShipServer* ship_server_ = nullptr;
  AckQueue acks_;
  NoticeQueue unlock_acks_;
  std::vector<uint64_t> versions_;  // of the last lock
};

}  // namespace weft
