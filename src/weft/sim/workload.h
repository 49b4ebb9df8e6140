// Workloads of a simulation: coroutines over Session and Txn, as an application would write them. They record what they
// saw and check what must hold.
//
// A workload's coroutines run inside the simulation's events, one at a time. A Client outlives its coroutine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/sim/config.h"
#include "weft/sim/events.h"
#include "weft/sim/history.h"
#include "weft/txn.h"
#include "weft/txn/node.h"

namespace weft::sim {

// One application coroutine.
struct Client {
  uint64_t id = 0;
  NodeId node;
  WorkerId worker;
  Random random{0};
  const char* doing = "waiting for its worker";
  uint64_t since_ns = 0;
  bool done = false;
  int visit = 0;  // it runs this many transactions; 0: as many as all others
};

// What a workload knows of the run.
class WorkloadContext {
 public:
  WorkloadContext(const WorkloadConfig& workload, const Events* events, HistorySink* sink)
      : config(workload), events_(events), sink_(sink) {}

  const WorkloadConfig config;
  uint64_t committed = 0, aborted = 0, rejected = 0, unknown = 0, dropped = 0;
  std::vector<std::string> violations;
  std::function<bool()> wants_more;  // called only in a run that must reach a number of transactions
  bool crashing = false;  // a process is ending: its clients' transactions in progress are recorded as unknown

  // Whether a client that has run `done` transactions runs another.
  bool another(const Client& client, int done) const {
    if (client.visit != 0) return done < client.visit;
    return config.until_enough ? wants_more() : done < config.txns;
  }
  uint64_t transactions() const { return committed + aborted + rejected + unknown + dropped; }
  // Strictly increasing (history.h).
  uint64_t stamp() { return last_ = std::max(last_ + 1, events_->now_ns()); }
  HistorySink* sink() const { return sink_; }  // nullptr: nothing is recorded
  void violation(std::string text) {
    if (violations.size() < kViolationsMax) violations.push_back(std::move(text));
  }
  void doing(Client* client, const char* what) const {
    client->doing = what;
    client->since_ns = events_->now_ns();
  }
  SimOutcome count(const Outcome& outcome);

  // Chooses one of n keys by the configuration's skew.
  uint64_t choose(Random& random, uint64_t n) const {
    const bool hot = random.chance(config.hot_percent);
    return random.below(hot ? std::max<uint64_t>(n / 10, 1) : n);
  }
  // How long an application waits before its next operation; usually 0.
  uint64_t think_ns(Random& random) const {
    return random.chance(config.think_percent) ? random.between(1, config.think_ns) : 0;
  }

 private:
  static constexpr size_t kViolationsMax = 20;
  const Events* const events_;
  HistorySink* const sink_;
  uint64_t last_ = 0;
};

class Workload {
 public:
  explicit Workload(WorkloadContext* context) : context_(context) {}
  virtual ~Workload() = default;

  // Adds tables and stored procedures.
  virtual void declare(ClusterSpec& spec) = 0;
  // Fills the tables before the start.
  virtual void load(const std::vector<std::unique_ptr<Node>>&) {}
  virtual Task<void> run(Client* client, Session session) = 0;
  // Runs as one client per node when all other clients are done: reads everything and checks what must hold at the end.
  virtual Task<void> finish(Client* client, Session session) = 0;
  // Called after that, when nothing runs any more: may look at all replicas.
  virtual void check(const std::vector<Node*>&, const View&) {}
  // Called when nothing runs any more, also if the run did not complete.
  virtual void end() {}

 protected:
  WorkloadContext* const context_;
};

std::unique_ptr<Workload> make_append(WorkloadContext* context);
std::unique_ptr<Workload> make_token(WorkloadContext* context);
std::unique_ptr<Workload> make_smallbank(WorkloadContext* context);
std::unique_ptr<Workload> make_tatp(WorkloadContext* context);
std::unique_ptr<Workload> make_workload(WorkloadContext* context);

// Stores a record at every replica of its partition.
void load_everywhere(const std::vector<std::unique_ptr<Node>>& nodes, TableId table, Key key, std::string_view value);

// A value that is one integer.
inline std::string integer_value(uint64_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }
inline uint64_t integer_of(const Value& value) {
  uint64_t integer = 0;
  std::memcpy(&integer, value.bytes.data(), std::min(sizeof integer, value.bytes.size()));
  return integer;
}

// How a workload retries what must succeed in the end.
inline constexpr RetryPolicy kInsist{.attempts = 10'000, .backoff_us = 2, .backoff_us_max = 200};

}  // namespace weft::sim
