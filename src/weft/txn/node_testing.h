// For tests that step nodes by hand: a clock that only they advance, a network within the process, and a bare port in
// place of a node that misbehaves. Nothing runs but what the test steps, in its own thread.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weft/base/clock.h"
#include "weft/fabric/local.h"
#include "weft/fabric/message.h"
#include "weft/fabric/port.h"
#include "weft/fabric/region.h"
#include "weft/member/view.h"
#include "weft/run/detached_task.h"
#include "weft/txn/node.h"
#include "weft/txn/txn_worker.h"

namespace weft {

// Advances by `step` each time it is read, so that a wait for a point in time ends.
class HandClock final : public Clock {
 public:
  uint64_t now_ns() override { return now += step; }
  uint64_t now = 0;
  uint64_t step = 1000;
};

// The base of a fixture. A test sets what the nodes agree on in spec_, then calls make_network(), then starts nodes.
class HandNodes : public Environment {
 public:
  Clock* clock(NodeId) override { return &clock_; }
  CostModel* cost_model(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId node, WorkerId worker) override { return fabric_->wire(node, worker); }
  Regions* regions(NodeId node) override { return regions_[node.value].get(); }
  uint64_t seed(NodeId node, WorkerId) override { return node.value; }

 protected:
  static constexpr TableId kTable{0};

  // Three nodes with two replicas, and one small table of integer keys.
  static ClusterSpec three_nodes() {
    ClusterSpec spec;
    spec.options.nodes = 3;
    spec.options.replicas = 2;
    spec.tables.push_back({.name = "t", .value_bytes_max = 16, .capacity = 1000});
    return spec;
  }

  // Makes the first view and a network for it, according to spec_. Drops the previous ones; no node runs.
  void make_network() {
    const Options& options = spec_.options;
    enemy_.reset();
    nodes_.clear();
    nodes_.resize(static_cast<size_t>(options.nodes));
    first_ = 0;
    fabric_ = std::make_unique<LocalFabric>(LocalOptions{.nodes = options.nodes, .workers = options.workers});
    regions_.clear();
    for (size_t n = 0; n < nodes_.size(); ++n) {
      regions_.push_back(std::make_unique<Regions>());
      fabric_->set_regions(NodeId(static_cast<uint8_t>(n)), regions_[n].get());
    }
    view_ = make_view(options);
  }

  void start_node(NodeId id, const View& view, bool joins = false) {
    auto node = Node::create(id, spec_, view, this, joins);
    ASSERT_TRUE(node) << node.error().text();
    nodes_[id.value] = std::move(*node);
  }

  // Takes the place of node enemy_id_, which is not started.
  void start_enemy() {
    PortOptions port;
    port.self = enemy_id_;
    port.nodes = spec_.options.nodes;
    enemy_ = std::make_unique<Port>(port, fabric_->wire(enemy_id_, WorkerId(0)), nullptr);
    for (uint8_t kind = 0; kind < kKindsMax; ++kind) {
      enemy_->set_handler(
          kind, [](void* self, std::span<const Message> run) { static_cast<HandNodes*>(self)->enemy_hears(run); },
          this);
    }
  }
  virtual void enemy_hears(std::span<const Message>) {}

  // Sends a packet that no port makes.
  void send_garbage(NodeId to, Flow flow, WorkerId worker = WorkerId(0)) {
    const std::vector<std::byte> garbage(64, std::byte{0xa5});
    ASSERT_TRUE(fabric_->wire(enemy_id_, worker)->send(to, flow, garbage));
  }

  void step(size_t n) {
    for (int w = 0; w < nodes_[n]->workers(); ++w) nodes_[n]->worker(WorkerId(static_cast<uint8_t>(w)))->step();
  }
  // Each time steps all running nodes, in the order of their ids, and then the enemy.
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      for (size_t n = first_; n < nodes_.size(); ++n) {
        if (nodes_[n] != nullptr) step(n);
      }
      if (enemy_ == nullptr) continue;
      enemy_->flush();
      enemy_->poll();
    }
  }

  TxnWorker* txn_worker(size_t node, uint8_t worker = 0) { return nodes_[node]->txn_worker(WorkerId(worker)); }

  // The view after view_.
  std::shared_ptr<const View> view_without(NodeId gone) const {
    const Result<View> next = without_members(view_, NodeSet::of(gone));
    EXPECT_TRUE(next) << next.error().text();
    return std::make_shared<const View>(*next);
  }

  // The n-th key whose primary is that node.
  uint64_t key_at(NodeId primary, int n = 0) const {
    for (uint64_t key = 0;; ++key) {
      const ByteView bytes{reinterpret_cast<const std::byte*>(&key), sizeof key};
      const HashedKey hashed = nodes_[0]->table(kTable)->hashed(bytes);
      if (view_.placement(hashed.partition).primary() == primary && n-- == 0) return key;
    }
  }

  static DetachedTask put(Session session, uint64_t key, std::vector<Outcome>* outcomes) {
    Task<Outcome> task = session.put_one(kTable, key, "value");
    outcomes->push_back(co_await task);
  }

  ClusterSpec spec_;
  HandClock clock_;
  View view_;
  std::vector<std::unique_ptr<Regions>> regions_;
  std::unique_ptr<LocalFabric> fabric_;
  std::vector<std::unique_ptr<Node>> nodes_;  // nullptr where none was started
  size_t first_ = 0;                          // those before it have stopped forever
  NodeId enemy_id_{1};
  std::unique_ptr<Port> enemy_;
};

}  // namespace weft
