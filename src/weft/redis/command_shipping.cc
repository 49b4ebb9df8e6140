// Commands in a transaction that is executed at another node: the primary of their keys (shipped_commands.h).
#include <algorithm>
#include <string>
#include <string_view>

#include "weft/base/marks.h"
#include "weft/redis/cost.h"
#include "weft/redis/frontend.h"
#include "weft/redis/shipped_commands.h"

namespace weft {

namespace {

constexpr size_t kEncodedBytesMax = 3072;  // longer ones would not fit into the message that ships them
constexpr uint8_t kNotShipped = 16;        // transactions with a key, after one that could not be shipped

size_t cell_of(const HashedKey& key) { return key.hash >> 32; }

}  // namespace

// f(std::string_view key): each key of the transaction.
template <class F>
static void for_each_key_of(std::span<const CommandBatch> batches, F f) {
  for (const CommandBatch& batch : batches) {
    if (batch.exec) {
      for (const WatchedKey& watched : batch.client->watched) f(watched.key);
    }
    for (size_t i = batch.first; i < batch.first + batch.count; ++i) {
      for_each_key(batch.list->command(i), batch.list->arguments(i), f);
    }
  }
}

// Whether commands, keys and their primaries are such that it is worth trying.
bool RedisFrontend::can_ship(std::span<const CommandBatch> batches) {
  if (!options_.procedure || !session_.ships()) return false;
  size_t keys = 0, bytes = 0;
  for (const CommandBatch& batch : batches) {
    const size_t watched = batch.exec ? batch.client->watched.size() : 0;
    // With several batches nobody could tell which one has failed.
    if (watched != 0 && batches.size() > 1) return false;
    keys += watched + batch.keys();
    if (keys > static_cast<size_t>(StoredProcedure::kKeysMax)) return false;
    for (size_t i = batch.first; i < batch.first + batch.count; ++i) {
      if (!is_shipped(batch.list->command(i))) return false;
      bytes += encoded_bytes(batch.list->arguments(i));
      if (bytes > kEncodedBytesMax) return false;
    }
  }
  return keys != 0 && is_remote_only(batches);
}

// Whether all keys have this node or one other as their primary, and some have that one.
bool RedisFrontend::is_remote_only(std::span<const CommandBatch> batches) {
  const WorkerContext& ctx = txn_worker_->context();
  NodeSet others;
  bool fit = true, avoid = false;
  for_each_key_of(batches, [&](std::string_view name) {
    if (!fit) return;
    fit = name.size() <= ctx.limits.key_bytes_max;
    const HashedKey key = table().hashed(as_bytes(name));
    const NodeId primary = ctx.view().placement(key.partition).primary();
    if (primary != ctx.self) others.add(primary);
    fit = fit && others.size() <= 1;
    uint8_t& cell = not_shipped_[cell_of(key) % not_shipped_.size()];
    avoid |= cell != 0;
    if (cell != 0) --cell;
  });
  return fit && !avoid && others.size() == 1 && ctx.views.runs_transactions(others.first());
}

// In this transaction, or in one of its own.
Task<Outcome> RedisFrontend::ship(std::span<const CommandBatch> batches, Txn* txn, Attempt* out) {
  const std::string arguments = encode_commands(options_.table, wall_us(), string_bytes_max_, batches);
  for (const CommandBatch& batch : batches) {
    Client& client = *batch.client;
    client.reply_too_long = client.watch_failed = false;
    client.too_much_ns = 0;
    client.reply.clear();
    client.reply_errors.seen.clear();
  }
  std::string reply;
  Task<Outcome> work = txn != nullptr ? session_.ship(*txn, *options_.procedure, arguments, &reply)
                                      : session_.ship(*options_.procedure, arguments, &reply,
                                                      answer_by_ns(*batches.front().client), out->waits);
  const Outcome outcome = co_await work;
  if (outcome.code == Code::kAskInstead) {
    for_each_key_of(batches, [&](std::string_view name) {
      not_shipped_[cell_of(table().hashed(as_bytes(name))) % not_shipped_.size()] = kNotShipped;
    });
    co_return outcome;
  }
  out->failed = 0;
  out->ran = batches.front().count;
  if (outcome.committed()) {
    take_replies(batches, reply);
  } else if (outcome.code == Code::kApplication) {
    batches.front().client->watch_failed = true;  // nothing else ends it so
  }
  co_return outcome;
}

// What the other node has replied becomes the clients' replies.
void RedisFrontend::take_replies(std::span<const CommandBatch> batches, std::string_view reply) {
  CommandReplies replies;
  const bool right = CommandReplies::decode(reply, batches, &replies);
  for (size_t b = 0; b < batches.size(); ++b) {
    const CommandBatch& batch = batches[b];
    Client& client = *batch.client;
    RespWriter to(&client.reply);
    to.set_errors(&client.reply_errors);
    for (size_t i = batch.first; i < batch.first + batch.count; ++i) {
      const Command& command = batch.list->command(i);
      times_.ran(command.id, kCommandNs);
      scheduler_.charge_command(client.share, kCommandNs, command.name, false);
      client.reply_errors.command = i;
      if (!right) to.error("ERR it was done, but the node that did it sent no proper reply");
    }
    if (!right) continue;
    client.reply.append(replies.batches[b].reply);
    for (const auto& [command, word] : replies.batches[b].errors) {
      client.reply_errors.seen.emplace_back(command, word);
    }
  }
  if (!right) return;
  stats_->hits.add(replies.hits);
  stats_->misses.add(replies.misses);
  for (const auto& [key, deadline_ms] : replies.deadlines) note_deadline(key, deadline_ms);
}

}  // namespace weft
