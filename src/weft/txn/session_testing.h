// For tests of what an application's coroutines see: three nodes with two replicas and two workers each, stepped by
// hand. A test begins coroutines on a worker, and steps the nodes that shall answer.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <utility>

#include "weft/run/owned_task.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/txn_testing.h"

namespace weft {

class SessionTest : public testing::Test, public HandNodes {
 protected:
  SessionTest() {
    spec_ = three_nodes();
    spec_.options.workers = 2;
    spec_.options.limits.transactions_in_flight_max = 2;
    spec_.recovers = true;
  }
  void SetUp() override { start(); }
  // All anew, as spec_ says.
  void start() {
    work_.clear();
    sessions_.clear();
    make_network();
    for (uint8_t n = 0; n < 3; ++n) ASSERT_NO_FATAL_FAILURE(start_node(NodeId(n), view_));
    steps(1);  // they know what time it is
  }
  // A session outlives what it runs.
  Session& session(size_t node = 0, uint8_t worker = 0) {
    sessions_.emplace_back(txn_worker(node, worker));
    return sessions_.back();
  }
  void go(Task<void> task) {
    work_.push_back(OwnedTask::of(std::move(task)));
    work_.back().start();
  }
  template <class T>
  static Task<void> keep(Task<T> task, std::optional<T>* out) {
    *out = co_await task;
  }
  void steps_of(std::initializer_list<size_t> nodes, int count) {
    for (int i = 0; i < count; ++i) {
      for (const size_t n : nodes) step(n);
    }
  }
  template <class T>
  void finish(const std::optional<T>& out, std::initializer_list<size_t> nodes = {0, 1, 2}) {
    for (int i = 0; i < 20'000 && !out; ++i) steps_of(nodes, 1);
    ASSERT_TRUE(out) << "a coroutine does not end";
  }
  template <class T>
  T ran(Task<T> task) {
    std::optional<T> out;
    go(keep(std::move(task), &out));
    finish(out);
    return out.value_or(T());
  }

  std::deque<Session> sessions_;
  std::deque<OwnedTask> work_;
};

}  // namespace weft
