// Session: one worker of one node, as an application's coroutines see it.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/procedure.h"
#include "weft/txn/txn_worker.h"

namespace weft {

namespace {
// Attempts that met a recovery took as long as it did; that is no reason to sleep as long. And no call takes longer
// than Limits::answer_ms: a unit of backoff that is a slow network's round trip, a thousand times, would.
constexpr uint64_t kLongestSleepNs = 4'000'000;
// Every attempt fails at once until a view removes the lost node.
constexpr uint64_t kPeerLostSleepNs = 1'000'000;
}  // namespace

NodeId Session::node() const { return txn_worker_->context().self; }
WorkerId Session::worker() const { return txn_worker_->context().id; }
uint64_t Session::now_ns() const { return txn_worker_->context().worker->now_ns(); }

NodeId Session::primary_of(TableId table, Key key) const {
  WEFT_CHECK(table.value < txn_worker_->node()->tables().count(), "the caller names a table that was created");
  const HashedKey hashed =
      txn_worker_->context().tables.at(table)->hashed({reinterpret_cast<const std::byte*>(key.data()), key.size()});
  return txn_worker_->view().placement(hashed.partition).primary();
}

Session::BeginAwaiter Session::begin(uint64_t until_ns) { return {txn_worker_, until_ns, 0, nullptr, {}, nullptr}; }

Session::BeginAwaiter Session::begin_without_credit(uint64_t until_ns) {
  return {txn_worker_, until_ns, 0, nullptr, {}, nullptr, false};
}

uint64_t Session::answer_by_ns() const { return now_ns() + txn_worker_->slots().answer_ns(); }

bool Session::BeginAwaiter::await_ready() noexcept {
  slot = txn_worker->slots().acquire(until_ns, takes_credit);
  return slot != nullptr;
}

void Session::BeginAwaiter::await_suspend(std::coroutine_handle<> h) noexcept {
  waiter = h;
  txn_worker->slots().wait(this);
}

Txn Session::BeginAwaiter::await_resume() noexcept { return Txn(slot); }

void Session::SleepAwaiter::await_suspend(std::coroutine_handle<> h) const noexcept {
  txn_worker->context().worker->sleep_until(txn_worker->context().worker->now_ns() + nanoseconds, h);
}

bool Session::should_retry(const Outcome& outcome, const RetryPolicy& policy, uint32_t attempt, uint64_t began_ns,
                           uint64_t* sleep_ns) {
  ConflictAvoidance& conflicts = txn_worker_->context().conflicts;
  if (outcome.kind != OutcomeKind::kAborted || !is_conflict(outcome.code) || !conflicts.backs_off()) {
    return retry_by_policy(outcome, policy, attempt, began_ns, sleep_ns);
  }
  if (attempt >= policy.attempts) return false;
  *sleep_ns = std::min(conflicts.delay_ns(attempt - 1, now_ns(), txn_worker_->random()), kLongestSleepNs);
  return true;
}

bool Session::retry_by_policy(const Outcome& outcome, const RetryPolicy& policy, uint32_t attempt, uint64_t began_ns,
                              uint64_t* sleep_ns) {
  if (outcome.kind != OutcomeKind::kAborted || !code_retryable(outcome.code)) return false;
  if (attempt >= policy.attempts) return false;
  const bool lost = outcome.code == Code::kPeerLost;
  if (lost && !txn_worker_->node()->spec().recovers) return false;  // no view removes it
  const uint64_t doubled = uint64_t{policy.backoff_us} << std::min<uint32_t>(attempt - 1, 20);
  uint64_t base_ns = std::min<uint64_t>(doubled, policy.backoff_us_max) * 1000;
  if (attempt >= RetryPolicy::kConflictThreshold) {
    const uint64_t took_ns = std::max(now_ns(), began_ns) - began_ns;
    const uint64_t multiple_ns =
        took_ns * std::min(attempt / RetryPolicy::kConflictThreshold, RetryPolicy::kConflictThreshold);
    base_ns = std::max(base_ns, std::min(multiple_ns, kLongestSleepNs));
  }
  if (lost) base_ns = std::max(base_ns, kPeerLostSleepNs);
  *sleep_ns = base_ns == 0 ? 0 : base_ns + txn_worker_->random().below(base_ns + 1);
  return true;
}

namespace {

// Starts a single-key read of the slot and waits for it.
struct SingleAwaiter {
  TxnWorker* txn_worker;
  TxnSlot* slot;
  TableId table;
  Key key;
  bool await_ready() const noexcept {
    txn_worker->reads().start_single(*slot, table, key);
    return slot->rejected != Code::kOk || slot->entry(0).done;
  }
  void await_suspend(std::coroutine_handle<> h) const noexcept {
    slot->wait_upto = 0;
    txn_worker->client_waits().begin(*slot, h);
  }
  void await_resume() const noexcept {}
};

}  // namespace

Task<Session::GetResult> Session::get_one(TableId table, Key key, std::span<char> out, RetryPolicy policy,
                                          uint64_t until_ns) {
  if (until_ns == 0) until_ns = answer_by_ns();
  GetResult one;
  for (uint32_t attempt = 1;; ++attempt) {
    const uint64_t began_ns = now_ns();
    {
      // It locks nothing, and whom it waits for may have all the credit.
      Txn txn = co_await begin_without_credit(until_ns);
      if (attempt > 1 && txn.refused()) co_return one;  // the last attempt is why there is no time left to begin
      TxnSlot& slot = *txn.slot_;
      co_await SingleAwaiter{txn_worker_, &slot, table, key};
      one.outcome = slot.outcome;
      if (one.outcome.code == Code::kOk) {
        const Entry& e = slot.entry(0);
        one.found = e.found;
        if (e.found) {
          one.bytes = e.value_bytes;
          if (e.value_bytes != 0) std::memcpy(out.data(), e.value, std::min<size_t>(out.size(), e.value_bytes));
        }
        txn_worker_->acks().count_single(slot);
        co_return one;
      }
    }
    uint64_t wait_ns = 0;
    if (now_ns() >= until_ns || !retry_by_policy(one.outcome, policy, attempt, began_ns, &wait_ns)) co_return one;
    // The holder needs at least one iteration of the loop.
    co_await sleep_ns(std::max<uint64_t>(wait_ns, 1));
  }
}

Task<Outcome> Session::put_one(TableId table, Key key, std::string_view value) {
  Txn txn = co_await begin(answer_by_ns());
  txn.put(table, key, value);
  co_return co_await txn.commit();
}

Task<Outcome> Session::insert_one(TableId table, Key key, std::string_view value) {
  Txn txn = co_await begin(answer_by_ns());
  txn.insert(table, key, value);
  co_return co_await txn.commit();
}

Task<Outcome> Session::erase_one(TableId table, Key key) {
  Txn txn = co_await begin(answer_by_ns());
  txn.erase(table, key);
  co_return co_await txn.commit();
}

// The worker of the transaction's index asks, and posts the answer to this worker's mailbox.
Task<TxnStatus> Session::query_outcome(TxnId id) {
  constexpr uint64_t kLookNs = 5'000;
  constexpr uint64_t kLookNsMax = 500'000;
  Node* node = txn_worker_->node();
  if (id.incarnation == 0 || id.worker.value >= node->workers()) co_return TxnStatus::kUnknownTxn;
  const auto reply = std::make_shared<OutcomeAnswer>();
  TxnWorker* at = node->txn_worker(id.worker);
  if (at == txn_worker_) {
    at->queries().ask(id, txn_worker_->context().worker, reply);
  } else {
    const auto ask = [at, id, asker = txn_worker_->context().worker, reply] { at->queries().ask(id, asker, reply); };
    while (!at->context().worker->mailbox().post(ask)) co_await sleep_ns(kLookNs);
    node->state().views.wake();
  }
  for (uint64_t wait_ns = kLookNs; !reply->done; wait_ns = std::min(wait_ns * 2, kLookNsMax)) {
    co_await sleep_ns(wait_ns);
  }
  co_return reply->status;
}

Task<std::shared_ptr<KeyPage>> Session::scan_keys(TableId table, PartitionId partition, uint64_t cursor,
                                                  uint32_t keys_max) {
  constexpr uint64_t kSilentNs = 20'000'000;  // after this it is asked again
  constexpr uint64_t kLookNs = 5'000;
  constexpr uint64_t kLookNsMax = 500'000;
  const ViewState& views = txn_worker_->context().views;
  KeyScans& scans = txn_worker_->scans();
  auto page = std::make_shared<KeyPage>();
  const uint64_t answer_ns = answer_by_ns();
  for (;;) {
    page->late = now_ns() >= answer_ns;
    if (views.removed() || page->late) co_return page;
    if (!views.active()) {
      co_await sleep_ns(kLookNsMax);
      continue;
    }
    if (scans.scan_here(table, partition, cursor, keys_max, page.get())) {
      if (txn_worker_->context().has_lease()) co_return page;
      *page = {};
      co_await sleep_ns(kLookNsMax);
      continue;
    }
    const Epoch epoch = views.current().epoch;
    const uint32_t question = scans.ask(table, partition, cursor, keys_max, page);
    const uint64_t until_ns = std::min(now_ns() + kSilentNs, answer_ns);
    for (uint64_t wait_ns = kLookNs; !page->done; wait_ns = std::min(wait_ns * 2, kLookNsMax)) {
      if (views.removed() || views.current().epoch != epoch || now_ns() >= until_ns) break;
      co_await sleep_ns(wait_ns);
    }
    if (page->done) co_return page;
    WEFT_MARK_OUTSIDE("a scan asks again");
    scans.forget(question);
  }
}

namespace {

// nullptr: there is none.
const StoredProcedure* find_procedure(TxnWorker* txn_worker, ProcedureId id) {
  const std::vector<StoredProcedure>& all = txn_worker->node()->spec().procedures;
  return id.value < all.size() ? &all[id.value] : nullptr;
}

Outcome rejected(Code code) {
  Outcome outcome;
  outcome.kind = OutcomeKind::kRejected;
  outcome.code = code;
  return outcome;
}

void report_impure(const WorkerContext& ctx, const StoredProcedure& procedure, std::string_view first,
                   std::string_view again) {
  if (ctx.events == nullptr) return;
  ctx.events->emit_of(ctx.self.value, Level::kError, "impure_procedure",
                      {{"procedure", procedure.name}, {"first", first}, {"again", again}});
}

// Its `keys` have named others when they ran again, here or at its executor.
void report_impure_keys(const WorkerContext& ctx, const StoredProcedure& procedure, Code code) {
  if (code == Code::kImpure) report_impure(ctx, procedure, "its keys", "other keys for the same arguments");
}

// Sends a procedure to the primary of its keys, and waits for its outcome.
struct ShipAwaiter {
  TxnWorker* txn_worker;
  TxnSlot* slot;
  NodeId executor;
  ShippedTxns::Call call;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const noexcept {
    txn_worker->client_waits().begin(*slot, h);
    txn_worker->shipped().start(*slot, executor, call);
  }
  void await_resume() const noexcept {}
};

}  // namespace

// Runs `execute` with what was read. If it is wrong, the slot is rejected.
Code Session::run_step(TxnSlot& slot, const StoredProcedure& procedure, std::string_view arguments,
                       ProcedureKeys& keys) {
  StepOutput& output = txn_worker_->step_output();
  ProcedureKeys::Room room;
  const Code code = output.run(procedure, arguments, keys.values(&room));
  const WorkerContext& ctx = txn_worker_->context();
  if (code == Code::kImpure) {
    reject(slot, code, nullptr, {});
    report_impure(ctx, procedure, output.first_run(), output.text());
    return Code::kOk;
  }
  if (output.wants_more()) {
    const size_t known = keys.count();
    output.add_more(&keys);
    if (keys.count() == known) reject(slot, Code::kInvalidArgument, nullptr, {});  // it has them all
    return Code::kOk;
  }
  if (code == Code::kReplyTooLong) {
    reject(slot, code, nullptr, {"the procedure's reply_bytes_max", procedure.reply_bytes_max, output.reply().size()});
    return Code::kOk;
  }
  if (code != Code::kOk) return code;
  output.write(txn_worker_->keys(), slot, [&](TableId table, const Key& key, Write write, std::string_view value) {
    txn_worker_->reads().write(slot, table, key, write, value);
  });
  return Code::kOk;
}

bool Session::ships() const { return txn_worker_->node()->rows().at(0).ships_procedures; }

Task<Outcome> Session::ship(ProcedureId procedure, std::string_view arguments, std::string* reply, uint64_t until_ns,
                            bool waits) {
  Txn txn = co_await begin(until_ns != 0 ? until_ns : answer_by_ns());
  Task<Outcome> work = ship(txn, procedure, arguments, reply, waits);
  co_return co_await work;
}

Task<Outcome> Session::ship(Txn& txn, ProcedureId procedure, std::string_view arguments, std::string* reply,
                            bool waits) {
  const StoredProcedure* const stored = find_procedure(txn_worker_, procedure);
  if (stored == nullptr) co_return rejected(Code::kNoSuchProcedure);
  TxnSlot& slot = *txn.slot_;
  if (slot.stage != TxnStage::kExecuting) co_return co_await txn.commit();  // it says why
  ProcedureKeys keys(txn_worker_->keys(), slot);
  keys.collect(*stored, arguments);
  const auto executor = txn_worker_->shipped().executor_for(slot, procedure, *stored);
  if (!executor) co_return rejected(Code::kAskInstead);
  co_await ShipAwaiter{txn_worker_, &slot, *executor, {procedure, arguments, keys.digest(), waits}};
  if (slot.stage == TxnStage::kExecuting) co_return rejected(Code::kAskInstead);
  const Outcome outcome = txn.commit().await_resume();
  report_impure_keys(txn_worker_->context(), *stored, outcome.code);
  if (reply != nullptr) reply->assign(outcome.committed() ? as_text(slot.reply) : std::string_view());
  co_return outcome;
}

Task<Outcome> Session::call(ProcedureId procedure, std::string_view arguments, std::string* reply, TxnId* id) {
  const StoredProcedure* const found = find_procedure(txn_worker_, procedure);
  if (found == nullptr) co_return rejected(Code::kNoSuchProcedure);
  const StoredProcedure& stored = *found;
  const uint64_t until_ns = answer_by_ns();
  for (bool may_ship = true;; may_ship = false) {
    Txn txn = co_await begin(until_ns);
    TxnSlot& slot = *txn.slot_;
    if (slot.stage != TxnStage::kExecuting) co_return co_await txn.commit();  // it says why
    if (id != nullptr) *id = txn.id();
    ProcedureKeys keys(txn_worker_->keys(), slot);
    keys.collect(stored, arguments);
    report_impure_keys(txn_worker_->context(), stored, slot.outcome.code);
    if (const auto executor = may_ship ? txn_worker_->shipped().executor_for(slot, procedure, stored) : std::nullopt) {
      co_await ShipAwaiter{txn_worker_, &slot, *executor, {procedure, arguments, keys.digest(), true}};
      if (slot.stage != TxnStage::kExecuting) {
        // A transaction that was refused is over; it is tried again under another id (H8).
        const Outcome outcome = txn.commit().await_resume();
        if (outcome.code == Code::kAskInstead) continue;
        report_impure_keys(txn_worker_->context(), stored, outcome.code);
        if (reply != nullptr) reply->assign(outcome.committed() ? as_text(slot.reply) : std::string_view());
        co_return outcome;
      }
    }
    for (int round = 1; slot.outcome.code == Code::kOk; ++round) {
      txn_worker_->execute().start(slot);
      co_await txn.wait_all();
      if (slot.stage != TxnStage::kExecuting || slot.outcome.code != Code::kOk) break;  // commit() says why
      const size_t read = keys.count();
      const Code code = run_step(slot, stored, arguments, keys);
      if (code != Code::kOk) {
        if (reply != nullptr) reply->clear();
        co_return txn.abort(code);
      }
      if (keys.count() == read || slot.outcome.code != Code::kOk) break;
      if (round == StoredProcedure::kRoundsMax) {
        reject(slot, Code::kTxnTooLarge, nullptr,
               {"the rounds in which a stored procedure reads", StoredProcedure::kRoundsMax, round + 1U});
        break;
      }
    }
    if (reply != nullptr && slot.outcome.code == Code::kOk) reply->assign(txn_worker_->step_output().reply());
    const Outcome outcome = co_await txn.commit();
    if (reply != nullptr && !outcome.committed()) reply->clear();
    co_return outcome;
  }
}

}  // namespace weft
