// RedisFrontend: the clients of one worker. It accepts connections, reads commands (the Redis protocol, resp.h), runs
// them in transactions of the worker, and writes the replies.
//
//   frontend.cc                 connections: accepting and reading
//   frontend_write.cc           writing replies, and the end of a connection and of a turn
//   unauthenticated_clients.cc  connections that have not authenticated yet, and deadlines of connections
//   client_memory.cc            the memory that clients make the worker hold, and its limits
//   command_execution.cc        dispatch of a command: refused, queued, answered at once, or run in a transaction
//   command_batch.cc            commands in a transaction
//   command_shipping.cc         commands in a transaction that another node executes
//   command_answers.cc          their replies
//   fair_scheduler.h            how much work one turn of the worker does
//   active_expiry.cc            deletes keys soon after their deadline
//   expiry_sweeper.cc           deletes expired keys that active expiry missed
//   multi_exec.cc               MULTI, EXEC, WATCH
//   command_accounting.cc       statistics, slow log and monitors; and applying CONFIG SET
//   client_list.cc              CLIENT LIST and KILL, over all workers of the node
//   weft_commands.cc            WEFT ...
//   commands.h                  the commands as rows, and where their files are
//
// A turn is one iteration of the worker's loop. A connection's commands take effect in the order sent. Commands that
// arrived together and only touch data run in one transaction: their keys are read in one table batch and their
// messages share packets. If that transaction exceeds a limit, or conflicts too often, it is halved. Different
// connections run concurrently, but those that conflict on a key are batched, too (hot_key_queues.h).
//
// It is owned by its worker's thread once that runs. It starts accepting when its node is active for the first time.
// The workers of a node share one listening socket; any worker that is awake takes a connection. When the process has
// no file descriptor left it logs that and accepts again after a while.
//
// WEFT MULTI is a MULTI that returns its transaction's id, so that a client can ask any node for the outcome (WEFT
// OUTCOME) if this node fails before it answers EXEC. The transaction begins at once, and EXEC runs it once: an abort
// is not retried, since the next attempt would be another transaction.
//
// Limits: a client whose command exceeds the reader's limits is closed with an error that names the limit, and so is
// one that has sent more than pipeline_max commands without taking the replies. When clients_max are connected, a new
// client replaces one that has not authenticated yet, or is refused if there is none (unauthenticated_clients.cc). A
// command that names too many keys, a MULTI that is too large, and a transaction whose reply is too long are refused
// with the limit and its value, and have no effect. While a command of a connection runs, or more than
// output_held_bytes of its replies are unread, nothing more is read from it, and its batched commands are run in as
// many transactions as that takes. So a client that does not read holds output_held_bytes and one reply. When all
// clients together hold more than output_total_bytes, or more than input_total_bytes of incomplete commands, those that
// neither read nor send are disconnected, the one that holds most first (client_memory.cc). A connection that was idle
// for a second releases its buffers.
//
// Where the cluster's row ships stored procedures (hop), a transaction of commands whose keys have one other node as
// their primary is executed there (shipped_commands.h). If it cannot be, nothing has happened, and it runs here.
//
// Time: every command is answered within limits.answer_ms (txn/client_waits.h) of being read from the socket, or,
// if others of its connection were ahead of it, of the last success of these; the time that a client takes to read its
// replies does not count. After that the reply is -TRYAGAIN, and nothing happened, or -UNKNOWN with the transaction's
// id. Commands that take many steps (KEYS, FLUSHALL) have that time for each step.
//
// Work: a turn does turn_us of work, as estimated from what commands touch (cost.h) and checked by the clock. The rest
// continues in the next turn; clients that asked for little go first. No single command may be so expensive that
// others would notice: what costs more than command_us_max, and an EXEC that costs more than exec_us_max, is refused
// before it runs. A turn that took much longer all the same is logged, with the command (turn_too_long).
#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/fd.h"
#include "weft/redis/client.h"
#include "weft/redis/command_stats.h"
#include "weft/redis/commands.h"
#include "weft/redis/deadlines.h"
#include "weft/redis/fair_scheduler.h"
#include "weft/redis/hot_key_queues.h"
#include "weft/redis/monitor.h"
#include "weft/redis/password_throttle.h"
#include "weft/redis/resp.h"
#include "weft/redis/slowlog.h"
#include "weft/redis/write_window.h"
#include "weft/run/owned_task.h"
#include "weft/run/thread.h"
#include "weft/run/worker.h"
#include "weft/txn/txn_worker.h"

