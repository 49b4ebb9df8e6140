// Front: the clients of one worker. It accepts connections, reads commands (the Redis protocol, resp.h), runs each in a
// transaction of the worker, and writes the answers. A connection's commands run one after another in the order sent;
// those of different connections run side by side.
//
// It belongs to its worker's thread, and to nobody else once that runs. It accepts when its node is active for the
// first time. The workers of a node share one socket to accept from; whoever is awake takes a connection. When the
// process has no file descriptor left it says so, and accepts again after a while.
//
// WEFT MULTI is a MULTI that answers its transaction's id, so that a client can ask any node how it ended (WEFT
// OUTCOME) when this one is gone before it answers EXEC. The transaction begins at once, and EXEC runs it once: one
// that aborts is not tried again, since the next attempt would be another transaction.
//
// WEFT DIGEST walks the tables in steps (digest.h); a second one waits for the first.
//
// Limits: whose command is over the reader's limits is closed with an error that names the limit; who comes when
// clients_max are there is told so. A command that names too many keys, a MULTI that is too large, and a transaction
// whose reply is too long are refused with the limit and its value, and nothing of them happens. While a command of a
// connection runs, or more than output_held_bytes of its answers wait to be read, nothing more is read from it: a
// client that does not read its answers holds output_held_bytes and one reply. A connection that was idle for a second
// gives its buffers back.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fabric/fd.h"
#include "weft/run/root.h"
#include "weft/run/thread.h"
#include "weft/run/worker.h"
#include "weft/server/commands.h"
#include "weft/server/resp.h"
#include "weft/txn/engine.h"

namespace weft {

struct FrontOptions {
  TableId table;       // where the keys are
  bool debug = false;  // WEFT CUT is allowed
  uint32_t clients_max = 1000;
  uint32_t multi_max = 1024;                   // commands between MULTI and EXEC
  uint32_t multi_held_max = 16;                // transactions begun by WEFT MULTI, at most half of limits.inflight
  uint32_t multi_held_ms = 5000;               // until EXEC; then it is dropped
  size_t reply_bytes_max = size_t{64} << 20;   // of one command, or of one EXEC
  size_t output_held_bytes = size_t{1} << 20;  // answers that a client did not read; then it is not served any more
  RespLimits resp{.bulk_bytes_max = 16 << 20, .buffer_bytes_max = 64 << 20};
};

// What a command may ask of the node. Called on the worker's thread.
struct NodeHooks {
  std::function<std::string()> status;   // what WEFT STATUS answers
  std::function<void(NodeId peer)> cut;  // WEFT CUT: closes the connection to a peer, as a broken cable would
};

class Front final : public Clients, public Bell {
 public:
  // `listener` listens. Whoever connects is accepted once the node is active.
  Front(const FrontOptions& options, Fd listener, Engine* engine, NodeHooks hooks);
  ~Front() override;

  bool poll() override;
  bool flush() override;
  int fd() const override { return epoll_.get(); }
  uint64_t deadline_ns() const override;
  size_t buffer_bytes() const;  // of all connections

 private:
  struct Connection {
    Fd socket;
    RespReader reader;
    std::string output;
    size_t sent = 0;                               // of the output
    std::string reply;                             // of the transaction under way
    bool reply_too_long = false;                   // so the transaction is aborted
    std::vector<std::vector<std::string>> queued;  // between MULTI and EXEC
    size_t queued_bytes = 0;
    bool in_multi = false;
    bool multi_is_bad = false;
    std::optional<Txn> held;  // begun by WEFT MULTI
    uint64_t held_until_ns = 0;
    bool held_too_long = false;        // and dropped
    uint64_t shrinks_ns = UINT64_MAX;  // when it has been idle for long
    bool readable = false;
    bool fed = false;      // there may be commands in what came
    bool closing = false;  // when the output is written
    bool dead = false;
    Root work;
    explicit Connection(Fd s, const RespLimits& limits) : socket(std::move(s)), reader(limits) {}
  };

  void accept_when_active();
  void stop_accepting(const char* why);
  void accept_some();
  void read_some(Connection& connection);
  void go_on(Connection& connection);
  bool too_much_unread(const Connection& connection) const;
  bool write_some(Connection& connection);
  Task<void> serve(Connection& connection);
  Task<void> execute(Connection& connection, Arguments arguments);
  bool execute_at_once(Connection& connection, Arguments arguments);
  bool weft_command(Connection& connection, Arguments arguments);
  static void end_multi(Connection& connection);
  Task<void> weft_outcome(Connection& connection, Arguments arguments);
  Task<void> weft_multi(Connection& connection);
  Task<void> weft_digest(Connection& connection);
  void shrink_if_idle(Connection& connection) const;
  void drop_held(Connection& connection) const;
  void queue(Connection& connection, Arguments arguments);
  std::string refusal(Arguments arguments) const;
  Task<void> transact(Connection& connection, std::vector<Arguments> commands, bool exec);
  Task<Code> apply(Connection& connection, Txn& txn, std::span<const Arguments> commands);
  void answer(Connection& connection, const Outcome& outcome, size_t commands, bool exec) const;

  const FrontOptions options_;
  Engine* const engine_;
  Session session_;
  const NodeHooks hooks_;
  Fd epoll_;
  Fd listener_;
  bool accepting_ = false;
  uint64_t accepts_again_ns_ = 0;  // 0: it never had to stop
  bool digest_runs_ = false;
  std::list<Connection> connections_;
  std::vector<epoll_event> events_;
};

}  // namespace weft
