// Transactions, as an application sees them.
//
// A Session is one worker of one node. Coroutines that run on it begin transactions, read, write and commit:
//
//   weft::Task<weft::Outcome> transfer(weft::Session& session, uint64_t from, uint64_t to) {
//     weft::Txn txn = co_await session.begin();
//     weft::Value a = co_await txn.get(accounts, from, weft::Intent::kUpdate);
//     weft::Value b = co_await txn.get(accounts, to, weft::Intent::kUpdate);
//     ...
//     txn.put(accounts, from, new_a);
//     txn.put(accounts, to, new_b);
//     co_return co_await txn.commit();
//   }
//
// A read returns what a replica held at some time; commit() tells whether all reads held at the same time. Until then
// the application must not rely on them. Writes are buffered in the transaction until commit; a later get of the same
// key sees them.
//
// All of this runs on the session's worker thread. Nothing here may be used from another thread.
#pragma once

#include <coroutine>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/status.h"
#include "weft/task.h"
#include "weft/types.h"

namespace weft {

class TxnWorker;
class Session;
struct TxnSlot;

// A key: an 8-byte integer or a byte string. A view: the bytes must live until the call returns.
class Key {
 public:
  Key(uint64_t integer) : integer_(integer), size_(8), is_integer_(true) {}  // NOLINT(google-explicit-constructor)
  Key(std::string_view bytes)                                                // NOLINT(google-explicit-constructor)
      : data_(bytes.data()), size_(static_cast<uint32_t>(bytes.size())) {}
  Key(const std::string& bytes) : Key(std::string_view(bytes)) {}  // NOLINT(google-explicit-constructor)
  Key(std::string&& bytes) = delete;  // it would be destroyed before the key is used (see also task.h on temporaries)
  template <size_t N>
  Key(const char (&text)[N]) : Key(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)
  const char* data() const { return is_integer_ ? reinterpret_cast<const char*>(&integer_) : data_; }
  size_t size() const { return size_; }
  bool is_integer() const { return is_integer_; }

 private:
  const char* data_ = nullptr;
  uint64_t integer_ = 0;
  uint32_t size_;
  bool is_integer_ = false;
};

enum class Intent : uint8_t {
  kRead,
  kUpdate,
  kHead,  // only whether the key exists, the first kHeadBytes of its value and how long it is; no more is fetched
  // For structures that check what they find: neither validated nor locked at commit, so the value may be old, or of a
  // transaction that will be undone; it is never torn. A key that is then written, or read otherwise, is validated.
  kHint,
};
inline constexpr size_t kHeadBytes = 16;

// The result of a get. The bytes belong to the transaction and are valid until it ends, or until the key is written.
struct Value {
  Code code = Code::kOk;  // kOk, or why the read failed (the transaction cannot commit then)
  bool found = false;
  std::string_view bytes;
  size_t length = 0;  // of the value; more than there are bytes if only its head was read
  // The version of the key, or of its absence: if two reads in one epoch have equal versions, nobody wrote the key in
  // between. After this transaction has written the key, still the version that it read.
  Version version{};
  Epoch epoch{};
  explicit operator bool() const { return code == Code::kOk && found; }
};

enum class Direction : uint8_t { kForward, kBackward };

// The result of a scan. Everything in it belongs to the transaction and is valid until that ends.
struct Scan {
  struct Item {
    std::string_view key;  // of an integer key its 8 bytes, as `integer` has them
    uint64_t integer = 0;  // of a table with integer keys
    std::string_view value;
    Version version{};  // as in Value; none of what only this transaction has written
  };
  Code code = Code::kOk;        // kOk, or why the scan failed (the transaction cannot commit then)
  std::span<const Item> items;  // in the order of the scan's direction
  bool limited = false;         // the limit ended it: there may be more behind the last item
  explicit operator bool() const { return code == Code::kOk; }
};

enum class OutcomeKind : uint8_t {
  kCommitted,
  kAborted,   // it did not take effect, and will not
  kRejected,  // nothing was started
  kUnknown,   // it may have taken effect
};

// The outcome of a transaction, queried by its id.
enum class TxnStatus : uint8_t {
  kCommitted,
  kAborted,     // it did not happen, and will not
  kUnknownTxn,  // no member has a trace of it: it never reached any, wrote nothing, or ended long ago
  kPending,  // no outcome within Limits::outcome_timeout_ms: it is undecided, the view is not active, or the node was
             // removed
};

struct Outcome {
  OutcomeKind kind = OutcomeKind::kCommitted;
  Code code = Code::kOk;
  TxnId id;
  // Why it aborted: on which key, and who held its lock.
  TableId table;
  uint32_t key_bytes = 0;    // the key's length; key_start has its first bytes
  bool integer_key = false;  // it is an integer of 8 bytes
  char key_start[32] = {};
  bool has_holder = false;
  NodeId holder_node;
  WorkerId holder_worker;
  // Why it was rejected: the limit's name, its value, and what was requested.
  const char* limit_name = nullptr;
  uint64_t limit = 0, asked = 0;
  uint64_t silent = 0;  // for kNoAnswer and kPeerLost, bit n: the transaction waited for node n

