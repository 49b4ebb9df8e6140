#include "weft/txn/scan_server.h"

#include <algorithm>
#include <cstring>

#include "weft/txn/scan_messages.h"
#include "weft/txn/txn_scan.h"

namespace weft {

bool ScanServer::parse_range(const Message& m) const {
  ScanRequest request;
  PageRange range;
  return m.tag < static_cast<uint32_t>(slots_) && take_range(ctx_, m, &request, &range);
}

void ScanServer::on_range(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (m.ok) answer(m);
  }
}

void ScanServer::answer(const Message& m) {
  ScanRequest request;
  PageRange range;
  if (!take_range(ctx_, m, &request, &range)) return;  // parsed before
  const size_t item_max =
      page_item_bytes(ctx_.limits.key_bytes_max, ctx_.tables.at(range.table)->spec().value_bytes_max);
  range.bytes_max = std::min(range.bytes_max, std::max<size_t>(kScanPageBytes, item_max));
  ScanReply reply{};
  reply.erases = ctx_.tables.at(range.table)->erases(range.partition);
  page_.clear();
  const PageEnd end = scans_.read(range, &page_);
  if (end.code != Code::kOk) page_.clear();
  reply.needed = end.needed;
  reply.sequence = request.sequence;
  reply.scan = request.scan;
  reply.code = static_cast<uint8_t>(end.code);
  reply.more = end.more ? 1 : 0;
  reply.items = end.code == Code::kOk ? end.items : 0;
  reply.holder = end.holder.bits;
  // A peer has credit for its pages, and one large item at a time: what is queued for it is bounded.
  const size_t queued_max = size_t{ctx_.limits.credit_bytes} * 3 + ctx_.limits.value_bytes_max + item_max;
  if (ctx_.port.queued_bytes(m.source, Flow::kExecution) > queued_max) {
    ctx_.faults.report(m.source, "more scans than it has credit for");
    return;
  }
  const size_t bytes = sizeof reply + page_.size();
  std::byte* const at = ctx_.port.reserve(m.source, bytes <= kScanSmallPage ? Flow::kCommit : Flow::kExecution,
                                          static_cast<uint8_t>(Kind::kScanned), bytes, m.tag);
  store(at, reply);
  if (!page_.empty()) std::memcpy(at + sizeof reply, page_.data(), page_.size());
}

void ScanServer::on_check(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    size_t rest = 0;
    if (!m.ok || !take_checks_size(m, &rest)) continue;
    const CommitRequest request = CommitRequest::of(m.source, m.tag, m.body.data() + rest, ctx_.nodes);
    PhaseResult result = check(m, request, rest);
    if (result.code == Code::kOk) {
      result = participant_.validate(request, batch.keys_of(m));
    } else {  // nobody can commit it: it is not replicated yet
      participant_.note_outcome(ctx_.views.incarnation_of(request.coordinator), request.sequence, false);
    }
    participant_.answer(request, Phase::kValidate, result);
  }
}

PhaseResult ScanServer::check(const Message& m, const CommitRequest& request, size_t rest) {
  const std::byte* at = m.body.data() + sizeof(uint64_t);
  const std::byte* const end = m.body.data() + rest;
  PhaseResult result;
  ScanCheck check;
  uint16_t scan = 0;
  while (result.code == Code::kOk && at != end && take_check(ctx_, &at, end, &check, &scan)) {
    result.code = scans_.check(check, ctx_.owner(request.coordinator, request.slot), &result.holder);
    result.index = static_cast<uint16_t>(TxnScan::kIndexBase + scan);
  }
  if (result.code == Code::kOk) result.index = 0;
  return result;
}

}  // namespace weft
