#include "weft/txn/piece_sender.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/key_part.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/piece.h"

namespace weft {

namespace {

Kind kind_of_phase(Phase phase) {
  switch (phase) {
    case Phase::kLock:
      return Kind::kLock;
    case Phase::kValidate:
      return Kind::kValidate;
    case Phase::kReplicate:
      return Kind::kReplicate;
    case Phase::kUnlock:
      return Kind::kUnlock;
    case Phase::kExecute:
    case Phase::kDone:
      break;
  }
  WEFT_CHECK(false, "a commit has these phases");
  return Kind::kUnlock;
}

}  // namespace

PieceSender::PieceSender(WorkerContext& ctx, uint32_t piece_bytes) : ctx_(ctx), piece_bytes_(piece_bytes) {
  WEFT_CHECK(piece_bytes >= kPieceBytesLeast && piece_bytes <= kPieceBytesMax && piece_bytes % 8 == 0,
             "a piece is a message of one packet");
}

void PieceSender::add(const TxnSlot& slot, Phase phase, NodeSet nodes) {
  WEFT_CHECK((nodes - slot.participants).empty(), "a commit speaks to its participants only");
  const CommitRequest request = MessageTransport::request_of(ctx_.self, slot);
  for (const NodeId node : nodes) {
    // An unlock names keys only where it brings values, and an abort none.
    const bool names = phase != Phase::kUnlock ||
                       (slot.stage == TxnStage::kCommitting && slot.steps[index_of(phase)].send_to.contains(node));
    Send send{.slot = &slot,
              .request = request,
              .phase = phase,
              .node = node,
              .count = names ? slot.count : uint16_t{0},
              .entry = 0,
              .within = 0,
              .keys = 0,
              .total = 0,
              .sent = 0};
    measure(&send);
    sends_.push_back(send);
  }
  ctx_.counters.phase_messages[index_of(phase)] += static_cast<uint64_t>((nodes - NodeSet::of(ctx_.self)).size());
}

void PieceSender::measure(Send* send) const {
  size_t bytes = CommitRequest::bytes(ctx_.nodes);
  for (uint16_t i = 0; i < send->count; ++i) {
    const Entry& e = send->slot->entry(i);
    if (!e.at[index_of(send->phase)].contains(send->node)) continue;
    bytes += key_part_bytes(MessageTransport::key_part(*send->slot, e, i, send->phase));
    ++send->keys;
  }
  send->total = static_cast<uint32_t>(bytes);
}

// The slot may be another transaction's by now if the peer was lost, and views do not change.
bool PieceSender::is_over(const Send& send) const {
  return send.slot->sequence != send.request.sequence || !send.slot->in_phases() || ctx_.views.is_lost(send.node);
}

bool PieceSender::step() {
  size_t sent = 0;
  if (++first_ >= sends_.size()) first_ = 0;
  for (size_t i = 0; i < sends_.size() && sent < kLargeStepBytes; ++i) {
    Send& send = sends_[(first_ + i) % sends_.size()];
    if (is_over(send)) continue;
    while (send.sent != send.total && sent < kLargeStepBytes &&
           ctx_.port.queued_bytes(send.node, kPieceFlow) < kPieceWindowBytes) {
      const uint32_t before = send.sent;
      send_piece(send);
      sent += send.sent - before;
    }
  }
  std::erase_if(sends_, [&](const Send& send) { return send.sent == send.total || is_over(send); });
  return sent != 0;
}

void PieceSender::send_piece(Send& send) {
  const uint32_t bytes = std::min(piece_bytes_, send.total - send.sent);
  if (send.sent != 0) WEFT_MARK("a commit message in several pieces");
  const uint32_t tag = PieceHeader::piece_tag(send.request.slot, kind_of_phase(send.phase));
  std::byte* to =
      ctx_.port.reserve(send.node, kPieceFlow, static_cast<uint8_t>(Kind::kPiece), sizeof(PieceHeader) + bytes, tag);
  store(to, PieceHeader{send.request.tag(ctx_.nodes), send.total, send.sent, send.keys});
  to += sizeof(PieceHeader);
  const std::byte* const end = to + bytes;
  if (send.sent == 0) to = send.request.put(to, ctx_.nodes);
  to = copy_some(send, to, end);
  WEFT_CHECK(to == end, "a message is as long as it was measured");
  send.sent += bytes;
}

// Copies the bytes of keys that come next, as put_key writes them; returns their end.
std::byte* PieceSender::copy_some(Send& send, std::byte* to, const std::byte* end) const {
  while (to != end && send.entry < send.count) {
    const Entry& e = send.slot->entry(send.entry);
    if (!e.at[index_of(send.phase)].contains(send.node)) {
      ++send.entry;
      continue;
    }
    const KeyPart part = MessageTransport::key_part(*send.slot, e, send.entry, send.phase);
    std::array<std::byte, kWideHeadBytes> head;
    const auto head_bytes = static_cast<size_t>(put_key_head(head.data(), part) - head.data());
    const std::array<ByteView, 3> segments{
        ByteView(head.data(), head_bytes), ByteView(e.key.bytes.data(), padded(part.key_bytes)),
        ByteView(e.new_value, (part.flags & kHasValue) != 0 ? padded(part.value_bytes) : 0)};
    size_t skip = send.within;
    for (const ByteView& segment : segments) {
      if (skip >= segment.size()) {
        skip -= segment.size();
        continue;
      }
      const size_t bytes = std::min(segment.size() - skip, static_cast<size_t>(end - to));
      std::memcpy(to, segment.data() + skip, bytes);
      to += bytes;
      send.within += static_cast<uint32_t>(bytes);
      skip = 0;
      if (to == end) break;
    }
    if (send.within != key_part_bytes(part)) continue;
    send.within = 0;
    ++send.entry;
  }
  return to;
}

}  // namespace weft
