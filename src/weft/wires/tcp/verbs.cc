#include "weft/wires/tcp/verbs.h"

#include "weft/base/check.h"
#include "weft/fabric/execute_verb.h"

namespace weft {
namespace {

// From time to time an unsignalled WRITE asks for a reply, so that the queue does not fill with verbs that completed
// long ago.
constexpr uint32_t kSilentMax = kTcpVerbsMax / 8;

constexpr size_t reply_bytes(size_t returned) { return tcp_frame_bytes(sizeof(TcpVerbReply) + returned); }

size_t request_bytes(const Verb& verb) {
  return tcp_frame_bytes(sizeof(TcpVerbRequest) + (verb.kind == VerbKind::kWrite ? verb.bytes : 0));
}

}  // namespace

TcpVerbQueue::TcpVerbQueue(NodeId peer, Domain domain, Completions* completions)
    : peer_(peer), domain_(domain), completions_(completions), pending_(std::make_unique<Pending[]>(kTcpVerbsMax)) {}

size_t TcpVerbQueue::returned_bytes(const Verb& verb) {
  if (is_atomic(verb.kind)) return 8;
  return verb.kind == VerbKind::kRead ? verb.bytes : 0;
}

bool TcpVerbQueue::post(std::span<const Verb> verbs, TcpOutput& output) {
  size_t out_bytes = 0;
  size_t window_bytes = 0;
  for (const Verb& verb : verbs) {
    WEFT_CHECK(is_atomic(verb.kind) || verb.bytes <= kTcpVerbBytesMax, "a verb is at most kTcpVerbBytesMax");
    out_bytes += request_bytes(verb);
    window_bytes += reply_bytes(returned_bytes(verb));
  }
  WEFT_CHECK(verbs.size() <= kTcpVerbsMax && window_bytes <= kTcpVerbWindowBytes && out_bytes <= output.bytes_max(),
             "one post fits into an empty queue");
  if (posted_ - retired_ + verbs.size() > kTcpVerbsMax) return false;
  if (window_bytes_ + window_bytes > kTcpVerbWindowBytes) return false;
  if (broken_ && awaits_replies()) return false;
  if (!broken_ && !output.fits(out_bytes)) return false;
  if (!completions_->reserve(verbs.size())) return false;
  for (const Verb& verb : verbs) {
    if (broken_) {
      completions_->add({peer_, VerbStatus::kFlushed, verb.tag});
    } else {
      put(verb, output);
    }
  }
  return true;
}

bool TcpVerbQueue::awaits_replies() {
  for (uint32_t sequence = retired_; sequence != posted_; ++sequence) {
    if (!at(sequence).reported) return true;
  }
  return false;
}

void TcpVerbQueue::put(const Verb& verb, TcpOutput& output) {
  const bool write = verb.kind == VerbKind::kWrite;
  const bool replies = verb.signalled || !write || ++silent_ >= kSilentMax;
  if (replies) silent_ = 0;
  const auto returned = static_cast<uint32_t>(returned_bytes(verb));
  at(posted_++) = {verb.local, verb.tag, returned, generation_, verb.kind, verb.signalled, replies, false};
  window_bytes_ += reply_bytes(returned);

  const size_t payload = sizeof(TcpVerbRequest) + (write ? verb.bytes : 0);
  std::byte* const frame = output.prepare(tcp_frame_bytes(payload));
  std::byte* const body = tcp_put_frame(frame, TcpFrameKind::kRequest, Flow{}, payload);
  store(body, TcpVerbRequest{verb.offset, verb.operand, verb.compare, is_atomic(verb.kind) ? 8 : verb.bytes, grant_,
                             generation_, verb.region.value, static_cast<uint8_t>(verb.kind),
                             static_cast<uint8_t>(static_cast<uint8_t>(domain_) | (replies ? kTcpReplies : 0))});
  if (write && verb.bytes != 0) std::memcpy(body + sizeof(TcpVerbRequest), verb.local, verb.bytes);
  output.commit(tcp_frame_bytes(payload));
}

bool TcpVerbQueue::take_reply(const TcpFrame& frame, TcpFault* fault) {
  const uint32_t sequence = frame.reply.sequence;
  if (sequence - retired_ >= posted_ - retired_) {
    fault->set("bad verb reply: sequence %u, outstanding are %u of them from %u", sequence, posted_ - retired_,
               retired_);
    return false;
  }
  const auto status = static_cast<VerbStatus>(frame.reply.status);
  const size_t expected = status == VerbStatus::kDone ? at(sequence).bytes : 0;
  if (frame.data.size() != expected) {
    fault->set("bad verb reply: %zu bytes, must be %zu", frame.data.size(), expected);
    return false;
  }
  for (; retired_ != sequence; ++retired_) {
    if (at(retired_).replies) {
      fault->set("bad verb reply: sequence %u before that of %u", sequence, retired_);
      return false;
    }
    retire(at(retired_), VerbStatus::kDone);
  }
  Pending& pending = at(sequence);
  if (expected != 0 && !pending.reported) std::memcpy(pending.local, frame.data.data(), expected);
  retire(pending, status);
  ++retired_;
  if (status != VerbStatus::kDone && pending.generation == generation_) broken_ = true;
  return true;
}

void TcpVerbQueue::retire(Pending& pending, VerbStatus status) {
  window_bytes_ -= reply_bytes(pending.bytes);
  if (pending.reported) return;
  if (pending.signalled || status != VerbStatus::kDone) {
    completions_->add({peer_, status, pending.tag});
  } else {
    completions_->forgo();
  }
}

void TcpVerbQueue::reset() {
  if (!broken_) return;
  broken_ = false;
  ++generation_;
}

void TcpVerbQueue::flush() {
  for (uint32_t sequence = retired_; sequence != posted_; ++sequence) {
    Pending& pending = at(sequence);
    if (pending.reported) continue;
    pending.reported = true;
    completions_->add({peer_, VerbStatus::kFlushed, pending.tag});
  }
}

bool TcpVerbServer::serve(const TcpFrame& frame, TcpOutput& output, TcpFault* fault) {
  const TcpVerbRequest& request = frame.request;
  const auto kind = static_cast<VerbKind>(request.kind);
  const size_t returned = kind == VerbKind::kWrite ? 0 : request.bytes;
  if (!output.fits_reply(reply_bytes(returned))) {
    fault->set("bad verb request: replies over the window of %zu bytes", kTcpVerbWindowBytes);
    return false;
  }
  // The reply is written directly into the output, first as a success.
  std::byte* const at = output.prepare(reply_bytes(returned));
  std::byte* const body = tcp_put_frame(at, TcpFrameKind::kReply, Flow{}, sizeof(TcpVerbReply) + returned);
  VerbStatus status = VerbStatus::kFlushed;
  if (static_cast<int32_t>(request.generation - broken_generation_) > 0) {
    status = land(frame, body + sizeof(TcpVerbReply)) ? VerbStatus::kDone : VerbStatus::kRefused;
    if (status == VerbStatus::kRefused) broken_generation_ = request.generation;
  }
  const uint32_t sequence = sequence_++;
  if (status == VerbStatus::kDone && (request.domain & kTcpReplies) == 0) return true;
  const size_t kept = status == VerbStatus::kDone ? returned : 0;
  if (kept != returned) tcp_put_frame(at, TcpFrameKind::kReply, Flow{}, sizeof(TcpVerbReply));
  store(body, TcpVerbReply{sequence, static_cast<uint8_t>(status), static_cast<uint8_t>(domain_), {0, 0}});
  output.commit(reply_bytes(kept));
  return true;
}

// Entering and leaving a Section are locked instructions: they also keep the verbs in order, as the queue must (a load
// does not pass the store of the verb before it).
bool TcpVerbServer::land(const TcpFrame& frame, std::byte* returned) {
  if (regions_ == nullptr) return false;
  const TcpVerbRequest& request = frame.request;
  Verb verb;
  verb.kind = static_cast<VerbKind>(request.kind);
  verb.region = RegionId(request.region);
  verb.offset = request.offset;
  verb.bytes = request.bytes;
  verb.operand = request.operand;
  verb.compare = request.compare;
  verb.local = verb.kind == VerbKind::kWrite ? const_cast<std::byte*>(frame.data.data()) : returned;  // only read
  const Regions::Section section(*regions_, peer_, domain_);
  return section.grant() == request.grant && execute_verb(section, verb);
}

bool TcpVerbServer::announce(TcpOutput& output) {
  if (regions_ == nullptr) return true;
  const uint32_t grant = regions_->grant_of(peer_, domain_);
  if (grant == announced_) return true;
  constexpr size_t kBytes = tcp_frame_bytes(sizeof(TcpGrant));
  if (!output.fits(kBytes)) return false;
  store(tcp_put_frame(output.prepare(kBytes), TcpFrameKind::kGrant, Flow{}, sizeof(TcpGrant)),
        TcpGrant{grant, static_cast<uint32_t>(domain_)});
  output.commit(kBytes);
  announced_ = grant;
  return true;
}

}  // namespace weft
