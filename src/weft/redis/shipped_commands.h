// Clients' commands as a stored procedure, so that they can be executed at the primary of their keys (the row hop,
// docs/protocols.md). Its arguments are the commands of one or several connections that run in one transaction, with
// what WATCH has noted and the time; its reply is what they answer.
//
// Only commands that cost little, whatever the values are, and need nothing of their connection: is_shipped(). The
// procedure asks its caller to run them instead (kAskInstead) if they turn out to need more: a key that is only read
// has expired and must be deleted, or a command would pause.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/redis/commands.h"
#include "weft/redis/hot_key_queues.h"
#include "weft/txn.h"

namespace weft {

// Whether commands of this row can be part of it.
bool is_shipped(const Command& command);

// Its arguments.
std::string encode_commands(TableId table, int64_t now_us, size_t string_bytes_max,
                            std::span<const CommandBatch> batches);
// How many bytes a command takes in them.
size_t encoded_bytes(Arguments arguments);

// What they answer. The bytes are those that were decoded.
struct CommandReplies {
  struct Batch {
    std::string_view reply;
    std::vector<std::pair<size_t, std::string_view>> errors;  // by the index of a command in its list
  };
  uint64_t hits = 0, misses = 0;
  std::vector<Batch> batches;
  std::vector<std::pair<std::string_view, int64_t>> deadlines;  // keys that were given one

  // False: it is not what the procedure replies to these.
  static bool decode(std::string_view bytes, std::span<const CommandBatch> batches, CommandReplies* out);
};

StoredProcedure redis_procedure();

}  // namespace weft
