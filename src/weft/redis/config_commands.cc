// CONFIG: a node's settings, by their Redis names, or by those of docs/configuration.md where Redis has none. A
// setting that can change at run time is changed for all workers of the node, until it restarts; the node's file stays
// as it is.
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/redis/command_help.h"
#include "weft/redis/command_text.h"
#include "weft/redis/frontend.h"
#include "weft/redis/frontend_text.h"
#include "weft/redis/glob.h"

namespace weft {
namespace {

// What is wrong with a value; empty: nothing.
using Wrong = std::string;

struct Setting {
  enum class Kind : uint8_t {
    kLive,       // `set` changes it
    kFixed,      // may only be set to its current value; Redis could change it
    kImmutable,  // may not be set, as in Redis
  };

  const char* name;
  Kind kind;
  std::string (*get)(const RedisFrontend& front);
  Wrong (*set)(std::string_view value, FrontendOptions& options) = nullptr;
};

template <class T>
Wrong put(std::optional<int64_t> value, int64_t low, int64_t high, T* to, const char* unparsed) {
  if (!value) return unparsed;
  if (*value < low || *value > high) {
    return "argument must be between " + std::to_string(low) + " and " + std::to_string(high) + " inclusive";
  }
  *to = static_cast<T>(*value);
  return {};
}

template <class T>
Wrong put_number(std::string_view text, int64_t low, int64_t high, T* to) {
  return put(parse_integer(text), low, high, to, "argument couldn't be parsed into an integer");
}

// As Redis reads it: 1k is 1000, 1kb is 1024.
std::optional<int64_t> parse_memory(std::string_view text) {
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"", 1},          {"b", 1},     {"k", 1000},          {"kb", kKiB},
      {"m", 1'000'000}, {"mb", kMiB}, {"g", 1'000'000'000}, {"gb", 1024 * kMiB}};
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return {};
  const std::string_view unit = text.substr(static_cast<size_t>(rest - text.data()));
  for (const auto& [name, bytes] : kUnits) {
    int64_t all = 0;
    if (same_word(unit, name) && !__builtin_mul_overflow(number, bytes, &all)) return all;
  }
  return {};
}

template <class T>
Wrong put_memory(std::string_view text, int64_t low, int64_t high, T* to) {
  return put(parse_memory(text), low, high, to, "argument must be a memory value");
}

// normal HARD SOFT SECONDS: there are no other client classes, and there is no soft limit.
Wrong put_output_limit(std::string_view text, FrontendOptions& options) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() != 4) return "Wrong number of arguments in buffer limit configuration.";
  if (!same_word(words[0], "normal")) return "Invalid client class specified in buffer limit configuration.";
  const std::optional<int64_t> hard = parse_memory(words[1]);
  if (!hard || words[2] != "0" || words[3] != "0") {
    return "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
  }
  return put(hard, 4 * kKiB, 1024 * kMiB, &options.output_held_bytes, "");
}

using Kind = Setting::Kind;

#define WEFT_NUMBER(field, low, high)                                               \
  [](const RedisFrontend& front) { return std::to_string(front.options().field); }, \
      [](std::string_view text, FrontendOptions& options) -> Wrong {                \
        return put_number(text, low, high, &options.field);                         \
      }
#define WEFT_MEMORY(field, low, high)                                               \
  [](const RedisFrontend& front) { return std::to_string(front.options().field); }, \
      [](std::string_view text, FrontendOptions& options) -> Wrong {                \
        return put_memory(text, low, high, &options.field);                         \
      }

