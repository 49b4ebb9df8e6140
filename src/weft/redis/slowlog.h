// SlowLog: the commands of a node's clients that took long, for SLOWLOG. All workers of the node share it; only slow
// commands touch it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weft/redis/commands.h"

namespace weft {

class SlowLog {
 public:
  static constexpr size_t kEntriesMax = 1024;
  // As in Redis.
  static constexpr size_t kArgumentsMax = 32;
  static constexpr size_t kArgumentBytesMax = 128;

  struct Entry {
    uint64_t id = 0;
    int64_t at_s = 0;  // since 1970
    uint64_t took_us = 0;
    std::vector<std::string> arguments;
    std::string address, name;  // of the client
  };

  // Gives the entry its id, and drops the oldest beyond `length`.
  void add(Entry entry, size_t length);
  void set_length(size_t length);
  std::vector<Entry> newest(size_t count) const;
  size_t size() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // the newest is first
  uint64_t next_id_ = 0;
};

// Truncated to what an entry keeps.
std::vector<std::string> slowlog_arguments(const Command& command, Arguments arguments);

}  // namespace weft
