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
// Reads return what some moment's replicas held; commit() tells whether all of them held together. Until then nothing
// may be concluded from them. Writes are kept in the transaction until commit; a later get of the same key sees them.
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
  Key(std::string&& bytes) = delete;  // it would be gone before the key is used (and see task.h on temporaries)
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

enum class Intent : uint8_t { kRead, kUpdate };

// What a get found. The bytes belong to the transaction and stay until it ends, or until the key is written.
struct Value {
  Code code = Code::kOk;  // kOk, or why the read failed (the transaction cannot commit then)
  bool found = false;
  std::string_view bytes;
  // Of the key, or of its absence: two equal ones of one epoch mean that nobody wrote it in between. Once this
  // transaction has written the key, still of what it read.
  Version version{};
  Epoch epoch{};
  explicit operator bool() const { return code == Code::kOk && found; }
};

enum class OutcomeKind : uint8_t {
  kCommitted,
  kAborted,   // it did not happen, and will not
  kRejected,  // nothing was started
  kUnknown,   // it may have happened
};

// What became of a transaction, asked for by its id.
enum class TxnStatus : uint8_t {
  kCommitted,
  kAborted,     // it did not happen, and will not
  kUnknownTxn,  // nobody has a trace of it: it never reached anybody, wrote nothing, or ended long ago
  kPending,     // not within Limits::outcome_timeout_ms: it is open, the view not active, or the node removed
};

struct Outcome {
  OutcomeKind kind = OutcomeKind::kCommitted;
  Code code = Code::kOk;
  TxnId id;
  // Why it aborted: on which key, and who held it.
  TableId table;
  uint16_t key_bytes = 0;  // the key's length; key_start has its first bytes
  char key_start[32] = {};
  bool has_holder = false;
  NodeId holder_node;
  WorkerId holder_worker;
  // Why it was rejected: which limit, what it is, and what was asked for.
  const char* limit_name = nullptr;
  uint64_t limit = 0, asked = 0;
  uint64_t silent = 0;  // of kNoAnswer and kPeerLost, bit n: node n was waited for

  bool committed() const { return kind == OutcomeKind::kCommitted; }
  std::string text() const;  // one line for a person
};

// Names one asynchronous get of a transaction.
struct ReadHandle {
  uint16_t index = 0;
};

class Txn {
 public:
  Txn(Txn&& other) noexcept;
  Txn& operator=(Txn&& other) noexcept;
  ~Txn();  // an unfinished transaction is aborted; one in commit goes on without us

  // Starts a read. Reads started before a suspension travel together.
  ReadHandle get_async(TableId table, Key key, Intent intent = Intent::kRead);
  bool is_ready(ReadHandle ticket) const;  // this read and all started before it are done
  bool all_ready() const;
  Value value(ReadHandle ticket) const;  // once done

  struct [[nodiscard]] WaitAwaiter {
    TxnSlot* slot;
    uint16_t upto;
    bool await_ready() const noexcept;
    void await_suspend(std::coroutine_handle<> h) const noexcept;
    void await_resume() const noexcept {}
  };
  WaitAwaiter wait(ReadHandle ticket) const { return {slot_, ticket.index}; }
  WaitAwaiter wait_all() const;

  struct [[nodiscard]] GetAwaiter {
    WaitAwaiter wait;
    ReadHandle ticket;
    bool await_ready() const noexcept { return wait.await_ready(); }
    void await_suspend(std::coroutine_handle<> h) const noexcept { wait.await_suspend(h); }
    Value await_resume() const noexcept;
  };
  GetAwaiter get(TableId table, Key key, Intent intent = Intent::kRead) {
    const ReadHandle ticket = get_async(table, key, intent);
    return {wait(ticket), ticket};
  }

  // Writes, kept until commit. kOk, or the limit that was exceeded; then commit() answers kRejected with the reason.
  Code put(TableId table, Key key, std::string_view value);     // replaces or inserts
  Code insert(TableId table, Key key, std::string_view value);  // aborts with kExists if the key is there
  Code erase(TableId table, Key key);                           // aborts with kNotFound if it is not

