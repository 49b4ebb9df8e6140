// SteppedCluster: all nodes of a cluster in the test's own thread, stepped in turn by a clock that advances with every
// read of it. Each call of a test runs to its end, in the same order every time; nothing waits, and nothing is starved.
// Its interface is that of the embedded cluster (weft/cluster.h), which has threads of its own and its own tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/event_log.h"
#include "weft/fabric/local.h"
#include "weft/fabric/region.h"
#include "weft/run/detached_task.h"
#include "weft/txn/node.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/replicas.h"
#include "weft/txn/txn_testing.h"
#include "weft/txn/txn_worker.h"

namespace weft {

class SteppedCluster final : public Environment {
 public:
  using Body = std::function<Task<void>(Session&)>;
  class Handle {
   public:
    bool done() const { return *done_; }

   private:
    friend class SteppedCluster;
    std::shared_ptr<bool> done_ = std::make_shared<bool>(false);
  };
  struct Place {  // a key's replicas
    NodeId primary;
    NodeSet in_sync;
  };

  explicit SteppedCluster(const Options& options, const std::vector<TableSpec>& tables = {{.name = "t"}},
                          const std::vector<StoredProcedure>& procedures = {}, PlantedBugs bugs = {}) {
    spec_.options = options;
    spec_.bugs = bugs;
    spec_.options.limits.answer_ms = 600'000;
    spec_.tables = tables;
    spec_.procedures = procedures;
    fabric_ = std::make_unique<LocalFabric>(LocalOptions{.nodes = options.nodes, .workers = options.workers});
    for (int n = 0; n < options.nodes; ++n) {
      regions_.push_back(std::make_unique<Regions>());
      fabric_->set_regions(NodeId(static_cast<uint8_t>(n)), regions_.back().get());
    }
    const View view = make_view(spec_.options);
    for (int n = 0; n < options.nodes; ++n) {
      auto node = Node::create(NodeId(static_cast<uint8_t>(n)), spec_, view, this);
      if (!node) ADD_FAILURE() << node.error().text();
      nodes_.push_back(std::move(*node));
    }
  }
  ~SteppedCluster() override {
    if (!settle()) ADD_FAILURE() << "the workers do not come to rest";
    EXPECT_EQ(audit(), "");
  }
  SteppedCluster(const SteppedCluster&) = delete;
  SteppedCluster& operator=(const SteppedCluster&) = delete;
  SteppedCluster* operator->() { return this; }

  // Like those of the embedded cluster: here nothing runs except during a call.
  SteppedCluster& start() { return *this; }
  void stop() { EXPECT_TRUE(settle()); }

  SteppedCluster& load(uint64_t keys, std::string_view value, TableId table = TableId(0)) {
    for (uint64_t k = 0; k < keys; ++k) {
      const auto loaded = load(table, k, value);
      if (!loaded) ADD_FAILURE() << loaded.error().text();
    }
    return *this;
  }
  Result<void> load(TableId table, Key key, std::string_view value) {
    const ByteView bytes = as_bytes({key.data(), key.size()});
    const Placement& placement = nodes_[0]->first_view().placement(nodes_[0]->table(table)->hashed(bytes).partition);
    for (int r = 0; r < placement.count; ++r) {
      auto loaded = nodes_[placement.replicas[static_cast<size_t>(r)].value]->load(table, bytes, as_bytes(value));
      if (!loaded) return loaded;
    }
    return {};
  }

  // Begins a coroutine on a worker, and runs all of them until it is done.
  Handle spawn(NodeId node, WorkerId worker, Body body) {
    Handle handle;
    bodies_.push_back(std::make_unique<Body>(std::move(body)));
    drive(Session(nodes_[node.value]->txn_worker(worker)), bodies_.back().get(), handle.done_);
    return handle;
  }
  bool wait(const Handle& handle) {
    for (int i = 0; i < kStepsMax && !handle.done(); ++i) step();
    if (!handle.done()) ADD_FAILURE() << "a coroutine does not end";
    return handle.done();
  }
  bool on(NodeId node, const Body& body) { return wait(spawn(node, WorkerId(0), body)); }
  bool on(int node, const Body& body) { return on(NodeId(static_cast<uint8_t>(node)), body); }

