// MULTI, EXEC, DISCARD, WATCH and UNWATCH. EXEC is one transaction over all keys, wherever they are, which are read
// together before the first command runs. WATCH is optimistic: it records the versions of its keys, and the
// transaction of EXEC, which reads them too, commits only if they are the same. Versions are compared within one epoch
// only: after a view change a watched key counts as changed.
#include <algorithm>

#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"

namespace weft {

void Client::end_multi() {
  in_multi = multi_is_bad = open_txn_expired = false;
  queued.clear();
  open_txn.reset();
  watched.clear();
}

// Only once: another attempt would be another transaction than the one whose id the client has.
Task<void> RedisFrontend::exec_open_txn(Client& client, const CommandList& list) {
  Txn txn = std::move(*client.open_txn);
  client.open_txn.reset();
  txn.set_until(answer_by_ns(client));
  const CommandBatch batch{&client, &list, 0, list.size(), true};
  Attempt tried;
  client.open_txn_runs = true;
  Outcome outcome;
  bool over = false;
  if (can_ship({&batch, 1})) {
    Task<Outcome> shipped = ship({&batch, 1}, &txn, &tried);
    outcome = co_await shipped;
    over = outcome.code != Code::kAskInstead || outcome.kind != OutcomeKind::kRejected;
  }
  if (!over) {
    Task<Code> work = apply(txn, {&batch, 1}, &tried);
    const Code code = co_await work;
    if (code == Code::kOk) {
      outcome = co_await txn.commit();
    } else {
      outcome = txn.abort(code);
    }
  }
  client.open_txn_runs = false;
  answer(batch, outcome);
}

namespace {

void multi(RedisFrontend&, Client& client, Arguments, RespWriter& reply) {
  if (client.in_multi) return reply.error("ERR MULTI calls can not be nested");
  client.in_multi = true;
  reply.simple("OK");
}

void discard(RedisFrontend&, Client& client, Arguments, RespWriter& reply) {
  if (!client.in_multi) return reply.error("ERR DISCARD without MULTI");
  client.end_multi();
  reply.simple("OK");
}

Task<void> exec(RedisFrontend& front, Client& client, Arguments) {
  if (!client.in_multi || client.multi_is_bad || client.open_txn_expired) {
    RespWriter reply = front.out(client);
    if (!client.in_multi) {
      reply.error("ERR EXEC without MULTI");
      co_return;
    }
    client.open_txn_expired ? reply.error("ABORTED the transaction was dropped: multi_held_ms is " +
                                          std::to_string(front.options().multi_held_ms))
                            : reply.error("EXECABORT Transaction discarded because of previous errors.");
    client.end_multi();
    co_return;
  }
  client.queued.seal();
  Task<void> work =
      client.open_txn ? front.exec_open_txn(client, client.queued) : front.run_list(client, client.queued, true);
  co_await work;
  client.end_multi();
}

struct Noted {
  bool expired = false;  // and deleted, so its version changes
  std::vector<WatchedKey> keys;
};

Task<Code> note_keys(RedisFrontend& front, Txn& txn, Arguments names, Noted* out) {
  const TableId table = front.options().table;
  out->expired = false;
  out->keys.clear();
  for (const std::string_view key : names) txn.get_async(table, key, Intent::kHead);
  co_await txn.wait_all();
  Keyspace keys(&txn, table, front.wall_us(), front.string_bytes_max(), &front.scratch());
  for (const std::string_view key : names) {
    const Value value = txn.value(txn.get_async(table, key, Intent::kHead));
    if (value.code != Code::kOk) co_return value.code;
    out->keys.push_back({std::string(key), value.version, value.epoch});
    out->expired |= value.found && !keys.find(key).exists;
  }
  co_return keys.code();
}

// Without a commit: the recorded versions need not have been current at one moment. EXEC detects a version that is out
// of date. A version that a replica here has and its primary does not have yet belongs to a write that holds the
// primary's lock, so no later read can see an older one. False: a key could not be read, or must be deleted.
Task<bool> note_quickly(RedisFrontend& front, Arguments names, uint64_t until_ns, Noted* out) {
  Txn txn = co_await front.session().begin(until_ns);
  Task<Code> work = note_keys(front, txn, names, out);
  const Code code = co_await work;
  co_return code == Code::kOk && !out->expired;
}

Task<void> watch(RedisFrontend& front, Client& client, Arguments arguments) {
  if (client.in_multi) {
    front.out(client).error("ERR WATCH inside MULTI is not allowed");
    co_return;
  }
  std::vector<std::string_view> fresh;
  for (const std::string_view key : arguments.subspan(1)) {
    const bool known = std::any_of(client.watched.begin(), client.watched.end(),
                                   [&](const WatchedKey& watched) { return watched.key == key; }) ||
                       std::find(fresh.begin(), fresh.end(), key) != fresh.end();
    if (!known) fresh.push_back(key);
  }
  const size_t all = client.watched.size() + fresh.size();
  const size_t watched_max = front.txn_worker()->context().limits.txn_keys_max;  // EXEC reads them all
  if (all > watched_max) {
    front.out(client).error("ERR too many watched keys: " + limit_text("limits.txn_keys_max", watched_max, all));
    co_return;
  }
  Noted noted;
  Outcome outcome;
  const auto body = [&](Txn& txn) { return note_keys(front, txn, fresh, &noted); };
  RetryPolicy policy;
  policy.attempts = UINT32_MAX;
  const uint64_t until_ns = front.answer_by_ns(client);
  Task<bool> quickly = note_quickly(front, fresh, until_ns, &noted);
  bool done = co_await quickly;
  while (!done) {
    Task<Outcome> running = front.session().run(policy, body, until_ns);
    outcome = co_await running;
    done = !outcome.committed() || !noted.expired;
  }
  if (!outcome.committed()) {
    front.out(client).error(front.failure(client, outcome));
    co_return;
  }
  client.watched.insert(client.watched.end(), noted.keys.begin(), noted.keys.end());
  front.out(client).simple("OK");
}

void unwatch(RedisFrontend&, Client& client, Arguments, RespWriter& reply) {
  if (!client.in_multi) client.watched.clear();
  reply.simple("OK");
}

constexpr Command kMultiCommands[] = {
    {"discard", 1, kFast | kNotQueued, {}, "transactions", "forgets what was queued", nullptr, discard},
    {"exec",
     1,
     kNotQueued,
     {},
     "transactions",
     "runs what was queued as one transaction; nil if a watched key has changed",
     nullptr,
     nullptr,
     exec},
    {"multi", 1, kFast | kNotQueued, {}, "transactions", "what follows is queued until EXEC", nullptr, multi},
    {"unwatch", 1, kFast, {}, "transactions", "watches nothing any more", nullptr, unwatch},
    {"watch",
     -2,
     kFast | kNotQueued,
     {1, -1, 1},
     "transactions",
     "EXEC does nothing if one of these keys changes before it",
     nullptr,
     nullptr,
     watch},
};

}  // namespace

std::span<const Command> multi_commands() { return kMultiCommands; }

}  // namespace weft