  struct [[nodiscard]] CommitAwaiter {
    TxnSlot* slot;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept;
    Outcome await_resume() const noexcept;
  };
  CommitAwaiter commit();
  // Gives up. What it returns is `why`, or the reason why this transaction could not have committed anyway.
  Outcome abort(Code why = Code::kApplication);

  TxnId id() const;
  // None was begun, within the time that begin() may take: every call fails, and commit() says why.
  bool refused() const;
  // The protocol that it commits by, of those that the cluster runs (Options::protocol): before the first get. kMisuse
  // if there is none of that name, or it is too late.
  Code set_protocol(std::string_view name);
  // When it has to have its outcome, by Session::now_ns; 0: each wait may take Limits::answer_ms.
  void set_until(uint64_t until_ns);

 private:
  friend class Session;
  friend class TxnWorker;
  explicit Txn(TxnSlot* slot) : slot_(slot) {}
  TxnSlot* slot_;
};

// How run() tries again after an abort: sleep between backoff_us and twice that, doubled each time up to the maximum.
// After kConflictThreshold attempts it also sleeps a growing multiple of what the attempt took, up to 4 ms:
// transactions that take longer than the sleep between them would otherwise meet again and again.
struct RetryPolicy {
  uint32_t attempts = 1000;
  uint32_t backoff_us = 0;  // 0: at once
  uint32_t backoff_us_max = 1000;
  static constexpr uint32_t kConflictThreshold = 8;
};

// A stored procedure: a transaction that is declared in advance. The keys follow from the arguments, and `execute` is a
// pure function from what was read to what is written, so that it may run at another node or on a device.
struct StoredProcedure {
  static constexpr int kKeysMax = 32;

  // Collects the keys to read.
  class Keys {
   public:
    void add(TableId table, Key key, Intent intent = Intent::kRead);

   private:
    friend class Session;
    explicit Keys(Txn& txn) : txn_(txn) {}
    Txn& txn_;
    int count_ = 0;  // may pass kKeysMax: then the transaction is rejected
    ReadHandle tickets_[kKeysMax];
  };

  // Collects the writes.
  class Writes {
   public:
    void put(TableId table, Key key, std::string_view value) { txn_.put(table, key, value); }
    void insert(TableId table, Key key, std::string_view value) { txn_.insert(table, key, value); }
    void erase(TableId table, Key key) { txn_.erase(table, key); }

   private:
    friend class Session;
    explicit Writes(Txn& txn) : txn_(txn) {}
    Txn& txn_;
  };

  // `keys` names what to read; `execute` gets the values in that order and returns kOk to commit, else the transaction
  // aborts with that code (kApplication by custom).
  using KeysFn = void (*)(std::string_view arguments, Keys& keys);
  using ExecuteFn = Code (*)(std::string_view arguments, std::span<const Value> values, Writes& writes);

  std::string name;
  KeysFn keys = nullptr;
  ExecuteFn execute = nullptr;
};

// One page of a walk over the keys of a partition.
struct KeyItem {
  static constexpr size_t kPrefixBytes = 16;
  std::string key;
  std::string value_prefix;  // the first bytes of its value
};
struct KeyPage {
  bool done = false;  // else this node was removed, or
  bool late = false;  // no answer came in time
  std::vector<KeyItem> items;
  uint64_t next = 0;     // where to go on; 0: that was all
  uint64_t records = 0;  // of the partition
};
inline constexpr int kScanCursorSpare = 12;  // lowest bits of a cursor that are 0

using ProcedureId = Id<struct ProcedureTag, uint16_t>;

class Session {
 public:
  NodeId node() const;
  WorkerId worker() const;
  uint64_t now_ns() const;
  // Of the key's partition, in the view of this worker: a transaction that begins there finds it without the network.
  NodeId primary_of(TableId table, Key key) const;

