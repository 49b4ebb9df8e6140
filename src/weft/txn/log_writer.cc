#include "weft/txn/log_writer.h"

#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/key_part.h"
#include "weft/txn/verb_requests.h"

namespace weft {

LogWriter::LogWriter(WorkerContext& ctx, const VerbMemory& memory, VerbIssuer& verb_issuer,
                     const MessageTransport& messages)
    : ctx_(ctx), memory_(memory), verb_issuer_(verb_issuer), messages_(messages) {
  WEFT_CHECK(memory.ring_bytes() >= 4 * kRingAlign && memory.ring_bytes() % kRingAlign == 0, "a ring of entries");
  for (int n = 0; n < ctx.nodes; ++n) rings_.emplace_back(memory.ring_bytes());
}

void LogWriter::begin_view() {
  for (LogRingWriter& ring : rings_) ring.begin();
}

void LogWriter::plan(TxnSlot& slot) {
  const NodeSet targets = slot.steps[static_cast<size_t>(Phase::kReplicate)].send_to;
  NodeSet by_message = NodeSet::of(ctx_.self);
  size_t bytes = CommitRequest::bytes(ctx_.nodes);
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    const NodeSet to = e.at[static_cast<size_t>(Phase::kReplicate)];
    if (to.empty()) continue;
    if ((e.flags & kOrdered) != 0) by_message |= to;
    bytes += key_part_bytes_max(e.key.bytes.size(), e.new_bytes);
  }
  slot.ring_nodes = targets - by_message;
  slot.ring_bytes = 0;  // until the space is reserved
  const NodeSet others = targets - NodeSet::of(ctx_.self);
  ctx_.counters.logs_by_message += static_cast<uint64_t>((others - slot.ring_nodes).size());
  if (!slot.ring_nodes.empty()) slot.need_ring = static_cast<uint32_t>(ring_entry_bytes(bytes));
}

void LogWriter::reserve(TxnSlot& slot) {
  WEFT_CHECK(slot.ring_bytes == 0, "room in rings is reserved once");
  for (const NodeId node : slot.ring_nodes) {
    if (rings_[node.value].reserve(slot.need_ring)) continue;
    WEFT_MARK("no room in a ring");
    slot.ring_nodes.remove(node);
    ++ctx_.counters.logs_by_message;
  }
  slot.ring_bytes = slot.need_ring;
}

void LogWriter::give_back(TxnSlot& slot) {
  for (const NodeId node : slot.ring_nodes) rings_[node.value].give_back(slot.ring_bytes);
  slot.ring_bytes = 0;
}

void LogWriter::post(TxnSlot& slot, NodeId node) {
  LogRingWriter& ring = rings_[node.value];
  const size_t body = messages_.phase_bytes(slot, Phase::kReplicate, node);
  const size_t bytes = ring_entry_bytes(body);
  WEFT_CHECK(node != ctx_.self && slot.ring_nodes.contains(node), "the plan logs there by verbs");
  WEFT_CHECK(bytes <= slot.ring_bytes, "room in rings is reserved first (K3)");
  ring.give_back(slot.ring_bytes);
  WEFT_CHECK(ring.reserve(bytes), "what is written is at most what was reserved");
  const LogRingWriter::Place place = ring.place(bytes);
  WEFT_CHECK(place.at + bytes <= memory_.ring_bytes(), "an entry does not wrap");
  VerbRequest* request =
      make_commit_request(verb_issuer_, TxnRequest::Purpose::kLog, slot, node, 0, bytes + sizeof(RingHeader));
  Verb verb;
  verb.kind = VerbKind::kWrite;
  verb.region = memory_.ring_region();
  RingHeader header{};
  header.epoch = ctx_.view().epoch.value;
  const uint64_t base = memory_.ring_offset(ctx_.id, ctx_.self);
  if (place.skip != 0) {
    header.position = place.skip_position;
    header.bytes = place.skip;
    header.skip = 1;
    ring_seal(request->buffer + bytes, header);
    verb.offset = base + place.skip_at;
    verb.bytes = sizeof header;
    verb.local = request->buffer + bytes;
    request->add(verb);
  }
  std::memset(request->buffer + bytes - kRingAlign, 0, kRingAlign);  // padding: never leak what was there before
  messages_.encode_phase(request->buffer + sizeof header, slot, Phase::kReplicate, node);
  header.position = place.position;
  header.bytes = static_cast<uint32_t>(body);
  header.skip = 0;
  header.tag = messages_.tag(slot);
  ring_seal(request->buffer, header);
  verb.offset = base + place.at;
  verb.bytes = static_cast<uint32_t>(bytes);
  verb.local = request->buffer;
  request->add(verb);
  count_verbs(ctx_, Phase::kReplicate, *request);
  ++slot.verbs_pending;
  request->urgent = true;
  verb_issuer_.send(request);
}

void LogWriter::on_ring_read(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    if (!rings_[m.source.value].read_up_to(load<RingRead>(m.body.data()).position)) {
      ctx_.faults.report(m.source, "more of a ring is read than was written");
    }
  }
}

}  // namespace weft
