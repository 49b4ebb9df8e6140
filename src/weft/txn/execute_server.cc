#include "weft/txn/execute_server.h"

#include <algorithm>
#include <new>

namespace weft {

void ExecuteServer::on_execute(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const CommitRequest request = CommitRequest::of(m.source, m.tag, m.body.data(), ctx_.nodes);
    const std::span<const KeyRef> keys = batch.keys_of(m);
    locks_.cut(0);
    KeyRef* to = locks_.begin_adding(keys.size());
    for (const KeyRef& key : keys) {
      if (key.write == Write::kNone) continue;
      KeyRef& ref = *new (to++) KeyRef(key);
      // What it will write is not known yet, and its commit must not fail.
      ref.write = Write::kPut;
      ref.flags = 0;
      ref.room = std::min(kHeldRoom, key.table->spec().value_bytes_max);
    }
    locks_.end_adding(to);
    PhaseResult result;
    if (!locks_.empty() && !participant_.lock(request, participant_.gather(locks_.all()), &result)) continue;
    answer(m, request, keys, result);
  }
}

void ExecuteServer::answer(const Message& m, const CommitRequest& request, std::span<const KeyRef> keys,
                           const PhaseResult& result) {
  ExecutedReply reply{};
  reply.sequence = static_cast<uint32_t>(request.sequence);
  reply.code = static_cast<uint8_t>(result.code);
  reply.index = result.index;
  reply.holder = result.holder.bits;
  if (result.code == Code::kOk) reply.keys = static_cast<uint32_t>(keys.size());
  bytes_.resize(sizeof reply);
  store(bytes_.data(), reply);
  const uint32_t room = executed_room(ctx_.limits, keys.size());
  size_t locked = 0;
  for (size_t i = 0; i < reply.keys; ++i) {
    const KeyRef& key = keys[i];
    const bool blind = key.has(kBlind);
    const uint32_t value_max = blind ? 0 : std::min(room, key.table->spec().value_bytes_max);
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(ExecutedKey) + padded(value_max));
    const ReadResult read = key.table->read(key.key, bytes_.data() + at + sizeof(ExecutedKey), value_max);
    ctx_.touch_record();
    ExecutedKey out{};
    const bool locks = key.write != Write::kNone;
    out.version = locks ? result.versions[locked++] : read.word.version().value;
    out.found = read.found ? 1 : 0;
    out.torn = read.torn ? 1 : 0;
    out.length = read.found && !read.torn ? read.value_bytes & 0x3fffffffU : 0;
    out.bytes = !blind && out.length <= value_max ? out.length : 0;
    store(bytes_.data() + at, out);
    bytes_.resize(at + sizeof out + padded(out.bytes));
    if (out.bytes % 8 != 0) {  // padding goes over the wire
      std::fill(bytes_.end() - static_cast<ptrdiff_t>(padded(out.bytes) - out.bytes), bytes_.end(), std::byte{0});
    }
  }
  // A peer has credit for all its answers: what is queued for it is bounded.
  const size_t queued_max = size_t{ctx_.limits.credit_bytes} * 3 + ctx_.limits.value_bytes_max;
  if (bytes_.size() > kPacketBytesMax / 2 && ctx_.port.queued_bytes(m.source, Flow::kExecution) > queued_max) {
    ctx_.faults.report(m.source, "more to execute than it has credit for");
    return;
  }
  std::byte* const at =
      ctx_.port.reserve(m.source, bytes_.size() <= kPacketBytesMax / 2 ? Flow::kCommit : Flow::kExecution,
                        static_cast<uint8_t>(Kind::kExecuted), bytes_.size(), request.slot);
  std::copy(bytes_.begin(), bytes_.end(), at);
}

}  // namespace weft
