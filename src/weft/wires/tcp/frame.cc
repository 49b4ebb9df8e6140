#include "weft/wires/tcp/frame.h"

#include <cstdarg>
#include <cstdio>

#include "weft/fabric/execute_verb.h"

namespace weft {
namespace {

bool check_header(const TcpFrameHeader& header, TcpFault* fault) {
  size_t least = 1;
  size_t most = 0;
  switch (static_cast<TcpFrameKind>(header.kind)) {
    case TcpFrameKind::kPacket:
      most = kPacketBytesMax;
      break;
    case TcpFrameKind::kRequest:
      least = sizeof(TcpVerbRequest);
      most = sizeof(TcpVerbRequest) + kTcpVerbBytesMax;
      break;
    case TcpFrameKind::kReply:
      least = sizeof(TcpVerbReply);
      most = sizeof(TcpVerbReply) + kTcpVerbBytesMax;
      break;
    case TcpFrameKind::kGrant:
      least = most = sizeof(TcpGrant);
      break;
  }
  const bool packet = static_cast<TcpFrameKind>(header.kind) == TcpFrameKind::kPacket;
  if (most == 0) {
    fault->set("bad frame: kind %u is unknown", header.kind);
  } else if (header.bytes < least || header.bytes > most) {
    fault->set("bad frame: %u bytes of kind %u, must be %zu to %zu", header.bytes, header.kind, least, most);
  } else if (header.flow >= (packet ? kFlows : 1)) {
    fault->set("bad frame: flow %u of kind %u", header.flow, header.kind);
  } else if (header.reserved != 0) {
    fault->set("bad frame: reserved field %u, must be 0", header.reserved);
  } else {
    return true;
  }
  return false;
}

bool check_domain(uint32_t domain, TcpFault* fault) {
  if (domain < kDomains) return true;
  fault->set("bad verb: access domain %u, must be below %d", domain, kDomains);
  return false;
}

bool check_request(const TcpVerbRequest& request, size_t data_bytes, TcpFault* fault) {
  const auto kind = static_cast<VerbKind>(request.kind);
  const bool replies = (request.domain & kTcpReplies) != 0;
  if (request.kind > static_cast<uint8_t>(VerbKind::kFetchAdd)) {
    fault->set("bad verb request: kind %u is unknown", request.kind);
  } else if (request.bytes > kTcpVerbBytesMax) {
    fault->set("bad verb request: %u bytes, at most %zu", request.bytes, kTcpVerbBytesMax);
  } else if (data_bytes != (kind == VerbKind::kWrite ? request.bytes : 0)) {
    fault->set("bad verb request: kind %u of %u bytes carries %zu", request.kind, request.bytes, data_bytes);
  } else if (is_atomic(kind) && request.bytes != 8) {
    fault->set("bad verb request: an atomic verb of %u bytes, must be 8", request.bytes);
  } else if (!replies && kind != VerbKind::kWrite) {
    fault->set("bad verb request: kind %u wants no reply", request.kind);
  } else {
    return check_domain(request.domain & ~kTcpReplies, fault);
  }
  return false;
}

bool check_reply(const TcpVerbReply& reply, size_t data_bytes, TcpFault* fault) {
  const auto status = static_cast<VerbStatus>(reply.status);
  if (reply.status > static_cast<uint8_t>(VerbStatus::kFlushed)) {
    fault->set("bad verb reply: status %u is unknown", reply.status);
  } else if (status != VerbStatus::kDone && data_bytes != 0) {
    fault->set("bad verb reply: status %u carries %zu bytes", reply.status, data_bytes);
  } else if ((reply.reserved[0] | reply.reserved[1]) != 0) {
    fault->set("bad verb reply: reserved bytes must be 0");
  } else {
    return check_domain(reply.domain, fault);
  }
  return false;
}

}  // namespace

void TcpFault::set(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);  // NOLINT(clang-analyzer-valist.Uninitialized): it is
  va_end(arguments);
}

TcpDecoded tcp_decode(ByteView bytes, TcpFrame* frame, TcpFault* fault) {
  if (bytes.size() < sizeof(TcpFrameHeader)) return TcpDecoded::kPartial;
  const auto header = load<TcpFrameHeader>(bytes.data());
  if (!check_header(header, fault)) return TcpDecoded::kBad;
  const size_t frame_bytes = tcp_frame_bytes(header.bytes);
  if (bytes.size() < frame_bytes) return TcpDecoded::kPartial;
  const ByteView payload = bytes.subspan(sizeof header, header.bytes);
  frame->kind = static_cast<TcpFrameKind>(header.kind);
  frame->flow = static_cast<Flow>(header.flow);
  frame->frame_bytes = frame_bytes;
  switch (frame->kind) {
    case TcpFrameKind::kPacket:
      frame->data = payload;
      return TcpDecoded::kFrame;
    case TcpFrameKind::kRequest:
      frame->request = load<TcpVerbRequest>(payload.data());
      frame->data = payload.subspan(sizeof(TcpVerbRequest));
      return check_request(frame->request, frame->data.size(), fault) ? TcpDecoded::kFrame : TcpDecoded::kBad;
    case TcpFrameKind::kReply:
      frame->reply = load<TcpVerbReply>(payload.data());
      frame->data = payload.subspan(sizeof(TcpVerbReply));
      return check_reply(frame->reply, frame->data.size(), fault) ? TcpDecoded::kFrame : TcpDecoded::kBad;
    case TcpFrameKind::kGrant:
      frame->grant = load<TcpGrant>(payload.data());
      frame->data = {};
      return check_domain(frame->grant.domain, fault) ? TcpDecoded::kFrame : TcpDecoded::kBad;
  }
  return TcpDecoded::kBad;
}

std::byte* tcp_put_frame(std::byte* at, TcpFrameKind kind, Flow flow, size_t payload) {
  // The padding is in the last word; the payload overwrites the rest of that word.
  if (payload % 8 != 0) store(at + tcp_frame_bytes(payload) - 8, uint64_t{0});
  store(at, TcpFrameHeader{static_cast<uint32_t>(payload), static_cast<uint8_t>(kind), static_cast<uint8_t>(flow), 0});
  return at + sizeof(TcpFrameHeader);
}

}  // namespace weft