  template <class B>
  Outcome run(NodeId node, RetryPolicy policy, B& body) {
    return outcome_of(node, [&](Session& session) { return session.run(policy, body); });
  }
  Outcome put_one(NodeId node, TableId table, Key key, std::string_view value) {
    return outcome_of(node, [&](Session& session) { return session.put_one(table, key, value); });
  }
  Outcome insert_one(NodeId node, TableId table, Key key, std::string_view value) {
    return outcome_of(node, [&](Session& session) { return session.insert_one(table, key, value); });
  }
  Outcome erase_one(NodeId node, TableId table, Key key) {
    return outcome_of(node, [&](Session& session) { return session.erase_one(table, key); });
  }
  struct OneValue {
    Outcome outcome;
    bool found = false;
    std::string value;
  };
  OneValue get_one(NodeId node, TableId table, Key key) {
    OneValue out;
    out.value.resize(table.value < spec_.tables.size() ? spec_.tables[table.value].value_bytes_max : 0);
    on(node, [&](Session& session) -> Task<void> {
      Task<Session::GetResult> task = session.get_one(table, key, {out.value.data(), out.value.size()});
      const Session::GetResult one = co_await task;
      out.outcome = one.outcome;
      out.found = one.found;
      out.value.resize(one.bytes);
    });
    return out;
  }
  TxnStatus query_outcome(NodeId node, TxnId id) {
    TxnStatus status = TxnStatus::kUnknownTxn;
    on(node, [&](Session& session) -> Task<void> {
      Task<TxnStatus> task = session.query_outcome(id);
      status = co_await task;
    });
    return status;
  }

  using Visit =
      std::function<void(NodeId node, bool primary, std::string_view key, std::string_view value, uint64_t version)>;
  void visit(TableId table, const Visit& visit) const {
    for (const auto& node : nodes_) {
      struct Context {
        const Node& node;
        const Visit& visit;
        TableId table;
      } context{*node, visit, table};
      node->table(table)->visit(
          [](void* p, ByteView key, ByteView value, Word word) {
            const auto* c = static_cast<const Context*>(p);
            const HashedKey hashed = c->node.table(c->table)->hashed(key);
            const bool primary = c->node.first_view().placement(hashed.partition).primary() == c->node.id();
            c->visit(c->node.id(), primary, as_text(key), as_text(value), word.version().value);
          },
          &context);
    }
  }
  std::map<uint64_t, Place> places(TableId table = TableId(0)) const {
    std::map<uint64_t, Place> out;
    visit(table, [&](NodeId node, bool primary, std::string_view key, std::string_view, uint64_t) {
      Place& place = out[integer(key)];
      place.in_sync.add(node);
      if (primary) place.primary = node;
    });
    return out;
  }
  std::map<std::string, std::string> contents(TableId table = TableId(0)) const {
    std::map<std::string, std::string> out;
    visit(table, [&](NodeId, bool primary, std::string_view key, std::string_view value, uint64_t) {
      if (primary) out.emplace(key, value);
    });
    return out;
  }
  std::string audit() const {
    std::vector<Node*> all;
    for (const auto& node : nodes_) all.push_back(node.get());
    return audit_replicas(all, all.front()->first_view());
  }
  Counters counters() const {
    Counters all;
    for (const auto& node : nodes_) {
      for (int w = 0; w < node->workers(); ++w)
        all.add(node->txn_worker(WorkerId(static_cast<uint8_t>(w)))->counters());
    }
    return all;
  }
  TableUse table_use(TableId table) const {
    TableUse use;
    for (const auto& node : nodes_) {
      use.records += node->table(table)->records();
      use.memory_bytes += node->table(table)->memory_bytes();
    }
    return use;
  }
  const Options& options() const { return spec_.options; }
  Node* node(NodeId id) { return nodes_[id.value].get(); }

  // Runs until all workers are idle: notices have left, records are truncated.
  bool settle() {
    for (int i = 0; i < kStepsMax; ++i) {
      bool idle = true;
      for (const auto& node : nodes_) {
        for (int w = 0; w < node->workers(); ++w) idle &= node->txn_worker(WorkerId(static_cast<uint8_t>(w)))->idle();
      }
      if (idle) return true;
      step();
    }
    return false;
  }

  Clock* clock(NodeId) override { return &clock_; }
  CostModel* cost_model(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId node, WorkerId worker) override { return fabric_->wire(node, worker); }
  Regions* regions(NodeId node) override { return regions_[node.value].get(); }
  uint64_t seed(NodeId node, WorkerId worker) override { return uint64_t{node.value} << 8 | worker.value; }
  EventLog* events() override { return &events_; }

 private:
  static constexpr int kStepsMax = 2'000'000;

  static DetachedTask drive(Session session, const Body* body, std::shared_ptr<bool> done) {
    Task<void> task = (*body)(session);
    co_await task;
    *done = true;
  }
  template <class F>
  Outcome outcome_of(NodeId node, F f) {
    Outcome outcome;
    on(node, [&](Session& session) -> Task<void> {
      Task<Outcome> task = f(session);
      outcome = co_await task;
    });
    return outcome;
  }
  void step() {
    for (const auto& node : nodes_) {
      for (int w = 0; w < node->workers(); ++w) node->worker(WorkerId(static_cast<uint8_t>(w)))->step();
    }
  }

  ClusterSpec spec_;
  HandClock clock_;
  EventLog events_{-1, EventLog::Form::kJson, &clock_};
  std::vector<std::unique_ptr<Regions>> regions_;
  std::unique_ptr<LocalFabric> fabric_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Body>> bodies_;  // coroutines point into them
};

}  // namespace weft
