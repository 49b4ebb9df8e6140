#include "weft/redis/commands.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "weft/base/check.h"
#include "weft/redis/command_stats.h"
#include "weft/redis/command_text.h"

namespace weft {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr size_t kNameBytesMax = 48;

// All rows in one vector, each with its id.
std::vector<Command> gather() {
  std::vector<Command> all;
  for (const auto group :
       {string_commands,  set_commands,     counter_commands, lcs_commands,    bit_commands,    field_commands,
        key_commands,     expiry_commands,  scan_commands,    multi_commands,  client_commands, client_list_commands,
        object_commands,  server_commands,  command_commands, config_commands, info_commands,   monitor_commands,
        slowlog_commands, cluster_commands, weft_commands}) {
    for (const Command& command : group()) all.push_back(command);
  }
  std::sort(all.begin(), all.end(), [](const Command& a, const Command& b) { return std::strcmp(a.name, b.name) < 0; });
  WEFT_CHECK(all.size() <= kCommandsMax, "each has its counters");
  for (size_t i = 0; i < all.size(); ++i) {
    WEFT_CHECK(std::strlen(all[i].name) < kNameBytesMax, "names are short");
    all[i].id = static_cast<uint16_t>(i);
  }
  return all;
}

std::vector<const Command*> places(const std::vector<Command>& commands) {
  std::vector<const Command*> all;
  for (const Command& command : commands) all.push_back(&command);
  return all;
}

// Every command of every client is looked up, so by a hash of its name.
class Names {
 public:
  explicit Names(const std::vector<const Command*>& all) {
    WEFT_CHECK(all.size() <= kPlaces / 2, "a search ends soon");
    for (const Command* command : all) {
      const std::string_view name = command->name;
      size_t place = home(name);
      while (rows_[place].command != nullptr) place = next(place);
      rows_[place] = {name, command};
    }
  }
  const Command* find(std::string_view name) const {
    for (size_t place = home(name); rows_[place].command != nullptr; place = next(place)) {
      if (same_word(rows_[place].name, name)) return rows_[place].command;
    }
    return nullptr;
  }

 private:
  static constexpr size_t kPlaces = 512;
  struct Row {
    std::string_view name;
    const Command* command = nullptr;
  };

  // Ignores case: the bit that differs between the cases of a letter does not count.
  static size_t home(std::string_view name) {
    constexpr uint32_t kCase = 0x20;
    uint32_t hash = static_cast<uint32_t>(name.size());
    for (const char c : name) hash = (hash ^ (static_cast<unsigned char>(c) | kCase)) * 0x01000193U;
    return (hash ^ hash >> 16) % kPlaces;
  }
  static size_t next(size_t place) { return (place + 1) % kPlaces; }

  std::array<Row, kPlaces> rows_{};
};

}  // namespace

const std::vector<const Command*>& all_commands() {
  static const std::vector<Command> kCommandRows = gather();
  static const std::vector<const Command*> kAll = places(kCommandRows);
  return kAll;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

const Command* find_command(std::string_view name) {
  static const Names kNames(all_commands());
  return name.size() < kNameBytesMax ? kNames.find(name) : nullptr;
}

const Command* find_command(Arguments arguments) {
  if (arguments[0].find('|') != std::string_view::npos) return nullptr;
  const Command* const command = find_command(arguments[0]);
  if (command == nullptr || (command->flags & kHasSubcommands) == 0 || arguments.size() < 2) return command;
  char room[kNameBytesMax];
  const size_t bytes = arguments[0].size() + 1 + arguments[1].size();
  if (bytes >= kNameBytesMax) return nullptr;
  std::memcpy(room, arguments[0].data(), arguments[0].size());
  room[arguments[0].size()] = '|';
  if (!arguments[1].empty()) std::memcpy(room + arguments[0].size() + 1, arguments[1].data(), arguments[1].size());
  return find_command(std::string_view(room, bytes));
}

bool fits(const Command& command, size_t arguments) {
  const auto count = static_cast<int>(std::min<size_t>(arguments, std::numeric_limits<int>::max()));
  return command.arity >= 0 ? count == command.arity : count >= -command.arity;
}

size_t keys_named(const Command& command, size_t arguments) {
  if (command.keys.first == 0) return 0;
  const auto count = static_cast<int64_t>(arguments);
  const int64_t last = command.keys.last < 0 ? count + command.keys.last : command.keys.last;
  if (last < command.keys.first) return 0;
  const int64_t steps = last - command.keys.first;
  return static_cast<size_t>(command.keys.step == 1 ? steps : steps / command.keys.step) + 1;  // divisions are rare
}

std::string wrong_arity(std::string_view name) {
  return "ERR wrong number of arguments for '" + lower_case(name) + "' command";
}

std::string unknown_command(Arguments arguments) {
  constexpr size_t kShownMax = 128;
  std::string text;
  // a row's name is not a command that clients may send
  const bool one_word = arguments[0].find('|') == std::string_view::npos;
  const Command* const known = one_word ? find_command(arguments[0]) : nullptr;
  if (known != nullptr && arguments.size() > 1) {
    std::string upper(arguments[0]);
    for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    text = "ERR unknown subcommand '";
    text.append(arguments[1].substr(0, kShownMax)).append("'. Try ").append(upper).append(" HELP.");
  } else {
    text = "ERR unknown command '";
    text.append(arguments[0].substr(0, kShownMax)).append("', with args beginning with: ");
    for (size_t i = 1; i < arguments.size() && text.size() < 2 * kShownMax; ++i) {
      text.append("'").append(arguments[i].substr(0, kShownMax)).append("' ");
    }
  }
  for (char& c : text) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return text;
}

std::string command_reference() {
  std::string out;
  static constexpr std::string_view kGroups[] = {"strings", "counters",     "bits",       "keys",   "expiry",
                                                 "walks",   "transactions", "connection", "server", "cluster"};
  for (const std::string_view group : kGroups) {
    out.append("\n### ").append(group).append("\n\n| command | arguments | |\n|---|---|---|\n");
    for (const Command* command : all_commands()) {
      if (command->group != group || !has_handler(*command)) continue;
      std::string name(command->name);
      for (char& c : name) c = c == '|' ? ' ' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      const int least = std::abs(command->arity) - 1 - (name.find(' ') != std::string::npos ? 1 : 0);
      out += "| `" + name + "` | " + std::to_string(least) + (command->arity < 0 ? " or more" : "") + " | " +
             command->summary + " |\n";
    }
  }
  return out;
}

}  // namespace weft
