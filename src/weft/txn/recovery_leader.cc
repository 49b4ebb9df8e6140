// The leader's side of recovery (recovery.h): gather what the members know, decide every open transaction by its row's
// rule, have the decisions written at every member, then carried out, then go on.
#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

constexpr uint64_t kAskAgainNs = 2'000'000;  // a member that has not come to this epoch yet ignored the question

uint16_t slot_key(NodeId coordinator, uint8_t slot) { return static_cast<uint16_t>(coordinator.value << 8 | slot); }

}  // namespace

void Engine::hear(const Message& m, const RecoveryHeader& header) {
  LeaderRecovery& leader = *leader_;
  const uint64_t bit = uint64_t{1} << m.source.value;
  const NodeId coordinator(header.coordinator);
  const LeaderRecovery::Id id{coordinator, header.incarnation, header.slot, header.sequence};
  using Stage = LeaderRecovery::Stage;
  const bool report = static_cast<RecoveryStep>(header.step) <= RecoveryStep::kReported;
  if (report && leader.stage != Stage::kGather) return;
  const bool about = report && static_cast<RecoveryStep>(header.step) != RecoveryStep::kFinished &&
                     static_cast<RecoveryStep>(header.step) != RecoveryStep::kReported;
  if (about && !leader.open.contains(id) && ++leader.reported[m.source.value] > open_max()) {
    bad_message(m.source, "a report of more transactions than there can be");
    return;
  }
  switch (static_cast<RecoveryStep>(header.step)) {
    case RecoveryStep::kFinished:
      leader.finished[{m.source, slot_key(coordinator, header.slot)}] = {
          header.incarnation, header.sequence, static_cast<Ending>(header.ending) == Ending::kCommit};
      return;
    case RecoveryStep::kSlot: {
      if (coordinator != m.source) {
        bad_message(m.source, "a report of another node's own transactions");
        return;
      }
      OpenTransaction& open = leader.open[id];
      open.own_report = true;
      open.own_ending = static_cast<Ending>(header.ending);
      open.row = header.row;
      open.sequence_high = header.sequence_high;
      hear_keys(m, header, open);
      return;
    }
    case RecoveryStep::kRecord:
    case RecoveryStep::kDecided:
      hear_record(m, header, leader.open[id]);
      return;
    case RecoveryStep::kReported:
      if (header.served != 0) leader.served |= bit;
      break;
    case RecoveryStep::kWrote:
      if (leader.stage != Stage::kWrite) return;
      break;
    case RecoveryStep::kApplied:
      if (leader.stage != Stage::kApply) return;
      break;
    default:
      return;
  }
  leader.waiting &= ~bit;
}

void Engine::hear_record(const Message& m, const RecoveryHeader& header, OpenTransaction& open) {
  const uint64_t bit = uint64_t{1} << m.source.value;
  open.sequence_high = header.sequence_high;
  if (header.participants != 0) {
    open.row = header.row;
    open.writes = header.writes;
    open.participants = header.participants;
  }
  if ((header.state & kLogLocked) != 0) open.locked |= bit;
  if ((header.state & kLogReplicated) != 0) open.replicated |= bit;
  if ((header.state & kLogCommitted) != 0) open.committed |= bit;
  if (static_cast<RecoveryStep>(header.step) == RecoveryStep::kDecided) {
    open.written = static_cast<Ending>(header.ending);
    open.decided_epoch = header.decided_epoch;
  }
  hear_keys(m, header, open);
}