  bool committed() const { return kind == OutcomeKind::kCommitted; }
  std::string text() const;  // one line for a person
};

// Identifies one asynchronous get of a transaction.
struct ReadHandle {
  uint16_t index = 0;
};

// Identifies one asynchronous scan of a transaction.
struct ScanHandle {
  uint16_t index = 0;
};

class Txn {
 public:
  Txn(Txn&& other) noexcept;
  Txn& operator=(Txn&& other) noexcept;
  ~Txn();  // an unfinished transaction is aborted; one that is committing continues without its client

  // Starts a read. Reads started before a suspension are sent together.
  ReadHandle get_async(TableId table, Key key, Intent intent = Intent::kRead);
  bool is_ready(ReadHandle handle) const;  // this read and all started before it are done
  bool all_ready() const;
  Value value(ReadHandle handle) const;  // once done

  struct [[nodiscard]] WaitAwaiter {
    TxnSlot* slot;
    uint16_t upto;
    bool await_ready() const noexcept;
    void await_suspend(std::coroutine_handle<> h) const noexcept;
    void await_resume() const noexcept {}
  };
  WaitAwaiter wait(ReadHandle handle) const { return {slot_, handle.index}; }
  WaitAwaiter wait_all() const;

  struct [[nodiscard]] GetAwaiter {
    WaitAwaiter wait;
    ReadHandle handle;
    bool await_ready() const noexcept { return wait.await_ready(); }
    void await_suspend(std::coroutine_handle<> h) const noexcept { wait.await_suspend(h); }
    Value await_resume() const noexcept;
  };
  GetAwaiter get(TableId table, Key key, Intent intent = Intent::kRead) {
    const ReadHandle handle = get_async(table, key, intent);
    return {wait(handle), handle};
  }

  // Starts a scan of an ordered table (TableSpec::ordered): the keys from `from` on and below `to`, ascending or, from
  // the other end, descending, and at most `limit` of them. It sees what this transaction has written before it, and
  // not what it writes after it. commit() tells whether it held as every read does: nothing was inserted into the
  // range, changed or erased, up to where the limit ended it.
  //
  // All keys between the two must have one prefix (or {tag}), so that they are in one partition; else it is rejected
  // with kScanTwoPartitions. It brings at most Limits::txn_keys_max items, all scans of a transaction four times as
  // many, and counts as one key of the transaction. In rows that lock what they read, only transactions that write
  // nothing may scan (`weft protocols`, kNotInThisRow). The greatest integer key is in no scan.
  static constexpr uint32_t kNoLimit = UINT32_MAX;
  ScanHandle scan_async(TableId table, Key from, Key to, uint32_t limit = kNoLimit,
                        Direction direction = Direction::kForward);
  bool is_ready(ScanHandle handle) const;
  Scan scanned(ScanHandle handle) const;  // once ready; wait_all() does not wait for scans

