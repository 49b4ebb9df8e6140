// Virtual time: a queue of events. They run one at a time in order of their time; events of the same time run in the
// order in which they were set. Every event that runs is folded into a trace hash, so that two runs of a seed can be
// compared.
//
// I1: what an event does and when it runs depends on numbers only, never on an address.
//
// One thread runs a simulation; simulations share nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/base/hash.h"

namespace weft {

class Trace {
 public:
  void fold(uint64_t value) { hash_ = mix64(hash_ * 0x9e3779b97f4a7c15U + value); }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

enum class EventKind : uint8_t {
  kStep,
  kPacket,
  kRequest,
  kVerb,
  kLine,
  kResponse,
  kMembership,
  kCrash,
  kRestart,
  kSwap,
  kBreak,      // a connection breaks
  kBreakSeen,  // one end of it notices
  kVisit,      // a new client arrives
  kMend,       // a connection is restored
  kAnswer,     // a member's answer to a node that wants to join
};

struct Event {
  uint64_t at_ns;
  uint64_t order;
  EventKind kind;
  uint64_t a, b;  // their meaning is the sink's
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
};

class Events {
 public:
  uint64_t now_ns() const { return now_ns_; }
  uint64_t next_ns() const { return queue_.empty() ? UINT64_MAX : queue_.top().event.at_ns; }
  uint64_t ran() const { return ran_; }
  Trace& trace() { return trace_; }

  // The sink must outlive the event.
  void set(uint64_t at_ns, EventKind kind, EventSink* sink, uint64_t a, uint64_t b = 0) {
    WEFT_CHECK(at_ns >= now_ns_, "events lie ahead");
    queue_.push({{at_ns, ++count_, kind, a, b}, sink});
  }

  // Runs the next event, if there is one.
  bool run_one() {
    if (queue_.empty()) return false;
    const Entry entry = queue_.top();
    queue_.pop();
    now_ns_ = entry.event.at_ns;
    ++ran_;
    trace_.fold(entry.event.at_ns);
    trace_.fold(static_cast<uint64_t>(entry.event.kind));
    trace_.fold(entry.event.a);
    trace_.fold(entry.event.b);
    entry.sink->on_event(entry.event);
    return true;
  }

  void run_until(uint64_t time_ns) {
    while (next_ns() <= time_ns) run_one();
    now_ns_ = std::max(now_ns_, time_ns);
  }

 private:
  struct Entry {
    Event event;
    EventSink* sink;
    bool operator<(const Entry& other) const {
      return event.at_ns != other.event.at_ns ? event.at_ns > other.event.at_ns : event.order > other.event.order;
    }
  };
  std::priority_queue<Entry> queue_;
  uint64_t now_ns_ = 0;
  uint64_t count_ = 0;
  uint64_t ran_ = 0;
  Trace trace_;
};

// A node's clock. All clocks agree unless a fault plan says otherwise: skew and drift are added to what the node sees.
class SimClock final : public Clock {
 public:
  explicit SimClock(const Events* events) : events_(events) {}
  uint64_t now_ns() override {
    const uint64_t now_ns = events_->now_ns();
    return now_ns + skew_ns_ + now_ns / 1000 * drift_permille_;
  }
  void set_skew(uint64_t skew_ns) { skew_ns_ = skew_ns; }  // only forward: clocks are monotonic
  void set_drift(uint64_t permille) { drift_permille_ = permille; }
  // The (global) time at which this clock shows at least `shows_ns`.
  uint64_t when(uint64_t shows_ns) const {
    if (shows_ns == UINT64_MAX || shows_ns <= skew_ns_) return shows_ns == UINT64_MAX ? shows_ns : 0;
    const uint64_t apart_ns = shows_ns - skew_ns_;
    return drift_permille_ == 0 ? apart_ns : apart_ns / (1000 + drift_permille_) * 1000 + 1000;
  }

 private:
  const Events* const events_;
  uint64_t skew_ns_ = 0;
  uint64_t drift_permille_ = 0;
};

// Adds up the cost of a worker's current step.
class SimCostModel final : public CostModel {
 public:
  void charge(CostStep step, uint64_t n) override;
  uint64_t take() {
    const uint64_t total = total_ns_;
    total_ns_ = 0;
    return total;
  }

 private:
  uint64_t total_ns_ = 0;
};

}  // namespace weft
