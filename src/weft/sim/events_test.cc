#include "weft/sim/events.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

class Recorder final : public EventSink {
 public:
  void on_event(const Event& event) override { seen.push_back(event); }
  std::vector<Event> seen;
};

TEST(Events, RunInOrderOfTimeThenOfSetting) {
  Events events;
  Recorder recorder;
  events.set(30, EventKind::kStep, &recorder, 1);
  events.set(10, EventKind::kStep, &recorder, 2);
  events.set(30, EventKind::kStep, &recorder, 3);
  events.set(10, EventKind::kStep, &recorder, 4);
  EXPECT_EQ(events.next_ns(), 10U);
  while (events.run_one()) {
  }
  std::vector<uint64_t> order;
  for (const Event& event : recorder.seen) order.push_back(event.a);
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 4, 1, 3}));
  EXPECT_EQ(events.now_ns(), 30U);
  EXPECT_EQ(events.next_ns(), UINT64_MAX);
}

TEST(Events, RunUntilStopsAtTheTimeAndMovesTheClock) {
  Events events;
  Recorder recorder;
  events.set(5, EventKind::kStep, &recorder, 1);
  events.set(15, EventKind::kStep, &recorder, 2);
  events.run_until(10);
  EXPECT_EQ(recorder.seen.size(), 1U);
  EXPECT_EQ(events.now_ns(), 10U);
  SimClock clock(&events);
  EXPECT_EQ(clock.now_ns(), 10U);
  clock.set_skew(7);
  EXPECT_EQ(clock.now_ns(), 17U);
}

TEST(Events, TraceDependsOnEverythingAnEventIs) {
  const auto hash = [](uint64_t at_ns, EventKind kind, uint64_t a, uint64_t b) {
    Events events;
    Recorder recorder;
    events.set(at_ns, kind, &recorder, a, b);
    events.run_one();
    return events.trace().hash();
  };
  const uint64_t base = hash(1, EventKind::kStep, 2, 3);
  EXPECT_EQ(base, hash(1, EventKind::kStep, 2, 3));
  EXPECT_NE(base, hash(2, EventKind::kStep, 2, 3));
  EXPECT_NE(base, hash(1, EventKind::kLine, 2, 3));
  EXPECT_NE(base, hash(1, EventKind::kStep, 3, 2));
}

TEST(SimCostModel, AddUpUntilTaken) {
  SimCostModel cost_model;
  cost_model.charge(CostStep::kLoop, 1);
  const uint64_t one = cost_model.take();
  EXPECT_GT(one, 0U);
  cost_model.charge(CostStep::kLoop, 3);
  EXPECT_EQ(cost_model.take(), 3 * one);
  EXPECT_EQ(cost_model.take(), 0U);
}

}  // namespace
}  // namespace weft
