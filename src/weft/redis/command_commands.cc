// COMMAND: what clients ask about the commands, from the rows.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "weft/redis/command_access.h"
#include "weft/redis/command_help.h"
#include "weft/redis/command_text.h"
#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"
#include "weft/redis/glob.h"

namespace weft {

namespace {

bool is_subcommand(const Command& command) { return std::strchr(command.name, '|') != nullptr; }

std::vector<const Command*> subcommands_of(const Command& command) {
  std::vector<const Command*> found;
  const std::string prefix = std::string(command.name) + "|";
  for (const Command* other : all_commands()) {
    if (std::string_view(other->name).starts_with(prefix)) found.push_back(other);
  }
  return found;
}

std::vector<std::string_view> flags_of(const Command& command) {
  std::vector<std::string_view> flags;
  if ((command.flags & kWrites) != 0) flags.push_back("write");
  if (reads_only(command)) flags.push_back("readonly");
  if ((command.flags & kMayGrow) != 0) flags.push_back("denyoom");
  if ((command.flags & kAdmin) != 0) flags.push_back("admin");
  if ((command.flags & kFast) != 0) flags.push_back("fast");
  if ((command.flags & kBeforeAuth) != 0) flags.push_back("no_auth");
  if ((command.flags & kNoMulti) != 0) flags.push_back("no_multi");
  return flags;
}

// The positions of the keys.
void reply_spec(std::string_view use, int first, int last, int step, RespWriter& reply) {
  const std::vector<std::string_view> words = words_of(use);
  reply.map(3);
  reply.bulk("flags");
  reply.set(words.size());
  for (const std::string_view word : words) reply.simple(word);
  reply.bulk("begin_search");
  reply.map(2);
  reply.bulk("type");
  reply.bulk("index");
  reply.bulk("spec");
  reply.map(1);
  reply.bulk("index");
  reply.integer(first);
  reply.bulk("find_keys");
  reply.map(2);
  reply.bulk("type");
  reply.bulk("range");
  reply.bulk("spec");
  reply.map(3);
  reply.bulk("lastkey");
  reply.integer(last < 0 ? last : last - first);
  reply.bulk("keystep");
  reply.integer(step);
  reply.bulk("limit");
  reply.integer(0);
}

void reply_specs(const Command& command, RespWriter& reply) {
  const auto [first, last, step] = command.keys;
  if (first == 0) return reply.set(0);
  const KeyUse use = key_use(command);
  const bool differ = use.first != use.others;
  reply.set(differ ? 2 : 1);
  reply_spec(use.first, first, differ ? first : last, step, reply);
  if (differ) reply_spec(use.others, first + step, last, step, reply);
}

void reply_row(const Command& command, RespWriter& reply) {
  reply.array(10);
  reply.bulk(command.name);
  reply.integer(command.arity);
  const std::vector<std::string_view> flags = flags_of(command);
  reply.set(flags.size());
  for (const std::string_view flag : flags) reply.simple(flag);
  reply.integer(command.keys.first);
  reply.integer(command.keys.last);
  reply.integer(command.keys.step);
  const std::vector<std::string_view> categories = categories_of(command);
  reply.set(categories.size());
  for (const std::string_view category : categories) reply.simple("@" + std::string(category));
  reply.set(0);  // tips
  reply_specs(command, reply);
  const std::vector<const Command*> subcommands = subcommands_of(command);
  reply.set(subcommands.size());
  for (const Command* subcommand : subcommands) reply_row(*subcommand, reply);
}

std::vector<const Command*> top_level() {
  std::vector<const Command*> found;
  for (const Command* command : all_commands()) {
    if (!is_subcommand(*command)) found.push_back(command);
  }
  return found;
}

// The named commands, or all; nullptr for an unknown name.
std::vector<const Command*> named(Arguments names) {
  if (names.empty()) return top_level();
  std::vector<const Command*> found;
  for (const std::string_view name : names) found.push_back(find_command(name));
  return found;
}

void reply_rows(const std::vector<const Command*>& commands, RespWriter& reply) {
  reply.array(commands.size());
  for (const Command* command : commands) command == nullptr ? reply.null() : reply_row(*command, reply);
}

void command(RedisFrontend&, Client&, Arguments, RespWriter& reply) { reply_rows(top_level(), reply); }

// False: there are too many names, each with a long answer, and the reply says so.
bool few_names(Arguments arguments, RespWriter& reply) {
  constexpr size_t kNamesMax = 512;
  if (arguments.size() - 2 <= kNamesMax) return true;
  reply.error("ERR too many commands: " + limit_text("the limit", kNamesMax, arguments.size() - 2));
  return false;
}

void command_info(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  if (!few_names(arguments, reply)) return;
  reply_rows(named(arguments.subspan(2)), reply);
}

void command_count(RedisFrontend&, Client&, Arguments, RespWriter& reply) {
  reply.integer(static_cast<int64_t>(top_level().size()));
}

void command_docs(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  if (!few_names(arguments, reply)) return;
  std::vector<const Command*> commands = named(arguments.subspan(2));
  std::erase(commands, nullptr);
  reply.map(commands.size());
  for (const Command* command : commands) {
    reply.bulk(command->name);
    reply.map(2);
    reply.bulk("summary");
    reply.bulk(command->summary);
    reply.bulk("group");
    reply.bulk(command->group);
  }
}

// Without a filter, all that are not subcommands.
void command_list(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  std::vector<const Command*> commands = top_level();
  if (arguments.size() == 5 && same_word(arguments[2], "filterby")) {
    const std::string wanted = lower_case(arguments[4]);
    if (wanted.size() > kPatternBytesMax) {
      return reply.error("ERR the pattern is too long: " + limit_text("the limit", kPatternBytesMax, wanted.size()));
    }
    commands = all_commands();
    if (same_word(arguments[3], "pattern")) {
      std::erase_if(commands, [&](const Command* command) { return !glob_matches(wanted, command->name); });
    } else if (same_word(arguments[3], "aclcat")) {
      std::erase_if(commands, [&](const Command* command) {
        const std::vector<std::string_view> categories = categories_of(*command);
        return std::find(categories.begin(), categories.end(), wanted) == categories.end();
      });
    } else if (same_word(arguments[3], "module")) {
      commands.clear();
    } else {
      return reply.error(kSyntaxError);
    }
  } else if (arguments.size() != 2) {
    return reply.error(kSyntaxError);
  }
  reply.array(commands.size());
  for (const Command* command : commands) reply.bulk(command->name);
}

// The command that the arguments are about. nullptr: it names no keys, and the reply says so.
const Command* with_keys(Arguments about, RespWriter& reply) {
  const Command* const found = find_command(about);
  const char* why = nullptr;
  if (found == nullptr) {
    why = "ERR Invalid command specified";
  } else if (found->keys.first == 0) {
    why = "ERR The command has no key arguments";
  } else if (!fits(*found, about.size())) {
    why = "ERR Invalid number of arguments specified for command";
  }
  if (why != nullptr) reply.error(why);
  return why == nullptr ? found : nullptr;
}

void command_getkeys(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  const Arguments about = arguments.subspan(2);
  const Command* const found = with_keys(about, reply);
  if (found == nullptr) return;
  reply.array(keys_named(*found, about.size()));
  for_each_key(*found, about, [&](std::string_view key) { reply.bulk(key); });
}

void command_getkeysandflags(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  const Arguments about = arguments.subspan(2);
  const Command* const found = with_keys(about, reply);
  if (found == nullptr) return;
  const KeyUse use = key_use(*found, about);
  bool first = true;
  reply.array(keys_named(*found, about.size()));
  for_each_key(*found, about, [&](std::string_view key) {
    const std::vector<std::string_view> words = words_of(std::exchange(first, false) ? use.first : use.others);
    reply.array(2);
    reply.bulk(key);
    reply.set(words.size());
    for (const std::string_view word : words) reply.simple(word);
  });
}

constexpr Command kCommandCommands[] = {
    {"command", -1, kHasSubcommands, {}, "server", "all commands, as rows", nullptr, command},
    {"command|count", 2, kFast, {}, "server", "how many there are", nullptr, command_count},
    {"command|docs", -2, 0, {}, "server", "what they do", nullptr, command_docs},
    {"command|getkeys", -4, 0, {}, "server", "the keys that a command names", nullptr, command_getkeys},
    {"command|getkeysandflags",
     -4,
     0,
     {},
     "server",
     "the keys that a command names, and what it does with each",
     nullptr,
     command_getkeysandflags},
    {"command|help", 2, kFast, {}, "server", "what there is", nullptr, reply_help},
    {"command|info", -2, 0, {}, "server", "some commands, as rows", nullptr, command_info},
    {"command|list", -2, 0, {}, "server", "their names (FILTERBY MODULE ACLCAT PATTERN)", nullptr, command_list},
};

}  // namespace

void reply_help(RedisFrontend&, Client&, Arguments arguments, RespWriter& reply) {
  const Command* const about = find_command(arguments[0]);
  const std::vector<const Command*> subcommands = subcommands_of(*about);
  std::string upper(about->name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  reply.array(1 + 2 * subcommands.size());
  reply.simple(upper + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const Command* subcommand : subcommands) {
    std::string name(std::strchr(subcommand->name, '|') + 1);
    for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    reply.simple(name);
    reply.simple("    " + std::string(subcommand->summary));
  }
}

std::span<const Command> command_commands() { return kCommandCommands; }

}  // namespace weft
