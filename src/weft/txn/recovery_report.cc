// What a member tells the leader of a recovery (recovery.h): its records, what it has finished, its own transactions,
// and decisions that were written here before.
#include <cstring>

#include "weft/txn/engine.h"

namespace weft {

void Engine::send_recovery(NodeId to, RecoveryStep step) {
  RecoveryHeader header{};
  header.step = static_cast<uint8_t>(step);
  header.served = served_;
  send_recovery(to, header, {});
}

void Engine::send_recovery(NodeId to, RecoveryHeader header, std::span<const std::byte> keys) {
  header.epoch = view_->epoch.value;
  std::byte* at =
      port_.reserve(to, Flow::kRecovery, static_cast<uint8_t>(Kind::kRecovery), sizeof header + keys.size());
  store(at, header);
  if (!keys.empty()) std::memcpy(at + sizeof header, keys.data(), keys.size());
}

void Engine::add_key(std::vector<std::byte>& to, const KeyPart& part, ByteView key, ByteView value) {
  const size_t at = to.size();
  to.resize(at + sizeof part + padded(key.size()) + padded(value.size()));
  std::byte* bytes = to.data() + at;
  store(bytes, part);
  std::memcpy(bytes + sizeof part, key.data(), key.size());
  if (!value.empty()) std::memcpy(bytes + sizeof part + padded(key.size()), value.data(), value.size());
}

// Sends a little at a time: nobody holds credit for this.
bool Engine::report() {
  const NodeId leader = view_->leader();
  const size_t records = static_cast<size_t>(nodes_) * static_cast<size_t>(log_.slots());
  bool busy = false;
  const bool forgets = bugs_.has(Bug::kForgetsDecisions) || bugs_.has(Bug::kNotWritten);
  const size_t decisions = forgets ? 0 : decisions_.size();
  while (member_.next < records + own_.size() + decisions) {
    if (port_.backlog(leader, Flow::kRecovery) > limits_.credit_bytes / 2) return busy;
    const size_t i = member_.next++;
    busy = true;
    if (i < records) {
      const NodeId coordinator(static_cast<uint8_t>(i / static_cast<size_t>(log_.slots())));
      report_record(coordinator, static_cast<uint8_t>(i % static_cast<size_t>(log_.slots())));
      continue;
    }
    RecoveryHeader header{};
    if (i - records >= own_.size()) {
      const Decision& decision = decisions_[i - records - own_.size()];
      header.step = static_cast<uint8_t>(RecoveryStep::kDecided);
      header.coordinator = decision.coordinator.value;
      header.slot = decision.slot;
      header.sequence = decision.sequence;
      header.sequence_high = decision.sequence_high;
      header.incarnation = decision.incarnation;
      header.decided_epoch = decision.epoch;
      header.ending = static_cast<uint8_t>(decision.commit ? Ending::kCommit : Ending::kAbort);
      send_part(leader, header, decision.keys, false);
      continue;
    }
    const OwnTransaction& own = own_[i - records];
    header.step = static_cast<uint8_t>(RecoveryStep::kSlot);
    header.coordinator = self_.value;
    header.slot = own.slot;
    header.sequence = static_cast<uint32_t>(own.sequence);
    header.sequence_high = static_cast<uint32_t>(own.sequence >> 32);
    header.incarnation = incarnation_;
    header.row = row_index_;
    header.ending = static_cast<uint8_t>(own.ending);
    report_own(header, *slots_[own.slot]);
  }
  send_recovery(leader, RecoveryStep::kReported);
  member_.reported = true;
  return true;
}

// With the writes of what is committed: for some keys the coordinator may be the only one left that has them (rule K2
// counts it).
void Engine::report_own(RecoveryHeader header, const TxnSlot& slot) {
  std::vector<std::byte> bytes;
  const bool same = slot.state == SlotState::kCommitting && static_cast<uint32_t>(slot.sequence) == header.sequence;
  for (uint16_t i = 0; same && i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.write == Write::kNone || static_cast<Ending>(header.ending) != Ending::kCommit) continue;
    KeyPart out{};
    out.version = e.base.value + 1;
    out.value_bytes = e.new_bytes;
    out.table = e.table_id.value;
    out.key_bytes = static_cast<uint16_t>(e.key.bytes.size());
    out.write = static_cast<uint8_t>(e.write);
    out.index = static_cast<uint8_t>(i);
    const bool erase = e.write == Write::kErase;
    if (!erase) out.flags |= kHasValue;
    add_key(bytes, out, e.key.bytes, erase ? ByteView() : ByteView(e.new_value, e.new_bytes));
    ++header.keys;
  }
  send_recovery(view_->leader(), header, bytes);
}

void Engine::report_record(NodeId coordinator, uint8_t slot) {
  const NodeId leader = view_->leader();
  const LogRecord& record = log_.at(coordinator, slot);
  RecoveryHeader header{};
  header.coordinator = coordinator.value;
  header.slot = slot;
  if (record.finished != 0) {
    header.step = static_cast<uint8_t>(RecoveryStep::kFinished);
    header.sequence = record.finished;
    header.incarnation = record.finished_incarnation;
    header.ending = static_cast<uint8_t>(record.finished_commit ? Ending::kCommit : Ending::kAbort);
    send_recovery(leader, header, {});
  }
  if (record.state == 0) return;
  header.step = static_cast<uint8_t>(RecoveryStep::kRecord);
  header.sequence = static_cast<uint32_t>(record.sequence);
  header.sequence_high = static_cast<uint32_t>(record.sequence >> 32);
  header.participants = record.participants;
  header.incarnation = record.incarnation;
  header.state = record.state;
  header.row = record.row;
  header.writes = record.writes;
  header.ending = 0;
  send_recovery(leader, header, {});
  for (const LogPart* part = record.locked; part != nullptr; part = part->next) send_part(leader, header, part, true);
  for (const LogPart* part = record.applied; part != nullptr; part = part->next) send_part(leader, header, part, false);
}

void Engine::send_part(NodeId to, RecoveryHeader header, const LogPart* part, bool locked) {
  std::vector<std::byte> bytes;
  header.keys = 0;
  for (const LogKey& key : part == nullptr ? std::span<const LogKey>() : part->all()) {
    if (key.write == Write::kNone || key.table == nullptr) continue;
    KeyPart out{};
    out.version = locked ? key.locked.base.value + 1 : key.version.value;
    out.value_bytes = static_cast<uint32_t>(key.value.size());
    out.table = key.table_id.value;
    out.key_bytes = static_cast<uint16_t>(key.key.bytes.size());
    out.write = static_cast<uint8_t>(key.write);
    out.index = key.index;
    if (key.has_value) out.flags |= kHasValue;
    add_key(bytes, out, key.key.bytes, key.has_value ? key.value : ByteView());
    ++header.keys;
  }
  send_recovery(to, header, bytes);
}

}  // namespace weft
