// Strings that are numbers.
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>

#include "weft/redis/command_text.h"

namespace weft {
namespace {

void add(Keyspace& keys, std::string_view key, int64_t amount, RespWriter& reply) {
  Keyspace::Found old;
  if (!keys.find_string(key, &old, reply)) return;
  int64_t number = 0;
  if (old.exists) {
    const auto value = integer_argument(old.bytes, reply);
    if (!value) return;
    number = *value;
  } else {
    old = {};
  }
  if (__builtin_add_overflow(number, amount, &number)) return reply.error("ERR increment or decrement would overflow");
  char digits[20];
  const char* const end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  if (keys.put(key, text, old.deadline_ms, reply)) reply.integer(number);
}

void incr(Keyspace& keys, Arguments arguments, RespWriter& reply) { add(keys, arguments[1], 1, reply); }
void decr(Keyspace& keys, Arguments arguments, RespWriter& reply) { add(keys, arguments[1], -1, reply); }

void incrby(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  if (const auto amount = integer_argument(arguments[2], reply)) add(keys, arguments[1], *amount, reply);
}

void decrby(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const auto amount = integer_argument(arguments[2], reply);
  if (!amount) return;
  if (*amount == INT64_MIN) return reply.error("ERR decrement would overflow");
  add(keys, arguments[1], -*amount, reply);
}

void incrbyfloat(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found old;
  if (!keys.find_string(arguments[1], &old, reply)) return;
  if (!old.exists) old = {};
  const auto value = old.exists ? parse_real(old.bytes) : 0.0L;
  const auto amount = parse_real(arguments[2]);
  if (!value || !amount) return reply.error(kNotFloat);
  const long double sum = *value + *amount;
  if (std::isnan(sum) || std::isinf(sum)) return reply.error("ERR increment would produce NaN or Infinity");
  const std::string text = real_text(sum);
  if (keys.put(arguments[1], text, old.deadline_ms, reply)) reply.bulk(text);
}

constexpr uint32_t kFlags = kWrites | kMayGrow | kFast;

constexpr Command kCounterCommands[] = {
    {"decr", 2, kFlags, kOneKey, "counters", "one less", decr},
    {"decrby", 3, kFlags, kOneKey, "counters", "so much less", decrby},
    {"incr", 2, kFlags, kOneKey, "counters", "one more", incr},
    {"incrby", 3, kFlags, kOneKey, "counters", "so much more", incrby},
    {"incrbyfloat", 3, kFlags, kOneKey, "counters", "so much more, as a decimal number", incrbyfloat},
};

}  // namespace

std::span<const Command> counter_commands() { return kCounterCommands; }

}  // namespace weft
