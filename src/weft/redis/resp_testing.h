// What the tests of RESP share: a client's side of the reader.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/redis/resp.h"

namespace weft {

using RespCommand = std::vector<std::string>;

struct RespHeard {
  std::vector<RespCommand> commands;
  std::string error;
  friend bool operator==(const RespHeard&, const RespHeard&) = default;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const RespHeard& heard, std::ostream* out) {
  for (const RespCommand& command : heard.commands) {
    *out << "\n  ";
    for (const std::string& argument : command) *out << '[' << ::testing::PrintToString(argument) << ']';
  }
  *out << "\n  error: " << heard.error;
}

// Puts bytes into the reader as they fit, and takes out what is there after each.
class RespConversation {
 public:
  explicit RespConversation(const RespLimits& limits = {}) : reader_(limits), limits_(limits) {}

  void hear(std::string_view bytes, size_t least = 1) {
    while (!bytes.empty() && heard_.error.empty()) {
      const std::span<char> room = reader_.room(least);
      ASSERT_FALSE(room.empty());
      const size_t part = std::min(bytes.size(), room.size());
      // What lies behind the bytes must not matter.
      for (size_t i = part; i < std::min(part + 64, room.size()); ++i) room[i] = "\r\n$1*\""[i % 6];
      std::memcpy(room.data(), bytes.data(), part);
      reader_.filled(part);
      bytes.remove_prefix(part);
      drain();
    }
  }
  void drain() {
    for (;;) {
      const RespRead read = reader_.next();
      if (read == RespRead::kError) {
        heard_.error = reader_.error();
        ASSERT_EQ(reader_.next(), RespRead::kError);
        return;
      }
      if (read == RespRead::kMore) return;
      ASSERT_FALSE(reader_.command().empty());
      ASSERT_LE(reader_.command().size(), limits_.arguments_max);
      heard_.commands.emplace_back(reader_.command().begin(), reader_.command().end());
    }
  }
  const RespHeard& heard() const { return heard_; }
  RespReader& reader() { return reader_; }

 private:
  RespReader reader_;
  RespLimits limits_;
  RespHeard heard_;
};

inline RespHeard commands(std::vector<RespCommand> all) { return {std::move(all), ""}; }

inline std::string array_of(const RespCommand& command) {
  std::string out;
  RespWriter writer(&out);
  writer.array(command.size());
  for (const std::string& argument : command) writer.bulk(argument);
  return out;
}

}  // namespace weft
