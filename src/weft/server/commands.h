// The commands of clients that read and write data, as rows. Each runs in a transaction: alone in one of its own, or
// with others between MULTI and EXEC. What it replies counts when the transaction has committed.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "weft/server/resp.h"
#include "weft/txn.h"

namespace weft {

using Arguments = std::span<const std::string_view>;  // the command's name is the first

struct Command {
  using Apply = Task<Code> (*)(Txn& txn, TableId table, Arguments arguments, RespWriter& reply);

  const char* name;  // in lower case
  int arity;         // how many arguments, the name included; -n: n or more
  int key_step;      // behind the name every argument (1), every second one (2) or only the first (0) is a key
  Apply apply;       // kOk, or why the transaction aborts. The arguments live until it has ended.
};

const Command* find_command(std::string_view name);  // in any case; nullptr if there is none
bool fits(const Command& command, size_t arguments);
size_t keys_named(const Command& command, size_t arguments);  // by that many arguments, each as often as it is named
void ping(Arguments arguments, RespWriter& reply);
// As Redis answers.
std::string wrong_arity(std::string_view name);
std::string unknown_command(Arguments arguments);

}  // namespace weft