  struct [[nodiscard]] ScanAwaiter {
    TxnSlot* slot;
    ScanHandle handle;
    bool await_ready() const noexcept;
    void await_suspend(std::coroutine_handle<> h) const noexcept;
    Scan await_resume() const noexcept;
  };
  ScanAwaiter wait(ScanHandle handle) const { return {slot_, handle}; }
  ScanAwaiter scan(TableId table, Key from, Key to, uint32_t limit = kNoLimit,
                   Direction direction = Direction::kForward) {
    return wait(scan_async(table, from, to, limit, direction));
  }

  // Writes, buffered until commit. Return kOk, or the limit that was exceeded; then commit() returns kRejected with the
  // reason.
  Code put(TableId table, Key key, std::string_view value);     // replaces or inserts
  Code insert(TableId table, Key key, std::string_view value);  // aborts with kExists if the key exists
  Code erase(TableId table, Key key);                           // aborts with kNotFound if it does not

  struct [[nodiscard]] CommitAwaiter {
    TxnSlot* slot;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept;
    Outcome await_resume() const noexcept;
  };
  CommitAwaiter commit();
  // Aborts. Returns `why`, or the reason why this transaction could not have committed anyway.
  Outcome abort(Code why = Code::kApplication);

  TxnId id() const;
  // No transaction was begun within the time that begin() may take: every call fails, and commit() says why.
  bool refused() const;
  // Chooses the protocol that it commits by, of those that the cluster runs (Options::protocol). Must be called before
  // the first get. kInvalidArgument if there is none of that name, or it is too late.
  Code set_protocol(std::string_view name);
  // The deadline for its outcome, by Session::now_ns; 0: each wait may take Limits::answer_ms.
  void set_until(uint64_t until_ns);

 private:
  friend class Session;
  friend class TxnWorker;
  explicit Txn(TxnSlot* slot) : slot_(slot) {}
  TxnSlot* slot_;
};

// How run() retries after an abort: it sleeps between backoff_us and twice that, doubled each time up to the maximum.
// After kConflictThreshold attempts it also sleeps a growing multiple of the attempt's duration, up to 4 ms:
// transactions that take longer than the sleep between them would otherwise conflict again and again.
// With Options::conflict_avoidance the worker decides how long to sleep after a conflict, up to the same 4 ms.
struct RetryPolicy {
  uint32_t attempts = 1000;
  uint32_t backoff_us = 0;  // 0: retry at once
  uint32_t backoff_us_max = 1000;
  static constexpr uint32_t kConflictThreshold = 8;
};

class ProcedureKeys;
class StepOutput;

// A stored procedure: a transaction that is declared in advance. Its arguments determine the keys, and `execute` is a
// pure function from the arguments and the values read to the writes and the reply: it may run again, at another node
// that was given the same procedures, or never. `keys` is pure too. Builds with sanitizers run both twice and
// compare; an executor that collects other keys than the caller refuses with kImpure in every build.
struct StoredProcedure {
  static constexpr int kKeysMax = 128;
  static constexpr int kRoundsMax = 8;  // how often one call may read

  // Collects the keys. What is added with Intent::kUpdate may be written, and what is not may not.
  class Keys {
   public:
    void add(TableId table, Key key, Intent intent = Intent::kRead);
    void will_write(TableId table, Key key);  // is written without being read; `execute` gets no value of it

   private:
    friend class ProcedureKeys;
    explicit Keys(ProcedureKeys& to) : to_(to) {}
    ProcedureKeys& to_;
  };

  // Collects what `execute` wants.
  class Writes {
   public:
    void put(TableId table, Key key, std::string_view value);
    void insert(TableId table, Key key, std::string_view value);
    void erase(TableId table, Key key);
    // Announces a key that is written without being read, where only what was read tells which.
    void will_write(TableId table, Key key);
    // What the caller gets back if it commits, at most reply_bytes_max; a second reply replaces the first.
    void reply(std::string_view bytes);
    // One more key is needed: what was written and replied is dropped, and `execute` runs again from its start, with
    // the values of all keys: those of `keys`, then those that were asked for in addition, each once.
    void read_more(TableId table, Key key, Intent intent = Intent::kRead);

   private:
    friend class StepOutput;
    explicit Writes(StepOutput& to) : to_(to) {}
    StepOutput& to_;
  };

