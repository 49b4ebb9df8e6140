// The cost of a command, in nanoseconds of a current processor, known before it runs from its arguments and the
// lengths of the values of its keys. It is an estimate for one purpose: no client can ask for so much that others
// notice (fair_scheduler.h). Commands without `cost` read or write their values once or twice.
#pragma once

#include <cstdint>

#include "weft/redis/commands.h"

namespace weft {

inline constexpr uint64_t kCommandNs = 300;  // any command
inline constexpr uint64_t kArgumentNs = 30;

// Of the arguments alone.
inline uint64_t arguments_ns(Arguments arguments) {
  uint64_t bytes = 0;
  for (const std::string_view argument : arguments) bytes += argument.size();
  return kCommandNs + kArgumentNs * arguments.size() + Keyspace::bytes_ns(bytes);
}

// The total. The values of its keys have been read, if the command reads them.
inline uint64_t cost_ns(const Command& command, Arguments arguments, Keyspace& keys) {
  uint64_t ns = arguments_ns(arguments);
  if (command.data == nullptr || (command.reads != nullptr && !command.reads(arguments))) return ns;
  if (command.cost != nullptr) return ns + command.cost(keys, arguments);
  if ((command.flags & kHeads) != 0) return ns;
  for_each_key(command, arguments, [&](std::string_view key) { ns += 2 * Keyspace::bytes_ns(keys.bytes_of(key)); });
  return ns;
}

}  // namespace weft
