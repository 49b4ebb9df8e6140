// What a command costs, in nanoseconds of a processor of today: known before it runs, from its arguments and the
// lengths of the values that its keys hold. It is an estimate, made for one purpose: that nobody can ask for so much
// that others notice (fair_scheduler.h). Commands without `cost` read or write their values once or twice.
#pragma once

#include <cstdint>

#include "weft/redis/commands.h"

namespace weft {

inline constexpr uint64_t kCommandNs = 300;  // any command
inline constexpr uint64_t kArgumentNs = 30;
inline constexpr size_t kFewKeys = 4;  // a command that names no more, and has no cost of its own, is cheap

// The arguments alone.
inline uint64_t arguments_ns(Arguments arguments) {
  uint64_t bytes = 0;
  for (const std::string_view argument : arguments) bytes += argument.size();
  return kCommandNs + kArgumentNs * arguments.size() + Keyspace::bytes_ns(bytes);
}

// All of it. What its keys hold has been read, if it is read at all.
inline uint64_t cost_ns(const Command& command, Arguments arguments, Keyspace& keys) {
  uint64_t ns = arguments_ns(arguments);
  if (command.data == nullptr || (command.reads != nullptr && !command.reads(arguments))) return ns;
  if (command.cost != nullptr) return ns + command.cost(keys, arguments);
  for_each_key(command, arguments, [&](std::string_view key) { ns += 2 * Keyspace::bytes_ns(keys.bytes_of(key)); });
  return ns;
}

}  // namespace weft