  // Where `execute` may run: at any node that holds the keys, or only where the procedure was called (long ones).
  enum class RunsAt : uint8_t { kAnyNode, kCaller };

  // `keys` names what to read; `execute` gets the values in that order, of a key that was added twice both times, and
  // returns kOk to commit, else the transaction aborts with that code, whichever it is (by convention kApplication).
  using KeysFn = void (*)(std::string_view arguments, Keys& keys);
  using ExecuteFn = Code (*)(std::string_view arguments, std::span<const Value> values, Writes& writes);

  std::string name;
  KeysFn keys = nullptr;
  ExecuteFn execute = nullptr;
  RunsAt runs_at = RunsAt::kAnyNode;
  uint32_t reply_bytes_max = 0;
};

// One page of a scan over the keys of a partition.
struct KeyItem {
  static constexpr size_t kPrefixBytes = 16;
  std::string key;
  std::string value_prefix;  // the first bytes of its value
};
struct KeyPage {
  bool done = false;  // false: this node was removed, or
  bool late = false;  // no answer came in time
  std::vector<KeyItem> items;
  uint64_t next = 0;     // cursor of the next page; 0: this was the last
  uint64_t records = 0;  // in the partition
};
inline constexpr int kScanCursorSpare = 12;  // lowest bits of a cursor that are 0

using ProcedureId = Id<struct ProcedureTag, uint16_t>;

class Session {
 public:
  NodeId node() const;
  WorkerId worker() const;
  uint64_t now_ns() const;
  // The primary of the key's partition, in the view of this worker: a transaction that begins there reads the key
  // without the network.
  NodeId primary_of(TableId table, Key key) const;

  struct [[nodiscard]] BeginAwaiter {
    TxnWorker* txn_worker;
    uint64_t until_ns;  // deadline of the transaction
    uint64_t due_ns;    // deadline of this wait
    TxnSlot* slot;
    std::coroutine_handle<> waiter;
    BeginAwaiter* next;
    bool takes_credit = true;  // of Options::coroutine_credit
    bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> h) noexcept;
    Txn await_resume() noexcept;
  };
  // Waits until the worker can begin a transaction (Limits::transactions_in_flight_max, Options::coroutine_credit, an
  // active view), but no longer than Limits::answer_ms (Txn::refused). `until_ns` is the transaction's deadline, by
  // now_ns; 0: no wait of this transaction takes longer than Limits::answer_ms.
  BeginAwaiter begin(uint64_t until_ns = 0);
  // The same without waiting for Options::coroutine_credit, and without taking any: for a transaction that stays open
  // while somebody thinks, and for one that a coroutine begins while it holds another, whose credit it would wait for.
  BeginAwaiter begin_without_credit(uint64_t until_ns = 0);
  // The deadline for the answer to a request that is made now.
  uint64_t answer_by_ns() const;

  struct [[nodiscard]] SleepAwaiter {
    TxnWorker* txn_worker;
    uint64_t nanoseconds;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept;
    void await_resume() const noexcept {}
  };
  SleepAwaiter sleep_ns(uint64_t nanoseconds) { return {txn_worker_, nanoseconds}; }

  // Single-key transactions. get_one has no commit phase: it returns the current value, from the primary, or from this
  // node's backup if the protocol allows that (docs/protocols.md) and the record is readable; it retries while the key
  // is locked.
  struct GetResult {
    Outcome outcome;
    bool found = false;
    uint32_t bytes = 0;  // size of the value, copied to `out`
  };
  Task<GetResult> get_one(TableId table, Key key, std::span<char> out, RetryPolicy policy = {}, uint64_t until_ns = 0);
  Task<Outcome> put_one(TableId table, Key key, std::string_view value);
  Task<Outcome> insert_one(TableId table, Key key, std::string_view value);
  Task<Outcome> erase_one(TableId table, Key key);

  // Runs `body(Txn&) -> Task<Code>` in a transaction and commits it if the body returned kOk. Retries after a retryable
  // abort, by the policy, until `until_ns` (0: answer_by_ns). `body` is an lvalue that outlives the call (see task.h).
  template <class Body>
  Task<Outcome> run(RetryPolicy policy, Body& body, uint64_t until_ns = 0);
  template <class Body>
  Task<Outcome> run(RetryPolicy policy, Body&& body, uint64_t until_ns = 0) = delete;

