// Shared by the tests of the embedded cluster: a cluster that is stopped and audited at the end of every test, and
// waits that time out instead of hanging for ever.
//
// Coroutines here are lambdas passed to TestCluster::on(); they live in the cluster until they end, so they may
// capture what outlives the test's call. Use only EXPECT, never ASSERT, inside of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/cluster.h"
#include "weft/fabric/nodes.h"
#include "weft/txn/txn_testing.h"

namespace weft {

class TestCluster {
 public:
  using Body = std::function<Task<void>(Session&)>;

  // Where a key's replicas are.
  struct Place {
    NodeId primary;
    NodeSet in_sync;
  };

  // A busy machine makes a test slow, but does not make it fail: no wait times out early (txn/answer_timeout_test.cc
  // has its own clock).
  explicit TestCluster(Options options, const std::vector<TableSpec>& tables = {{.name = "t"}}) {
    options.limits.answer_ms = 600'000;
    auto opened = Cluster::open(options);
    if (!opened) {
      ADD_FAILURE() << opened.error().text();
      std::abort();
    }
    cluster_ = std::move(*opened);
    for (const TableSpec& spec : tables) {
      auto table = cluster_->create_table(spec);
      if (!table) ADD_FAILURE() << table.error().text();
    }
  }

  ~TestCluster() {
    if (stuck_) {
      // Its destructor would wait for what hangs. It stays reachable, with its threads, until the process ends.
      static auto* abandoned = new std::vector<std::unique_ptr<Cluster>>;
      abandoned->push_back(std::move(cluster_));
      return;
    }
    cluster_->stop();
    EXPECT_EQ(cluster_->audit(), "");
  }
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;

  Cluster* operator->() const { return cluster_.get(); }

  TestCluster& start() {
    const auto started = cluster_->start();
    if (!started) ADD_FAILURE() << started.error().text();
    return *this;
  }

  TestCluster& load(uint64_t keys, std::string_view value, TableId table = TableId(0)) {
    for (uint64_t k = 0; k < keys; ++k) {
      const auto loaded = cluster_->load(table, k, value);
      if (!loaded) ADD_FAILURE() << loaded.error().text();
    }
    return *this;
  }

  // False, and the test fails, if the coroutine does not end within two minutes.
  bool wait(const Cluster::Handle& handle) {
    for (int i = 0; i < 120'000 && !handle.done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (handle.done()) return true;
    stuck_ = true;
    ADD_FAILURE() << "a coroutine does not end";
    return false;
  }
  bool on(NodeId node, const Body& body) { return wait(cluster_->spawn(node, WorkerId(0), body)); }
  bool on(int node, const Body& body) { return on(NodeId(static_cast<uint8_t>(node)), body); }

  // Where the existing keys have their replicas. Only while nothing runs.
  std::map<uint64_t, Place> places(TableId table = TableId(0)) const {
    std::map<uint64_t, Place> out;
    cluster_->visit(table, [&](NodeId node, bool primary, std::string_view key, std::string_view, uint64_t) {
      Place& place = out[integer(key)];
      place.in_sync.add(node);
      if (primary) place.primary = node;
    });
    return out;
  }

  // The primaries' copies. Only while nothing runs.
  std::map<std::string, std::string> contents(TableId table = TableId(0)) const {
    std::map<std::string, std::string> out;
    cluster_->visit(table, [&](NodeId, bool primary, std::string_view key, std::string_view value, uint64_t) {
      if (primary) out.emplace(key, value);
    });
    return out;
  }

 private:
  std::unique_ptr<Cluster> cluster_;
  bool stuck_ = false;
};

}  // namespace weft
