#include "weft/txn/piece_receiver.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/piece.h"

namespace weft {

PieceReceiver::PieceReceiver(WorkerContext& ctx, CommitParser& parser, PreparedTable& records, Participant& participant,
                             size_t message_bytes_max)
    : ctx_(ctx), parser_(parser), records_(records), participant_(participant), message_bytes_max_(message_bytes_max) {}

bool PieceReceiver::parse(const Message& m) const {
  if (m.body.size() <= sizeof(PieceHeader) || m.body.size() % 8 != 0 || m.tag >> 16 != 0) return false;
  if (PieceHeader::slot_of(m.tag) >= records_.slots()) return false;
  const Kind kind = PieceHeader::kind_of(m.tag);
  if (kind != Kind::kLock && kind != Kind::kValidate && kind != Kind::kReplicate && kind != Kind::kUnlock) return false;
  const auto header = load<PieceHeader>(m.body.data());
  const size_t bytes = m.body.size() - sizeof header;
  return header.total <= message_bytes_max_ && header.total % 8 == 0 && header.keys <= ctx_.limits.txn_keys_max &&
         header.offset % 8 == 0 && size_t{header.offset} + bytes <= header.total &&
         static_cast<uint8_t>(header.tag) == PieceHeader::slot_of(m.tag);
}

void PieceReceiver::on_piece(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    if (const char* wrong = take(m, load<PieceHeader>(m.body.data()))) ctx_.faults.report(m.source, wrong);
  }
}

// Returns what is wrong with the piece, or nullptr.
const char* PieceReceiver::take(const Message& m, const PieceHeader& header) {
  const uint8_t slot = PieceHeader::slot_of(m.tag);
  const Kind kind = PieceHeader::kind_of(m.tag);
  const ByteView bytes = m.body.subspan(sizeof header);
  auto at = std::find_if(assemblies_.begin(), assemblies_.end(),
                         [&](const Assembly& a) { return a.source == m.source && a.slot == slot; });
  if (header.offset == 0) {
    if (at != assemblies_.end()) return "a message begins before the last one of its slot was complete";
    size_t begun = header.total;
    for (const Assembly& other : assemblies_) begun += other.source == m.source ? other.total : 0;
    if (begun > message_bytes_max_ + ctx_.limits.credit_bytes)
      return "more bytes in pieces than its credit and its turn";
    Assembly made{m.source, slot, kind, header.tag, header.total, 0, nullptr, nullptr};
    made.block = records_.make_part(header.keys, header.total, &made.bytes);
    at = assemblies_.insert(at, made);
  }
  if (at == assemblies_.end() || at->have != header.offset) return "a piece out of its order";
  if (at->kind != kind || at->tag != header.tag || at->total != header.total || at->block->keys != header.keys) {
    return "a piece of another message";
  }
  std::memcpy(at->bytes + at->have, bytes.data(), bytes.size());
  at->have += static_cast<uint32_t>(bytes.size());
  if (ctx_.bugs.has(PlantedBug::kFirstPieceIsAll) && kind == Kind::kReplicate && header.offset == 0 &&
      at->have >= CommitRequest::bytes(ctx_.nodes)) {
    participant_.answer(CommitRequest::of(m.source, at->tag, at->bytes, ctx_.nodes), Phase::kReplicate, PhaseResult());
  }
  if (at->have != at->total) return nullptr;
  const Assembly whole = *at;
  assemblies_.erase(at);
  arrived(whole);
  return nullptr;
}

// All pieces are here.
void PieceReceiver::arrived(const Assembly& a) {
  Message m{a.source, static_cast<uint8_t>(a.kind), a.tag, {a.bytes, a.total}};
  batch_.begin();
  bool ok = false;
  switch (a.kind) {
    case Kind::kLock:
    case Kind::kValidate:
      ok = parser_.parse_keys<Kind::kLock>(m, &batch_);
      break;
    case Kind::kReplicate:
      ok = parser_.parse_keys<Kind::kReplicate>(m, &batch_);
      break;
    default:
      ok = parser_.parse_unlock(m, &batch_);
  }
  batch_.note(m, 0, ok);
  if (!ok || m.keys != a.block->keys) {
    ctx_.faults.report(m.source, "a message in pieces that does not parse");
    records_.drop_parts(a.block);
    return;
  }
  handle(m, a.block, {a.bytes + a.total, reinterpret_cast<std::byte*>(a.block) + a.block->block_bytes});
}

