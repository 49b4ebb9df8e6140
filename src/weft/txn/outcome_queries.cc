#include "weft/txn/outcome_queries.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

namespace {

constexpr uint64_t kSilentNs = 10'000'000;  // a member that has not answered is asked again
constexpr uint64_t kOpenNs = 500'000;       // all are asked again, if it was open
constexpr uint64_t kFullNs = 50'000;        // the asker's mailbox is full

}  // namespace

KnownOutcome OutcomeQueries::known_outcome(uint32_t incarnation, uint64_t sequence) const {
  switch (outcomes_.find(incarnation, sequence)) {
    case OutcomeLog::Known::kCommitted:
      return KnownOutcome::kCommitted;
    case OutcomeLog::Known::kAborted:
      return KnownOutcome::kAborted;
    case OutcomeLog::Known::kNothing:
      break;
  }
  if (!ctx_.views.active() && !ctx_.bugs.has(PlantedBug::kForgetsOpen)) return KnownOutcome::kOpen;
  if (incarnation == ctx_.views.incarnation()) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      const TxnSlot& slot = slots_.at(i);
      const bool ended = slot.stage == TxnStage::kFree || slot.stage == TxnStage::kFinished;
      if (!ended && slot.sequence == sequence) return KnownOutcome::kOpen;
    }
  }
  for (const Member& member : ctx_.view().members) {
    if (member.incarnation != incarnation) continue;
    for (int s = 0; s < records_.slots(); ++s) {
      const PreparedTxn& record = records_.at(member.node, static_cast<uint8_t>(s));
      if (record.state == 0 || record.incarnation != incarnation || record.sequence != sequence) continue;
      return ctx_.bugs.has(PlantedBug::kOpenIsAborted) ? KnownOutcome::kAborted : KnownOutcome::kOpen;
    }
  }
  return KnownOutcome::kNothing;
}

bool OutcomeQueries::parse_answer(const Message& m) const {
  return m.body.size() == sizeof(OutcomeReply) &&
         load<OutcomeReply>(m.body.data()).standing <= static_cast<uint8_t>(KnownOutcome::kAborted);
}

uint64_t OutcomeQueries::deadline_ns() const {
  uint64_t deadline = UINT64_MAX;
  for (const Query& query : queries_) deadline = std::min(deadline, query.due_ns);
  return deadline;
}

void OutcomeQueries::on_ask(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    // Nobody holds credit for this. An asker without an answer asks again.
    if (ctx_.port.queued_bytes(m.source, Flow::kExecution) > ctx_.limits.credit_bytes / 2) continue;
    const auto ask = load<OutcomeQuery>(m.body.data());
    OutcomeReply answer{};
    answer.question = ask.question;
    answer.standing = static_cast<uint8_t>(known_outcome(ask.incarnation, ask.sequence));
    store(ctx_.port.reserve(m.source, Flow::kExecution, static_cast<uint8_t>(Kind::kOutcomeReply), sizeof answer),
          answer);
  }
}

void OutcomeQueries::ask(TxnId id, Worker* asker, std::shared_ptr<OutcomeAnswer> reply) {
  WEFT_CHECK(asker != nullptr && reply != nullptr, "who asks has a place for the answer");
  Query& query = queries_.emplace_back();
  query.id = id;
  query.asker = asker;
  query.reply = std::move(reply);
  query.until_ns = ctx_.now_ns() + ctx_.limits.outcome_timeout_ms * uint64_t{1'000'000};
}

bool OutcomeQueries::step(uint64_t now_ns) {
  if (queries_.empty()) return false;
  const size_t before = queries_.size();
  for (Query& query : queries_) {
    if (!query.status) look_at(query);
    if (!query.status) continue;
    const auto post = [reply = query.reply, status = *query.status] {
      reply->status = status;
      reply->done = true;
    };
    if (query.asker->mailbox().post(post)) {
      query.reply = nullptr;
    } else {
      query.due_ns = now_ns + kFullNs;
    }
  }
  std::erase_if(queries_, [](const Query& query) { return query.reply == nullptr; });
  return queries_.size() != before;
}

void OutcomeQueries::look_at(Query& query) {
  const uint64_t now_ns = ctx_.now_ns();
  if (ctx_.views.removed()) {
    // What this node has recorded is as good as any answer, but that it has recorded nothing says nothing: there is
    // nobody else to ask.
    hear(query, known_outcome(query.id.incarnation, query.id.sequence));
    if (!query.status) query.status = TxnStatus::kPending;
  } else if (now_ns >= query.until_ns) {
    query.status = TxnStatus::kPending;
  } else if (!ctx_.views.active()) {
    WEFT_MARK("a question waits for recovery");
    query.epoch = 0;
    query.waiting = {};  // ignore answers to the round that ended
    query.due_ns = now_ns + kOpenNs;
  } else if (query.epoch != ctx_.view().epoch.value || now_ns >= query.due_ns) {
    begin_round(query);
  }
}

void OutcomeQueries::begin_round(Query& query) {
  query.number = ++rounds_;
  query.epoch = ctx_.view().epoch.value;
  query.waiting = ctx_.view().member_nodes() - NodeSet::of(ctx_.self);
  query.open = false;
  query.due_ns = ctx_.now_ns() + kSilentNs;
  hear(query, known_outcome(query.id.incarnation, query.id.sequence));
  if (query.status) return;
  const OutcomeQuery ask{query.id.sequence, query.id.incarnation, query.number};
  for (const NodeId node : query.waiting) {
    if (ctx_.port.queued_bytes(node, Flow::kExecution) > ctx_.limits.credit_bytes / 2)
      continue;  // asked again when it is due
    store(ctx_.port.reserve(node, Flow::kExecution, static_cast<uint8_t>(Kind::kOutcomeQuery), sizeof ask), ask);
  }
  if (query.waiting.empty()) end_round(query);
}

void OutcomeQueries::hear(Query& query, KnownOutcome standing) {
  if (standing == KnownOutcome::kCommitted) query.status = TxnStatus::kCommitted;
  if (standing == KnownOutcome::kAborted) query.status = TxnStatus::kAborted;
  if (standing == KnownOutcome::kOpen) query.open = true;
}

// All have answered, and nobody knows.
void OutcomeQueries::end_round(Query& query) {
  WEFT_CHECK(query.waiting.empty() && !query.status, "a round ends when all have answered and nobody knows");
  if (query.open) {
    WEFT_MARK("a question about an open transaction");
    query.due_ns = ctx_.now_ns() + kOpenNs;
  } else {
    query.status = TxnStatus::kUnknownTxn;
    query.due_ns = ctx_.now_ns();
  }
}

void OutcomeQueries::on_answer(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const auto answer = load<OutcomeReply>(m.body.data());
    for (Query& query : queries_) {
      if (query.number != answer.question || !query.waiting.contains(m.source) || query.status) continue;
      query.waiting.remove(m.source);
      hear(query, static_cast<KnownOutcome>(answer.standing));
      if (query.waiting.empty() && !query.status) end_round(query);
      if (query.status) query.due_ns = ctx_.now_ns();
    }
  }
}

}  // namespace weft
