// Client: one connection of a client, and what its commands have said about it. It belongs to the RedisFrontend that
// accepted it.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "weft/redis/client_output.h"
#include "weft/redis/client_stream.h"
#include "weft/redis/command_list.h"
#include "weft/redis/fair_scheduler.h"
#include "weft/redis/resp.h"
#include "weft/run/owned_task.h"
#include "weft/txn.h"

namespace weft {

// A key that WATCH named, as it was then. A version says nothing in another epoch.
struct WatchedKey {
  std::string key;
  Version version;
  Epoch epoch;
};

struct Client {
  ClientStream stream;
  RespReader reader;
  ClientOutput output;
  uint64_t coalesce_until_ns = 0;  // then the output leaves, though more is under way; 0: it is new
  size_t counted_output = 0;       // what it makes the node hold, in the front's sums
  size_t counted_input = 0;
  std::coroutine_handle<> output_waiter;  // goes on when it has read some of its answers
  std::string reply;                      // of the transaction under way
  RespErrors reply_errors;                // in it
  RespErrors errors;                      // in what was answered, and not counted yet
  bool reply_too_long = false;            // so the transaction is aborted
  const char* too_much_of = "";           // likewise: a limit of work
  uint64_t too_much_ns = 0;               // and what was asked for; 0: not too much
  bool postponed = false;                 // the transaction begins again when there is room for it
  FairScheduler::Share share;             // of the worker's time
  CommandList batch;                      // came together, and are run together
  CommandList queued;                     // between MULTI and EXEC
  std::vector<WatchedKey> watched;
  bool watch_failed = false;
  bool in_multi = false;
  bool multi_is_bad = false;
  bool awaits_txn = false;      // WEFT MULTI waits for its transaction
  std::optional<Txn> open_txn;  // begun by WEFT MULTI
  bool open_txn_runs = false;   // that one is at its EXEC
  uint64_t open_txn_until_ns = 0;
  bool open_txn_expired = false;     // and dropped
  uint64_t shrinks_ns = UINT64_MAX;  // when it has been idle for long
  bool active = false;               // in the front's list of those that it looks at
  bool readable = false;
  bool writable = true;
  bool hung_up = false;
  bool has_input = false;          // there may be commands in what came
  bool blocked_on_output = false;  // these wait for it to read its answers
  bool closing = false;            // when the output is written
  bool refused = false;            // with an error that it is to hear
  bool lingering = false;          // it is, and what still comes is thrown away
  uint64_t linger_until_ns = 0;
  bool dead = false;
  bool lost = false;  // it held too much, and nothing more is done for it

  uint64_t id = 0;
  std::string name;
  std::string address, local_address;  // host:port
  int version = 2;                     // of the protocol
  bool authenticated = false;
  uint64_t source = 0;           // its address in a word, the same for all who may be one (unauthenticated_clients.cc)
  bool unauthenticated = false;  // TLS or the password is still to come
  uint64_t authenticate_until_ns = 0;
  uint32_t wrong_passwords = 0;
  uint64_t delayed_until_ns = 0;  // after one: its answer leaves then, and nothing is done for it before; 0: not
  enum class Replies : uint8_t { kOn, kOff, kSkip, kSkipNext } replies = Replies::kOn;
  bool no_evict = false;
  bool asked_cluster = false;  // CLUSTER ...: it adds up what the nodes say, see DBSIZE
  uint64_t since_ns = 0, active_ns = 0;
  uint64_t read_ns = 0;   // the time of its commands began: they came, or it had an answer, or took some
  uint64_t began_ns = 0;  // what it waits for now, by FairScheduler::now_ns
  bool monitors = false;  // MONITOR
  std::string monitored;  // what waits until the answers before it are there
  const Command* last = nullptr;
  uint64_t pipelined = 0;  // commands since answers left last

  std::list<Client>::iterator place;                   // in the front's list
  std::list<Client*>::iterator unauthenticated_place;  // in that of strangers

  OwnedTask work;

  Client(ClientStream s, const RespLimits& limits) : stream(std::move(s)), reader(limits) {}
  size_t unread_bytes() const { return output.bytes(); }
  bool is_delayed() const { return delayed_until_ns != 0; }
  // With the room in buffers; beyond what every connection may keep (client_memory.cc).
  size_t output_memory() const;
  size_t input_memory() const;
  // As after connecting, but for who it is: RESET.
  void reset();
  void end_multi();
};

}  // namespace weft
