// HELP of a command that has subcommands, from its rows.
#pragma once

#include "weft/server/commands.h"

namespace weft {

void reply_help(Front& front, Client& client, Arguments arguments, RespWriter& reply);

}  // namespace weft
