#include "weft/server/commands.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>

namespace weft {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

bool parse_integer(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Starts the reads of all keys from `first` on, every `step`, so that they travel together; the tickets are in order.
void start_reads(Txn& txn, TableId table, Arguments arguments, size_t first, size_t step, Intent intent) {
  for (size_t i = first; i < arguments.size(); i += step) txn.start_get(table, arguments[i], intent);
}

Task<Code> get(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  const Value value = co_await txn.get(table, arguments[1]);
  if (value.code != Code::kOk) co_return value.code;
  value.found ? reply.bulk(value.bytes) : reply.null();
  co_return Code::kOk;
}

Task<Code> mget(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  start_reads(txn, table, arguments, 1, 1, Intent::kRead);
  co_await txn.wait_all();
  reply.array(arguments.size() - 1);
  for (size_t i = 1; i < arguments.size(); ++i) {
    const Value value = co_await txn.get(table, arguments[i]);
    if (value.code != Code::kOk) co_return value.code;
    value.found ? reply.bulk(value.bytes) : reply.null();
  }
  co_return Code::kOk;
}

Task<Code> exists(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  start_reads(txn, table, arguments, 1, 1, Intent::kRead);
  co_await txn.wait_all();
  int64_t found = 0;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const Value value = co_await txn.get(table, arguments[i]);
    if (value.code != Code::kOk) co_return value.code;
    found += value.found ? 1 : 0;
  }
  reply.integer(found);
  co_return Code::kOk;
}

Task<Code> strlen_of(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  const Value value = co_await txn.get(table, arguments[1]);
  if (value.code != Code::kOk) co_return value.code;
  reply.integer(value.found ? static_cast<int64_t>(value.bytes.size()) : 0);
  co_return Code::kOk;
}

Task<Code> set(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  bool if_absent = false;
  bool if_present = false;
  bool answer_old = false;
  for (size_t i = 3; i < arguments.size(); ++i) {
    if_absent |= same_word(arguments[i], "nx");
    if_present |= same_word(arguments[i], "xx");
    answer_old |= same_word(arguments[i], "get");
    const bool known = same_word(arguments[i], "nx") || same_word(arguments[i], "xx") || same_word(arguments[i], "get");
    if (!known || (if_absent && if_present)) {
      reply.error("ERR syntax error");
      co_return Code::kOk;
    }
  }
  if (!if_absent && !if_present && !answer_old) {
    const Code code = txn.put(table, arguments[1], arguments[2]);
    reply.simple("OK");
    co_return code;
  }
  const Value old = co_await txn.get(table, arguments[1], Intent::kUpdate);
  if (old.code != Code::kOk) co_return old.code;
  const bool writes = old.found ? !if_absent : !if_present;
  if (answer_old) {
    old.found ? reply.bulk(old.bytes) : reply.null();
  } else if (writes) {
    reply.simple("OK");
  } else {
    reply.null();
  }
  co_return writes ? txn.put(table, arguments[1], arguments[2]) : Code::kOk;
}

Task<Code> setnx(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  const Value old = co_await txn.get(table, arguments[1], Intent::kUpdate);
  if (old.code != Code::kOk) co_return old.code;
  reply.integer(old.found ? 0 : 1);
  co_return old.found ? Code::kOk : txn.put(table, arguments[1], arguments[2]);
}

Task<Code> mset(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  if (arguments.size() % 2 == 0) {
    reply.error(wrong_arity("mset"));
    co_return Code::kOk;
  }
  for (size_t i = 1; i < arguments.size(); i += 2) {
    if (const Code code = txn.put(table, arguments[i], arguments[i + 1]); code != Code::kOk) co_return code;
  }
  reply.simple("OK");
  co_return Code::kOk;
}

Task<Code> append(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  const Value old = co_await txn.get(table, arguments[1], Intent::kUpdate);
  if (old.code != Code::kOk) co_return old.code;
  std::string whole(old.found ? old.bytes : std::string_view());
  whole.append(arguments[2]);
  reply.integer(static_cast<int64_t>(whole.size()));
  co_return txn.put(table, arguments[1], whole);
}

Task<Code> del(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  start_reads(txn, table, arguments, 1, 1, Intent::kUpdate);
  co_await txn.wait_all();
  int64_t deleted = 0;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const Value old = co_await txn.get(table, arguments[i], Intent::kUpdate);
    if (old.code != Code::kOk) co_return old.code;
    if (!old.found) continue;
    if (const Code code = txn.erase(table, arguments[i]); code != Code::kOk) co_return code;
    ++deleted;
  }
  reply.integer(deleted);
  co_return Code::kOk;
}

