// Strings: reading, ranges, many keys at once. SET and its kin are in strings_set.cc, numbers in strings_counters.cc.
#include <algorithm>
#include <string>

#include "weft/redis/command_text.h"

namespace weft {
namespace {

void reply_string(const Keyspace::Found& found, RespWriter& reply) {
  found.exists ? reply.bulk(found.bytes) : reply.null();
}

void get(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found found;
  if (keys.find_string(arguments[1], &found, reply)) reply_string(found, reply);
}

// Here a value of another type counts as missing.
void mget(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  reply.array(arguments.size() - 1);
  for (const std::string_view key : arguments.subspan(1)) {
    const Keyspace::Found found = keys.find(key);
    found.exists&& found.type == ValueType::kString ? reply.bulk(found.bytes) : reply.null();
  }
}

void strlen_of(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found found;
  if (keys.find_string(arguments[1], &found, reply)) reply.integer(static_cast<int64_t>(found.length));
}

void append(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found old;
  if (!keys.find_string(arguments[1], &old, reply)) return;
  if (!old.exists) old = {};
  if (!keys.fits(old.bytes.size() + arguments[2].size(), reply)) return;
  std::string whole(old.bytes);
  whole.append(arguments[2]);
  if (keys.put(arguments[1], whole, old.deadline_ms, reply)) reply.integer(static_cast<int64_t>(whole.size()));
}

// Both ends included; negative ones count from the end.
void getrange(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const auto from = integer_argument(arguments[2], reply);
  if (!from) return;
  const auto to = integer_argument(arguments[3], reply);
  if (!to) return;
  Keyspace::Found found;
  if (!keys.find_string(arguments[1], &found, reply)) return;
  const auto bytes = static_cast<int64_t>(found.exists ? found.bytes.size() : 0);
  if (bytes == 0 || (*from < 0 && *to < 0 && *from > *to)) return reply.bulk("");
  const int64_t first = std::max<int64_t>(*from < 0 ? bytes + *from : *from, 0);
  const int64_t last = std::min(std::max<int64_t>(*to < 0 ? bytes + *to : *to, 0), bytes - 1);
  if (first > last) return reply.bulk("");
  reply.bulk(found.bytes.substr(static_cast<size_t>(first), static_cast<size_t>(last - first + 1)));
}

void setrange(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const auto offset = integer_argument(arguments[2], reply);
  if (!offset) return;
  if (*offset < 0) return reply.error("ERR offset is out of range");
  Keyspace::Found old;
  if (!keys.find_string(arguments[1], &old, reply)) return;
  if (!old.exists) old = {};
  const std::string_view part = arguments[3];
  if (part.empty()) return reply.integer(static_cast<int64_t>(old.bytes.size()));
  const auto at = static_cast<uint64_t>(*offset);
  if (!keys.fits(at + part.size(), reply)) return;
  std::string whole(old.bytes);
  whole.resize(std::max(whole.size(), at + part.size()));
  part.copy(whole.data() + at, part.size());
  if (keys.put(arguments[1], whole, old.deadline_ms, reply)) reply.integer(static_cast<int64_t>(whole.size()));
}

void getset(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found old;
  if (!keys.fits(arguments[2].size(), reply) || !keys.find_string(arguments[1], &old, reply)) return;
  reply_string(old, reply);
  keys.put(arguments[1], arguments[2], kNoDeadline, reply);
}

void getdel(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found old;
  if (!keys.find_string(arguments[1], &old, reply)) return;
  reply_string(old, reply);
  if (old.exists) keys.erase(arguments[1]);
}

bool mset_fits(Keyspace& keys, Arguments arguments, RespWriter& reply, std::string_view name) {
  if (arguments.size() % 2 == 0) {
    reply.error(wrong_arity(name));
    return false;
  }
  for (size_t i = 2; i < arguments.size(); i += 2) {
    if (!keys.fits(arguments[i].size(), reply)) return false;
  }
  return true;
}

void mset(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  if (!keys.paused() && !mset_fits(keys, arguments, reply, "mset")) return;
  for (size_t i = keys.resume(1); i < arguments.size(); i += 2) {
    keys.put(arguments[i], arguments[i + 1], kNoDeadline, reply);
    if (i + 2 < arguments.size() && keys.code() == Code::kOk && keys.pauses(i + 2)) return;
  }
  reply.simple("OK");
}

void msetnx(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  if (!mset_fits(keys, arguments, reply, "msetnx")) return;
  for (size_t i = 1; i < arguments.size(); i += 2) {
    if (keys.find(arguments[i]).exists) return reply.integer(0);
  }
  for (size_t i = 1; i < arguments.size(); i += 2) keys.put(arguments[i], arguments[i + 1], kNoDeadline, reply);
  reply.integer(1);
}

constexpr KeyRange kAllArguments{1, -1, 1};
constexpr KeyRange kPairs{1, -1, 2};

constexpr Command kStringCommands[] = {
    {"append", 3, kWrites | kMayGrow | kFast, kOneKey, "strings", "adds to the end of a string; its length", append},
    {"get", 2, kFast, kOneKey, "strings", "the string", get},
    {"getdel", 2, kWrites | kFast, kOneKey, "strings", "the string, which is deleted", getdel},
    {"getrange", 4, 0, kOneKey, "strings", "a part of a string, both ends included", getrange},
    {"getset", 3, kWrites | kMayGrow | kFast, kOneKey, "strings", "sets a string; the old one", getset},
    {"mget", -2, kFast | kSplits, kAllArguments, "strings", "the strings of several keys", mget},
    {"mset", -3, kWrites | kMayGrow, kPairs, "strings", "sets several keys", mset, nullptr, nullptr, reads_nothing},
    {"msetnx", -3, kWrites | kMayGrow, kPairs, "strings", "sets several keys if none of them exists", msetnx},
    {"setrange", 4, kWrites | kMayGrow, kOneKey, "strings", "overwrites a part of a string", setrange},
    {"strlen", 2, kFast | kHeads, kOneKey, "strings", "the length of a string", strlen_of},
    {"substr", 4, 0, kOneKey, "strings", "GETRANGE by its old name", getrange},
};

}  // namespace

std::span<const Command> string_commands() { return kStringCommands; }

}  // namespace weft
