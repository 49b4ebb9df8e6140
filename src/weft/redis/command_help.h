// HELP of a command that has subcommands, from its rows.
#pragma once

#include "weft/redis/commands.h"

namespace weft {

void reply_help(RedisFrontend& front, Client& client, Arguments arguments, RespWriter& reply);

}  // namespace weft