  // Runs a stored procedure once, by the first row of Options::protocol: a conflict aborts it (code_retryable).
  // `reply`, if not nullptr, gets its reply if it commits, and `id` the transaction's id as soon as it has one: whoever
  // knows it can ask for the outcome if this node is lost. (A procedure that cannot be executed elsewhere gets another
  // id here.) These and `arguments` must outlive the task.
  Task<Outcome> call(ProcedureId procedure, std::string_view arguments, std::string* reply = nullptr,
                     TxnId* id = nullptr);
  // The same, but only at the primary of its keys, if that is one other node and the row ships procedures
  // (docs/protocols.md). Otherwise nothing has happened, and the outcome is rejected with kAskInstead. `waits`: while
  // another transaction holds a lock there, it waits a little before it is aborted.
  Task<Outcome> ship(ProcedureId procedure, std::string_view arguments, std::string* reply, uint64_t until_ns = 0,
                     bool waits = true);
  // The same in a transaction that was begun and has neither read nor written. If the outcome is rejected with
  // kAskInstead, it may be executed here; if it is aborted with that, it is over.
  Task<Outcome> ship(Txn& txn, ProcedureId procedure, std::string_view arguments, std::string* reply,
                     bool waits = true);
  bool ships() const;  // whether that row does

  // The outcome of a transaction that began at any node, alive or not: asks all members. Waits while the transaction is
  // undecided, or while a recovery is in progress that will decide it, so a coroutine must not ask for a transaction
  // that it holds itself. Outcomes are kept for a minute, or for as long as Limits::outcome_bytes has room
  // (docs/recovery.md).
  Task<TxnStatus> query_outcome(TxnId id);

  // Returns about keys_max keys of a partition (none for 0) from a cursor on (0: the first), from this node's replica
  // or by message. Not part of any transaction: a key that exists from the first page to the last is on at least one
  // page; some may be on several. Waits up to Limits::answer_ms for an active view and for an answer.
  Task<std::shared_ptr<KeyPage>> scan_keys(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max);

  // For run(): whether to retry after this attempt, which began at began_ns, and how long to sleep before. The
  // attempt's transaction has ended, so that nobody sleeps with locks held.
  bool should_retry(const Outcome& outcome, const RetryPolicy& policy, uint32_t attempt, uint64_t began_ns,
                    uint64_t* sleep_ns);

  explicit Session(TxnWorker* txn_worker) : txn_worker_(txn_worker) {}
  TxnWorker* txn_worker() const { return txn_worker_; }

 private:
  bool retry_by_policy(const Outcome& outcome, const RetryPolicy& policy, uint32_t attempt, uint64_t began_ns,
                       uint64_t* sleep_ns);
  Code run_step(TxnSlot& slot, const StoredProcedure& procedure, std::string_view arguments, ProcedureKeys& keys);

  TxnWorker* txn_worker_;
};

template <class Body>
Task<Outcome> Session::run(RetryPolicy policy, Body& body, uint64_t until_ns) {
  if (until_ns == 0) until_ns = answer_by_ns();
  Outcome outcome;
  for (uint32_t attempt = 1;; ++attempt) {
    const uint64_t began_ns = now_ns();
    {
      Txn txn = co_await begin(until_ns);
      if (attempt > 1 && txn.refused()) co_return outcome;  // the last attempt is why there is no time left to begin
      Task<Code> work = body(txn);
      const Code code = co_await work;
      if (code == Code::kOk) {
        outcome = co_await txn.commit();
      } else {
        outcome = txn.abort(code);
      }
    }
    uint64_t wait_ns = 0;
    const bool over = outcome.committed() || now_ns() >= until_ns;
    if (over || !should_retry(outcome, policy, attempt, began_ns, &wait_ns)) co_return outcome;
    if (wait_ns > 0) co_await sleep_ns(wait_ns);
  }
}

}  // namespace weft
