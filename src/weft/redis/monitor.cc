#include "weft/redis/monitor.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "weft/redis/command_redaction.h"
#include "weft/redis/frontend.h"

namespace weft {

bool Monitors::begin(WorkerId worker) {
  if (count_.fetch_add(1, std::memory_order_relaxed) >= kMonitorsMax) {
    count_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  Left& left = left_[worker.value];
  const std::scoped_lock lock(left.mutex);
  ++left.monitors;
  return true;
}

void Monitors::end(WorkerId worker) {
  Left& left = left_[worker.value];
  const std::scoped_lock lock(left.mutex);
  count_.fetch_sub(1, std::memory_order_relaxed);
  if (--left.monitors > 0) return;
  left.over = false;
  std::string().swap(left.lines);
}

void Monitors::leave(WorkerId from, std::string_view lines) {
  for (Left& left : left_) {
    if (&left == &left_[from.value]) continue;
    const std::scoped_lock lock(left.mutex);
    if (left.monitors == 0) continue;
    left.over |= left.lines.size() + lines.size() > kLeftBytesMax;
    if (!left.over) left.lines.append(lines);
  }
}

bool Monitors::take(WorkerId worker, std::string* lines) {
  Left& left = left_[worker.value];
  const std::scoped_lock lock(left.mutex);
  lines->append(std::exchange(left.lines, {}));
  return !std::exchange(left.over, false);
}

void append_monitored(std::string* out, const Command& command, Arguments arguments, std::string_view client,
                      int64_t now_us) {
  constexpr size_t kArgumentsMax = 64;
  constexpr size_t kArgumentBytesMax = 1024;
  constexpr int64_t kSecondUs = 1'000'000;
  char time[48];
  const int bytes = std::snprintf(time, sizeof time, "+%lld.%06lld [0 ", static_cast<long long>(now_us / kSecondUs),
                                  static_cast<long long>(now_us % kSecondUs));
  out->append(time, static_cast<size_t>(bytes)).append(client).append("]");
  const std::vector<std::string_view> words = without_secrets(command, arguments);
  const size_t shown = std::min(words.size(), kArgumentsMax);
  for (const std::string_view word : std::span(words).first(shown)) {
    out->push_back(' ');
    append_quoted(out, word, kArgumentBytesMax);
  }
  if (words.size() > shown) out->append(" ... (" + std::to_string(words.size() - shown) + " more arguments)");
  out->append("\r\n");
}

namespace {

void monitor(RedisFrontend& front, Client& client, Arguments, RespWriter& reply) {
  if (client.monitors) return;  // without a reply, as in Redis
  if (!front.begin_monitor(client)) {
    return reply.error("ERR too many monitors: the limit is " + std::to_string(Monitors::kMonitorsMax));
  }
  reply.simple("OK");
}

constexpr Command kMonitorCommands[] = {
    {"monitor",
     1,
     kAdmin | kNoMulti,
     {},
     "server",
     "every command of this node's clients, as it is run, until RESET",
     nullptr,
     monitor},
};

}  // namespace

std::span<const Command> monitor_commands() { return kMonitorCommands; }

}  // namespace weft
