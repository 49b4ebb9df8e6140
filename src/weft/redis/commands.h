// The commands of clients, as rows. Three kinds:
// - data: a pure function from the values of its keys to a reply and writes (keyspace.h). It runs in a transaction:
//   alone, batched with others, or between MULTI and EXEC. Its reply counts once the transaction has committed. It may
//   run several times; the keys it names have been read before, unless `reads` says that it needs none of them.
// - local: about the connection or the node, answered at once; between MULTI and EXEC it runs in order like the others.
// - slow: about the connection or the node, and takes a while.
// A command with subcommands has its own row, mostly without a handler; its subcommands are rows named "client|id".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/redis/keyspace.h"
#include "weft/redis/resp.h"
#include "weft/txn.h"

namespace weft {

class RedisFrontend;
struct Client;

using Arguments = std::span<const std::string_view>;  // the command's name is the first

enum CommandFlags : uint32_t {
  kWrites = 1,       // changes data; otherwise it only reads its keys
  kFast = 2,         // takes constant time, however large the values are
  kMayGrow = 4,      // may need more memory
  kNoMulti = 8,      // refused between MULTI and EXEC
  kNotQueued = 16,   // between MULTI and EXEC it is run at once
  kBeforeAuth = 32,  // allowed before authentication
  kAdmin = 64,
  kHasSubcommands = 128,
  kHeads = 256,   // needs no values, only whether keys exist, their types, deadlines and lengths
  kSplits = 512,  // with more keys than a transaction may have it is run as several (split_commands.cc)
};

// As in Redis: the first argument that is a key, the last one (-1: the last of all), and the step. 0: no keys.
struct KeyRange {
  int first = 0, last = 0, step = 0;
};
inline constexpr KeyRange kOneKey{1, 1, 1};

// For Command::reads: what it writes does not depend on the old values.
inline bool reads_nothing(Arguments) { return false; }

struct Command {
  using Data = void (*)(Keyspace& keys, Arguments arguments, RespWriter& reply);
  using Local = void (*)(RedisFrontend& front, Client& client, Arguments arguments, RespWriter& reply);
  using Slow = Task<void> (*)(RedisFrontend& front, Client& client, Arguments arguments);
  using Reads = bool (*)(Arguments arguments);
  using Cost = uint64_t (*)(Keyspace& keys, Arguments arguments);

  const char* name;     // in lower case
  int arity;            // how many arguments, the name included; -n: n or more
  uint32_t flags;       // CommandFlags
  KeyRange keys;        //
  const char* group;    // of docs/redis.md
  const char* summary;  // for a person
  Data data = nullptr;  // at most one of the three; none: it has subcommands
  Local local = nullptr;
  Slow slow = nullptr;
  Reads reads = nullptr;  // data: whether its keys are read first; nullptr: they are
  Cost cost = nullptr;    // data: nanoseconds in addition to the cost of any command, see cost.h
  uint16_t id = 0;        // its index in all_commands(), which sets it
};

// The groups, each in the file that has its commands.
std::span<const Command> string_commands();       // strings.cc
std::span<const Command> set_commands();          // strings_set.cc
std::span<const Command> counter_commands();      // strings_counters.cc
std::span<const Command> lcs_commands();          // strings_lcs.cc
std::span<const Command> bit_commands();          // bits.cc
std::span<const Command> field_commands();        // bits_field.cc
std::span<const Command> key_commands();          // keys.cc
std::span<const Command> expiry_commands();       // keys_expiry.cc
std::span<const Command> scan_commands();         // scan_commands.cc
std::span<const Command> multi_commands();        // multi_exec.cc
std::span<const Command> client_commands();       // client_commands.cc
std::span<const Command> client_list_commands();  // client_list.cc
std::span<const Command> object_commands();       // object_commands.cc
std::span<const Command> server_commands();       // server_commands.cc
std::span<const Command> command_commands();      // command_commands.cc
std::span<const Command> config_commands();       // config_commands.cc
std::span<const Command> info_commands();         // info.cc
std::span<const Command> monitor_commands();      // monitor.cc
std::span<const Command> slowlog_commands();      // slowlog.cc
std::span<const Command> cluster_commands();      // cluster_commands.cc
std::span<const Command> weft_commands();         // weft_commands.cc

bool same_word(std::string_view a, std::string_view b);  // ignoring case
const std::vector<const Command*>& all_commands();       // in the order of their names
// Ignoring case; with its subcommand, if it has any. nullptr if there is none.
const Command* find_command(std::string_view name);
const Command* find_command(Arguments arguments);
inline bool has_handler(const Command& command) {
  return command.data != nullptr || command.local != nullptr || command.slow != nullptr;
}
bool fits(const Command& command, size_t arguments);
size_t keys_named(const Command& command, size_t arguments);  // given the number of arguments, counting repetitions
// f(std::string_view key): each key that the arguments name.
template <class F>
void for_each_key(const Command& command, Arguments arguments, F f) {
  const size_t keys = keys_named(command, arguments.size());
  for (size_t i = 0; i < keys; ++i)
    f(arguments[static_cast<size_t>(command.keys.first) + static_cast<size_t>(command.keys.step) * i]);
}

// As Redis answers.
std::string wrong_arity(std::string_view name);
std::string unknown_command(Arguments arguments);

// The tables of docs/redis.md.
std::string command_reference();

}  // namespace weft