// The settings that clients and tools ask for, sorted by name. The ranges are those of config_keys.cc.
constexpr Setting kSettings[] = {
    {"appendonly", Kind::kFixed, [](const RedisFrontend&) -> std::string { return "no"; }},
    {"client-output-buffer-limit", Kind::kLive,
     [](const RedisFrontend& front) { return "normal " + std::to_string(front.options().output_held_bytes) + " 0 0"; },
     put_output_limit},
    {"client-query-buffer-limit", Kind::kLive, WEFT_MEMORY(resp.buffer_bytes_max, 64 * kKiB, 1024 * kMiB)},
    {"client.command_us_max", Kind::kLive, WEFT_NUMBER(command_us_max, 1000, 1'000'000)},
    {"client.exec_us_max", Kind::kLive, WEFT_NUMBER(exec_us_max, 1000, 10'000'000)},
    {"client.handshake_ms", Kind::kLive, WEFT_NUMBER(handshake_ms, 100, 3'600'000)},
    {"client.input_total_bytes", Kind::kLive, WEFT_MEMORY(input_total_bytes, kMiB, kTiB)},
    {"client.output_total_bytes", Kind::kLive, WEFT_MEMORY(output_total_bytes, kMiB, kTiB)},
    {"client.pipeline_max", Kind::kLive, WEFT_NUMBER(pipeline_max, 1024, 1'000'000'000)},
    {"client.turn_us", Kind::kLive, WEFT_NUMBER(turn_us, 10, 100'000)},
    {"cluster-enabled", Kind::kImmutable, [](const RedisFrontend&) -> std::string { return "yes"; }},
    {"databases", Kind::kImmutable, [](const RedisFrontend&) -> std::string { return "1"; }},
    {"maxclients", Kind::kLive, WEFT_NUMBER(clients_max, 1, 1'000'000)},
    {"maxmemory", Kind::kFixed, [](const RedisFrontend& front) { return std::to_string(front.memory_bytes_max()); }},
    {"maxmemory-policy", Kind::kFixed, [](const RedisFrontend&) -> std::string { return "noeviction"; }},
    {"proto-max-bulk-len", Kind::kFixed,
     [](const RedisFrontend& front) { return std::to_string(front.string_bytes_max()); }},
    {"save", Kind::kFixed, [](const RedisFrontend&) -> std::string { return ""; }},
    {"slowlog-log-slower-than", Kind::kLive, WEFT_NUMBER(slowlog_us, -1, std::numeric_limits<int64_t>::max() / 1000)},
    {"slowlog-max-len", Kind::kLive, WEFT_NUMBER(slowlog_length, 0, int64_t{SlowLog::kEntriesMax})},
    {"tcp-keepalive", Kind::kLive, WEFT_NUMBER(keepalive_seconds, 0, 32'767)},
    {"timeout", Kind::kLive, WEFT_NUMBER(idle_seconds, 0, 31'536'000)},
};

#undef WEFT_NUMBER
#undef WEFT_MEMORY

const Setting* find_setting(std::string_view name) {
  const auto* const at = std::find_if(std::begin(kSettings), std::end(kSettings),
                                      [&](const Setting& setting) { return same_word(setting.name, name); });
  return at == std::end(kSettings) ? nullptr : at;
}

void config_get(RedisFrontend& front, Client&, Arguments arguments, RespWriter& reply) {
  std::vector<std::pair<std::string, std::string>> found;
  size_t bytes = 0;
  const Arguments patterns = arguments.subspan(2);
  for (const std::string_view pattern : patterns) bytes += pattern.size();
  if (bytes > kPatternBytesMax) {
    return reply.error("ERR the patterns are too long: " + limit_text("the limit", kPatternBytesMax, bytes));
  }
  for (const Setting& setting : kSettings) {
    const auto at = std::find_if(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
      return glob_matches(lower_case(pattern), setting.name);
    });
    if (at == patterns.end()) continue;
    // A setting that is asked for by name is returned under that name.
    found.emplace_back(same_word(*at, setting.name) ? std::string(*at) : setting.name, setting.get(front));
  }
  reply.map(found.size());
  for (const auto& [name, value] : found) {
    reply.bulk(name);
    reply.bulk(value);
  }
}

// At most the process's limit of open files, less those that it needs itself.
Wrong too_many_clients(const RedisFrontend& front, const FrontendOptions& options) {
  constexpr uint64_t kOwn = 64;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return {};
  const uint64_t own = kOwn + uint64_t{4} * static_cast<uint64_t>(front.txn_worker()->node()->workers()) * kNodesMax;
  const uint64_t fit = files.rlim_cur > own ? files.rlim_cur - own : 1;
  if (options.clients_max <= std::max<uint64_t>(fit, front.options().clients_max)) return {};
  return "The operating system is not able to handle the specified number of clients, try with " + std::to_string(fit);
}

Wrong set_one(const RedisFrontend& front, const Setting& setting, std::string_view value, FrontendOptions& options) {
  if (setting.kind != Kind::kLive) {
    const bool as_it_is = setting.kind == Kind::kFixed && same_word(setting.get(front), value);
    return as_it_is ? "" : "can't set immutable config";
  }
  Wrong wrong = setting.set(value, options);
  if (wrong.empty() && same_word(setting.name, "maxclients")) wrong = too_many_clients(front, options);
  return wrong;
}

// All or nothing.
void config_set(RedisFrontend& front, Client&, Arguments arguments, RespWriter& reply) {
  const Arguments pairs = arguments.subspan(2);
  if (pairs.size() % 2 != 0) return reply.error(kSyntaxError);
  std::vector<std::pair<const Setting*, std::string_view>> changes;
  const auto failed = [&](std::string_view name, const Wrong& why) {
    reply.error("ERR CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " + why);
  };
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const Setting* const setting = find_setting(pairs[i]);
    if (setting == nullptr) {
      return reply.error("ERR Unknown option or number of arguments for CONFIG SET - '" +
                         std::string(pairs[i].substr(0, kPatternBytesMax)) + "'");
    }
    const bool again =
        std::any_of(changes.begin(), changes.end(), [&](auto& change) { return change.first == setting; });
    if (again) return failed(pairs[i], "duplicate parameter");
    changes.emplace_back(setting, pairs[i + 1]);
  }
  Wrong wrong;
  const char* of = "";
  front.shared().live.change([&](FrontendOptions& live) {
    FrontendOptions changed = live;
    for (const auto& [setting, value] : changes) {
      of = setting->name;
      wrong = set_one(front, *setting, value, changed);
      if (!wrong.empty()) return;
    }
    live = changed;
  });
  if (!wrong.empty()) return failed(of, wrong);
  front.take_options();
  front.shared().slowlog.set_length(front.options().slowlog_length);
  reply.simple("OK");
}

void config_resetstat(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  front.shared().stats.reset(front.shared().commands());
  reply.simple("OK");
}

void config_rewrite(RedisFrontend&, Client&, Arguments, RespWriter& reply) {
  reply.error("ERR The server is running without a config file that it may write: change the node's file");
}

constexpr Command kConfigCommands[] = {
    {"config", -2, kHasSubcommands, {}, "server", "the node's settings"},
    {"config|get", -3, kAdmin, {}, "server", "settings that match a pattern", nullptr, config_get},
    {"config|help", 2, kAdmin, {}, "server", "what there is", nullptr, reply_help},
    {"config|resetstat", 2, kAdmin, {}, "server", "INFO counts from 0 again", nullptr, config_resetstat},
    {"config|rewrite", 2, kAdmin, {}, "server", "refused: the node's file is not written", nullptr, config_rewrite},
    {"config|set", -4, kAdmin, {}, "server", "changes settings until the node starts anew", nullptr, config_set},
};

}  // namespace

std::span<const Command> config_commands() { return kConfigCommands; }

}  // namespace weft
