// Records histories of one key's operations and checks whether they are linearizable. For tests.
//
// The check goes through the history in time and keeps every state that some order of the operations so far allows: the
// key's value (or its absence), and which of the operations in progress have already taken effect. An operation may
// take effect any time between its invocation and its response; when it responds, the states in which it has not are
// dropped. Few operations are in progress at a time (one per thread), so the set stays small, however long the history
// is. The history is linearizable exactly if the set never becomes empty.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft {

struct KeyOp {
  enum Kind : uint8_t { kGet, kPut, kComparePut, kInsert, kErase } kind;
  bool ok = false;        // found, replaced, inserted, erased
  uint64_t expected = 0;  // kComparePut
  uint64_t value = 0;     // written
  uint64_t got = 0;       // by get; the old value by put and erase; the existing one by a failed insert
  uint64_t invoked = 0;
  uint64_t responded = 0;
  int thread = 0;
};

using KeyState = std::optional<uint64_t>;

// The key's state after `op` took effect; nothing if op's result was impossible in `state`.
inline std::optional<KeyState> apply(const KeyOp& op, const KeyState& state) {
  switch (op.kind) {
    case KeyOp::kGet:
      if (op.ok != state.has_value() || (op.ok && *state != op.got)) return std::nullopt;
      return state;
    case KeyOp::kPut:
      if (op.ok != state.has_value() || (op.ok && *state != op.got)) return std::nullopt;
      return op.ok ? KeyState(op.value) : state;
    case KeyOp::kComparePut:
      if (op.ok != (state == KeyState(op.expected))) return std::nullopt;
      return op.ok ? KeyState(op.value) : state;
    case KeyOp::kInsert:
      if (op.ok == state.has_value() || (!op.ok && *state != op.got)) return std::nullopt;
      return op.ok ? KeyState(op.value) : state;
    case KeyOp::kErase:
      if (op.ok != state.has_value() || (op.ok && *state != op.got)) return std::nullopt;
      return op.ok ? KeyState() : state;
  }
  return std::nullopt;
}

// Empty if linearizable, else what was impossible. Thread numbers are below 32.
inline std::string check_linearizable(const std::vector<KeyOp>& ops, KeyState initial = std::nullopt) {
  struct Event {
    uint64_t time;
    const KeyOp* op;
    bool response;
  };
  std::vector<Event> events;
  for (const KeyOp& op : ops) {
    events.push_back({op.invoked, &op, false});
    events.push_back({op.responded, &op, true});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.time < b.time; });

  using State = std::pair<KeyState, uint32_t>;  // the threads whose operation has taken effect
  std::set<State> states{{initial, 0}};
  std::vector<const KeyOp*> under_way;
  for (const Event& event : events) {
    if (!event.response) {
      under_way.push_back(event.op);
      continue;
    }
    std::vector<State> open(states.begin(), states.end());
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      for (const KeyOp* op : under_way) {
        const uint32_t bit = 1U << op->thread;
        if ((state.second & bit) != 0) continue;
        const auto after = apply(*op, state.first);
        if (!after) continue;
        if (states.emplace(*after, state.second | bit).second) open.emplace_back(*after, state.second | bit);
      }
    }
    std::set<State> kept;
    const uint32_t bit = 1U << event.op->thread;
    for (const State& state : states) {
      if ((state.second & bit) != 0) kept.emplace(state.first, state.second & ~bit);
    }
    if (kept.empty()) {
      return "no order explains thread " + std::to_string(event.op->thread) + " kind " +
             std::to_string(event.op->kind) + (event.op->ok ? " ok" : " not ok") + " got " +
             std::to_string(event.op->got) + " wrote " + std::to_string(event.op->value) + " at " +
             std::to_string(event.op->invoked) + ".." + std::to_string(event.op->responded);
    }
    states = std::move(kept);
    std::erase(under_way, event.op);
  }
  return "";
}

// Orders events of several threads. Relaxed, so that it hides no race from ThreadSanitizer.
class Tickets {
 public:
  uint64_t next() {
    asm volatile("" ::: "memory");
    const uint64_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
    asm volatile("" ::: "memory");
    return ticket;
  }

 private:
  std::atomic<uint64_t> next_{1};
};

}  // namespace weft