namespace weft {

struct FrontendOptions {
  TableId table;                         // that holds the keys
  std::optional<ProcedureId> procedure;  // redis_procedure(), where commands may be executed at other nodes
  bool debug = false;                    // WEFT CUT is allowed
  std::string password;                  // required of clients; empty: none
  uint32_t clients_max = 10'000;         // of the node
  uint32_t handshake_ms = 10'000;        // from connecting until TLS and authentication are done
  uint32_t idle_seconds = 0;             // a client that sends nothing for this long is closed; 0: never
  uint32_t keepalive_seconds = 300;      // until the kernel probes a silent client; 0: never
  uint32_t pipeline_max = 100'000;       // commands of a client whose replies have not been sent
  uint32_t multi_max = 10'000;           // commands between MULTI and EXEC
  uint32_t multi_held_max = 16;   // transactions begun by WEFT MULTI, at most half of limits.transactions_in_flight_max
  uint32_t multi_held_ms = 5000;  // until EXEC; then the transaction is dropped
  size_t reply_bytes_max = size_t{64} << 20;      // of one command, or of one EXEC
  size_t output_held_bytes = size_t{1} << 20;     // unread replies of a client; beyond that it is not served
  size_t output_total_bytes = size_t{256} << 20;  // of all clients
  // incomplete commands, and those between MULTI and EXEC; of all clients
  size_t input_total_bytes = size_t{256} << 20;
  uint64_t look_ns = 20'000;         // between two looks at the sockets while commands run; a tenth if none does
  uint64_t turn_us = 500;            // work for clients in one turn of the worker
  uint64_t command_us_max = 10'000;  // of one command
  uint64_t exec_us_max = 100'000;    // of one EXEC, over several turns
  int64_t slowlog_us = 10'000;       // commands that take this long are in SLOWLOG; -1: none
  uint32_t slowlog_length = 128;     // entries
  RespLimits resp{.bulk_bytes_max = 16 << 20, .buffer_bytes_max = 64 << 20};
};

// The options of a node's frontends, which CONFIG SET changes at run time. Each frontend has its own copy and
// refreshes it in its next turn; then it also checks whether there are monitors.
class LiveOptions {
 public:
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  FrontendOptions read(uint64_t* version = nullptr) const;
  void touch() { version_.fetch_add(1, std::memory_order_release); }
  // change(FrontendOptions&)
  template <class F>
  void change(F change) {
    const std::scoped_lock lock(mutex_);
    change(options_);
    version_.fetch_add(1, std::memory_order_release);
  }

 private:
  std::atomic<uint64_t> version_{0};
  mutable std::mutex mutex_;
  FrontendOptions options_;
};

class RedisFrontend;
class TcpTls;
struct ClientQuery;

// State shared by the frontends of a node. Outlives them.
struct FrontendShared {
  // Counters of one worker, read by all; on its own cache line to avoid contention.
  struct alignas(64) Counted {
    std::atomic<uint64_t> commands{0};
    std::atomic<uint64_t> output_bytes{0}, input_bytes{0};  // held for clients
    std::atomic<uint64_t> turns_too_long{0};
    std::atomic<uint64_t> turn_longest_ns{0};  // of all turns that did something for clients
    std::atomic<uint64_t> unauthenticated{0};  // connections that have not authenticated yet
    std::atomic<uint64_t> evictions_asked{0};  // of those, by other workers
    std::atomic<uint64_t> evicted{0}, refused{0};
    std::atomic<uint64_t> late{0}, idle{0};  // closed because of client.handshake_ms, client.idle_seconds
    std::atomic<uint64_t> wrong_passwords{0};
  };

  std::atomic<uint32_t> clients{0};
  std::array<Counted, kWorkersMax> counted;  // by worker
  // By worker; nullptr: none. Frontends register before the workers run and unregister when none does.
  std::array<RedisFrontend*, kWorkersMax> fronts{};
  uint64_t sum(std::atomic<uint64_t> Counted::*which) const;
  uint64_t commands() const { return sum(&Counted::commands); }
  uint64_t output_bytes() const { return sum(&Counted::output_bytes); }
  uint64_t input_bytes() const { return sum(&Counted::input_bytes); }
  uint64_t turns_too_long() const { return sum(&Counted::turns_too_long); }
  uint64_t turn_longest_ns() const;
  std::atomic<uint64_t> last_id{0};
  LiveOptions live;
  NodeCommandStats stats;
  SlowLog slowlog;
  Monitors monitors;
  // Keys with a deadline, and the mean time left, as counted by the sweeper in its last round.
  std::atomic<uint64_t> keys_with_deadline{0}, deadline_mean_ms{0};
  TcpTls* tls = nullptr;    // for clients; nullptr: no encryption
  uint64_t started_ns = 0;  // of the monotonic clock
  std::string run_id;       // 40 hexadecimal digits that identify this process
};

// What a command may ask of the node. Called on the worker's thread.
struct NodeHooks {
  std::function<std::string()> status;   // the reply to WEFT STATUS
  std::function<void(NodeId peer)> cut;  // WEFT CUT: closes the connection to a peer, as a broken cable would
};

class RedisFrontend final : public ConnectionPoller, public WakeupSource {
 public:
  // `listener` listens. Connections are accepted once the node is active. `wall` is the time of day, for deadlines.
  RedisFrontend(const FrontendOptions& options, Fd listener, TxnWorker* txn_worker, Clock* wall, FrontendShared* shared,
                NodeHooks hooks);
  ~RedisFrontend() override;

