#include "weft/txn/recovery_reporter.h"

#include <span>

#include "weft/base/check.h"
#include "weft/txn/key_part.h"

namespace weft {

void RecoveryReporter::note_coordinated(const TxnSlot& slot) {
  WEFT_CHECK(slot.stage != TxnStage::kFree, "a slot that is free has no transaction");
  for (const CoordinatedTxn& own : coordinated_) {
    if (own.slot == slot.index) return;
  }
  Ending ending = Ending::kAbort;
  if (slot.stage == TxnStage::kFinished) {
    if (slot.notices_pending == 0) return;  // it did not commit, or all participants know
    ending = Ending::kCommit;
  } else if (slot.stage == TxnStage::kCommitting) {
    ending = slot.phase == Phase::kUnlock || slot.acknowledged ? Ending::kCommit : Ending::kOpen;
  }
  coordinated_.push_back({slot.sequence, slot.index, slot.unanimous, ending});
}

RecoveryReporter::Sent RecoveryReporter::send() {
  WEFT_CHECK(coordinated_.size() <= slots_.size(), "each slot is noted once");
  const size_t records = static_cast<size_t>(ctx_.nodes) * static_cast<size_t>(records_.slots());
  const bool forgets = ctx_.bugs.has(PlantedBug::kForgetsDecisions) || ctx_.bugs.has(PlantedBug::kNotWritten);
  const size_t decisions = forgets ? 0 : decisions_.all().size();
  Sent sent;
  while (next_ < records + coordinated_.size() + decisions) {
    if (host_->queued_bytes(leader()) > ctx_.limits.credit_bytes / 2) return sent;
    const size_t i = next_++;
    sent.some = true;
    if (i < records) {
      const auto slots = static_cast<size_t>(records_.slots());
      send_record(NodeId(static_cast<uint8_t>(i / slots)), static_cast<uint8_t>(i % slots));
    } else if (i - records < coordinated_.size()) {
      send_coordinated(coordinated_[i - records]);
    } else {
      send_decision(decisions_.all()[i - records - coordinated_.size()]);
    }
  }
  host_->send(leader(), recovery_header(RecoveryStep::kReported, ctx_.view().epoch), {});
  return {true, true};
}

// Includes the writes of a committed transaction: for some keys the coordinator may be the only one left that has them
// (rule K2 counts it).
void RecoveryReporter::send_coordinated(const CoordinatedTxn& own) {
  WEFT_CHECK(own.slot < slots_.size(), "what was noted has a slot");
  const TxnSlot& slot = slots_.at(own.slot);
  RecoveryHeader header = recovery_header(RecoveryStep::kSlot, ctx_.view().epoch);
  header.coordinator = ctx_.self.value;
  header.slot = own.slot;
  header.set_sequence(own.sequence);
  header.incarnation = ctx_.views.incarnation();
  header.unanimous = own.unanimous ? 1 : 0;
  header.ending = static_cast<uint8_t>(own.ending);
  bytes_.clear();
  const bool same = slot.in_phases() && slot.sequence == own.sequence;
  for (uint16_t i = 0; same && i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.write == Write::kNone || own.ending != Ending::kCommit) continue;
    KeyPart out{};
    out.version = e.base.value + 1;
    out.value_bytes = e.new_bytes;
    out.table = e.table_id.value;
    out.key_bytes = static_cast<uint32_t>(e.key.bytes.size());
    out.write = static_cast<uint8_t>(e.write);
    out.index = i;
    const bool erase = e.write == Write::kErase;
    if (!erase) out.flags |= kHasValue;
    append_key(bytes_, out, e.key.bytes, erase ? ByteView() : ByteView(e.new_value, e.new_bytes));
    ++header.keys;
  }
  host_->send(leader(), header, bytes_);
}

void RecoveryReporter::send_record(NodeId coordinator, uint8_t slot) {
  const PreparedTxn& record = records_.at(coordinator, slot);
  if (record.finished != 0) {
    RecoveryHeader header = recovery_header(RecoveryStep::kFinished, ctx_.view().epoch);
    header.coordinator = coordinator.value;
    header.slot = slot;
    header.set_sequence(record.finished);
    header.incarnation = record.finished_incarnation;
    header.ending = static_cast<uint8_t>(record.finished_commit ? Ending::kCommit : Ending::kAbort);
    host_->send(leader(), header, {});
  }
  if (record.state == 0) return;
  RecoveryHeader header = recovery_header(RecoveryStep::kRecord, ctx_.view().epoch);
  header.coordinator = coordinator.value;
  header.slot = slot;
  header.set_sequence(record.sequence);
  header.participants = record.participants;
  header.incarnation = record.incarnation;
  header.state = record.state;
  header.unanimous = record.unanimous ? 1 : 0;
  header.writes = record.writes;
  host_->send(leader(), header, {});
  for (const PreparedKeys* part = record.locked; part != nullptr; part = part->next) {
    send_part(header, part, Versions::kOfLocks);
  }
  for (const PreparedKeys* part = record.applied; part != nullptr; part = part->next) {
    send_part(header, part, Versions::kOfWrites);
  }
}

void RecoveryReporter::send_decision(const Decision& decision) {
  RecoveryHeader header = recovery_header(RecoveryStep::kDecided, ctx_.view().epoch);
  header.coordinator = decision.coordinator.value;
  header.slot = decision.slot;
  header.set_sequence(decision.sequence);
  header.incarnation = decision.incarnation;
  header.decided_epoch = decision.epoch;
  header.ending = static_cast<uint8_t>(decision.commit ? Ending::kCommit : Ending::kAbort);
  send_part(header, decision.keys, Versions::kOfWrites);
}

void RecoveryReporter::send_part(RecoveryHeader header, const PreparedKeys* part, Versions versions) {
  bytes_.clear();
  header.keys = 0;
  for (const PreparedKey& key : part == nullptr ? std::span<const PreparedKey>() : part->all()) {
    if (key.write == Write::kNone || key.table == nullptr) continue;
    KeyPart out{};
    out.version = versions == Versions::kOfLocks ? key.locked.base.value + 1 : key.version.value;
    out.value_bytes = static_cast<uint32_t>(key.value.size());
    out.table = key.table_id.value;
    out.key_bytes = static_cast<uint32_t>(key.key.bytes.size());
    out.write = static_cast<uint8_t>(key.write);
    out.index = key.index;
    if (key.has(kHasValue)) out.flags |= kHasValue;
    append_key(bytes_, out, key.key.bytes, key.has(kHasValue) ? key.value : ByteView());
    ++header.keys;
  }
  host_->send(leader(), header, bytes_);
}

}  // namespace weft
