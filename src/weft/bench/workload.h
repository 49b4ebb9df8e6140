// Workload: what a benchmark runs: its tables and their initial contents, its transactions, and the check whether the
// tables are right afterwards. It uses sessions and transactions but no cluster, so that the driver (driver.h) can run
// it in real time and a simulation in virtual time.
//
// A transaction is drawn first (plain data) and then attempted; the same one is retried after every retryable abort.
// "No" (no such row, no money) is an answer too: such a transaction commits its reads, so that the answer is valid, and
// sets `refused`.
//
// Table and procedure ids follow the order of tables() and procedures(): stored procedures are plain functions and know
// their tables by constants.
//
// draw, attempt and check may be called by any thread at any time after load; attempt runs on its session's worker.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/random.h"
#include "weft/cluster.h"
#include "weft/options.h"
#include "weft/status.h"
#include "weft/txn.h"

namespace weft::bench {

inline constexpr size_t kKindsOfTxnMax = 8;

struct TxnKind {
  std::string_view name;
  uint32_t percent;  // of the mix
};

// One transaction to run: its kind and what was drawn for it. Also the argument bytes of a stored procedure.
struct Call {
  uint64_t kind = 0;
  std::array<uint64_t, 4> a{};
};

// The effect of one attempt, if it had an outcome.
struct Effect {
  bool refused = false;  // the answer is "no"
  int64_t net = 0;       // added up over the committed transactions, for the workload's check
  std::string wrong;     // if it committed: what it saw that cannot be
};

// Sums over all clients and the whole run, including the warm-up. check() compares the tables with them.
struct Tally {
  std::array<uint64_t, kKindsOfTxnMax> committed{};  // including those that answered "no"
  std::array<uint64_t, kKindsOfTxnMax> refused{};
  int64_t net = 0;
  uint64_t failed = 0;  // ended without a commit and without an answer
  std::string wrong;    // the first Effect::wrong
  uint64_t audits = 0;  // that were committed
  void add(const Tally& other);
};

class Workload {
 public:
  using Put = std::function<Result<void>(TableId table, Key key, std::string_view value)>;
  // Visits every record of a table at every replica, as Cluster::visit.
  using VisitTable = std::function<void(TableId table, const Cluster::Visit& visit)>;

  virtual ~Workload() = default;

  virtual std::string name() const = 0;
  virtual std::span<const TxnKind> kinds() const = 0;
  virtual std::vector<TableSpec> tables() const = 0;
  // Of workloads whose tables grow: gives them room for so many transactions, and never less than they have by default.
  // Before tables(); false if they do not grow.
  virtual bool make_room(uint64_t) { return false; }
  virtual std::vector<StoredProcedure> procedures() const { return {}; }
  virtual Result<void> load(const Put& put, Random& random) = 0;

  virtual Call draw(Random& random) const = 0;
  // `session`, `call` and `effect` must live until the task is done.
  virtual Task<Outcome> attempt(Session& session, const Call& call, Effect& effect) const = 0;

  // A check while transactions run: reads only, and says in Effect::wrong what cannot be if it committed. One client of
  // the whole cluster does nothing else.
  virtual bool audits() const { return false; }
  virtual Task<Outcome> audit(Session& session, uint64_t seed, Effect& effect) const;

  // Returns what is wrong with the tables after the transactions in `tally`, or nothing. Called while nothing runs.
  virtual std::string check(const VisitTable& visit_table, const Tally& tally) const = 0;
};

enum class Skew : uint8_t { kHot, kNone };  // of SmallBank and Retwis

// Of a line of TPC-C's new-order, drawn uniformly: from every warehouse but the customer's, or from all; or one of a
// hundred from another than the customer's.
enum class Suppliers : uint8_t { kOthers, kAll, kRarelyOthers };

struct WorkloadOptions {
  uint64_t keys = 0;  // accounts, subscribers, warehouses, customers or records in the whole cluster
  Skew skew = Skew::kHot;
  uint64_t value_bytes = 0;  // of SmallBank's balances; 0: its default
  Suppliers suppliers = Suppliers::kOthers;
  double zipf = 0;  // of micro-G-P's keys; 0: uniform
};

// "smallbank", "tatp", "tpcc", "tpcc-no", "tpce-cp", "retwis" or "micro-G-P". kBadOption names what was given and what
// there is.
Result<std::unique_ptr<Workload>> make_workload(std::string_view name, const WorkloadOptions& options);
// Keys per node if the user gives no number. The workload must exist.
uint64_t default_keys(std::string_view name);
std::string workload_names();  // for messages: "smallbank, tatp, ... and micro-G-P (...)"

// The index in `kinds` that a number from [0, 100) falls on.
size_t pick_kind(std::span<const TxnKind> kinds, uint64_t percent);

}  // namespace weft::bench