  bool poll() override;
  bool flush() override;
  int fd() const override { return epoll_.get(); }
  void set_sleeping(bool sleeping) override { slept_ |= !sleeping; }
  uint64_t deadline_ns() const override;
  size_t buffer_bytes() const;  // of all connections

  // For the commands' rows.
  const FrontendOptions& options() const { return options_; }
  const NodeHooks& hooks() const { return hooks_; }
  TxnWorker* txn_worker() const { return txn_worker_; }
  Session& session() { return session_; }
  FrontendShared& shared() { return *shared_; }
  std::list<Client>& clients() { return clients_; }
  int64_t wall_us() { return static_cast<int64_t>(wall_->now_ns() / 1000); }
  size_t string_bytes_max() const { return string_bytes_max_; }
  std::string& scratch() { return scratch_; }
  const Table& table() const { return *txn_worker_->context().tables.at(options_.table); }
  uint64_t memory_bytes_max() const {
    return table().spec().memory_bytes_max != 0 ? table().spec().memory_bytes_max : table().memory_bytes_max();
  }
  void take_options();                 // applies what CONFIG SET has changed
  bool begin_monitor(Client& client);  // false: there are too many
  void end_monitor(Client& client);
  void set_authenticated(Client& client, bool authenticated);
  // The client sent a password. set_authenticated() admits it; its next reply may be delayed.
  void on_password(Client& client, bool right);
  void note_deadline(std::string_view key, int64_t deadline_ms);
  // Deletes those of the keys that are past their deadline, a few in each transaction. The outcome of the last one, or
  // of the first that did not commit; then there may be more to delete.
  Task<Outcome> delete_expired(std::span<const std::string> keys, uint64_t until_ns);
  // Where replies go unless the client turned them off (CLIENT REPLY).
  RespWriter out(Client& client);
  // Moves client.reply to the output, or drops it.
  void take_reply(Client& client);
  static void drop_reply(Client& client) { ClientOutput::clear(client.reply); }
  // Runs the commands of the list and answers them. With `exec`, all run in one transaction, which is retried until
  // its outcome is not a conflict; otherwise in one transaction if possible.
  Task<void> run_list(Client& client, const CommandList& list, bool exec);
  // Runs them in the transaction that WEFT MULTI began.
  Task<void> exec_open_txn(Client& client, const CommandList& list);
  FairScheduler& scheduler() { return scheduler_; }
  // Asks the frontends of all workers about their clients (client_list.cc).
  Task<void> query_workers(const Client& client, std::shared_ptr<ClientQuery> query, std::string* lines);
  // The deadline for answering the client's commands.
  uint64_t answer_by_ns(const Client& client) const { return client.read_ns + txn_worker_->slots().answer_ns(); }
  // The error reply for a transaction that did not commit.
  std::string failure(const Client& client, const Outcome& outcome) const;
  // The error reply for something that timed out without effect.
  std::string no_answer() const;
  // Requests a scan of idle clients at that time.
  void schedule_scan(uint64_t when_ns) { due_ns_ = std::min(due_ns_, when_ns); }
  bool scan_running = false;  // a scan of the tables that excludes others (WEFT DIGEST)

 private:
  static constexpr uint64_t kIdleNs = 1'000'000'000;  // then a connection releases its buffers