Task<Code> add(Txn& txn, TableId table, std::string_view key, int64_t amount, RespWriter& reply) {
  const Value old = co_await txn.get(table, key, Intent::kUpdate);
  if (old.code != Code::kOk) co_return old.code;
  int64_t number = 0;
  if (old.found && !parse_integer(old.bytes, &number)) {
    reply.error("ERR value is not an integer or out of range");
    co_return Code::kOk;
  }
  if (__builtin_add_overflow(number, amount, &number)) {
    reply.error("ERR increment or decrement would overflow");
    co_return Code::kOk;
  }
  reply.integer(number);
  const std::string text = std::to_string(number);
  co_return txn.put(table, key, text);
}

Task<Code> incr(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  return add(txn, table, arguments[1], 1, reply);
}
Task<Code> decr(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  return add(txn, table, arguments[1], -1, reply);
}
Task<Code> incrby(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  int64_t amount = 0;
  if (!parse_integer(arguments[2], &amount)) {
    reply.error("ERR value is not an integer or out of range");
    co_return Code::kOk;
  }
  Task<Code> sum = add(txn, table, arguments[1], amount, reply);
  co_return co_await sum;
}

Task<Code> renamenx(Txn& txn, TableId table, Arguments arguments, RespWriter& reply) {
  start_reads(txn, table, arguments, 1, 1, Intent::kUpdate);
  co_await txn.wait_all();
  const Value from = co_await txn.get(table, arguments[1], Intent::kUpdate);
  if (from.code != Code::kOk) co_return from.code;
  const Value to = co_await txn.get(table, arguments[2], Intent::kUpdate);
  if (to.code != Code::kOk) co_return to.code;
  if (!from.found) {
    reply.error("ERR no such key");
    co_return Code::kOk;
  }
  reply.integer(to.found ? 0 : 1);
  if (to.found) co_return Code::kOk;
  const std::string moved(from.bytes);
  if (const Code code = txn.erase(table, arguments[1]); code != Code::kOk) co_return code;
  co_return txn.put(table, arguments[2], moved);
}

// What needs no data is answered at once outside of MULTI.
Task<Code> ping_in_multi(Txn& /*txn*/, TableId /*table*/, Arguments arguments, RespWriter& reply) {
  ping(arguments, reply);
  co_return Code::kOk;
}
Task<Code> echo_in_multi(Txn& /*txn*/, TableId /*table*/, Arguments arguments, RespWriter& reply) {
  reply.bulk(arguments[1]);
  co_return Code::kOk;
}

constexpr std::array<Command, 16> kCommands = {{
    {"append", 3, 0, append},
    {"decr", 2, 0, decr},
    {"del", -2, 1, del},
    {"echo", 2, 0, echo_in_multi},
    {"exists", -2, 1, exists},
    {"get", 2, 0, get},
    {"incr", 2, 0, incr},
    {"incrby", 3, 0, incrby},
    {"mget", -2, 1, mget},
    {"mset", -3, 2, mset},
    {"ping", -1, 0, ping_in_multi},
    {"renamenx", 3, 0, renamenx},
    {"set", -3, 0, set},
    {"setnx", 3, 0, setnx},
    {"strlen", 2, 0, strlen_of},
    {"unlink", -2, 1, del},
}};

}  // namespace

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (same_word(command.name, name)) return &command;
  }
  return nullptr;
}

bool fits(const Command& command, size_t arguments) {
  const auto count = static_cast<int>(std::min<size_t>(arguments, std::numeric_limits<int>::max()));
  return command.arity >= 0 ? count == command.arity : count >= -command.arity;
}

void ping(Arguments arguments, RespWriter& reply) {
  if (arguments.size() > 2) return reply.error(wrong_arity("ping"));
  arguments.size() == 2 ? reply.bulk(arguments[1]) : reply.simple("PONG");
}

size_t keys_named(const Command& command, size_t arguments) {
  const auto step = static_cast<size_t>(command.key_step);
  return step == 0 ? 1 : (arguments - 1 + step - 1) / step;
}

std::string wrong_arity(std::string_view name) {
  std::string text = "ERR wrong number of arguments for '";
  for (const char c : name) text.push_back(lower(c));
  return text + "' command";
}

std::string unknown_command(Arguments arguments) {
  constexpr size_t kShownMax = 128;
  std::string text = "ERR unknown command '";
  text.append(arguments[0].substr(0, kShownMax)).append("', with args beginning with: ");
  for (size_t i = 1; i < arguments.size() && text.size() < 2 * kShownMax; ++i) {
    text.append("'").append(arguments[i].substr(0, kShownMax)).append("' ");
  }
  for (char& c : text) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return text;
}

}  // namespace weft
