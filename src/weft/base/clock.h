// Clocks are passed to constructors: real time here, virtual time in sim/.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

inline constexpr uint64_t kMillisecondNs = 1'000'000;
inline constexpr uint64_t kSecondNs = 1'000'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t now_ns() = 0;  // monotonic
};

class RealClock final : public Clock {
 public:
  uint64_t now_ns() override;
};

class WallClock final : public Clock {
 public:
  uint64_t now_ns() override;  // since 1970: for display, never to measure
};

// Every reading is `step_ns` after the last: what a program does by this clock does not depend on the machine's speed.
class CountingClock final : public Clock {
 public:
  explicit CountingClock(uint64_t step_ns) : step_ns_(step_ns) {}
  uint64_t now_ns() override { return now_ns_.fetch_add(step_ns_, std::memory_order_relaxed) + step_ns_; }

 private:
  const uint64_t step_ns_;
  std::atomic<uint64_t> now_ns_{0};
};

// CPU steps that take virtual time in the simulator. There the charges add up to the duration of a worker's step;
// elsewhere charge() does nothing.
enum class CostStep : uint8_t { kLoop, kResume, kLookup, kMessage, kPacket, kCopyLine, kVerb, kCount };

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual void charge(CostStep step, uint64_t n) = 0;
};

}  // namespace weft