  // Connections (frontend.cc, frontend_write.cc, client_memory.cc).
  void accept_when_active();
  void stop_accepting(const char* why);
  void accept_some();
  void accept_one(Fd socket);
  bool looks_at_sockets();
  bool take_events();
  void wake(Client& client);
  void scan_clients();
  void read_some(Client& client);
  void resume(Client& client);
  bool too_much_unread(const Client& client) const { return client.unread_bytes() >= options_.output_held_bytes; }
  bool reply_delayed(const Client& client) const { return session_.now_ns() < client.delayed_until_ns; }
  void count_command(Client& client);
  void refuse(Client& client, const std::string& why);
  bool coalesces_replies(Client& client);
  bool write_some(Client& client);
  bool keeps_lingering(Client& client);
  void end_turn();
  void drop_open_txn(Client& client) const;
  void shrink_if_idle(Client& client) const;
  void count_memory(Client& client);
  void forget_memory(Client& client);
  bool enforce_memory_limits();
  Client* client_to_close(std::atomic<uint64_t> FrontendShared::Counted::*held, size_t limit,
                          size_t Client::*counted_bytes, uint64_t Client::*progress_ns);
  void close_for_output(Client& client);
  void close_for_input(Client& client);
  void log_closed(const Client& client, const char* why, uint64_t limit, uint64_t held, uint64_t its_own) const;
  void drop(Client& client);
  bool answer_client_queries();
  void answer_some(ClientQuery& query);

  // Clients that are not authenticated yet, and clients that stay too long (unauthenticated_clients.cc).
  enum class Rejection : uint8_t { kLate, kIdle, kEvicted, kRefused, kWrongPassword, kCount };
  FrontendShared::Counted& counted() { return shared_->counted[txn_worker_->context().id.value]; }
  void settle(Client& client);
  void forget_unauthenticated(Client& client);
  void check_deadlines(Client& client);
  void close_for_time(Client& client);
  bool make_room();
  bool ask_another_worker();
  bool evict_unauthenticated();
  void refuse_newcomer(const Fd& socket);
  void log_rejection(Rejection what, const std::string& client, std::string_view why, uint64_t limit);

  // Command execution (command_execution.cc, command_batch.cc, command_answers.cc).
  Task<void> serve(Client& client);
  const Command* admit(const Client& client, Arguments arguments, std::string* why) const;
  bool joins_batch(const Client& client, const Command& command, Arguments arguments) const;
  Task<void> handle(Client& client, const Command* command, Arguments arguments, const std::string& why);
  void queue(Client& client, const Command* command, Arguments arguments);
  Task<void> run_batch(Client& client);
  bool must_split(const Command& command, Arguments arguments) const;
  Task<void> run_split(Client& client, const Command& command, Arguments arguments);
  // The result of an attempt to run commands in a transaction.
  struct Attempt {
    size_t failed = 0;  // the batch that made it fail, if not the first
    // commands of the first batch that ran, if it is the only one: as many as its client has room for
    size_t ran = 0;
    bool waits = false;  // where it is shipped to: for locks of others
  };
  // The steps of run_list.
  struct Running;
  bool next_batch(Running& run);
  void leave_window(const Running& run, size_t keys, const Outcome& outcome);
  void leave_queue(Running& run);
  void leave_hot_key(HotKeyQueues::HotKeyQueue* queue);
  bool must_queue(Running& run, const Outcome& outcome, bool together);
  std::optional<ShipQueue::LockedKey> awaited_key(const Running& run) const;
  bool shrink_batch(Running& run, const Outcome& outcome, const Attempt& tried, bool together, bool several);
  void answer_all(Running& run, std::span<const CommandBatch> batches, const Outcome& outcome, const Attempt& tried);
  Task<Outcome> attempt(std::span<const CommandBatch> batches, Attempt* out);
  Task<Outcome> attempt_here(std::span<const CommandBatch> batches, Attempt* out);
  bool can_ship(std::span<const CommandBatch> batches);
  bool is_remote_only(std::span<const CommandBatch> batches);
  Task<Outcome> ship(std::span<const CommandBatch> batches, Txn* txn, Attempt* out);
  void take_replies(std::span<const CommandBatch> batches, std::string_view reply);
  static constexpr size_t kExpiredTogether = 32;  // keys per transaction
  std::span<const std::string> expired_together(std::span<const std::string> keys) const {
    return keys.first(std::min<size_t>({kExpiredTogether, txn_worker_->context().limits.txn_keys_max, keys.size()}));
  }
  void start_expiry();
  Task<void> sweep();
  Task<void> sweep_far();
  Task<void> sweep_far(PartitionId partition, uint64_t round_ns);
  bool sweeps_far(PartitionId partition) const;
  Task<void> expire_due();
  void examine_cell(size_t cell, std::vector<std::string>* expired);
  Task<void> delete_all(std::vector<std::string> keys);
  Task<Outcome> delete_together(std::span<const std::string> keys, RetryPolicy policy, uint64_t until_ns);
  Task<Code> delete_in(Txn& txn, std::span<const std::string> keys, size_t* deleted);
  Task<Code> apply(Txn& txn, std::span<const CommandBatch> batches, Attempt* out);
  bool has_enough(const Client& client) const {
    return client.unread_bytes() + client.reply.size() >= options_.output_held_bytes;
  }
  // Resumes when the client has read some of its replies, or is gone.
  struct [[nodiscard]] Unread {
    const RedisFrontend* front;
    Client* client;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept { client->output_waiter = h; }
    void await_resume() const noexcept { client->read_ns = front->session_.now_ns(); }
  };
  void start_reads(Txn& txn, const CommandBatch& batch, std::vector<Keyspace::ReadKey>* keys);
  Code check_watched(Txn& txn, const CommandBatch& batch, Keyspace& keys);
  Code check_cost(const CommandBatch& batch, Keyspace& keys, bool alone);
  Code too_much(Client& client, const char* limit, uint64_t ns) const;
  Code run_some(const CommandBatch& batch, Keyspace& keys, size_t* next);
  std::string refusal(const Command& command, Arguments arguments, Keyspace& keys) const;
  void answer(const CommandBatch& batch, const Outcome& outcome);

