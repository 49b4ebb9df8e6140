#include "weft/redis/command_access.h"

#include <algorithm>
#include <iterator>

namespace weft {

namespace {

struct CategoryRow {
  std::string_view group, category;
};
constexpr CategoryRow kCategories[] = {
    {"strings", "string"},
    {"counters", "string"},
    {"bits", "bitmap"},
    {"keys", "keyspace"},
    {"expiry", "keyspace"},
    {"walks", "keyspace"},
    {"transactions", "transaction"},
    {"connection", "connection"},
};

// Of other groups, but in the connection category all the same.
constexpr std::string_view kOfConnections[] = {"readonly", "readwrite", "asking", "wait"};
constexpr std::string_view kDangerous[] = {"flushall", "flushdb", "keys", "info", "role"};

// In the order of Redis.
constexpr std::string_view kOrder[] = {"keyspace", "read", "write",     "string",     "bitmap",     "admin",
                                       "fast",     "slow", "dangerous", "connection", "transaction"};

template <class Range>
bool among(const Range& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

struct UseRow {
  std::string_view name;
  KeyUse use;
};

constexpr KeyUse kRead{"RO access", "RO access"};
constexpr KeyUse kLook{"RO", "RO"};
constexpr KeyUse kOverwrite{"OW update", "OW update"};
constexpr KeyUse kInsert{"OW insert", "OW insert"};
constexpr KeyUse kChange{"RW access update", "RW access update"};
constexpr KeyUse kVaries{"RW access update variable_flags", "RW access update variable_flags"};
constexpr KeyUse kAdjust{"RW update", "RW update"};
constexpr KeyUse kRemove{"RM delete", "RM delete"};

// Commands without a row here read their keys (kRead) or change them (kChange).
constexpr UseRow kUses[] = {
    {"append", {"RW insert", "RW insert"}},
    {"bitfield", kVaries},
    {"bitop", {"OW update", "RO access"}},
    {"copy", {"RO access", "OW update"}},
    {"del", kRemove},
    {"exists", kLook},
    {"expire", kAdjust},
    {"expireat", kAdjust},
    {"getdel", {"RW access delete", "RW access delete"}},
    {"memory|usage", kLook},
    {"mset", kOverwrite},
    {"msetnx", kInsert},
    {"object|encoding", kLook},
    {"object|freq", kLook},
    {"object|idletime", kLook},
    {"object|refcount", kLook},
    {"persist", kAdjust},
    {"pexpire", kAdjust},
    {"pexpireat", kAdjust},
    {"psetex", kOverwrite},
    {"rename", {"RW access delete", "OW update"}},
    {"renamenx", {"RW access delete", "OW insert"}},
    {"set", kVaries},
    {"setex", kOverwrite},
    {"setnx", kInsert},
    {"setrange", kAdjust},
    {"strlen", kLook},
    {"touch", kLook},
    {"type", kLook},
    {"unlink", kRemove},
    {"watch", kLook},
};

}  // namespace

bool reads_only(const Command& command) {
  if ((command.flags & kWrites) != 0) return false;
  return (command.keys.first != 0 && command.data != nullptr) || std::string_view(command.group) == "walks";
}

std::vector<std::string_view> categories_of(const Command& command) {
  const std::string_view name = command.name;
  const bool admin = (command.flags & kAdmin) != 0;
  const auto row = std::find_if(std::begin(kCategories), std::end(kCategories),
                                [&](const CategoryRow& known) { return known.group == command.group; });
  const std::string_view by_group = row == std::end(kCategories) || !has_handler(command) ? "" : row->category;
  const auto in = [&](std::string_view category) {
    if (category == by_group) return true;
    if (category == "read") return reads_only(command);
    if (category == "write") return (command.flags & kWrites) != 0;
    if (category == "admin") return admin || name == "role";
    if (category == "fast") return (command.flags & kFast) != 0;
    if (category == "slow") return (command.flags & kFast) == 0;
    if (category == "dangerous") return admin || among(kDangerous, name);
    return category == "connection" && (among(kOfConnections, name) || name.starts_with("command"));
  };
  std::vector<std::string_view> found;
  std::copy_if(std::begin(kOrder), std::end(kOrder), std::back_inserter(found), in);
  return found;
}

KeyUse key_use(const Command& command) {
  const auto row =
      std::find_if(std::begin(kUses), std::end(kUses), [&](const UseRow& use) { return use.name == command.name; });
  if (row != std::end(kUses)) return row->use;
  return (command.flags & kWrites) != 0 ? kChange : kRead;
}

KeyUse key_use(const Command& command, Arguments arguments) {
  const std::string_view name = command.name;
  const auto says = [&](std::string_view word) {
    return arguments.size() > 2 && std::any_of(arguments.begin() + 2, arguments.end(),
                                               [&](std::string_view argument) { return same_word(argument, word); });
  };
  if (name == "set") return says("get") ? kChange : kOverwrite;
  if (name == "bitfield") return says("set") || says("incrby") ? kChange : kRead;
  return key_use(command);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

}  // namespace weft
