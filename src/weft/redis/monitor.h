// Monitors: passes the commands of all workers of a node to the connections that sent MONITOR, each of which belongs
// to one worker. A worker collects what its clients ran in a turn, writes it to its own monitors, and leaves it for
// other workers that have monitors; those check at least every kPollNs. While nobody monitors, a worker checks one
// flag per turn.
//
// What is left for a worker is bounded: if it does not take it in time, its monitors are told that they missed some,
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
  // of a node: each costs as much as a client that runs every command
  static constexpr uint32_t kMonitorsMax = 16;
  static constexpr size_t kLeftBytesMax = 4 << 20;  // for one worker
  static constexpr uint64_t kPollNs = 1'000'000;

  // Any thread.
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  // On a worker's thread. False: there are too many.
  bool begin(WorkerId worker);
  void end(WorkerId worker);
  void leave(WorkerId from, std::string_view lines);  // for all other workers with monitors
  // False: some lines were lost.
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
