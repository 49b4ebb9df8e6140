// SET and GETEX with their options, and the older commands that do a part of the same.
#include <string>

#include "weft/redis/command_text.h"

namespace weft {
namespace {

enum class Unit : uint8_t { kNone, kSeconds, kMilliseconds };

struct SetOptions {
  bool if_absent = false, if_present = false, keep = false, persist = false, answer_old = false;
  Unit unit = Unit::kNone;
  bool absolute = false;
  std::string_view amount;
};

// The options of SET (or GETEX) after its key and value; false: a syntax error.
bool parse_options(Arguments options, bool of_set, SetOptions* out) {
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string_view word = options[i];
    const bool more = i + 1 < options.size();
    const bool seconds = same_word(word, "ex") || same_word(word, "exat");
    const bool milliseconds = same_word(word, "px") || same_word(word, "pxat");
    const Unit unit = seconds ? Unit::kSeconds : Unit::kMilliseconds;
    const bool absolute = word.size() == 4;
    // The same option may be repeated; the last one counts.
    const bool other = out->unit != Unit::kNone && (out->unit != unit || out->absolute != absolute);
    if (of_set && same_word(word, "nx") && !out->if_present) {
      out->if_absent = true;
    } else if (of_set && same_word(word, "xx") && !out->if_absent) {
      out->if_present = true;
    } else if (of_set && same_word(word, "get")) {
      out->answer_old = true;
    } else if (of_set && same_word(word, "keepttl") && !out->persist && out->unit == Unit::kNone) {
      out->keep = true;
    } else if (!of_set && same_word(word, "persist") && out->unit == Unit::kNone) {
      out->persist = true;
    } else if ((seconds || milliseconds) && !other && !out->keep && !out->persist && more) {
      out->unit = unit;
      out->absolute = absolute;
      out->amount = options[++i];
    } else {
      return false;
    }
  }
  return true;
}

// The deadline from the options that give one; false: the reply says what is wrong.
bool option_deadline(const SetOptions& options, int64_t now_ms, std::string_view command, RespWriter& reply,
                     int64_t* deadline_ms) {
  if (options.unit == Unit::kNone) return true;
  const auto amount = integer_argument(options.amount, reply);
  if (!amount) return false;
  if (*amount <= 0) {
    reply.error("ERR invalid expire time in '" + std::string(command) + "' command");
    return false;
  }
  const auto at =
      deadline_of(*amount, options.unit == Unit::kSeconds ? 1000 : 1, options.absolute, now_ms, command, reply);
  if (at) *deadline_ms = *at;
  return at.has_value();
}

void set(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  SetOptions options;
  if (!parse_options(arguments.subspan(3), true, &options)) return reply.error(kSyntaxError);
  int64_t deadline_ms = kNoDeadline;
  if (!option_deadline(options, keys.now_ms(), "set", reply, &deadline_ms)) return;
  if (!keys.fits(arguments[2].size(), reply)) return;
  if (!options.if_absent && !options.if_present && !options.answer_old && !options.keep) {
    keys.put(arguments[1], arguments[2], deadline_ms, reply);
    return reply.simple("OK");
  }
  Keyspace::Found old;
  if (options.answer_old) {
    if (!keys.find_string(arguments[1], &old, reply)) return;
    old.exists ? reply.bulk(old.bytes) : reply.null();
  } else {
    old = keys.find(arguments[1]);
  }
  const bool writes = old.exists ? !options.if_absent : !options.if_present;
  if (!options.answer_old) writes ? reply.simple("OK") : reply.null();
  if (options.keep && old.exists) deadline_ms = old.deadline_ms;
  if (writes) keys.put(arguments[1], arguments[2], deadline_ms, reply);
}

bool set_reads(Arguments arguments) {
  for (size_t i = 3; i < arguments.size(); ++i) {
    for (const std::string_view word : {"nx", "xx", "get", "keepttl"}) {
      if (same_word(arguments[i], word)) return true;
    }
  }
  return false;
}

void setnx(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  if (!keys.fits(arguments[2].size(), reply)) return;
  const bool exists = keys.find(arguments[1]).exists;
  if (!exists) keys.put(arguments[1], arguments[2], kNoDeadline, reply);
  reply.integer(exists ? 0 : 1);
}

void set_for(Keyspace& keys, Arguments arguments, RespWriter& reply, Unit unit, std::string_view command) {
  SetOptions options;
  options.unit = unit;
  options.amount = arguments[2];
  int64_t deadline_ms = kNoDeadline;
  if (!option_deadline(options, keys.now_ms(), command, reply, &deadline_ms)) return;
  if (keys.put(arguments[1], arguments[3], deadline_ms, reply)) reply.simple("OK");
}

void setex(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  set_for(keys, arguments, reply, Unit::kSeconds, "setex");
}
void psetex(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  set_for(keys, arguments, reply, Unit::kMilliseconds, "psetex");
}

void getex(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  SetOptions options;
  if (!parse_options(arguments.subspan(2), false, &options)) return reply.error(kSyntaxError);
  Keyspace::Found old;
  if (!keys.find_string(arguments[1], &old, reply)) return;
  if (!old.exists) return reply.null();
  int64_t deadline_ms = kNoDeadline;
  if (!option_deadline(options, keys.now_ms(), "getex", reply, &deadline_ms)) return;
  reply.bulk(old.bytes);
  if (options.unit != Unit::kNone && deadline_ms <= keys.now_ms()) {
    keys.erase(arguments[1]);
  } else if (options.unit != Unit::kNone || (options.persist && old.deadline_ms != kNoDeadline)) {
    old.deadline_ms = deadline_ms;
    keys.put(arguments[1], old);
  }
}

constexpr Command kSetCommands[] = {
    {"getex", -2, kWrites | kFast, kOneKey, "strings",
     "the string, and sets or removes its deadline (EX PX EXAT PXAT PERSIST)", getex},
    {"psetex", 4, kWrites | kMayGrow, kOneKey, "strings", "sets a string for so many milliseconds", psetex, nullptr,
     nullptr, reads_nothing},
    {"set", -3, kWrites | kMayGrow, kOneKey, "strings", "sets a string (NX XX GET EX PX EXAT PXAT KEEPTTL)", set,
     nullptr, nullptr, set_reads},
    {"setex", 4, kWrites | kMayGrow, kOneKey, "strings", "sets a string for so many seconds", setex, nullptr, nullptr,
     reads_nothing},
    {"setnx", 3, kWrites | kMayGrow | kFast, kOneKey, "strings", "sets a string if the key does not exist", setnx},
};

}  // namespace

std::span<const Command> set_commands() { return kSetCommands; }

}  // namespace weft
