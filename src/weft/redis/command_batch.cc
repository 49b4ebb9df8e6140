// Commands in a transaction: those that arrived together, or between MULTI and EXEC. Their keys are read together,
// then they run one after the other, over as many of the worker's turns as they need.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/marks.h"
#include "weft/redis/cost.h"
#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"

namespace weft {

namespace {

constexpr int kConflictThreshold = 3;       // attempts of a batch that conflict before it is halved
constexpr uint64_t kNoLeaseNs = 1'000'000;  // between attempts: nothing could be acknowledged anyway
constexpr uint64_t kGatherNs = 5'000;       // between two looks of a leader at who has come
constexpr size_t kLongReply = 16 << 10;

}  // namespace

// A client's commands while they run.
struct RedisFrontend::Running {
  HotKeyQueues::Waiter self;                   // and the commands of its next transaction
  bool may_queue = true;                       // may wait in a queue, or lead one
  HotKeyQueues::HotKeyQueue* queue = nullptr;  // that it waits in, or leads
  uint32_t attempts = 0;                       // of the current batch
  std::optional<Outcome> last_conflict = {};   // why it was last retried
  CommandBatch& batch() { return self.batch; }
  bool done() const { return self.batch.first == self.batch.list->size(); }
  // At most so many of the remaining commands as name that many keys, if they need not run in one transaction.
  void take(size_t count, size_t keys_max) {
    CommandBatch& batch = self.batch;
    batch.count = std::min(count, batch.list->size() - batch.first);
    if (batch.exec || batch.count <= 1 || !batch.list->writes() || batch.keys() <= keys_max) return;
    batch.count = batch.list->count_within(batch.first, keys_max);
  }
};

namespace {

// The keys for which the commands have to enter the window. One key is not worth it.
size_t window_keys(std::span<const CommandBatch> batches) {
  size_t keys = 0;
  bool writes = false;
  for (const CommandBatch& batch : batches) {
    keys += batch.keys();
    writes |= batch.list->writes();
  }
  return writes && keys > 1 ? keys : 0;
}

}  // namespace

// Runs as many in one transaction as the window allows, fewer if they conflict, and finally one by one; but the
// commands between MULTI and EXEC always run in one. The leader of a queue takes along those that wait in it.
Task<void> RedisFrontend::run_list(Client& client, const CommandList& list, bool exec) {
  const Limits& limits = txn_worker_->context().limits;
  Running run{{{&client, &list, 0, 0, exec}, {}}};
  for (bool over = false; !over;) {
    if (run.queue == nullptr) {
      const bool fresh = run.batch().count == 0;
      run.take(fresh ? list.size() : run.batch().count, write_window_.batch_keys_max());
      if (fresh) run.may_queue = !scheduler_.heavy(client.share);
      if (fresh && run.may_queue) run.queue = hot_keys_.find(run.batch());
      if (run.queue != nullptr) {
        co_await run.queue->enqueue(&run.self);
        if (run.self.answered) {
          over = next_batch(run);
          continue;
        }
      }
    }
    if (scheduler_.over(client.share) || scheduler_.full(client.share)) {
      co_await scheduler_.wait(client.share, FairScheduler::WaitPoint::kBeforeTxn);
    }
    while (run.queue != nullptr && run.queue->gathers(session_.now_ns())) co_await session_.sleep_ns(kGatherNs);
    const uint64_t began_ns = session_.now_ns();
    const std::span<const CommandBatch> batches =
        run.queue == nullptr ? std::span<const CommandBatch>(&run.batch(), 1)
                             : run.queue->form_batch(run.self, limits.txn_keys_max, limits.txn_bytes_max / 2);
    const size_t in_window = window_keys(batches);
    if (in_window != 0) co_await write_window_.enter(in_window);
    Attempt tried;
    // The first conflict opens a queue here; those in it need not be refused.
    tried.waits = run.queue != nullptr || run.attempts != 0;
    Task<Outcome> work = attempt(batches, &tried);
    Outcome outcome = co_await work;
    const bool together = batches.size() > 1;
    // A smaller batch would conflict on the queue's key just the same.
    const bool several = together ? !run.queue->conflicted_on_key(outcome) : run.batch().count > 1 && !exec;
    if (in_window != 0) leave_window(run, in_window, outcome);
    // The earlier conflict is why it has no time left to begin.
    if (outcome.code == Code::kNoAnswer && outcome.kind == OutcomeKind::kRejected && run.last_conflict)
      outcome = *run.last_conflict;
    if (client.dropped && !together) break;
    if (std::exchange(client.postponed, false) && !outcome.committed()) {
      WEFT_MARK_OUTSIDE("a transaction that costs much waits for others");
      leave_queue(run);
      continue;
    }
    ++run.attempts;
    uint64_t wait_ns = 0;
    RetryPolicy policy;
    policy.attempts = several ? kConflictThreshold : UINT32_MAX;
    const bool late = !outcome.committed() && session_.now_ns() >= answer_by_ns(client);
    if (!outcome.committed() && !late && session_.should_retry(outcome, policy, run.attempts, began_ns, &wait_ns)) {
      run.last_conflict = outcome;
      if (!txn_worker_->context().has_lease()) wait_ns = std::max(wait_ns, kNoLeaseNs);
      if (must_queue(run, outcome, together)) {
        co_await run.queue->enqueue(&run.self);
        if (run.self.answered) over = next_batch(run);
      } else if (const auto key = awaited_key(run)) {
        co_await txn_worker_->ship_server()->turn_for(*key);
      } else if (wait_ns > 0) {
        co_await session_.sleep_ns(wait_ns);
      }
      continue;
    }
    run.attempts = 0;
    if (shrink_batch(run, outcome, tried, together, several && !late)) continue;
    if (run.queue != nullptr) run.queue->took(session_.now_ns() - began_ns, session_.now_ns());
    answer_all(run, batches, outcome, tried);
    if (run.queue != nullptr) leave_hot_key(run.queue);
    over = next_batch(run);
    if (over || !too_much_unread(client)) continue;
    while (too_much_unread(client) && !client.dead) co_await Unread{this, &client};
    over = client.dead;
  }
  if (run.queue != nullptr) leave_hot_key(run.queue);
}

// The batch has been answered. Returns whether it was the last one.
bool RedisFrontend::next_batch(Running& run) {
  run.queue = nullptr;
  run.self.answered = run.self.alone = false;
  run.attempts = 0;
  run.last_conflict.reset();
  run.batch().first += run.batch().count;
  run.batch().count = 0;
  return run.done();
}

void RedisFrontend::leave_hot_key(HotKeyQueues::HotKeyQueue* queue) {
  hot_keys_.leave(queue, txn_worker_->context().worker);
  schedule_scan(session_.now_ns() + kIdleNs);
}

// Until its next batch.
void RedisFrontend::leave_queue(Running& run) {
  if (run.queue != nullptr) leave_hot_key(run.queue);
  run.queue = nullptr;
  run.may_queue = false;
}

// It conflicted and retries: whether it has to wait in a queue first, behind others.
bool RedisFrontend::must_queue(Running& run, const Outcome& outcome, bool together) {
  bool leads = true;
  if (run.queue != nullptr && !together && !run.queue->conflicted_on_key(outcome)) {
    leave_queue(run);  // its conflicts elsewhere are no reason for those behind it to wait
  } else if (run.queue == nullptr && run.may_queue) {
    run.queue = hot_keys_.of(outcome, options_.table, run.batch(), &leads);
  }
  if (leads) return false;
  run.attempts = 0;
  return true;
}

// The key that a leader has conflicted on, if this node is its primary and other nodes' transactions wait here for it:
// then it waits among them.
std::optional<ShipQueue::LockedKey> RedisFrontend::awaited_key(const Running& run) const {
  if (run.queue == nullptr || txn_worker_->ship_server() == nullptr) return std::nullopt;
  const HashedKey hashed = table().hashed(as_bytes(run.queue->key()));
  ShipQueue::LockedKey key;
  const bool own = txn_worker_->view().placement(hashed.partition).primary() == session_.node();
  return own && key.set(table(), hashed) ? std::optional(key) : std::nullopt;
}

// Retries a failed batch with fewer commands, if possible.
bool RedisFrontend::shrink_batch(Running& run, const Outcome& outcome, const Attempt& tried, bool together,
                                 bool several) {
  if (outcome.kind != OutcomeKind::kAborted && outcome.kind != OutcomeKind::kRejected) return false;
  if (together) {
    run.queue->split(tried.failed);
    return true;
  }
  if (!several) return false;
  WEFT_MARK_OUTSIDE("a run of commands is halved");
  run.batch().count = (run.batch().count + 1) / 2;
  return true;
}

void RedisFrontend::answer_all(Running& run, std::span<const CommandBatch> batches, const Outcome& outcome,
                               const Attempt& tried) {
  CommandBatch& batch = run.batch();
  const bool together = batches.size() > 1;
  if (!together && outcome.committed()) batch.count = tried.ran;
  if (!together) answer(batch, outcome);
  for (const CommandBatch& each : batches.subspan(together ? 0 : 1)) answer(each, outcome);
  if (together) run.queue->answered(batches.size() - 1, txn_worker_->context().worker);
}

void RedisFrontend::leave_window(const Running& run, size_t keys, const Outcome& outcome) {
  if (outcome.committed()) {
    write_window_.committed(keys);
  } else if ((outcome.code == Code::kLocked || outcome.code == Code::kVersionMoved) &&
             (run.queue == nullptr || !run.queue->conflicted_on_key(outcome))) {
    write_window_.conflicted(keys);
  }
  write_window_.leave(keys);
}

Task<Outcome> RedisFrontend::attempt(std::span<const CommandBatch> batches, Attempt* out) {
  if (can_ship(batches)) {
    Task<Outcome> work = ship(batches, nullptr, out);
    const Outcome outcome = co_await work;
    if (outcome.code != Code::kAskInstead) co_return outcome;
  }
  Task<Outcome> work = attempt_here(batches, out);
  co_return co_await work;
}

Task<Outcome> RedisFrontend::attempt_here(std::span<const CommandBatch> batches, Attempt* out) {
  Txn txn = co_await session_.begin(answer_by_ns(*batches.front().client));
  if (txn.refused()) co_return txn.abort();
  Task<Code> work = apply(txn, batches, out);
  const Code code = co_await work;
  if (code != Code::kOk) co_return txn.abort(code);
  co_return co_await txn.commit();
}

// Reads all keys that the commands name, then runs the commands one after the other. Commands that need not be in one
// transaction are run only while the client has room for their replies.
Task<Code> RedisFrontend::apply(Txn& txn, std::span<const CommandBatch> batches, Attempt* out) {
  std::vector<Keyspace::ReadKey> read_keys;
  for (const CommandBatch& batch : batches) start_reads(txn, batch, &read_keys);
  co_await txn.wait_all();
  Keyspace keys(&txn, options_.table, wall_us(), string_bytes_max_, &scratch_, this);
  keys.set_read_keys(read_keys);
  keys.set_key_bytes_max(txn_worker_->context().limits.key_bytes_max);
  for (const CommandBatch& batch : batches) {
    Client& client = *batch.client;
    const size_t end = batch.first + batch.count;
    out->failed = static_cast<size_t>(&batch - batches.data());
    client.reply_too_long = client.watch_failed = false;
    client.too_much_ns = 0;
    client.reply.clear();
    client.reply_errors.seen.clear();
    Code code = check_watched(txn, batch, keys);
    if (code == Code::kOk && batch.exec) code = check_cost(batch, keys, batches.size() == 1);
    size_t next = batch.first;
    while (code == Code::kOk && next < end) {
      if (scheduler_.over(client.share)) {
        co_await scheduler_.wait(batches.front().client->share, FairScheduler::WaitPoint::kInsideTxn);
      }
      code = run_some(batch, keys, &next);
      if (code != Code::kOk || next == end || batch.exec || keys.paused() || !has_enough(client)) continue;
      if (batches.size() == 1) break;
      code = Code::kApplication;  // alone it may be cut short
    }
    if (code != Code::kOk) co_return code;
    out->ran = next - batch.first;
  }
  out->failed = 0;
  stats_->hits.add(keys.hits());
  stats_->misses.add(keys.misses());
  co_return Code::kOk;
}

void RedisFrontend::start_reads(Txn& txn, const CommandBatch& batch, std::vector<Keyspace::ReadKey>* keys) {
  for (const WatchedKey& watched : batch.client->watched) {
    if (batch.exec) txn.get_async(options_.table, watched.key, Intent::kHead);
  }
  for (size_t i = batch.first; i < batch.first + batch.count; ++i) {
    const Command& command = batch.list->command(i);
    const Arguments arguments = batch.list->arguments(i);
    if (command.data == nullptr || (command.reads != nullptr && !command.reads(arguments))) continue;
    const Intent intent = (command.flags & kHeads) != 0    ? Intent::kHead
                          : (command.flags & kWrites) != 0 ? Intent::kUpdate
                                                           : Intent::kRead;
    for_each_key(command, arguments, [&](std::string_view key) {
      if (key.size() > txn_worker_->context().limits.key_bytes_max) return;
      keys->push_back({key, txn.get_async(options_.table, key, intent)});
    });
  }
}

Code RedisFrontend::check_watched(Txn& txn, const CommandBatch& batch, Keyspace& keys) {
  if (!batch.exec) return Code::kOk;
  for (const WatchedKey& watched : batch.client->watched) {
    const Value value = txn.value(txn.get_async(options_.table, watched.key, Intent::kHead));
    if (value.code != Code::kOk) return value.code;
    // If its deadline has passed since, the value has changed, too.
    const bool same = value.version == watched.version && value.epoch == watched.epoch &&
                      keys.find(watched.key).exists == value.found;
    if (same) continue;
    batch.client->watch_failed = true;
    return Code::kApplication;
  }
  return Code::kOk;
}

// Before the first command runs. A transaction that costs more than a turn's work waits outside if enough such are in
// progress: here it would hold one of the worker's slots.
Code RedisFrontend::check_cost(const CommandBatch& batch, Keyspace& keys, bool alone) {
  Client& client = *batch.client;
  uint64_t all_ns = 0;
  for (size_t i = batch.first; i < batch.first + batch.count; ++i) {
    const uint64_t ns = cost_ns(batch.list->command(i), batch.list->arguments(i), keys);
    const bool copies = batch.list->command(i).cost == nullptr;  // bounded by the bytes of a transaction
    if (ns > options_.command_us_max * 1000 && !copies) return too_much(client, "client.command_us_max", ns);
    all_ns += ns;
  }
  if (all_ns > options_.exec_us_max * 1000) return too_much(client, "client.exec_us_max", all_ns);
  if (all_ns <= scheduler_.budget_ns()) return Code::kOk;
  const bool again = scheduler_.heavy(client.share);
  client.share.recent_cost_ns = all_ns;
  client.postponed = alone && !again && !client.open_txn_runs && scheduler_.full(client.share);
  return client.postponed ? Code::kApplication : Code::kOk;
}

Code RedisFrontend::too_much(Client& client, const char* limit, uint64_t ns) const {
  client.too_much_of = limit;
  client.too_much_ns = ns;
  return Code::kApplication;
}

// Runs as many as this turn has room for, and at least one; `next` then is after them.
Code RedisFrontend::run_some(const CommandBatch& batch, Keyspace& keys, size_t* next) {
  Client& client = *batch.client;
  if (client.dropped) return Code::kApplication;
  RespWriter reply(&client.reply, options_.reply_bytes_max);
  reply.set_version(client.version);
  reply.set_errors(&client.reply_errors);
  do {
    const size_t i = (*next)++;
    const Command& command = batch.list->command(i);
    const Arguments arguments = batch.list->arguments(i);
    const uint64_t work_before = keys.work_ns();
    const size_t reply_before = client.reply.size();
    client.reply_errors.command = i;
    keys.set_counts((command.flags & kWrites) == 0);
    if (command.data == nullptr) {
      command.local(*this, client, arguments, reply);
    } else if (const std::string why = refusal(command, arguments, keys); !why.empty()) {
      reply.error(why);
    } else {
      command.data(keys, arguments, reply);
    }
    // Only the clock knows how long untouched memory takes.
    const size_t replied = client.reply.size() - reply_before;
    const uint64_t ns = kCommandNs + keys.work_ns() - work_before + Keyspace::bytes_ns(replied);
    times_.ran(command.id, ns);
    scheduler_.charge_command(client.share, ns, command.name, command.data == nullptr || replied >= kLongReply);
    if (keys.code() != Code::kOk) return keys.code();
    if (keys.paused()) {
      *next = i;
      return Code::kOk;
    }
    client.reply_too_long = reply.over();
    if (reply.over()) return Code::kApplication;
    // What its first commands wrote may make the later ones more expensive than estimated.
    if (batch.exec && keys.work_ns() > options_.exec_us_max * 1000) {
      return too_much(client, "client.exec_us_max", keys.work_ns());
    }
  } while (*next < batch.first + batch.count && !scheduler_.over(client.share) && (batch.exec || !has_enough(client)));
  return Code::kOk;
}

// Why a command that costs too much for one step of a worker is not run; empty: it does not.
std::string RedisFrontend::refusal(const Command& command, Arguments arguments, Keyspace& keys) const {
  if (command.cost == nullptr) return {};  // it copies what limits.txn_bytes_max bounds
  const uint64_t ns = cost_ns(command, arguments, keys);
  if (ns <= options_.command_us_max * 1000) return {};
  return "ERR the command takes too much work: " +
         limit_text("client.command_us_max", options_.command_us_max, ns / 1000);
}

}  // namespace weft
