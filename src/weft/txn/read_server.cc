#include "weft/txn/read_server.h"

#include <algorithm>
#include <optional>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/messages.h"
#include "weft/txn/participant.h"

namespace weft {

namespace {
constexpr size_t kSmallAnswer = 1024;
}

void ReadServer::on_get(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (m.ok) answer(m, batch.keys_of(m)[0]);
  }
}

size_t ReadServer::queued_max() const { return size_t{ctx_.limits.credit_bytes} * 3 + ctx_.limits.value_bytes_max; }

// Small answers share packets with the messages of commits. Larger ones have a flow of their own, so that nothing waits
// behind them.
WEFT_INLINE void ReadServer::answer(const Message& m, const KeyRef& ref) {
  GetRequest request;
  ByteView key;
  if (!GetRequest::take(m.tag, m.body, &request, &key)) return;  // parsed before
  GetReply answer{.slot = request.slot, .entry = request.entry};
  Owner holder;
  Version base;
  const bool locks = (request.flags & kGetLocks) != 0;
  if (locks) answer.code = lock(m.source, request, ref, &holder, &base);
  const uint32_t asked = (request.flags & kGetRoom) != 0 ? request.room : default_get_room(ctx_.limits);
  const uint32_t room = std::min(asked, ref.table->spec().value_bytes_max);
  ReadResult read;
  if (answer.code == Code::kOk) {
    read = ref.table->read(ref.key, ctx_.scratch.data(), room);
    ctx_.touch_record();
    if (((request.flags & kGetSingle) != 0 && read.word.write_locked()) || read.torn) {
      answer.code = Code::kLocked;
      holder = read.word.owner();
    }
  }
  const bool ok = answer.code == Code::kOk;
  answer.found = read.found;
  answer.word = ok ? (locks ? Word(base, 0).bits : read.word.bits) : Word(Version(), 0, holder).bits;
  answer.has_where = ok && (request.flags & kGetWhere) != 0;
  size_t value_bytes = ok && read.found ? read.value_bytes : 0;
  if (value_bytes > room) {
    answer.cut = true;
    answer.length = value_bytes;
    value_bytes = request.head ? room : 0;
  }
  // A peer has one large get at a time, and credit for the others: what is queued for it is bounded.
  if (value_bytes > kPacketBytesMax && ctx_.port.queued_bytes(m.source, Flow::kExecution) > queued_max()) {
    ctx_.faults.report(m.source, "more gets than it has credit for");
    return;
  }
  std::byte* at = ctx_.port.reserve(m.source, value_bytes <= kSmallAnswer ? Flow::kCommit : Flow::kExecution,
                                    static_cast<uint8_t>(Kind::kGetReply), answer.bytes() + value_bytes, answer.tag());
  store(at, answer.word);
  if (answer.has_where) {
    const RemoteIndexAddress index = ref.table->index_address();
    store(at + sizeof answer.word, GetWhere{ref.table->locate(ref.key).bits, index.offset, index.bins});
  }
  if (answer.cut) store(at + answer.bytes() - sizeof answer.length, answer.length);
  copy_words(at + answer.bytes(), ctx_.scratch.data(), value_bytes);
}

Code ReadServer::lock(NodeId from, const GetRequest& request, const KeyRef& ref, Owner* holder, Version* base) {
  PreparedTxn& record = records_.at(from, request.slot);
  const uint64_t sequence = request.sequence;
  // As in Participant::open_record.
  if (record.in_progress) {
    ctx_.faults.report(from, "a message about what is still in progress");
    return Code::kBusy;
  }
  if (record.state != 0 && record.sequence < sequence && record.may_be_finished()) participant_.finish_record(record);
  if (record.state != 0 && record.sequence != sequence) {
    ctx_.faults.report(from, "a slot is used again before its record was truncated");
    return Code::kBusy;
  }
  WEFT_CHECK(record.state != 0 || (record.locked == nullptr && record.applied == nullptr) || ctx_.bugs.mask != 0,
             "what has no state has no keys");
  // The write is not known yet, and its commit must not fail.
  const uint32_t room = std::min(kHeldRoom, ref.table->spec().value_bytes_max);
  const LockResult result = ref.table->lock(ref.key, ctx_.owner(from, request.slot), Write::kPut, std::nullopt, room);
  ctx_.charge(CostStep::kLookup, 1);
  if (result.code != Code::kOk) {
    *holder = result.holder;
    return result.code;
  }
  *base = result.locked.base;
  PreparedKeys* part = records_.gather_part({&ref, 1}).keys;
  PreparedKey& key = part->all()[0];
  key.locked = result.locked;
  key.locked_to_write = true;
  key.room = room;
  key.index = request.entry;
  part->next = record.locked;
  record.locked = part;
  record.begin(ctx_.views.incarnation_of(from), sequence);
  record.state |= kLocked;
  return Code::kOk;
}

}  // namespace weft
