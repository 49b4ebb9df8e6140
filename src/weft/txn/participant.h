// The small steps that the handlers of commit messages share. Only for lock.cc, validate.cc, replicate.cc, unlock.cc.
#pragma once

#include "weft/txn/engine.h"

namespace weft {

// The record for this message's transaction; nullptr (and the peer is closed) if the slot's last one is still there.
inline LogRecord* Engine::open_record(const Message& m) {
  const auto request = load<CommitRequest>(m.body.data());
  LogRecord& record = log_.at(m.source, static_cast<uint8_t>(m.spare));
  if (from_ring_ && (record.state & (kLogReplicated | kLogCommitted)) != 0 && record.sequence < request.sequence) {
    finish_record(record);  // the notice that its last transaction is finished is still on its way
  }
  if (record.state != 0 && static_cast<uint32_t>(record.sequence) != static_cast<uint32_t>(request.sequence)) {
    bad_message(m.source, "a slot is used again before its record was truncated");
    return nullptr;
  }
  if (record.aborted_here != 0) [[unlikely]]
    note_aborted_here(record);  // the slot is used again: it is over everywhere
  record.sequence = request.sequence;
  record.participants = request.participants;
  record.incarnation = incarnation_of(m.source);
  record.row = request.row;
  record.entries = request.entries;
  record.writes = request.writes;
  return &record;
}

inline void Engine::acknowledge(const Message& m, Phase phase) {
  std::byte* at =
      port_.reserve(m.source, Flow::kCommit, static_cast<uint8_t>(Kind::kReply), sizeof(PhaseReply), m.spare);
  PhaseReply answer{};
  answer.sequence = static_cast<uint32_t>(load<CommitRequest>(m.body.data()).sequence);
  answer.phase = static_cast<uint8_t>(phase);
  store(at, answer);
}

}  // namespace weft