void PieceReceiver::handle(const Message& m, PreparedKeys* block, std::span<std::byte> room) {
  const CommitRequest request = CommitRequest::of(m.source, m.tag, m.body.data(), ctx_.nodes);
  const std::span<const KeyRef> keys = batch_.keys_of(m);
  if (static_cast<Kind>(m.kind) == Kind::kUnlock) return handle_unlock(m, block);
  if (static_cast<Kind>(m.kind) == Kind::kValidate) {
    participant_.answer(request, Phase::kValidate, participant_.validate(request, keys));
    records_.drop_parts(block);
    return;
  }
  PreparedKey* key = block->all().data();
  for (const KeyRef& ref : keys) new (key++) PreparedKey(ref);
  if (static_cast<Kind>(m.kind) == Kind::kLock) {
    PhaseResult result;
    if (participant_.lock(request, {block, room}, &result)) participant_.answer(request, Phase::kLock, result);
    return;
  }
  PreparedTxn* record = participant_.begin_replicate(request, block);
  if (record == nullptr) return;
  std::vector<uint8_t> roles;
  for (const KeyRef& ref : keys) roles.push_back(participant_.role_of(ref));
  jobs_.push_back({.request = request,
                   .record = record,
                   .part = block,
                   .next = 0,
                   .room = room,
                   .roles = std::move(roles),
                   .carried = nullptr,
                   .values = {},
                   .unlocks = false});
}

void PieceReceiver::handle_unlock(const Message& m, PreparedKeys* block) {
  const CommitRequest request = CommitRequest::of(m.source, m.tag, m.body.data(), ctx_.nodes);
  PreparedTxn* const record = request.commits() ? participant_.begin_unlock(request) : nullptr;
  if (record == nullptr) {
    if (participant_.unlock(request, {})) participant_.answer(request, Phase::kUnlock, PhaseResult());
    records_.drop_parts(block);
    return;
  }
  const std::span<const KeyRef> keys = batch_.keys_of(m);
  jobs_.push_back({.request = request,
                   .record = record,
                   .part = record->locked,
                   .next = 0,
                   .room = {},
                   .roles = {},
                   .carried = block,
                   .values = {keys.begin(), keys.end()},
                   .unlocks = true});
}

bool PieceReceiver::step(uint64_t) {
  size_t bytes = 0;
  bool busy = false;
  while (!jobs_.empty() && bytes < kLargeStepBytes) {
    busy = true;
    if (!run(jobs_.front(), &bytes)) break;
    end(jobs_.front());
    jobs_.pop_front();
  }
  return busy;
}

// Goes on with a job until *bytes are enough; returns whether it is done.
bool PieceReceiver::run(Job& job, size_t* bytes) {
  while (job.part != nullptr && *bytes < kLargeStepBytes) {
    if (job.next == job.part->keys) {
      // A replicate has one part; those before it are of old values.
      job.part = job.unlocks ? job.part->next : nullptr;
      job.next = 0;
      continue;
    }
    const uint32_t index = job.next++;
    PreparedKey& key = job.part->all()[index];
    *bytes += key.room + 256;
    if (job.unlocks) {
      participant_.unlock_key(*job.record, key, job.request, job.values);
    } else {
      participant_.replicate_key(*job.record, key, job.roles[index], &job.room);
    }
  }
  return job.part == nullptr;
}

void PieceReceiver::end(Job& job) {
  if (job.unlocks) {
    participant_.end_unlock(job.request, *job.record, job.answers);
    records_.drop_parts(job.carried);
  } else {
    participant_.end_replicate(job.request, *job.record, job.answers);
  }
}

// Pieces of the next view begin anew.
void PieceReceiver::on_view_ended() {
  for (const Assembly& a : assemblies_) {
    WEFT_MARK("a message in pieces is cut off by a view");
    records_.drop_parts(a.block);
  }
  assemblies_.clear();
  for (Job& job : jobs_) {
    WEFT_MARK("a large message is brought to its end before recovery");
    job.answers = false;
  }
}

}  // namespace weft
