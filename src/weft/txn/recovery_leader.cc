#include "weft/txn/recovery_leader.h"

#include <algorithm>
#include <vector>

#include "weft/base/check.h"
#include "weft/fabric/wire.h"
#include "weft/txn/key_part.h"

namespace weft {

namespace {

constexpr uint64_t kAskAgainNs = 2'000'000;  // a member that had not come to this epoch yet ignored the request

size_t slot_key(NodeId coordinator, uint8_t slot) { return size_t{coordinator.value} << 8 | slot; }

// The entry of a slot in a list that grows with the coordinators that there are.
template <class T>
T& slot_entry(std::vector<T>& all, NodeId coordinator, uint8_t slot) {
  if (slot_key(coordinator, slot) >= all.size()) all.resize((size_t{coordinator.value} + 1) << 8);
  return all[slot_key(coordinator, slot)];
}

bool is_about_transaction(RecoveryStep step) {
  return step == RecoveryStep::kRecord || step == RecoveryStep::kDecided || step == RecoveryStep::kSlot;
}
bool is_report(RecoveryStep step) {
  return is_about_transaction(step) || step == RecoveryStep::kFinished || step == RecoveryStep::kReported;
}

}  // namespace

RecoveryLeader::RecoveryLeader(std::shared_ptr<const View> view, const Limits& limits, PlantedBugs bugs,
                               size_t open_max, RecoveryHost* host)
    : view_(std::move(view)),
      limits_(limits),
      bugs_(bugs),
      open_max_(open_max),
      host_(host),
      members_(view_->member_nodes()),
      waiting_(members_) {
  WEFT_CHECK(!members_.empty() && host_ != nullptr, "a view that is recovered into has members");
}

const char* RecoveryLeader::on_message(NodeId from, const RecoveryHeader& header, ByteView keys) {
  const NodeId coordinator(header.coordinator);
  const RecoveryId id{coordinator, header.incarnation, header.slot, header.sequence()};
  const auto step = static_cast<RecoveryStep>(header.step);
  if (is_report(step) && stage_ != Stage::kGather) return nullptr;
  OpenTransaction* open = is_about_transaction(step) ? find(id) : nullptr;
  if (is_about_transaction(step) && open == nullptr) {
    if (++reported_[from.value] > open_max_) return "a report of more transactions than there can be";
  }
  switch (step) {
    case RecoveryStep::kFinished:
      slot_entry(finished_[from.value], coordinator, header.slot) = {
          header.sequence(), header.incarnation, static_cast<Ending>(header.ending) == Ending::kCommit};
      return nullptr;
    case RecoveryStep::kSlot: {
      if (coordinator != from) return "a report of another node's own transactions";
      if (open == nullptr) open = &add(id);
      open->own_report = true;
      open->own_ending = static_cast<Ending>(header.ending);
      open->unanimous = header.unanimous != 0;
      return hear_keys(keys, header.keys, *open);
    }
    case RecoveryStep::kRecord:
    case RecoveryStep::kDecided:
      return hear_record(from, header, keys, open != nullptr ? *open : add(id));
    case RecoveryStep::kReported:
      if (header.served != 0) was_active_.add(from);
      break;
    case RecoveryStep::kWrote:
      if (stage_ != Stage::kWrite) return nullptr;
      break;
    case RecoveryStep::kApplied:
      if (stage_ != Stage::kApply) return nullptr;
      break;
    default:
      return nullptr;
  }
  waiting_.remove(from);
  return nullptr;
}

OpenTransaction* RecoveryLeader::find(const RecoveryId& id) {
  for (uint32_t at = slot_entry(last_open_, id.coordinator, id.slot); at != 0; at = open_[at - 1].before) {
    if (open_[at - 1].id == id) return &open_[at - 1].open;
  }
  return nullptr;
}

OpenTransaction& RecoveryLeader::add(const RecoveryId& id) {
  uint32_t& last = slot_entry(last_open_, id.coordinator, id.slot);
  open_.push_back({id, {}, last});
  last = static_cast<uint32_t>(open_.size());
  return open_.back().open;
}

const char* RecoveryLeader::hear_record(NodeId from, const RecoveryHeader& header, ByteView keys,
                                        OpenTransaction& open) const {
  if (!header.participants.empty()) {
    open.unanimous = header.unanimous != 0;
    open.writes = header.writes;
    open.participants = header.participants;
  }
  if ((header.state & kLocked) != 0) open.locked.add(from);
  if ((header.state & kReplicated) != 0) open.replicated.add(from);
  if ((header.state & kCommitted) != 0) open.committed.add(from);
  if (static_cast<RecoveryStep>(header.step) == RecoveryStep::kDecided) {
    open.written = static_cast<Ending>(header.ending);
    open.decided_epoch = header.decided_epoch;
  }
  return hear_keys(keys, header.keys, open);
}

// All members together report no more than the transaction held: a decision takes it all in one message. Bytes are
// counted as TxnKeys::take_bytes does, and those of a key once, whoever reports it.
const char* RecoveryLeader::hear_keys(ByteView keys, int count, OpenTransaction& open) const {
  const std::byte* at = keys.data();
  const std::byte* const end = at + keys.size();
  for (int i = 0; i < count; ++i) {
    KeyPartView in;
    WEFT_CHECK(take_key(&at, end, &in), "a message was parsed when it arrived");
    if (in.part.index >= limits_.txn_keys_max) return "a report of more keys than a transaction has";
    OpenTransaction::Write& write = open.keys[in.part.index];
    if (write.has_value) continue;
    const size_t known = padded(write.key.size()) + padded(write.value.size());
    const size_t bytes = open.bytes - known + padded(in.key.size()) + padded(in.value.size());
    if (bytes > limits_.txn_bytes_max) return "a report of more bytes than a transaction has";
    open.bytes = bytes;
    write.table = in.part.table;
    write.key = as_text(in.key);
    // A lock that brought no value is reported without one: what another record says of the key replaces it. A key
    // that was only locked while it was read is not reported at all.
    write.write = in.part.write;
    write.version = in.part.version;
    write.has_value = in.has(kHasValue) || in.write() == Write::kErase;
    write.value = as_text(in.value);
  }
  return nullptr;
}

DecideFacts RecoveryLeader::facts_of(const RecoveryId& id, const OpenTransaction& open) const {
  DecideFacts facts;
  for (const NodeId member : members_) {
    const std::vector<Finished>& marks = finished_[member.value];
    const size_t at = slot_key(id.coordinator, id.slot);
    if (at >= marks.size() || marks[at].sequence == 0 || marks[at].incarnation != id.incarnation) continue;
    if (marks[at].sequence < id.sequence) continue;
    // A slot is reused only when its last transaction was acknowledged by all; if that was an abort, no record of it is
    // left.
    if (marks[at].sequence != id.sequence || marks[at].committed) {
      facts.finished_commit = true;
    } else {
      facts.finished_abort.add(member);
    }
  }
  const Member* member = view_->find(id.coordinator);
  facts.coordinator_lives =
      member != nullptr && (member->incarnation == id.incarnation || bugs_.has(PlantedBug::kOldIncarnation));
  facts.was_active = was_active_;
  facts.unanimous = open.unanimous;
  return facts;
}

void RecoveryLeader::decide_all() {
  for (auto& [id, open, before] : open_) {
    if (open.written == Ending::kOpen) open.decided_epoch = view_->epoch.value;
    const DecideResult verdict = decide(open, facts_of(id, open));
    WEFT_CHECK(verdict.ending != Ending::kOpen, "a decision is one");
    open.decision = verdict.ending;
    open.everywhere = verdict.everywhere;
  }
  decided_.reserve(open_.size());
  for (const Reported& reported : open_) decided_.push_back(&reported);
  std::sort(decided_.begin(), decided_.end(), [](const Reported* a, const Reported* b) { return a->id < b->id; });
}

void RecoveryLeader::tell_members(RecoveryStep step) {
  WEFT_CHECK(step == RecoveryStep::kWrite || waiting_.empty() || bugs_.has(PlantedBug::kNotWritten),
             "all have answered before they are told to go on");
  waiting_ = members_;
  for (const NodeId node : members_) host_->send(node, recovery_header(step, view_->epoch), {});
}

bool RecoveryLeader::gather(uint64_t now_ns) {
  if (now_ns < ask_again_ns_) return false;
  ask_again_ns_ = now_ns + kAskAgainNs;
  for (const NodeId node : waiting_) {
    // A member that does not even receive what it was sent need not be asked again.
    if (host_->queued_bytes(node) >= kPacketBytesMax) continue;
    host_->send(node, recovery_header(RecoveryStep::kAsk, view_->epoch), {});
  }
  return true;
}

bool RecoveryLeader::step(uint64_t now_ns) {
  WEFT_CHECK(stage_ != Stage::kDone, "a leader ends once");
  if (stage_ == Stage::kGather) {
    if (!waiting_.empty()) return gather(now_ns);
    decide_all();
    stage_ = Stage::kDecide;
    host_->on_leader_step(TxnObserver::Recovered::kDecided, members_);
    to_ = 0;
    next_ = 0;
  }
  if (stage_ == Stage::kDecide) {
    if (!send_decisions()) return false;
    const bool skips_writing = bugs_.has(PlantedBug::kNotWritten);
    stage_ = skips_writing ? Stage::kApply : Stage::kWrite;
    tell_members(skips_writing ? RecoveryStep::kApply : RecoveryStep::kWrite);
    return true;
  }
  if (!waiting_.empty()) return false;
  if (stage_ == Stage::kWrite) {
    stage_ = Stage::kApply;
    tell_members(RecoveryStep::kApply);
    host_->on_leader_step(TxnObserver::Recovered::kWritten, members_);
    return true;
  }
  if (stage_ == Stage::kApply) {
    stage_ = Stage::kBarrier;
    host_->arrive();
  }
  if (!host_->all_arrived()) return false;
  tell_members(RecoveryStep::kActive);  // once; the leader's own worker receives it like the others
  host_->on_leader_step(TxnObserver::Recovered::kActivated, members_);
  stage_ = Stage::kDone;
  return true;
}

// Sends to one member after the other, a little at a time. Returns true when all decisions have been sent.
bool RecoveryLeader::send_decisions() {
  for (; to_ <= kNodesMax; ++to_, next_ = 0) {
    const NodeId node(to_);
    if (!members_.contains(node)) continue;
    for (; next_ != decided_.size(); ++next_) {
      if (host_->queued_bytes(node) > limits_.credit_bytes / 2) return false;
      send_decision(node, decided_[next_]->id, decided_[next_]->open);
    }
  }
  return true;
}

// Sends all values, also of keys that the member does not hold: the decision may survive there alone, and must be worth
// as much as the records it was made from (models/README.md, finding 1).
void RecoveryLeader::send_decision(NodeId to, const RecoveryId& id, const OpenTransaction& open) {
  WEFT_CHECK(open.decision != Ending::kOpen, "only what is decided is sent");
  RecoveryHeader header = recovery_header(RecoveryStep::kDecide, view_->epoch);
  header.coordinator = id.coordinator.value;
  header.slot = id.slot;
  header.set_sequence(id.sequence);
  header.participants = open.participants;
  header.incarnation = id.incarnation;
  header.decided_epoch = open.decided_epoch;
  header.unanimous = open.unanimous ? 1 : 0;
  header.writes = open.writes;
  header.ending = static_cast<uint8_t>(open.decision);
  bytes_.clear();
  if (open.decision == Ending::kCommit && !open.everywhere) {
    for (const auto& [index, write] : open.keys) {
      if (!write.has_value) continue;
      KeyPart part{};
      part.version = write.version;
      part.value_bytes = static_cast<uint32_t>(write.value.size());
      part.table = write.table;
      part.key_bytes = static_cast<uint32_t>(write.key.size());
      part.write = write.write;
      part.index = index;
      if (write.write != static_cast<uint8_t>(Write::kErase)) part.flags |= kHasValue;
      append_key(bytes_, part, as_bytes(write.key), as_bytes(write.value));
      ++header.keys;
    }
  }
  host_->send(to, header, bytes_);
}

}  // namespace weft
