#include "weft/sim/outcome_oracle.h"

#include <algorithm>
#include <utility>

#include "weft/base/marks.h"
#include "weft/txn/txn_worker.h"

namespace weft::sim {

namespace {

constexpr uint32_t kAskPercent = 8;       // chance that a client asks after a transaction
constexpr uint32_t kAskLostPercent = 50;  // the same, if there are transactions whose coordinator has crashed
constexpr size_t kRecent = 40;
constexpr int kAskAtEnd = 20;

const char* text_of(TxnStatus status) {
  return status == TxnStatus::kCommitted ? "committed" : status == TxnStatus::kAborted ? "aborted" : "forgotten";
}

std::string text_of(const TxnId& id) {
  return std::to_string(id.incarnation) + "." + std::to_string(id.worker.value) + "." + std::to_string(id.sequence);
}

}  // namespace

size_t OutcomeOracle::begun(TxnId id, uint32_t executor) {
  Entry& entry = entries_.emplace_back();
  entry.id = id;
  entry.executor = executor;
  return entries_.size() - 1;
}

void OutcomeOracle::acknowledged(size_t at, const Outcome& outcome, bool wrote, Session session) {
  learn(at, outcome.committed() ? TxnStatus::kCommitted : TxnStatus::kAborted, "its coordinator");
  if (!outcome.committed() || !wrote) return;
  const View& view = session.txn_worker()->view();
  Entry& entry = entries_[at];
  // A coordinator that was removed meanwhile tells its client what it knows. Who were members when it committed, and
  // have left since, nobody can say here.
  const auto is_coordinator = [&](const Member& member) { return member.incarnation == entry.id.incarnation; };
  if (std::none_of(view.members.begin(), view.members.end(), is_coordinator)) return;
  for (const Member& member : view.members) entry.members.push_back(member.incarnation);
  entry.copies = std::min_element(view.partitions.begin(), view.partitions.end(), [](const auto& a, const auto& b) {
                   return a.count < b.count;
                 })->count;
}

void OutcomeOracle::lost(size_t at, Record record) {
  Entry& entry = entries_[at];
  entry.record = std::move(record);
  if (entry.status) {
    record_outcome(entry, *entry.status == TxnStatus::kCommitted ? SimOutcome::kOk : SimOutcome::kFail);
  } else {
    lost_.push_back(at);
  }
}

bool OutcomeOracle::wants_to_ask(Random& random) const {
  if (entries_.empty()) return false;
  return random.chance(lost_.empty() ? kAskPercent : kAskLostPercent);
}

Task<void> OutcomeOracle::ask(Client* client, Session session) {
  Random& random = client->random;
  size_t at = entries_.size() - 1 - random.below(std::min(entries_.size(), kRecent));
  if (!lost_.empty() && random.chance(70)) at = lost_[random.below(lost_.size())];
  Task<void> task = ask_for(client, session, at);
  co_await task;
}

Task<void> OutcomeOracle::ask_at_end(Client* client, Session session) {
  std::vector<size_t> all = lost_;
  for (int i = 0; i < kAskAtEnd && !entries_.empty(); ++i) all.push_back(client->random.below(entries_.size()));
  for (const size_t at : all) {
    Task<void> task = ask_for(client, session, at);
    co_await task;
  }
}

Task<void> OutcomeOracle::ask_for(Client* client, Session session, size_t at) {
  context_->doing(client, "asking what became of a transaction");
  TxnStatus status = TxnStatus::kPending;
  while (status == TxnStatus::kPending) {
    Task<TxnStatus> task = session.query_outcome(entries_[at].id);
    status = co_await task;
    if (status == TxnStatus::kPending && session.txn_worker()->context().views.removed())
      co_return;  // its node was removed: it has nobody to ask
  }
  const std::string who = "n" + std::to_string(session.node().value);
  if (status != TxnStatus::kUnknownTxn) {
    mark_shipped(entries_[at], session.txn_worker()->view(), status);
    learn(at, status, who);
    co_return;
  }
  const Entry& entry = entries_[at];
  // An acknowledged commit is at every in-sync replica of what it wrote. It may be forgotten only if at least as many
  // of the members of that time have left as it had replicas.
  const View& view = session.txn_worker()->view();
  const auto gone = std::count_if(entry.members.begin(), entry.members.end(), [&](uint32_t incarnation) {
    return std::none_of(view.members.begin(), view.members.end(),
                        [&](const Member& member) { return member.incarnation == incarnation; });
  });
  if (gone < entry.copies) {
    context_->violation("outcome: " + who + " has forgotten transaction " + text_of(entry.id) +
                        ", which was told as committed");
  }
}

// What a campaign has to have asked for: the outcomes of shipped transactions of which somebody is gone.
void OutcomeOracle::mark_shipped(const Entry& entry, const View& view, TxnStatus status) {
  if (entry.executor == 0) return;
  const auto gone = [&](uint32_t incarnation) {
    return std::none_of(view.members.begin(), view.members.end(),
                        [&](const Member& member) { return member.incarnation == incarnation; });
  };
  const bool coordinator = gone(entry.id.incarnation), executor = gone(entry.executor);
  const bool commits = status == TxnStatus::kCommitted;
  if (coordinator && !executor && commits) WEFT_MARK("a shipped commit is asked for without its coordinator");
  if (coordinator && !executor && !commits) WEFT_MARK("a shipped abort is asked for without its coordinator");
  if (!coordinator && executor && commits) WEFT_MARK("a shipped commit is asked for without its executor");
  if (!coordinator && executor && !commits) WEFT_MARK("a shipped abort is asked for without its executor");
  if (coordinator && executor && commits) WEFT_MARK("a shipped commit is asked for without coordinator and executor");
  if (coordinator && executor && !commits) WEFT_MARK("a shipped abort is asked for without coordinator and executor");
}

void OutcomeOracle::learn(size_t at, TxnStatus status, const std::string& who) {
  Entry& entry = entries_[at];
  if (entry.status && *entry.status != status) {
    context_->violation("outcome: transaction " + text_of(entry.id) + " is " + text_of(status) + " by " + who +
                        ", was " + text_of(*entry.status) + " before");
    return;
  }
  entry.status = status;
  if (entry.record == nullptr) return;
  if (status == TxnStatus::kCommitted) WEFT_MARK("a lost client's transaction was committed");
  if (status == TxnStatus::kAborted) WEFT_MARK("a lost client's transaction was aborted");
  std::erase(lost_, at);
  record_outcome(entry, status == TxnStatus::kCommitted ? SimOutcome::kOk : SimOutcome::kFail);
}

void OutcomeOracle::record_outcome(Entry& entry, SimOutcome outcome) {
  const Record record = std::exchange(entry.record, nullptr);
  record(outcome);
}

void OutcomeOracle::end() {
  for (const size_t at : lost_) record_outcome(entries_[at], SimOutcome::kInfo);
  lost_.clear();
}

}  // namespace weft::sim
