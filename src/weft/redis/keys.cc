// Keys of any type: whether they exist, deleting, renaming, copying.
#include <string>

#include "weft/redis/command_text.h"

namespace weft {
namespace {

void del(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  int64_t deleted = 0;
  for (const std::string_view key : arguments.subspan(1)) {
    if (!keys.find(key).exists) continue;
    keys.erase(key);
    ++deleted;
  }
  reply.integer(deleted);
}

// A key that is named twice counts twice.
void exists(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  int64_t found = 0;
  for (const std::string_view key : arguments.subspan(1)) found += keys.find(key).exists ? 1 : 0;
  reply.integer(found);
}

void type(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const Keyspace::Found found = keys.find(arguments[1]);
  reply.simple(found.exists ? type_name(found.type) : "none");
}

enum class Renamed : uint8_t { kNoSource, kSame, kTaken, kDone };

Renamed move(Keyspace& keys, std::string_view from, std::string_view to, bool replaces, bool keeps_source) {
  const Keyspace::Found source = keys.find(from);
  if (!source.exists) return Renamed::kNoSource;
  if (from == to) return Renamed::kSame;
  const Keyspace::Found target = keys.find(to);
  if (target.exists && !replaces) return Renamed::kTaken;
  keys.put(to, source);
  if (!keeps_source) keys.erase(from);
  return Renamed::kDone;
}

void rename(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const Renamed done = move(keys, arguments[1], arguments[2], true, false);
  done == Renamed::kNoSource ? reply.error("ERR no such key") : reply.simple("OK");
}

void renamenx(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const Renamed done = move(keys, arguments[1], arguments[2], false, false);
  done == Renamed::kNoSource ? reply.error("ERR no such key") : reply.integer(done == Renamed::kDone ? 1 : 0);
}

void copy(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  bool replaces = false;
  for (size_t i = 3; i < arguments.size(); ++i) {
    if (same_word(arguments[i], "replace")) {
      replaces = true;
    } else if (same_word(arguments[i], "db") && i + 1 < arguments.size()) {
      const auto database = integer_argument(arguments[++i], reply);
      if (!database) return;
      if (*database != 0) return reply.error("ERR DB index is out of range");
    } else {
      return reply.error(kSyntaxError);
    }
  }
  if (arguments[1] == arguments[2]) return reply.error("ERR source and destination objects are the same");
  reply.integer(move(keys, arguments[1], arguments[2], replaces, true) == Renamed::kDone ? 1 : 0);
}

constexpr KeyRange kTwo{1, 2, 1};
constexpr KeyRange kAllArguments{1, -1, 1};

constexpr Command kKeyCommands[] = {
    {"copy", -3, kWrites | kMayGrow, kTwo, "keys", "copies a key, with its deadline (DB 0, REPLACE)", copy},
    {"del", -2, kWrites | kHeads | kSplits, kAllArguments, "keys", "deletes keys; how many there were", del},
    {"exists", -2, kFast | kHeads | kSplits, kAllArguments, "keys", "how many of the keys exist", exists},
    {"rename", 3, kWrites, kTwo, "keys", "gives a key another name", rename},
    {"renamenx", 3, kWrites | kFast, kTwo, "keys", "the same, if no key has that name", renamenx},
    {"touch", -2, kFast | kHeads | kSplits, kAllArguments, "keys", "how many of the keys exist", exists},
    {"type", 2, kFast | kHeads, kOneKey, "keys", "the type of what a key holds", type},
    {"unlink", -2, kWrites | kFast | kHeads | kSplits, kAllArguments, "keys", "deletes keys; how many there were", del},
};

}  // namespace

std::span<const Command> key_commands() { return kKeyCommands; }

}  // namespace weft