void Engine::hear_keys(const Message& m, const RecoveryHeader& header, OpenTransaction& open) {
  const std::byte* at = m.body.data() + sizeof header;
  for (int i = 0; i < header.keys; ++i) {
    const auto part = load<KeyPart>(at);
    const auto* key = reinterpret_cast<const char*>(at + sizeof part);
    const bool has_value = (part.flags & kHasValue) != 0;
    const size_t value_bytes = has_value ? part.value_bytes : 0;
    OpenTransaction::Write& write = open.keys[part.index];
    if (!write.has_value) {
      write.table = part.table;
      write.key.assign(key, part.key_bytes);
      // A lock that came with a read says put; what replicates or decides says what is really done.
      write.write = part.write;
      write.version = part.version;
      write.has_value = has_value || part.write == static_cast<uint8_t>(Write::kErase);
      write.value.assign(key + padded(part.key_bytes), value_bytes);
    }
    at += sizeof part + padded(part.key_bytes) + padded(value_bytes);
  }
}

// The table in docs/recovery.md.
void Engine::decide(const LeaderRecovery::Id& id, OpenTransaction& open) {
  const LeaderRecovery& leader = *leader_;
  bool finished_commit = false;
  uint64_t finished_abort = 0;
  for_each_node(leader.members, [&](NodeId member) {
    const auto at = leader.finished.find({member, slot_key(id.coordinator, id.slot)});
    if (at == leader.finished.end() || at->second.incarnation != id.incarnation) return;
    if (static_cast<int32_t>(at->second.sequence - id.sequence) < 0) return;
    // A slot is used again only when its last transaction was acknowledged by all: an abort leaves no record then.
    if (at->second.sequence != id.sequence || at->second.committed) {
      finished_commit = true;
    } else {
      finished_abort |= uint64_t{1} << member.value;
    }
  });
  open.everywhere = finished_commit;
  if (open.written != Ending::kOpen) {
    WEFT_MARK("a written decision wins");
    open.decision = open.written;
    return;
  }
  open.decided_epoch = view_->epoch.value;
  const uint32_t runs = incarnation_of(id.coordinator);
  const bool lives = runs == id.incarnation || (runs != 0 && bugs_.has(Bug::kOldIncarnation));
  if (lives) {
    if (!open.own_report) {
      WEFT_MARK("decided by a coordinator that has finished");
      open.everywhere = true;
      open.decision = Ending::kCommit;
      return;
    }
    // It told nobody, so nothing is contradicted by an abort.
    open.decision = open.own_ending == Ending::kCommit ? Ending::kCommit : Ending::kAbort;
    return;
  }
  const Protocol& row = kRows[open.row];
  const uint64_t voters = open.participants & leader.served;
  bool commit = open.committed != 0 || finished_commit;
  size_t have = 0;
  for (const auto& [index, write] : open.keys) have += write.has_value ? 1 : 0;
  const bool all_values = have == open.writes;
  if (!commit && open.replicated != 0) {
    // Replication begins when every lock and check has held. In dnl1 only replicas that are filling have such a record.
    commit = all_values;
    if (commit) WEFT_MARK("committed by a replicated record");
    if (!commit) WEFT_MARK("aborted: a value is lost");
  }
  if (!commit && row.locks_backups()) {
    // A value that nobody has: its only whole replica is gone and the one that was filling had not got it, so that the
    // commit point was not passed.
    commit = all_values && voters != 0 && finished_abort == 0 && (voters & ~open.locked) == 0;
    if (commit) WEFT_MARK("committed by unanimity");
  }
  open.decision = commit ? Ending::kCommit : Ending::kAbort;
}