  struct [[nodiscard]] BeginAwaiter {
    TxnWorker* txn_worker;
    uint64_t until_ns;  // of the transaction
    uint64_t due_ns;    // of this wait
    TxnSlot* slot;
    std::coroutine_handle<> waiter;
    BeginAwaiter* next;
    bool await_ready() noexcept;
    void await_suspend(std::coroutine_handle<> h) noexcept;
    Txn await_resume() noexcept;
  };
  // Waits until the worker has a transaction to give (Limits::transactions_in_flight_max, an active view), but not for
  // longer than Limits::answer_ms (Txn::refused). `until_ns`, by now_ns: it is over then, whatever it waits for; 0: no
  // wait of this transaction takes longer than Limits::answer_ms.
  BeginAwaiter begin(uint64_t until_ns = 0);
  // When something that is asked for now has to have an answer.
  uint64_t answer_by_ns() const;

  struct [[nodiscard]] SleepAwaiter {
    TxnWorker* txn_worker;
    uint64_t nanoseconds;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept;
    void await_resume() const noexcept {}
  };
  SleepAwaiter sleep_ns(uint64_t nanoseconds) { return {txn_worker_, nanoseconds}; }

  // Single-key transactions. get_one has no commit phase: it answers the current value, from the primary, or at a
  // backup of this node if the protocol allows that (docs/protocols.md) and the copy is readable; while the key is
  // locked it tries again.
  struct GetResult {
    Outcome outcome;
    bool found = false;
    uint32_t bytes = 0;  // of the value, copied to `out`
  };
  Task<GetResult> get_one(TableId table, Key key, std::span<char> out, RetryPolicy policy = {}, uint64_t until_ns = 0);
  Task<Outcome> put_one(TableId table, Key key, std::string_view value);
  Task<Outcome> insert_one(TableId table, Key key, std::string_view value);
  Task<Outcome> erase_one(TableId table, Key key);

  // Runs `body(Txn&) -> Task<Code>` in a transaction and commits it if the body returned kOk; tries again after an
  // abort that trying again can help, by the policy, and until `until_ns` (0: answer_by_ns). `body` is an lvalue that
  // outlives the call (see task.h).
  template <class Body>
  Task<Outcome> run(RetryPolicy policy, Body& body, uint64_t until_ns = 0);
  template <class Body>
  Task<Outcome> run(RetryPolicy policy, Body&& body, uint64_t until_ns = 0) = delete;

  // Runs a declared transaction once.
  Task<Outcome> call(ProcedureId procedure, std::string_view arguments);

  // What became of a transaction that began at any node, whether that lives or not: asks all members. Waits while it is
  // still open, or a recovery is under way that will decide it, so a coroutine does not ask for a transaction that it
  // holds itself. Outcomes are kept for a minute, or for as long as Limits::outcome_bytes has room (docs/recovery.md).
  Task<TxnStatus> query_outcome(TxnId id);

  // Keys of a partition from a cursor on (0: the first), about so many, none for 0; from a replica of this node, or by
  // message. Outside any transaction: a key that is there from the first page to the last is in one of them, some may
  // be in several. It waits while there is no active view, and for an answer, for Limits::answer_ms.
  Task<std::shared_ptr<KeyPage>> scan_keys(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max);

  // For run(): whether to try again after attempt n, which began then, and how long to sleep before.
  bool should_retry(const Outcome& outcome, const RetryPolicy& policy, uint32_t attempt, uint64_t began_ns,
                    uint64_t* sleep_ns);

  explicit Session(TxnWorker* txn_worker) : txn_worker_(txn_worker) {}
  TxnWorker* txn_worker() const { return txn_worker_; }

 private:
  TxnWorker* txn_worker_;
};

template <class Body>
Task<Outcome> Session::run(RetryPolicy policy, Body& body, uint64_t until_ns) {
  if (until_ns == 0) until_ns = answer_by_ns();
  for (uint32_t attempt = 1;; ++attempt) {
    const uint64_t began_ns = now_ns();
    Outcome outcome;
    {
      Txn txn = co_await begin(until_ns);
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
