#include "weft/txn/log_receiver.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/messages.h"

namespace weft {

namespace {

constexpr uint64_t kDeferredStepNs = 50'000;  // longest time between two retries of deferred writes

}  // namespace

LogReceiver::LogReceiver(WorkerContext& ctx, const VerbMemory& memory, CommitParser& parser, Participant& participant)
    : ctx_(ctx), parser_(parser), participant_(participant), scratch_(memory.ring_bytes() / 4 + 64) {
  for (int n = 0; n < ctx.nodes; ++n) {
    rings_.emplace_back(memory.ring(ctx.id, NodeId(static_cast<uint8_t>(n))), memory.ring_bytes());
  }
}

void LogReceiver::drain() {
  if (!ctx_.views.active()) return;
  for (int n = 0; n < ctx_.nodes; ++n) {
    const NodeId source(static_cast<uint8_t>(n));
    LogRingReader::Entry entry;
    while (rings_[source.value].next(ctx_.view().epoch.value, scratch_.data(), &entry)) {
      handle({source, static_cast<uint8_t>(Kind::kReplicate), entry.tag, entry.body}, Participant::Origin::kRing);
    }
  }
}

bool LogReceiver::has_entries() const {
  return std::any_of(rings_.begin(), rings_.end(), [&](const LogRingReader& ring) {
    LogRingReader look = ring;
    LogRingReader::Entry entry;
    return look.next(ctx_.view().epoch.value, scratch_.data(), &entry);
  });
}

// Handles a message that is not part of a burst.
void LogReceiver::handle(Message m, Participant::Origin origin) {
  WEFT_CHECK(m.source.value < ctx_.nodes && static_cast<Kind>(m.kind) == Kind::kReplicate, "a log entry");
  batch_.begin();
  batch_.note(m, 0, parser_.parse_keys<Kind::kReplicate>(m, &batch_));
  if (!m.ok) {
    ctx_.faults.report(m.source, "a log entry that does not parse");
    return;
  }
  participant_.take_entry(batch_, m, origin);
}

void LogReceiver::defer(const Message& m) {
  WEFT_MARK("a write waits for what it follows");
  WEFT_CHECK(static_cast<Kind>(m.kind) == Kind::kReplicate, "only what is logged waits");
  deferred_.push_back({m.source, m.tag, {m.body.begin(), m.body.end()}});
}

uint64_t LogReceiver::deadline_ns() const { return deferred_.empty() ? UINT64_MAX : ctx_.now_ns() + kDeferredStepNs; }

bool LogReceiver::step(uint64_t) {
  if (!ctx_.views.active()) return false;
  bool busy = false;
  for (int n = 0; n < ctx_.nodes; ++n) {
    LogRingReader& ring = rings_[static_cast<size_t>(n)];
    if (!ring.acknowledgement_due()) continue;
    ring.tell();
    std::byte* at = ctx_.port.reserve(NodeId(static_cast<uint8_t>(n)), Flow::kCommit,
                                      static_cast<uint8_t>(Kind::kRingRead), sizeof(RingRead));
    store(at, RingRead{ring.position()});
    busy = true;
  }
  if (deferred_.empty()) return busy;
  std::vector<Deferred> waiting;
  waiting.swap(deferred_);
  for (const Deferred& deferred : waiting) {
    handle({deferred.source, static_cast<uint8_t>(Kind::kReplicate), deferred.tag, deferred.body},
           Participant::Origin::kMessage);
  }
  return busy || deferred_.size() != waiting.size();
}

void LogReceiver::begin_view() {
  for (LogRingReader& ring : rings_) ring.begin();
  deferred_.clear();
}

}  // namespace weft
