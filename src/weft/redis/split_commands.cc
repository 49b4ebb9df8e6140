// Commands that name more keys than a transaction may have, and mean the same if they are run as several: MGET, DEL,
// UNLINK, EXISTS and TOUCH, outside MULTI. Each part is a transaction of its own; if one fails, those before it stand.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "weft/redis/client.h"
#include "weft/redis/frontend.h"

namespace weft {

namespace {

// The replies of all parts, as one.
struct JoinedReply {
  std::string elements;  // of arrays
  int64_t sum = 0;       // of integers
  std::string error;     // a part failed
  bool is_array = false;

  // Returns false if the part failed, or this is longer than `bytes_max`.
  bool add(std::string_view part, size_t bytes_max) {
    const size_t line = part.find("\r\n");
    if (line == std::string_view::npos || part[0] == '-') {
      error = line == std::string_view::npos ? "ERR no reply" : part.substr(1, line - 1);
      return false;
    }
    if (part[0] == ':') {
      int64_t number = 0;
      std::from_chars(part.data() + 1, part.data() + line, number);
      sum += number;
      return true;
    }
    is_array = true;
    elements.append(part.substr(line + 2));
    if (elements.size() <= bytes_max) return true;
    error = "ERR the reply is too long, and nothing was done: reply_bytes_max is " + std::to_string(bytes_max);
    return false;
  }
};

}  // namespace

bool RedisFrontend::must_split(const Command& command, Arguments arguments) const {
  return keys_named(command, arguments.size()) > txn_worker_->context().limits.txn_keys_max;
}

Task<void> RedisFrontend::run_split(Client& client, const Command& command, Arguments arguments) {
  const size_t keys_max = txn_worker_->context().limits.txn_keys_max;
  JoinedReply joined;
  std::string part;
  std::vector<std::string_view> words;
  bool ok = true;
  for (size_t first = 1; ok && first < arguments.size() && !client.dead; first += keys_max) {
    const Arguments keys = arguments.subspan(first, std::min(keys_max, arguments.size() - first));
    words.assign(1, arguments[0]);
    words.insert(words.end(), keys.begin(), keys.end());
    part.clear();
    client.batch.add(&command, words);
    client.part_reply = &part;
    Task<void> work = run_batch(client);
    co_await work;
    client.part_reply = nullptr;
    ok = joined.add(part, options_.reply_bytes_max);
    if (!ok && first > 1 && (command.flags & kWrites) != 0) {  // what it says is true of this part
      joined.error += "; the first " + std::to_string(first - 1) + " keys were handled before";
    }
  }
  if (ok && joined.is_array) {
    RespWriter(&client.reply).array(arguments.size() - 1);
    client.reply.append(joined.elements);
    take_reply(client);
    co_return;
  }
  RespWriter reply = out(client);
  reply.set_errors(nullptr);  // the part's is counted
  if (ok) {
    reply.integer(joined.sum);
  } else {
    reply.error(joined.error);
  }
}

}  // namespace weft
