// Monitors: how the commands of all workers of a node come to the connections that said MONITOR, each of which belongs
// to one worker. A worker gathers what its clients ran in a turn, gives it to its own monitors, and leaves it for those
// workers that have some; they look at least every kLookNs. While nobody monitors, a worker looks at one flag a turn.
//
// What is left for a worker is bounded: if it does not come to take it, its monitors are told that they missed some,
// and closed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "weft/redis/commands.h"
#include "weft/types.h"

namespace weft {

class Monitors {
 public:
  static constexpr uint32_t kMonitorsMax = 16;      // of a node: each costs what a client costs that runs every command
  static constexpr size_t kLeftBytesMax = 4 << 20;  // for one worker
  static constexpr uint64_t kLookNs = 1'000'000;

  // Any thread.
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  // A worker's thread. False: there are enough.
  bool begin(WorkerId worker);
  void end(WorkerId worker);
  void leave(WorkerId from, std::string_view lines);  // for all workers with monitors but this one
  // False: something is missing.
  bool take(WorkerId worker, std::string* lines);

 private:
  struct alignas(64) Left {
    std::mutex mutex;
    uint32_t monitors = 0;
    bool over = false;
    std::string lines;
  };
  std::atomic<uint32_t> count_{0};
  std::array<Left, kWorkersMax> left_;  // by worker
};

// As MONITOR shows it: +time [0 client] "name" "argument" ...
void append_monitored(std::string* out, const Command& command, Arguments arguments, std::string_view client,
                      int64_t now_us);

}  // namespace weft
