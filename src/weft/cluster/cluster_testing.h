// What the tests of the embedded cluster share: a cluster that is stopped and audited at the end of every test, and
// waiting that gives up instead of hanging for ever.
//
// Coroutines here are lambdas handed to TestCluster::on(); they live in the cluster until they end, so they may capture
// what outlives the test's call. Only EXPECT, never ASSERT, inside of them.
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

#include "weft/base/sanitized.h"
#include "weft/cluster.h"
#include "weft/txn/rows_testing.h"

namespace weft {

inline constexpr TableId kT(0);  // the only table of most tests

inline uint64_t integer(std::string_view bytes) {
  uint64_t n = 0;
  std::memcpy(&n, bytes.data(), std::min(bytes.size(), sizeof n));
  return n;
}
inline std::string bytes_of(uint64_t n) { return {reinterpret_cast<const char*>(&n), sizeof n}; }

inline std::string_view key_of(const Outcome& outcome) {
  return {outcome.key_start, std::min<size_t>(outcome.key_bytes, sizeof outcome.key_start)};
}

inline testing::AssertionResult committed(const Outcome& outcome) {
  if (outcome.kind == OutcomeKind::kCommitted && outcome.code == Code::kOk) return testing::AssertionSuccess();
  return testing::AssertionFailure() << outcome.text();
}
inline testing::AssertionResult aborted(const Outcome& outcome, Code code) {
  if (outcome.kind == OutcomeKind::kAborted && outcome.code == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << outcome.text() << " instead of aborted: " << code_text(code);
}
// Of a key that somebody has just changed. Where a commit is told before its locks are gone, and locks are looked at by
// verbs, which overtake the message that unlocks, they may still be there.
inline testing::AssertionResult aborted_by_change(const Outcome& outcome, std::string_view protocol) {
  const bool verbs = find_protocol(protocol)->by.lock == Primitive::kOneSided;
  return aborted(outcome, verbs && outcome.code == Code::kLocked ? Code::kLocked : Code::kVersionMoved);
}
inline testing::AssertionResult rejected(const Outcome& outcome, Code code) {
  if (outcome.kind == OutcomeKind::kRejected && outcome.code == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << outcome.text() << " instead of rejected: " << code_text(code);
}

// Repeats a call that met a lock: rows that tell a commit before its locks are gone leave them to the next caller.
template <class Call>
Outcome retried(Call call) {
  for (;;) {
    const Outcome outcome = call();
    if (outcome.kind != OutcomeKind::kAborted || !code_retryable(outcome.code)) return outcome;
  }
}

class TestCluster {
 public:
  using Body = std::function<Task<void>(Session&)>;

  // What a key's replicas are; bit n of `mask`: node n.
  struct Place {
    NodeId primary;
    uint64_t mask = 0;
  };

  // A machine that is busy makes a test slow, and not fail: nobody's wait is over early (txn/answer_test.cc has its
  // own clock).
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

  // False, and a failure of the test, if the coroutine does not end in two minutes.
  bool wait(const Cluster::Handle& handle) {
    for (int i = 0; i < 120'000 && !handle.done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (handle.done()) return true;
    stuck_ = true;
    ADD_FAILURE() << "a coroutine does not end";
    return false;
  }
  bool on(NodeId node, const Body& body) { return wait(cluster_->spawn(node, WorkerId(0), body)); }
  bool on(int node, const Body& body) { return on(NodeId(static_cast<uint8_t>(node)), body); }

  // Where the keys that are there now have their replicas. While nothing runs.
  std::map<uint64_t, Place> places(TableId table = TableId(0)) const {
    std::map<uint64_t, Place> out;
    cluster_->visit(table, [&](NodeId node, bool primary, std::string_view key, std::string_view, uint64_t) {
      Place& place = out[integer(key)];
      place.mask |= uint64_t{1} << node.value;
      if (primary) place.primary = node;
    });
    return out;
  }

  // While nothing runs: the primaries' copies.
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

// A cluster's shape, for tests that hold for all of them.
struct Shape {
  const char* protocol;
  int nodes;
  int replicas;
  int workers = 1;
  const char* fabric = "local";
  Options options() const {
    Options o;
    o.fabric = fabric;
    o.protocol = protocol;
    o.nodes = nodes;
    o.replicas = replicas;
    o.workers = workers;
    o.threads = workers;
    return o;
  }
};

inline void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.protocol << ", " << s.nodes << " nodes, " << s.replicas << " replicas, " << s.workers << " workers";
}

inline std::string shape_name(const testing::TestParamInfo<Shape>& info) {
  const Shape& s = info.param;
  std::string protocol(s.protocol);
  std::erase(protocol, '-');
  return protocol + "_n" + std::to_string(s.nodes) + "_r" + std::to_string(s.replicas) + "_w" +
         std::to_string(s.workers) + (std::string_view(s.fabric) == "local" ? "" : std::string("_") + s.fabric);
}

inline std::vector<Shape> all_shapes() {
  std::vector<Shape> out;
  for (const char* protocol : all_rows()) {
    out.push_back({protocol, 3, 3, 2});
    out.push_back({protocol, 5, 2});
    if (kSanitized) continue;
    out.push_back({protocol, 1, 1});
    out.push_back({protocol, 2, 2, 2});
    out.push_back({protocol, 3, 1});
    out.push_back({protocol, 5, 3, 2});
  }
  return out;
}

// Over what joins processes.
inline std::vector<Shape> mesh_shapes() {
  std::vector<Shape> out;
  for (const char* fabric : {"shm", "tcp"}) {
    for (const char* protocol : all_rows()) out.push_back({protocol, 3, 3, 2, fabric});
    out.push_back({"dnl4", 5, 2, 1, fabric});
  }
  return out;
}

// Three nodes, three replicas, or five nodes so that some keys are remote.
inline std::vector<Shape> few_shapes() {
  std::vector<Shape> out;
  for (const char* protocol : all_rows()) {
    out.push_back({protocol, 5, 2});
    if (!kSanitized) out.push_back({protocol, 3, 3});
  }
  return out;
}

}  // namespace weft