bool Engine::lead() {
  using Stage = LeaderRecovery::Stage;
  LeaderRecovery& leader = *leader_;
  const auto tell_all = [&](RecoveryStep step) {
    for_each_node(leader.waiting, [&](NodeId node) { send_recovery(node, step); });
  };
  if (leader.stage == Stage::kGather && leader.waiting != 0) {
    if (worker_->now_ns() < leader.ask_again_ns) return false;
    leader.ask_again_ns = worker_->now_ns() + kAskAgainNs;
    for_each_node(leader.waiting, [&](NodeId node) {
      // Who does not even take what it was sent need not be asked again.
      if (port_.backlog(node, Flow::kRecovery) < kPacketBytesMax) send_recovery(node, RecoveryStep::kAsk);
    });
    return true;
  }
  if (leader.stage == Stage::kGather) {
    for (auto& [id, open] : leader.open) decide(id, open);
    leader.stage = Stage::kDecide;
    if (witness_ != nullptr) witness_->on_recovery(Witness::Recovered::kDecided, id_, self_, leader.members);
    leader.to = 0;
    leader.next = leader.open.cbegin();
  }
  if (leader.stage == Stage::kDecide) {
    if (!send_decisions()) return false;
    leader.waiting = leader.members;
    leader.stage = Stage::kWrite;
    if (bugs_.has(Bug::kNotWritten)) {
      leader.stage = Stage::kApply;
      tell_all(RecoveryStep::kApply);
      return true;
    }
    tell_all(RecoveryStep::kWrite);
    return true;
  }
  if (leader.waiting != 0) return false;
  if (leader.stage == Stage::kWrite) {
    leader.waiting = leader.members;
    leader.stage = Stage::kApply;
    tell_all(RecoveryStep::kApply);
    if (witness_ != nullptr) witness_->on_recovery(Witness::Recovered::kWritten, id_, self_, leader.members);
    return true;
  }
  if (leader.stage == Stage::kApply) {
    leader.stage = Stage::kBarrier;
    node_->worker_recovered(view_->epoch, id_);
  }
  if (!node_->workers_recovered(view_->epoch)) return false;
  leader.waiting = leader.members;
  tell_all(RecoveryStep::kActive);
  if (witness_ != nullptr) witness_->on_recovery(Witness::Recovered::kCarriedOut, id_, self_, leader.members);
  leader.waiting = 0;
  leader.members = 0;  // said once; the own worker hears it like the others
  leader_.reset();
  return true;
}

// To one member after the other, a little at a time. True when all have been sent.
bool Engine::send_decisions() {
  LeaderRecovery& leader = *leader_;
  for (; leader.to < nodes_; ++leader.to, leader.next = leader.open.cbegin()) {
    const NodeId node(leader.to);
    if ((leader.members >> node.value & 1U) == 0) continue;
    for (; leader.next != leader.open.cend(); ++leader.next) {
      if (port_.backlog(node, Flow::kRecovery) > limits_.credit_bytes / 2) return false;
      send_decision(node, leader.next->first, leader.next->second);
    }
  }
  return true;
}

// With all values, also of keys that the member does not hold: the decision may survive there alone, and must be worth
// as much as the records it was made from (models/README.md, finding 1).
void Engine::send_decision(NodeId to, const LeaderRecovery::Id& id, const OpenTransaction& open) {
  RecoveryHeader header{};
  header.step = static_cast<uint8_t>(RecoveryStep::kDecide);
  header.coordinator = id.coordinator.value;
  header.slot = id.slot;
  header.sequence = id.sequence;
  header.sequence_high = open.sequence_high;
  header.participants = open.participants;
  header.incarnation = id.incarnation;
  header.decided_epoch = open.decided_epoch;
  header.row = open.row;
  header.writes = open.writes;
  header.ending = static_cast<uint8_t>(open.decision);
  std::vector<std::byte> bytes;
  if (open.decision == Ending::kCommit && !open.everywhere) {
    for (const auto& [index, write] : open.keys) {
      if (!write.has_value) continue;
      KeyPart part{};
      part.version = write.version;
      part.value_bytes = static_cast<uint32_t>(write.value.size());
      part.table = write.table;
      part.key_bytes = static_cast<uint16_t>(write.key.size());
      part.write = write.write;
      part.index = index;
      if (write.write != static_cast<uint8_t>(Write::kErase)) part.flags |= kHasValue;
      add_key(bytes, part, as_bytes(write.key), as_bytes(write.value));
      ++header.keys;
    }
  }
  send_recovery(to, header, bytes);
}

}  // namespace weft
