#include "weft/txn/read_server.h"

#include <optional>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/messages.h"
#include "weft/txn/participant.h"

namespace weft {

void ReadServer::on_get(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (batch.ok(m)) answer(m, batch.keys_of(m)[0]);
  }
}

WEFT_INLINE void ReadServer::answer(const Message& m, const KeyRef& ref) {
  const auto request = load<GetRequest>(m.body.data());
  GetReply answer{};
  answer.sequence = request.sequence;
  answer.entry = request.entry;
  Owner holder;
  Version base;
  Code code = Code::kOk;
  if ((request.flags & kGetLocks) != 0) code = lock(m, ref, &holder, &base);
  ReadResult read;
  if (code == Code::kOk) {
    read = ref.table->read(ref.key, ctx_.scratch.data(), ref.table->spec().value_bytes_max);
    ctx_.touch_record();
    WEFT_CHECK(read.value_bytes <= ctx_.scratch.size(), "a value of any table fits");
    if (((request.flags & kGetSingle) != 0 && read.word.write_locked()) || read.torn) {
      code = Code::kLocked;
      holder = read.word.owner();
    }
  }
  answer.code = static_cast<uint8_t>(code);
  answer.found = read.found;
  answer.word = (request.flags & kGetLocks) != 0 ? Word(base, 0).bits : read.word.bits;
  answer.holder = holder.bits;
  answer.value_bytes = code == Code::kOk && read.found ? read.value_bytes : 0;
  answer.has_where = code == Code::kOk && (request.flags & kGetWhere) != 0;
  const size_t where_bytes = answer.has_where != 0 ? sizeof(GetWhere) : 0;
  std::byte* at = ctx_.port.reserve(m.source, Flow::kExecution, static_cast<uint8_t>(Kind::kGetReply),
                                    sizeof answer + where_bytes + padded(answer.value_bytes), m.tag);
  store(at, answer);
  at += sizeof answer;
  if (answer.has_where != 0) {
    const RemoteIndexAddress index = ref.table->index_address();
    store(at, GetWhere{ref.table->locate(ref.key).bits, index.offset, index.bins});
    at += sizeof(GetWhere);
  }
  copy_words(at, ctx_.scratch.data(), answer.value_bytes);
}

Code ReadServer::lock(const Message& m, const KeyRef& ref, Owner* holder, Version* base) {
  const auto request = load<GetRequest>(m.body.data());
  PreparedTxn& record = records_.at(m.source, static_cast<uint8_t>(m.tag));
  const uint64_t sequence = uint64_t{request.sequence_high} << 32 | request.sequence;
  // As in Participant::open_record.
  if (record.state != 0 && record.sequence < sequence && record.may_be_finished()) participant_.finish_record(record);
  if (record.state != 0 && record.sequence != sequence) {
    ctx_.faults.report(m.source, "a slot is used again before its record was truncated");
    return Code::kBusy;
  }
  WEFT_CHECK(record.state != 0 || (record.locked == nullptr && record.applied == nullptr) || ctx_.bugs.mask != 0,
             "what has no state has no keys");
  // Reserves room for the largest value: the write is not known yet, and its commit must not fail.
  const LockResult result = ref.table->lock(ref.key, Owner(m.source, ctx_.id, static_cast<uint8_t>(m.tag)), Write::kPut,
                                            std::nullopt, ref.table->spec().value_bytes_max);
  ctx_.charge(CostStep::kLookup, 1);
  if (result.code != Code::kOk) {
    *holder = result.holder;
    return result.code;
  }
  *base = result.locked.base;
  std::byte* rest;
  PreparedKeys* part = records_.make_part({&ref, 1}, 0, &rest);
  PreparedKey& key = part->all()[0];
  key.locked = result.locked;
  key.locked_to_write = true;
  key.room = ref.table->spec().value_bytes_max;
  key.index = request.entry;
  part->next = record.locked;
  record.locked = part;
  record.begin(ctx_.views.incarnation_of(m.source), sequence);
  record.state |= kLocked;
  return Code::kOk;
}

}  // namespace weft
