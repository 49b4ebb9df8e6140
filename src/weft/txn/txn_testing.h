// What tests of transactions share, whichever way their nodes are run: outcomes as assertions, and shapes of clusters.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>
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
// For a key that another transaction has just changed. Its locks may still be there where a commit is acknowledged
// before they are released, and verbs, which overtake the unlock message, look at them.
inline testing::AssertionResult aborted_by_change(const Outcome& outcome, std::string_view protocol) {
  const bool verbs = find_protocol(protocol)->by.lock == Primitive::kOneSided;
  return aborted(outcome, verbs && outcome.code == Code::kLocked ? Code::kLocked : Code::kVersionMoved);
}
inline testing::AssertionResult rejected(const Outcome& outcome, Code code) {
  if (outcome.kind == OutcomeKind::kRejected && outcome.code == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << outcome.text() << " instead of rejected: " << code_text(code);
}

// Repeats a call that met a lock: rows that acknowledge a commit before its locks are released leave them to the next
// caller.
template <class Call>
Outcome retried(Call call) {
  for (;;) {
    const Outcome outcome = call();
    if (outcome.kind != OutcomeKind::kAborted || !code_retryable(outcome.code)) return outcome;
  }
}

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

inline void PrintTo(const Shape& s, std::ostream* out) {  // NOLINT(readability-identifier-naming): as gtest calls it
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

// Over the fabrics that connect processes.
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
