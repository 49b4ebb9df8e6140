#include "weft/txn/decision_log.h"

#include <cstring>
#include <utility>

#include "weft/base/check.h"
#include "weft/txn/key_part.h"

namespace weft {

const Decision* DecisionLog::find(NodeId coordinator, uint32_t incarnation, uint8_t slot, uint64_t sequence) const {
  for (uint32_t at = last_[slot_index(coordinator, slot)]; at != 0; at = decisions_[at - 1].before) {
    const Decision& d = decisions_[at - 1];
    if (d.incarnation == incarnation && d.sequence == sequence) return &d;
  }
  return nullptr;
}

const char* DecisionLog::write(const RecoveryHeader& header, ByteView keys) {
  // It was applied before this worker was last active, and later transactions may have followed since.
  if (header.decided_epoch <= ctx_.views.active_epoch().value && !ctx_.bugs.has(PlantedBug::kDecisionAgain))
    return nullptr;
  const NodeId coordinator(header.coordinator);
  const PreparedTxn& record = records_.at(coordinator, header.slot);
  const bool has_record = record.is(header.incarnation, header.sequence());
  const bool own = coordinator == ctx_.self && header.incarnation == ctx_.views.incarnation();
  if (!has_record && !own && record.was_finished(header.incarnation, header.sequence())) return nullptr;
  if (find(coordinator, header.incarnation, header.slot, header.sequence()) != nullptr) return nullptr;
  if (decisions_.size() >= open_max() * static_cast<size_t>(ctx_.nodes)) {
    return "more decisions than there can be transactions";
  }
  decisions_.push_back({coordinator, header.slot, header.sequence(), header.incarnation, header.decided_epoch,
                        static_cast<Ending>(header.ending) == Ending::kCommit});
  uint32_t& last = last_[slot_index(coordinator, header.slot)];
  decisions_.back().before = std::exchange(last, static_cast<uint32_t>(decisions_.size()));
  if (header.keys != 0) decisions_.back().keys = copy_keys(keys, header.keys);
  return nullptr;
}

PreparedKeys* DecisionLog::copy_keys(ByteView keys, uint16_t count) {
  std::byte* copy;
  WEFT_CHECK(count != 0 && !keys.empty(), "a decision without keys has no part");
  PreparedKeys* part = records_.make_part(count, keys.size(), &copy);
  std::memcpy(copy, keys.data(), keys.size());
  const std::byte* at = copy;
  for (PreparedKey& key : part->all()) {
    KeyPartView in;
    WEFT_CHECK(take_key(&at, copy + keys.size(), &in), "a message was parsed when it arrived");
    key.table_id = TableId(in.part.table);
    key.table = ctx_.tables.at(key.table_id);
    key.key = key.table->hashed(in.key);
    key.flags = in.part.flags & kHasValue;
    key.value = in.value;
    key.version = Version(in.part.version);
    key.write = in.write();
    key.index = in.part.index;
  }
  return part;
}

bool DecisionLog::covers_records() const {
  for (int n = 0; n < ctx_.nodes; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    for (int s = 0; s < records_.slots(); ++s) {
      const PreparedTxn& record = records_.at(node, static_cast<uint8_t>(s));
      if (record.state != 0 && find(node, static_cast<uint8_t>(s), record) == nullptr) return false;
    }
  }
  return true;
}

void DecisionLog::clear() {
  for (const Decision& decision : decisions_) last_[slot_index(decision.coordinator, decision.slot)] = 0;
  decisions_.clear();
}

// Notes the decided transactions as finished here too, for the reports of a later recovery.
void DecisionLog::finish() {
  for (const Decision& decision : decisions_) {
    PreparedTxn& record = records_.at(decision.coordinator, decision.slot);
    const bool lives = ctx_.views.incarnation_of(decision.coordinator) == decision.incarnation;
    if (lives && !record.was_finished(decision.incarnation, decision.sequence)) {
      record.finished = decision.sequence;
      record.finished_incarnation = decision.incarnation;
      record.finished_commit = decision.commit;
    }
    records_.drop_parts(decision.keys);
  }
  clear();
}

// The planted bug: it only keeps that a record was applied, since it could not be touched again otherwise.
void DecisionLog::forget() {
  for (const Decision& decision : decisions_) {
    PreparedTxn& record = records_.at(decision.coordinator, decision.slot);
    if (decision.applied && record.is(decision.incarnation, decision.sequence)) record.ended = true;
    records_.drop_parts(decision.keys);
  }
  clear();
}

}  // namespace weft