  // Accounting (command_accounting.cc).
  uint64_t took_ns(const Client& client) const {
    const uint64_t now_ns = scheduler_.now_ns();
    return now_ns > client.began_ns ? now_ns - client.began_ns : 0;
  }
  bool slow(uint64_t ns) const { return ns >= slow_ns_; }
  void note_errors(Client& client);
  void note_rejected(Arguments arguments);
  void note_call(Client& client, const Command& command, Arguments arguments);
  void note_ran(const CommandBatch& batch, const Outcome& outcome);
  void show(Client& client, const Command& command, Arguments arguments, uint64_t ns);
  void flush_monitors();

  FrontendOptions options_;
  uint64_t options_version_ = 0;
  uint64_t slow_ns_ = UINT64_MAX;  // the threshold of SLOWLOG
  TxnWorker* const txn_worker_;
  Session session_;
  Clock* const wall_;
  FrontendShared* const shared_;
  const NodeHooks hooks_;
  const size_t string_bytes_max_;
  Fd epoll_;
  Fd listener_;
  bool accepting_ = false;
  uint64_t accepts_anyway_ns_ = 0;  // from then on it accepts though the node is not active
  uint64_t accepts_again_ns_ = 0;   // 0: it never had to stop
  std::list<Client> clients_;
  std::list<Client*> unauthenticated_;  // clients that are not authenticated yet, the oldest first
  PasswordThrottle password_throttle_;
  struct LogThrottle {
    uint64_t last_ns = 0;
    uint64_t suppressed = 0;  // since then
  };
  std::array<LogThrottle, static_cast<size_t>(Rejection::kCount)> rejection_log_{};
  std::vector<Client*> active_clients_;       // clients with work to do; idle ones cost nothing
  uint64_t next_scan_ns_ = 0;                 // the earliest time for the next scan of all clients
  uint64_t due_ns_ = UINT64_MAX;              // when something is due for an idle client
  uint64_t coalesced_until_ns_ = UINT64_MAX;  // when coalesced replies are sent
  size_t output_memory_ = 0;                  // held for clients, as of the last flush
  size_t input_memory_ = 0;
  WriteWindow write_window_;  // of pipelines
  HotKeyQueues hot_keys_;
  // By hashes of keys: so many of the next transactions with them are not shipped, because another could not be.
  std::array<uint8_t, 1024> not_shipped_{};
  FairScheduler scheduler_;
  uint64_t long_turn_logged_ns_ = 0;  // when a long turn was last logged
  std::deque<std::shared_ptr<ClientQuery>> client_queries_;
  FairScheduler::Share client_queries_share_;
  std::vector<epoll_event> events_;
  uint64_t looked_ns_ = 0;  // when the sockets were last looked at
  bool slept_ = true;       // since the last look
  std::string scratch_;
  std::string discarded_replies_;  // replies that a client turned off
  CommandStats* const stats_;
  IterationTimes times_;
  bool monitored_ = false;                   // somebody monitors this node
  std::vector<Client*> monitors_;            // the monitors of this worker
  std::string shown_;                        // for monitors, in this turn
  uint64_t monitors_flush_ns_ = UINT64_MAX;  // when this worker's monitors are flushed at the latest
  Deadlines deadlines_;
  OwnedTask sweeper_, far_sweeper_, expirer_;
};

}  // namespace weft
