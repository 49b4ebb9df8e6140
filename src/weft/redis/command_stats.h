// What a worker counts of its clients' commands, for INFO: calls, time, errors, connections. Only its worker writes,
// with plain stores; any thread reads. CONFIG RESETSTAT does not write to the counters: it remembers their values, and
// INFO shows the difference.
//
// Time: no clock is read for a command. The length of a worker's turn is known, and is divided among the commands that
// ran in it in proportion to their estimated costs (cost.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "weft/types.h"

namespace weft {

inline constexpr size_t kCommandsMax = 256;  // rows of commands.h

// The first words of errors, as in INFO errorstats; the last is for those that are not in the list.
inline constexpr std::array<std::string_view, 21> kErrorNames = {
    "ABORTED",  "BUSY",    "BUSYKEY",  "CLUSTERDOWN", "ERR",       "EXECABORT",  "INPROG",
    "LOADING",  "MISCONF", "NOAUTH",   "NOPERM",      "NOPROTO",   "NOREPLICAS", "OOM",
    "READONLY", "TIMEOUT", "TRYAGAIN", "UNKNOWN",     "WRONGPASS", "WRONGTYPE",  "OTHER"};
size_t error_place(std::string_view text);  // in kErrorNames, by the text's first word

class Counter {
 public:
  void add(uint64_t n) { value_.store(read() + n, std::memory_order_relaxed); }  // one thread only
  uint64_t read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Of one worker.
struct CommandStats {
  struct Row {
    Counter calls, ns, rejected, failed;
  };
  std::array<Row, kCommandsMax> rows;  // by Command::id
  std::array<Counter, kErrorNames.size()> errors;
  Counter connections, connections_refused;
  Counter read_bytes, written_bytes;
  Counter expired_keys;  // by the sweeper, or for WEFT SCAN
  Counter hits, misses;  // of keys that were only read
};

// The sum over all workers at one moment.
struct CommandTotals {
  struct Row {
    uint64_t calls = 0, ns = 0, rejected = 0, failed = 0;
  };
  std::array<Row, kCommandsMax> rows{};
  std::array<uint64_t, kErrorNames.size()> errors{};
  uint64_t commands = 0;
  uint64_t connections = 0, connections_refused = 0;
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t expired_keys = 0;
  uint64_t hits = 0, misses = 0;

  void add(const CommandStats& worker);
  void subtract(const CommandTotals& before);
  uint64_t all_errors() const;
};

class NodeCommandStats {
 public:
  // Created on first use, before the workers' threads run.
  CommandStats* of(WorkerId worker);
  // Counts since the last reset(). `commands` is counted elsewhere (FrontendShared), since the start.
  CommandTotals totals(uint64_t commands) const;
  void reset(uint64_t commands);
  // Commands per second since the last call if that is a while ago; otherwise the previous result.
  uint64_t rate(uint64_t commands, uint64_t now_ns);

 private:
  CommandTotals all(uint64_t commands) const;

  std::array<std::unique_ptr<CommandStats>, kWorkersMax> workers_;
  mutable std::mutex mutex_;
  CommandTotals before_;  // at the last reset
  uint64_t asked_ns_ = 0, asked_commands_ = 0, rate_ = 0;
};

// The costs of a turn's commands. It is owned by its worker.
class IterationTimes {
 public:
  bool some() const { return count_ != 0; }
  // A command ran; `ns` is its estimated cost, and not 0.
  void ran(size_t id, uint64_t ns) {
    if (of_[id] == 0) ids_[count_++] = static_cast<uint16_t>(id);
    of_[id] += ns;
  }
  // The turn ended and took this long.
  void end(uint64_t took_ns, CommandStats& to);

 private:
  std::array<uint64_t, kCommandsMax> of_{};
  std::array<uint16_t, kCommandsMax> ids_{};  // with a cost that is not 0
  size_t count_ = 0;
};

// The lines of these sections of INFO.
std::string commandstats_text(const CommandTotals& totals);
std::string errorstats_text(const CommandTotals& totals);

}  // namespace weft
