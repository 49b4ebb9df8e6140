// What is done with a command: refused, queued for EXEC, answered at once, or run in a transaction with its neighbours.
#include <algorithm>
#include <string_view>
#include <utility>

#include "weft/base/marks.h"
#include "weft/server/front.h"
#include "weft/server/front_text.h"

namespace weft {

namespace {

constexpr size_t kArgumentsMax = 4096;  // of a command that is no list of keys
constexpr int kPatience = 3;            // attempts of several commands together that meet others; then they are halved
constexpr size_t kRunKeysMin = 8;       // of commands that run together and meet others
constexpr int kTurn = 512;              // commands of one client that need nobody else; then it is another's turn

// A browser may be led to send a request here, with commands for lines of its body: its first lines end it.
bool speaks_http(std::string_view word) { return same_word(word, "post") || same_word(word, "host:"); }

}  // namespace

RespWriter Front::out(Client& client) {
  const bool heard = client.replies == Client::Replies::kOn || client.replies == Client::Replies::kSkipNext;
  if (!heard) unheard_.clear();
  RespWriter writer(heard ? &client.output : &unheard_);
  writer.set_version(client.version);
  return writer;
}

// The row; or nullptr and why it is not run, whatever is in the tables. It bounds the work that one command makes.
const Command* Front::admit(const Client& client, Arguments arguments, std::string* why) const {
  const Command* command = find_command(arguments);
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
  const Limits& limits = engine_->limits();
  const size_t keys = keys_named(*command, arguments.size());
  if (keys > limits.txn_keys_max) {
    *why = "ERR the command names too many keys: " + limit_text("limits.txn_keys_max", limits.txn_keys_max, keys);
  } else if (command->keys.last >= 0 && arguments.size() > kArgumentsMax) {
    *why = "ERR the command has too many arguments: " + limit_text("the limit", kArgumentsMax, arguments.size());
  }
  for_each_key(*command, arguments, [&](std::string_view key) {
    if (key.size() <= limits.key_bytes_max || !why->empty()) return;
    *why = "ERR the key is too long: " + limit_text("limits.key_bytes_max", limits.key_bytes_max, key.size());
  });
  return why->empty() ? command : nullptr;
}

bool Front::joins_batch(const Client& client, const Command& command, Arguments arguments) const {
  if (command.data == nullptr || client.in_multi || client.replies != Client::Replies::kOn) return false;
  if (client.batch.empty()) return true;
  size_t bytes = client.batch.bytes();
  for (const std::string_view argument : arguments) bytes += argument.size();
  return client.batch.keys() + keys_named(command, arguments.size()) <= run_keys_ &&
         bytes <= engine_->limits().txn_bytes_max / 2;
}

void Front::count_command(Client& client) {
  if (client.replies == Client::Replies::kOn) ++client.ahead;
  // Only this worker counts here.
  std::atomic<uint64_t>& commands = shared_->counted[engine_->worker_id().value].commands;
  commands.store(commands.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

Task<void> Front::serve(Client& client) {
  std::string why;
  int turn = 0;
  if (client.output.empty() && client.batch.empty()) client.ahead = 0;  // what is not answered leaves nothing
  while (!client.closing && !client.dead) {
    // Not in the middle of a batch: its bytes are the reader's.
    if (client.batch.empty() && (too_much_unread(client) || turn >= kTurn)) {
      client.fed = true;
      co_return;
    }
    ++turn;
    const RespRead read = client.reader.next();
    const Command* command = nullptr;
    const bool too_deep = read == RespRead::kCommand && client.ahead >= options_.pipeline_max;
    if (read == RespRead::kCommand && !too_deep) {
      count_command(client);
      why.clear();
      command = admit(client, client.reader.command(), &why);
      if (command != nullptr && joins_batch(client, *command, client.reader.command())) {
        client.batch.add(command, client.reader.command());
        continue;
      }
    }
    if (!client.batch.empty()) {
      Task<void> work = run_batch(client);
      co_await work;
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

void Front::refuse(Client& client, const std::string& why) {
  out(client).error(why);
  client.closing = client.refused = true;
}

Task<void> Front::handle(Client& client, const Command* command, Arguments arguments, const std::string& why) {
  if (client.replies == Client::Replies::kSkipNext) client.replies = Client::Replies::kSkip;
  if (command != nullptr) client.last = command;
  client.active_ns = session_.now_ns();
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
    out(client).error("ERR Command not allowed inside a transaction");
  } else if (client.in_multi && (command->flags & kNotQueued) == 0) {
    queue(client, command, arguments);
  } else if (command->local != nullptr) {
    RespWriter reply = out(client);
    command->local(*this, client, arguments, reply);
  } else if (command->slow != nullptr) {
    Task<void> work = command->slow(*this, client, arguments);
    co_await work;
  } else {
    client.batch.add(command, arguments);
    Task<void> work = run_batch(client);
    co_await work;
  }
  if (client.replies == Client::Replies::kSkip) client.replies = Client::Replies::kOn;
}

void Front::queue(Client& client, const Command* command, Arguments arguments) {
  RespWriter reply = out(client);
  size_t bytes = client.queued.bytes();
  for (const std::string_view argument : arguments) bytes += argument.size();
  const size_t bytes_max = engine_->limits().txn_bytes_max;
  std::string why;
  if (client.queued.size() >= options_.multi_max) {
    why = "ERR too many commands in MULTI: multi_max is " + std::to_string(options_.multi_max);
  } else if (bytes > bytes_max) {
    why = "ERR too many bytes in MULTI: " + limit_text("limits.txn_bytes_max", bytes_max, bytes);
  }
  if (!why.empty()) {
    client.multi_is_bad = true;
    client.queued.clear();
    return reply.error(why);
  }
  // Nothing of a transaction that EXEC will refuse is kept; its commands are answered as Redis does.
  if (!client.multi_is_bad) client.queued.copy(command, arguments);
  reply.simple("QUEUED");
}

// All in one transaction, if that goes well; else in halves, and at last one by one; but what is between MULTI and EXEC
// is one. Whoever leads a line takes along who stands in it.
Task<void> Front::run_list(Client& client, const CommandList& list, bool exec) {
  Lines::Place self{{&client, &list, 0, list.size(), exec}, {}};
  Part& part = self.part;
  uint32_t attempts = 0;
  bool stands = true;                     // in lines, or leads one
  Lines::Line* line = lines_.find(list);  // that it leads, from here on
  if (line != nullptr) co_await line->stand(&self);
  for (bool over = self.answered; !over;) {
    const uint64_t began_ns = session_.now_ns();
    const std::span<const Part> parts = line == nullptr
                                            ? std::span<const Part>(&part, 1)
                                            : line->gather(self, run_keys_, engine_->limits().txn_bytes_max / 2);
    size_t failed = 0;
    Task<Outcome> work = attempt(parts, &failed);
    const Outcome outcome = co_await work;
    ++attempts;
    const bool together = parts.size() > 1;
    // Fewer of them would meet others at the line's key just so.
    const bool several = together ? !line->met_at_its_key(outcome) : part.count > 1 && !exec;
    adapt_to(outcome, several);
    uint64_t wait_ns = 0;
    Policy policy;
    policy.attempts = several ? kPatience : UINT32_MAX;
    if (!outcome.committed() && session_.again(outcome, policy, attempts, began_ns, &wait_ns)) {
      bool leads = true;
      if (line != nullptr && !together && !line->met_at_its_key(outcome)) {
        // Whom it meets elsewhere is nothing that those behind it should wait for.
        lines_.leave(line, engine_->worker());
        line = nullptr;
        stands = false;
      } else if (line == nullptr && stands) {
        line = lines_.of(outcome, options_.table, part, &leads);
      }
      if (!leads) {
        attempts = 0;
        part.count = list.size() - part.first;
        co_await line->stand(&self);
        over = self.answered;
      } else if (wait_ns > 0) {
        co_await session_.sleep_ns(wait_ns);
      }
      continue;
    }
    attempts = 0;
    const bool undone = outcome.kind == OutcomeKind::kAborted || outcome.kind == OutcomeKind::kRejected;
    if (undone && together) {
      line->split(failed);
      continue;
    }
    if (undone && several) {
      WEFT_MARK_OUTSIDE("a run of commands is halved");
      part.count = (part.count + 1) / 2;
      continue;
    }
    for (const Part& each : parts) answer(*each.client, outcome, each.count, each.exec);
    if (together) line->answered(parts.size() - 1, engine_->worker());
    part.first += part.count;
    part.count = list.size() - part.first;
    over = part.count == 0;
  }
  if (line != nullptr && !self.answered) lines_.leave(line, engine_->worker());
}

Task<void> Front::run_batch(Client& client) {
  client.last = &client.batch.command(client.batch.size() - 1);
  client.active_ns = session_.now_ns();
  Task<void> work = run_list(client, client.batch, false);
  co_await work;
  client.batch.clear();
}

// The more keys several commands have together, the likelier they meet others, and the more is done in vain.
void Front::adapt_to(const Outcome& outcome, bool several) {
  const size_t most = engine_->limits().txn_keys_max;
  if (outcome.committed()) {
    run_keys_ = std::min(run_keys_ + 1, most);
  } else if (several && outcome.kind == OutcomeKind::kAborted && code_retryable(outcome.code)) {
    run_keys_ = std::max(run_keys_ - run_keys_ / 4, std::min(kRunKeysMin, most));
  }
}

Task<Outcome> Front::attempt(std::span<const Part> parts, size_t* failed) {
  Txn txn = co_await session_.begin();
  Task<Code> work = apply(txn, parts, failed);
  const Code code = co_await work;
  if (code != Code::kOk) co_return txn.abort(code);
  co_return co_await txn.commit();
}

// Reads everything that the commands name, then runs them one after the other on what is there. `failed`: the part that
// is the reason if it is not the first.
Task<Code> Front::apply(Txn& txn, std::span<const Part> parts, size_t* failed) {
  for (const Part& part : parts) start_reads(txn, part);
  co_await txn.wait_all();
  Keyspace keys(&txn, options_.table, wall_us(), string_bytes_max_, &scratch_);
  for (const Part& part : parts) {
    part.client->reply_too_long = part.client->watch_failed = false;
    Code code = check_watched(txn, part, keys);
    if (code == Code::kOk) code = run_commands(part, keys);
    *failed = static_cast<size_t>(&part - parts.data());
    if (code != Code::kOk) co_return code;
  }
  *failed = 0;
  co_return Code::kOk;
}

void Front::start_reads(Txn& txn, const Part& part) {
  for (const WatchedKey& watched : part.client->watched) {
    if (part.exec) txn.start_get(options_.table, watched.key);
  }
  for (size_t i = part.first; i < part.first + part.count; ++i) {
    const Command& command = part.list->command(i);
    const Arguments arguments = part.list->arguments(i);
    if (command.data == nullptr || (command.reads != nullptr && !command.reads(arguments))) continue;
    const Intent intent = (command.flags & kWrites) != 0 ? Intent::kUpdate : Intent::kRead;
    for_each_key(command, arguments, [&](std::string_view key) { txn.start_get(options_.table, key, intent); });
  }
}

Code Front::check_watched(Txn& txn, const Part& part, Keyspace& keys) {
  if (!part.exec) return Code::kOk;
  for (const WatchedKey& watched : part.client->watched) {
    const Value value = txn.value(txn.start_get(options_.table, watched.key));
    if (value.code != Code::kOk) return value.code;
    // A deadline that has passed since makes it another value too.
    const bool same = value.version == watched.version && value.epoch == watched.epoch &&
                      keys.find(watched.key).exists == value.found;
    if (same) continue;
    part.client->watch_failed = true;
    return Code::kApplication;
  }
  return Code::kOk;
}

Code Front::run_commands(const Part& part, Keyspace& keys) {
  Client& client = *part.client;
  client.reply.clear();
  RespWriter reply(&client.reply, options_.reply_bytes_max);
  reply.set_version(client.version);
  for (size_t i = part.first; i < part.first + part.count; ++i) {
    const Command& command = part.list->command(i);
    if (command.data != nullptr) {
      command.data(keys, part.list->arguments(i), reply);
    } else {
      command.local(*this, client, part.list->arguments(i), reply);
    }
    if (keys.code() != Code::kOk) return keys.code();
    client.reply_too_long = reply.over();
    if (reply.over()) return Code::kApplication;
  }
  return Code::kOk;
}

void Front::answer(Client& client, const Outcome& outcome, size_t commands, bool exec) {
  RespWriter reply = out(client);
  if (outcome.committed()) {
    if (exec) reply.array(commands);
    const bool heard = client.replies == Client::Replies::kOn;
    if (heard && client.output.empty()) {
      client.output.swap(client.reply);
    } else if (heard) {
      client.output.append(client.reply);
    }
    return clear(client.reply);
  }
  clear(client.reply);
  if (exec && client.watch_failed && outcome.code == Code::kApplication) return reply.null_array();
  // Of several that share a transaction each has its answer.
  const std::string why = failure(client, outcome);
  for (size_t i = 0; i < (exec ? 1 : commands); ++i) reply.error(why);
}

std::string Front::failure(const Client& client, const Outcome& outcome) const {
  if (client.reply_too_long && outcome.code == Code::kApplication) {
    return "ERR the reply is too long, and nothing was done: reply_bytes_max is " +
           std::to_string(options_.reply_bytes_max);
  }
  if (outcome.kind == OutcomeKind::kUnknown) return "UNKNOWN " + id_text(outcome.id) + " " + outcome.text();
  if (outcome.kind == OutcomeKind::kAborted) return "ABORTED " + outcome.text();
  if (outcome.code == Code::kClosed && engine_->retired()) {
    return "ERR rejected: this node was removed from the view and starts over: ask another node";
  }
  if (outcome.code == Code::kTableFull || outcome.code == Code::kBinFull) {
    return "ERR " + outcome.text() + ": " + engine_->node()->table(outcome.table)->limit_text(outcome.code);
  }
  return "ERR " + outcome.text();
}

}  // namespace weft
