#include "weft/redis/slowlog.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "weft/redis/command_help.h"
#include "weft/redis/command_redaction.h"
#include "weft/redis/command_text.h"
#include "weft/redis/frontend.h"

namespace weft {

void SlowLog::add(Entry entry, size_t length) {
  const std::scoped_lock lock(mutex_);
  entry.id = next_id_++;
  entries_.push_front(std::move(entry));
  while (entries_.size() > length) entries_.pop_back();
}

void SlowLog::set_length(size_t length) {
  const std::scoped_lock lock(mutex_);
  while (entries_.size() > length) entries_.pop_back();
}

std::vector<SlowLog::Entry> SlowLog::newest(size_t count) const {
  const std::scoped_lock lock(mutex_);
  const auto some = static_cast<ptrdiff_t>(std::min(count, entries_.size()));
  return {entries_.begin(), entries_.begin() + some};
}

size_t SlowLog::size() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

void SlowLog::clear() {
  const std::scoped_lock lock(mutex_);
  entries_.clear();
}

std::vector<std::string> slowlog_arguments(const Command& command, Arguments arguments) {
  const std::vector<std::string_view> words = without_secrets(command, arguments);
  const bool all = words.size() <= SlowLog::kArgumentsMax;
  const size_t shown = all ? words.size() : SlowLog::kArgumentsMax - 1;
  std::vector<std::string> out;
  for (const std::string_view word : std::span(words).first(shown)) {
    out.emplace_back(word.substr(0, SlowLog::kArgumentBytesMax));
    const size_t more = word.size() - out.back().size();
    if (more > 0) out.back() += "... (" + std::to_string(more) + " more bytes)";
  }
  if (!all) out.push_back("... (" + std::to_string(words.size() - shown) + " more arguments)");
  return out;
}

namespace {

void get(RedisFrontend& front, Client&, Arguments arguments, RespWriter& reply) {
  constexpr int64_t kCount = 10;
  if (arguments.size() > 3) {
    return reply.error("ERR unknown subcommand or wrong number of arguments for '" + std::string(arguments[1]) +
                       "'. Try SLOWLOG HELP.");
  }
  const std::optional<int64_t> asked = arguments.size() == 3 ? parse_integer(arguments[2]) : kCount;
  if (!asked || *asked < -1) return reply.error("ERR count should be greater than or equal to -1");
  const std::vector<SlowLog::Entry> entries =
      front.shared().slowlog.newest(*asked < 0 ? SlowLog::kEntriesMax : static_cast<size_t>(*asked));
  reply.array(entries.size());
  for (const SlowLog::Entry& entry : entries) {
    reply.array(6);
    reply.integer(static_cast<int64_t>(entry.id));
    reply.integer(entry.at_s);
    reply.integer(static_cast<int64_t>(entry.took_us));
    reply.array(entry.arguments.size());
    for (const std::string& argument : entry.arguments) reply.bulk(argument);
    reply.bulk(entry.address);
    reply.bulk(entry.name);
  }
}

void len(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  reply.integer(static_cast<int64_t>(front.shared().slowlog.size()));
}

void reset(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  front.shared().slowlog.clear();
  reply.simple("OK");
}

constexpr Command kSlowlogCommands[] = {
    {"slowlog", -2, kHasSubcommands, {}, "server", "commands that took long"},
    {"slowlog|get", -2, kAdmin, {}, "server", "the newest of them: 10, or so many; -1: all", nullptr, get},
    {"slowlog|help", 2, kFast, {}, "server", "what there is", nullptr, reply_help},
    {"slowlog|len", 2, kAdmin | kFast, {}, "server", "how many there are", nullptr, len},
    {"slowlog|reset", 2, kAdmin | kFast, {}, "server", "forgets them", nullptr, reset},
};

}  // namespace

std::span<const Command> slowlog_commands() { return kSlowlogCommands; }

}  // namespace weft
