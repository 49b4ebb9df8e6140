// Deadlines of keys. They are absolute, in milliseconds, whatever unit the command uses.
#include <string>

#include "weft/redis/command_text.h"

namespace weft {
namespace {

struct Conditions {
  bool if_none = false, if_some = false, if_later = false, if_earlier = false;
};

bool parse(Arguments options, Conditions* out, RespWriter& reply) {
  for (const std::string_view option : options) {
    if (same_word(option, "nx")) {
      out->if_none = true;
    } else if (same_word(option, "xx")) {
      out->if_some = true;
    } else if (same_word(option, "gt")) {
      out->if_later = true;
    } else if (same_word(option, "lt")) {
      out->if_earlier = true;
    } else {
      reply.error("ERR Unsupported option " + std::string(option));
      return false;
    }
  }
  if (out->if_none && (out->if_some || out->if_later || out->if_earlier)) {
    reply.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return false;
  }
  if (out->if_later && out->if_earlier) {
    reply.error("ERR GT and LT options at the same time are not compatible");
    return false;
  }
  return true;
}

void expire_at(Keyspace& keys, Arguments arguments, RespWriter& reply, std::string_view name, int64_t unit_ms,
               bool absolute) {
  Conditions conditions;
  if (!parse(arguments.subspan(3), &conditions, reply)) return;
  const auto amount = integer_argument(arguments[2], reply);
  if (!amount) return;
  const auto deadline_ms = deadline_of(*amount, unit_ms, absolute, keys.now_ms(), name, reply);
  if (!deadline_ms) return;
  Keyspace::Found found = keys.find(arguments[1]);
  if (!found.exists) return reply.integer(0);
  const bool has = found.deadline_ms != kNoDeadline;
  const bool refused = (conditions.if_none && has) || (conditions.if_some && !has) ||
                       (conditions.if_later && (!has || *deadline_ms <= found.deadline_ms)) ||
                       (conditions.if_earlier && has && *deadline_ms >= found.deadline_ms);
  if (refused) return reply.integer(0);
  reply.integer(1);
  if (*deadline_ms <= keys.now_ms()) return keys.erase(arguments[1]);
  found.deadline_ms = *deadline_ms;
  keys.put(arguments[1], found);
}

void expire(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  expire_at(keys, arguments, reply, "expire", 1000, false);
}
void pexpire(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  expire_at(keys, arguments, reply, "pexpire", 1, false);
}
void expireat(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  expire_at(keys, arguments, reply, "expireat", 1000, true);
}
void pexpireat(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  expire_at(keys, arguments, reply, "pexpireat", 1, true);
}

// -2: there is no such key, -1: it has no deadline.
int64_t time_of(Keyspace& keys, std::string_view key, bool absolute) {
  const Keyspace::Found found = keys.find(key);
  if (!found.exists) return -2;
  if (found.deadline_ms == kNoDeadline) return -1;
  return absolute ? found.deadline_ms : found.deadline_ms - keys.now_ms();
}

int64_t in_seconds(int64_t ms) { return ms < 0 ? ms : (ms + 500) / 1000; }

void ttl(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  reply.integer(in_seconds(time_of(keys, arguments[1], false)));
}
void pttl(Keyspace& keys, Arguments arguments, RespWriter& reply) { reply.integer(time_of(keys, arguments[1], false)); }
void expiretime(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  reply.integer(in_seconds(time_of(keys, arguments[1], true)));
}
void pexpiretime(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  reply.integer(time_of(keys, arguments[1], true));
}

void persist(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found found = keys.find(arguments[1]);
  const bool had = found.exists && found.deadline_ms != kNoDeadline;
  reply.integer(had ? 1 : 0);
  if (!had) return;
  found.deadline_ms = kNoDeadline;
  keys.put(arguments[1], found);
}

constexpr uint32_t kFlags = kWrites | kFast;

constexpr Command kExpiryCommands[] = {
    {"expire", -3, kFlags, kOneKey, "expiry", "the key is gone after so many seconds (NX XX GT LT)", expire},
    {"expireat", -3, kFlags, kOneKey, "expiry", "the key is gone at a moment, in seconds since 1970 (NX XX GT LT)",
     expireat},
    {"expiretime", 2, kFast | kHeads, kOneKey, "expiry", "the key's deadline, in seconds since 1970", expiretime},
    {"persist", 2, kFlags, kOneKey, "expiry", "takes the key's deadline away", persist},
    {"pexpire", -3, kFlags, kOneKey, "expiry", "EXPIRE in milliseconds", pexpire},
    {"pexpireat", -3, kFlags, kOneKey, "expiry", "EXPIREAT in milliseconds", pexpireat},
    {"pexpiretime", 2, kFast | kHeads, kOneKey, "expiry", "EXPIRETIME in milliseconds", pexpiretime},
    {"pttl", 2, kFast | kHeads, kOneKey, "expiry", "TTL in milliseconds", pttl},
    {"ttl", 2, kFast | kHeads, kOneKey, "expiry", "how long the key has, in seconds; -1: for ever, -2: there is none",
     ttl},
};

}  // namespace

std::span<const Command> expiry_commands() { return kExpiryCommands; }

}  // namespace weft
