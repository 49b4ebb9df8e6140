// Commands about the server: TIME, DEBUG SLEEP. INFO is in info.cc, CONFIG in config_commands.cc.
#include <string>

#include "weft/base/clock.h"
#include "weft/redis/command_help.h"
#include "weft/redis/command_text.h"
#include "weft/redis/frontend.h"

namespace weft {
namespace {

void time_of_day(RedisFrontend& front, Client&, Arguments, RespWriter& reply) {
  const int64_t now_us = front.wall_us();
  reply.array(2);
  reply.bulk(std::to_string(now_us / 1'000'000));
  reply.bulk(std::to_string(now_us % 1'000'000));
}

// Only this connection waits.
Task<void> debug_sleep(RedisFrontend& front, Client& client, Arguments arguments) {
  constexpr long double kSecondsMax = 3600;
  const auto seconds = parse_real(arguments[2]);
  if (!seconds || *seconds < 0 || *seconds > kSecondsMax) {
    front.out(client).error("ERR DEBUG SLEEP takes 0 to 3600 seconds");
    co_return;
  }
  co_await front.session().sleep_ns(static_cast<uint64_t>(*seconds * static_cast<long double>(kSecondNs)));
  front.out(client).simple("OK");
}

constexpr Command kServerCommands[] = {
    {"debug", -2, kHasSubcommands, {}, "server", "for tests"},
    {"debug|help", 2, kAdmin, {}, "server", "what there is", nullptr, reply_help},
    {"debug|sleep",
     3,
     kAdmin | kNoMulti,
     {},
     "server",
     "this connection waits for so many seconds",
     nullptr,
     nullptr,
     debug_sleep},
    {"time", 1, kFast, {}, "server", "seconds since 1970, and microseconds", nullptr, time_of_day},
};

}  // namespace

std::span<const Command> server_commands() { return kServerCommands; }

}  // namespace weft
