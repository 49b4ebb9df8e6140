// Dispatch of a command: refused, queued for EXEC, answered at once, or run in a transaction with its neighbours
// (command_batch.cc).
#include <algorithm>
#include <string_view>
#include <utility>

#include "weft/redis/cost.h"
#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"

namespace weft {

namespace {

constexpr size_t kArgumentsMax = 4096;  // of a command whose arguments are not a list of keys

// A browser may be tricked into sending a request here, with commands as lines of its body: its first lines close it.
bool speaks_http(std::string_view word) { return same_word(word, "post") || same_word(word, "host:"); }

// Most pipelines repeat a command. Its row, if it is spelt as the last one and has no subcommands.
const Command* repeated(const CommandList& list, Arguments arguments) {
  if (list.empty()) return nullptr;
  const Command& last = list.command(list.size() - 1);
  const bool same = list.arguments(list.size() - 1)[0] == arguments[0];
  return same && std::string_view(last.name).size() == arguments[0].size() ? &last : nullptr;
}

}  // namespace

RespWriter RedisFrontend::out(Client& client) {
  const bool wanted = client.replies == Client::Replies::kOn || client.replies == Client::Replies::kSkipNext;
  const bool heard = wanted && !client.dropped && client.part_reply == nullptr;
  if (!heard) ClientOutput::clear(discarded_replies_);
  RespWriter writer(heard                          ? &client.output.last()
                    : client.part_reply != nullptr ? client.part_reply
                                                   : &discarded_replies_);
  writer.set_version(client.version);
  writer.set_errors(&client.errors);
  return writer;
}

// The row; or nullptr and the reason, if it is refused regardless of the data. This bounds the work of one command.
const Command* RedisFrontend::admit(const Client& client, Arguments arguments, std::string* why) const {
  const Command* command = repeated(client.batch, arguments);
  if (command == nullptr) command = find_command(arguments);
  if (command == nullptr || (!has_handler(*command) && fits(*command, arguments.size()))) {
    *why = unknown_command(arguments);
    return nullptr;
  }
  if (!fits(*command, arguments.size())) {
    *why = wrong_arity(command->name);
    return nullptr;
  }
  if (!client.authenticated && (command->flags & kBeforeAuth) == 0) {
    *why = "NOAUTH Authentication required.";
    return nullptr;
  }
  const Limits& limits = txn_worker_->context().limits;
  const size_t keys = keys_named(*command, arguments.size());
  const bool splits = (command->flags & kSplits) != 0 && !client.in_multi;
  if (keys > limits.txn_keys_max && !splits) {
    *why = "ERR the command names too many keys: " + limit_text("limits.txn_keys_max", limits.txn_keys_max, keys);
  } else if (command->keys.last >= 0 && arguments.size() > kArgumentsMax) {
    *why = "ERR the command has too many arguments: " + limit_text("the limit", kArgumentsMax, arguments.size());
  }
  // A key that is too long does not exist: only what could make it is refused.
  const bool makes = (command->flags & kMayGrow) != 0 || ((command->flags & kWrites) != 0 && keys > 1);
  const bool only_looks = command->data != nullptr && (!makes || (command->flags & kHeads) != 0);
  for_each_key(*command, arguments, [&](std::string_view key) {
    if (key.size() <= limits.key_bytes_max || only_looks || !why->empty()) return;
    *why = "ERR the key is too long: " + limit_text("limits.key_bytes_max", limits.key_bytes_max, key.size());
  });
  return why->empty() ? command : nullptr;
}

bool RedisFrontend::joins_batch(const Client& client, const Command& command, Arguments arguments) const {
  if (command.data == nullptr || client.in_multi || client.replies != Client::Replies::kOn) return false;
  if ((command.flags & kSplits) != 0 && must_split(command, arguments)) return false;
  if (client.batch.empty()) return true;
  size_t bytes = client.batch.bytes();
  for (const std::string_view argument : arguments) bytes += argument.size();
  const Limits& limits = txn_worker_->context().limits;
  return client.batch.keys() + keys_named(command, arguments.size()) <= limits.txn_keys_max &&
         bytes <= limits.txn_bytes_max / 2;
}

void RedisFrontend::count_command(Client& client) {
  if (client.replies == Client::Replies::kOn) ++client.pipelined;
  // Only this worker writes this counter.
  std::atomic<uint64_t>& commands = shared_->counted[txn_worker_->context().id.value].commands;
  commands.store(commands.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

Task<void> RedisFrontend::serve(Client& client) {
  std::string why;
  if (client.output.empty() && client.batch.empty()) client.pipelined = 0;  // without a reply nothing is pending
  while (!client.closing && !client.dead) {
    // Not in the middle of a batch: its bytes are in the reader's buffer.
    if (client.batch.empty() && (too_much_unread(client) || client.is_delayed())) {
      client.has_input = client.blocked_on_output = true;
      co_return;
    }
    if (scheduler_.over(client.share)) {
      co_await scheduler_.wait(client.share, FairScheduler::WaitPoint::kBeforeTxn);
      continue;
    }
    const RespRead read = client.reader.next();
    const Command* command = nullptr;
    const bool too_deep = read == RespRead::kCommand && client.pipelined >= options_.pipeline_max;
    if (read == RespRead::kCommand && !too_deep) {
      count_command(client);
      why.clear();
      command = admit(client, client.reader.command(), &why);
      scheduler_.charge(client.share, arguments_ns(client.reader.command()), command == nullptr ? "?" : command->name);
      if (command != nullptr && joins_batch(client, *command, client.reader.command())) {
        client.batch.add(command, client.reader.command());
        continue;
      }
    }
    if (!client.batch.empty()) {
      Task<void> work = run_batch(client);
      co_await work;
      // The command after it stays in the reader meanwhile.
      while (too_much_unread(client) && !client.dead) co_await Unread{this, &client};
      if (command != nullptr && joins_batch(client, *command, client.reader.command())) {
        client.batch.add(command, client.reader.command());
        continue;
      }
    }
    if (read == RespRead::kMore) co_return;
    if (read == RespRead::kError) {
      refuse(client, "ERR " + std::string(client.reader.error()));
      co_return;
    }
    if (too_deep) {
      refuse(client, "ERR too many commands ahead of their answers: client.pipeline_max is " +
                         std::to_string(options_.pipeline_max));
      co_return;
    }
    Task<void> work = handle(client, command, client.reader.command(), why);
    co_await work;
  }
}

void RedisFrontend::refuse(Client& client, const std::string& why) {
  out(client).error(why);
  note_errors(client);
  client.closing = client.refused = true;
}

Task<void> RedisFrontend::handle(Client& client, const Command* command, Arguments arguments, const std::string& why) {
  if (client.replies == Client::Replies::kSkipNext) client.replies = Client::Replies::kSkip;
  if (command != nullptr) client.last = command;
  if (command != nullptr && std::string_view(command->name).starts_with("cluster|")) client.asked_cluster = true;
  client.active_ns = session_.now_ns();
  client.began_ns = scheduler_.now_ns();
  if (command == nullptr) note_rejected(arguments);
  if (command == nullptr && speaks_http(arguments[0])) {
    refuse(client, "ERR this port speaks the Redis protocol, not HTTP");
  } else if (command == nullptr && same_word(arguments[0], "exec")) {
    client.end_multi();
    out(client).error("EXECABORT Transaction discarded because of: " +
                      (why.starts_with("ERR ") ? why.substr(std::string_view("ERR ").size()) : why));
  } else if (command == nullptr) {
    if (client.in_multi) client.multi_is_bad = true;
    out(client).error(why);
  } else if (client.in_multi && (command->flags & kNoMulti) != 0) {
    client.multi_is_bad = true;
    note_rejected(arguments);
    out(client).error("ERR Command not allowed inside a transaction");
  } else if (client.in_multi && (command->flags & kNotQueued) == 0) {
    queue(client, command, arguments);
  } else if (command->local != nullptr) {
    RespWriter reply = out(client);
    const size_t before = client.output.bytes();
    command->local(*this, client, arguments, reply);
    const uint64_t bytes = client.output.bytes() - std::min(before, client.output.bytes());
    const uint64_t ns = kCommandNs + Keyspace::bytes_ns(bytes);
    times_.ran(command->id, ns);
    scheduler_.charge_command(client.share, ns, command->name, (command->flags & kFast) == 0);
    note_call(client, *command, arguments);
  } else if (command->slow != nullptr) {
    Task<void> work = command->slow(*this, client, arguments);
    co_await work;
    stats_->rows[command->id].ns.add(took_ns(client));
    note_call(client, *command, arguments);
  } else if ((command->flags & kSplits) != 0 && must_split(*command, arguments)) {
    Task<void> work = run_split(client, *command, arguments);
    co_await work;
  } else {
    client.batch.add(command, arguments);
    Task<void> work = run_batch(client);
    co_await work;
  }
  note_errors(client);
  if (client.replies == Client::Replies::kSkip) client.replies = Client::Replies::kOn;
}

void RedisFrontend::queue(Client& client, const Command* command, Arguments arguments) {
  RespWriter reply = out(client);
  size_t bytes = client.queued.bytes();
  for (const std::string_view argument : arguments) bytes += argument.size();
  const size_t bytes_max = txn_worker_->context().limits.txn_bytes_max;
  std::string why;
  if (client.queued.size() >= options_.multi_max) {
    why = "ERR too many commands in MULTI: multi_max is " + std::to_string(options_.multi_max);
  } else if (bytes > bytes_max) {
    why = "ERR too many bytes in MULTI: " + limit_text("limits.txn_bytes_max", bytes_max, bytes);
  }
  if (!why.empty()) {
    client.multi_is_bad = true;
    client.queued.clear();
    note_rejected(arguments);
    return reply.error(why);
  }
  // The commands of a transaction that EXEC will refuse are not kept, but answered as Redis does.
  if (!client.multi_is_bad) client.queued.copy(command, arguments);
  reply.simple("QUEUED");
}

Task<void> RedisFrontend::run_batch(Client& client) {
  client.last = &client.batch.command(client.batch.size() - 1);
  client.active_ns = session_.now_ns();
  client.began_ns = scheduler_.now_ns();
  Task<void> work = run_list(client, client.batch, false);
  co_await work;
  note_errors(client);
  client.batch.clear();
}

}  // namespace weft
