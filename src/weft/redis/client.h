// Client: one client connection and the state that its commands have set. It is owned by the RedisFrontend that
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

// A key named by WATCH, as it was then. Versions of different epochs cannot be compared.
struct WatchedKey {
  std::string key;
  Version version;
  Epoch epoch;
};

struct Client {
  ClientStream stream;
  RespReader reader;
  ClientOutput output;
  uint64_t coalesce_until_ns = 0;  // then the output is sent, though more is in progress; 0: it is new
  size_t counted_output = 0;       // the memory that the frontend's totals count for it
  size_t counted_input = 0;
  std::coroutine_handle<> output_waiter;  // resumes when the client has read some of its replies
  std::string reply;                      // of the transaction in progress
  std::string* part_reply = nullptr;      // of a command that is run as several: where their replies go instead
  RespErrors reply_errors;                // in it
  RespErrors errors;                      // in replies that were given but not counted yet
  bool reply_too_long = false;            // so the transaction is aborted
  const char* too_much_of = "";           // likewise: the work limit that was exceeded
  uint64_t too_much_ns = 0;               // the work that was asked for; 0: not too much
  bool postponed = false;                 // the transaction starts again when there is room for it
  FairScheduler::Share share;             // of the worker's time
  CommandList batch;                      // commands that arrived together and run together
  CommandList queued;                     // between MULTI and EXEC
  std::vector<WatchedKey> watched;
  bool watch_failed = false;
  bool in_multi = false;
  bool multi_is_bad = false;
  bool awaits_txn = false;      // WEFT MULTI waits for its transaction
  std::optional<Txn> open_txn;  // begun by WEFT MULTI
  bool open_txn_runs = false;   // its EXEC is running
  uint64_t open_txn_until_ns = 0;
  bool open_txn_expired = false;     // and dropped
  uint64_t shrinks_ns = UINT64_MAX;  // when it has been idle long enough to release buffers
  bool active = false;               // in the frontend's list of active clients
  bool readable = false;
  bool writable = true;
  bool hung_up = false;
  bool has_input = false;          // the input may contain commands
  bool blocked_on_output = false;  // its commands wait for it to read its replies
  bool closing = false;            // once the output is written
  bool refused = false;            // with an error that it should receive
  bool lingering = false;          // waiting for that; further input is discarded
  uint64_t linger_until_ns = 0;
  bool dead = false;
  bool dropped = false;  // it held too much memory; nothing more is done for it

  uint64_t id = 0;
  std::string name;
  std::string address, local_address;  // host:port
  int version = 2;                     // of the protocol
  bool authenticated = false;
  // its address as a word, equal for addresses that may be one client (unauthenticated_clients.cc)
  uint64_t source = 0;
  bool unauthenticated = false;  // TLS or the password is still to come
  uint64_t authenticate_until_ns = 0;
  uint32_t wrong_passwords = 0;
  uint64_t delayed_until_ns = 0;  // after a wrong password: its reply is sent then, and nothing else before; 0: none
  enum class Replies : uint8_t { kOn, kOff, kSkip, kSkipNext } replies = Replies::kOn;
  bool no_evict = false;
  bool asked_cluster = false;  // it used CLUSTER ..., so it adds up the nodes' numbers, see DBSIZE
  uint64_t since_ns = 0, active_ns = 0;
  uint64_t wrote_ns = 0;     // when it last read some of its answers, or had none to read
  uint64_t received_ns = 0;  // when it last sent something
  uint64_t read_ns = 0;      // start of the answer time: commands arrived, a reply was given, or the client read some
  uint64_t began_ns = 0;     // start of the current wait, by FairScheduler::now_ns
  bool monitors = false;     // MONITOR
  std::string monitored;     // output that waits for earlier replies
  const Command* last = nullptr;
  uint64_t pipelined = 0;  // commands since replies were last sent

  std::list<Client>::iterator place;                   // in the frontend's list of clients
  std::list<Client*>::iterator unauthenticated_place;  // in its list of unauthenticated clients

  OwnedTask work;

  Client(ClientStream s, const RespLimits& limits) : stream(std::move(s)), reader(limits) {}
  size_t unread_bytes() const { return output.bytes(); }
  bool is_delayed() const { return delayed_until_ns != 0; }
  // Including spare buffer capacity, beyond what every connection may keep (client_memory.cc).
  size_t output_memory() const;
  size_t input_memory() const;
  // RESET: the state after connecting, except for its identity.
  void reset();
  void end_multi();
};

}  // namespace weft
