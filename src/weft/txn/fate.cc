// What became of a transaction, for whoever has only its id. Every worker notes what it learns for certain: as a
// participant when it is told, or when recovery has decided; as a coordinator when it decides. So:
//
// - A note is final: it is made only when no crash that the cluster survives can lead to the other outcome.
// - While the coordinator is a member it knows: it runs the transaction, or has noted it. When it is not, the recovery
//   into the view without it has decided everything of it that was open, at every member.
//
// Who asks, asks all members, in one view: any note is the answer. If somebody says that it is open, or the view
// changes meanwhile, it asks again. If nobody has a trace it is forgotten.
#include <algorithm>
#include <utility>

#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

constexpr uint64_t kSilentNs = 10'000'000;  // who has not answered is asked again
constexpr uint64_t kOpenNs = 500'000;       // and all, if it was open
constexpr uint64_t kFullNs = 50'000;        // the asker's mailbox is full

}  // namespace

// Noting.

// A commit that wrote nothing leaves no trace: until it is told it may still become an abort (rule E4), and it makes no
// difference to anybody.
void Engine::note_told(const TxnSlot& slot) {
  const Outcome& out = slot.outcome;
  if (out.kind == OutcomeKind::kUnknown || (out.code == Code::kOk && slot.row == &kReadOnly)) return;
  note_outcome(slot.incarnation, slot.sequence, out.code == Code::kOk);
}

// The abort is now known to have reached all who had locked, or what they had is decided.
void Engine::note_aborted_here(LogRecord& record) {
  if (record.aborted_here == 0) return;
  note_outcome(record.finished_incarnation, std::exchange(record.aborted_here, 0), false);
}

// Answering.

Standing Engine::standing_of(uint32_t incarnation, uint64_t sequence) const {
  switch (outcomes_.find(incarnation, sequence)) {
    case OutcomeLog::Known::kCommitted:
      return Standing::kCommitted;
    case OutcomeLog::Known::kAborted:
      return Standing::kAborted;
    case OutcomeLog::Known::kNothing:
      break;
  }
  if (!active_ && !bugs_.has(Bug::kForgetsOpen)) return Standing::kOpen;
  if (incarnation == incarnation_) {
    for (const auto& slot : slots_) {
      const bool ended = slot->state == SlotState::kFree || slot->state == SlotState::kFinished;
      if (!ended && slot->sequence == sequence) return Standing::kOpen;
    }
  }
  for (const Member& member : view_->members) {
    if (member.incarnation != incarnation) continue;
    for (int s = 0; s < log_.slots(); ++s) {
      const LogRecord& record = log_.at(member.node, static_cast<uint8_t>(s));
      if (record.state == 0 || record.incarnation != incarnation || record.sequence != sequence) continue;
      return bugs_.has(Bug::kOpenIsAborted) ? Standing::kAborted : Standing::kOpen;
    }
  }
  return Standing::kNothing;
}

void Engine::on_fate_ask(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    // Nobody holds credit for this. Who is not answered asks again.
    if (port_.backlog(m.source, Flow::kExecution) > limits_.credit_bytes / 2) continue;
    const auto ask = load<FateAsk>(m.body.data());
    FateAnswer answer{};
    answer.question = ask.question;
    answer.standing = static_cast<uint8_t>(standing_of(ask.incarnation, ask.sequence));
    store(port_.reserve(m.source, Flow::kExecution, static_cast<uint8_t>(Kind::kFateAnswer), sizeof answer), answer);
  }
}

// Asking.

void Engine::ask(TxnId id, Worker* asker, std::shared_ptr<FateReply> reply) {
  Question& question = asked_.emplace_back();
  question.id = id;
  question.asker = asker;
  question.reply = std::move(reply);
  question.until_ns = worker_->now_ns() + limits_.outcome_wait_ms * uint64_t{1'000'000};
}

bool Engine::ask_step() {
  const size_t before = asked_.size();
  for (Question& question : asked_) {
    if (!question.fate) look_at(question);
    if (!question.fate) continue;
    const auto post = [reply = question.reply, fate = *question.fate] {
      reply->fate = fate;
      reply->done = true;
    };
    if (question.asker->mailbox().post(post)) {
      question.reply = nullptr;
    } else {
      question.due_ns = worker_->now_ns() + kFullNs;
    }
  }
  std::erase_if(asked_, [](const Question& question) { return question.reply == nullptr; });
  return asked_.size() != before;
}

void Engine::look_at(Question& question) {
  const uint64_t now_ns = worker_->now_ns();
  if (retired_) {
    // Its own notes are as good as any, but that it has none says nothing: there is nobody else that it could ask.
    hear_standing(question, standing_of(question.id.incarnation, question.id.sequence));
    if (!question.fate) question.fate = Fate::kNotKnownYet;
  } else if (now_ns >= question.until_ns) {
    question.fate = Fate::kNotKnownYet;
  } else if (!active_) {
    WEFT_MARK("a question waits for recovery");
    question.epoch = 0;
    question.due_ns = now_ns + kOpenNs;
  } else if (question.epoch != view_->epoch.value || now_ns >= question.due_ns) {
    begin_round(question);
  }
}

void Engine::begin_round(Question& question) {
  question.number = ++rounds_;
  question.epoch = view_->epoch.value;
  question.waiting = view_->member_mask() & ~(uint64_t{1} << self_.value);
  question.open = false;
  question.due_ns = worker_->now_ns() + kSilentNs;
  hear_standing(question, standing_of(question.id.incarnation, question.id.sequence));
  if (question.fate) return;
  const FateAsk ask{question.id.sequence, question.id.incarnation, question.number};
  for_each_node(question.waiting, [&](NodeId node) {
    if (port_.backlog(node, Flow::kExecution) > limits_.credit_bytes / 2) return;  // asked again when it is due
    store(port_.reserve(node, Flow::kExecution, static_cast<uint8_t>(Kind::kFateAsk), sizeof ask), ask);
  });
  if (question.waiting == 0) end_round(question);
}

void Engine::hear_standing(Question& question, Standing standing) {
  if (standing == Standing::kCommitted) question.fate = Fate::kCommitted;
  if (standing == Standing::kAborted) question.fate = Fate::kAborted;
  if (standing == Standing::kOpen) question.open = true;
}

// All have answered, and nobody knows.
void Engine::end_round(Question& question) {
  if (question.open) {
    WEFT_MARK("a question about an open transaction");
    question.due_ns = worker_->now_ns() + kOpenNs;
  } else {
    question.fate = Fate::kForgotten;
    question.due_ns = worker_->now_ns();
  }
}

void Engine::on_fate_answer(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    const auto answer = load<FateAnswer>(m.body.data());
    const uint64_t bit = uint64_t{1} << m.source.value;
    for (Question& question : asked_) {
      if (question.number != answer.question || (question.waiting & bit) == 0 || question.fate) continue;
      question.waiting &= ~bit;
      hear_standing(question, static_cast<Standing>(answer.standing));
      if (question.waiting == 0 && !question.fate) end_round(question);
      if (question.fate) question.due_ns = worker_->now_ns();
    }
  }
}

}  // namespace weft
