// EventLog: a structured log of events, each with a name, a level and fields. Each event is one line on a file
// descriptor, as text on a terminal and as a JSON object otherwise, and the last ones are kept for queries.
//
//   events.emit(Level::kWarn, "peer_disconnected", {{"peer", 2}, {"why", "the connection broke"}});
//
//   18:09:51.123 warn  node 0: peer_disconnected peer=2 why="the connection broke"
//   {"time":"2026-11-15T18:09:51.123Z","level":"warn","node":0,"event":"peer_disconnected","peer":2,"why":"the
//   connection broke"}
//
// Any thread may emit. Nobody waits for the reader: a line that the descriptor has no room for is dropped, and the next
// line that is written says how many were (`dropped`).
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "weft/base/clock.h"

namespace weft {

enum class Level : uint8_t { kInfo, kWarn, kError };
inline constexpr int kLevels = 3;
std::string_view level_name(Level level);  // "info"

class EventField {
 public:
  EventField(std::string_view name, std::string_view value) : name_(name), value_(std::string(value)) {}
  EventField(std::string_view name, const char* value) : name_(name), value_(std::string(value)) {}
  EventField(std::string_view name, std::integral auto value)
      : name_(name), value_(static_cast<int64_t>(value)) {}  // no count exceeds 2^63
  EventField(std::string_view name, bool value) : name_(name), value_(value) {}

  const std::string& name() const { return name_; }
  std::string json() const;  // the value
  std::string text() const;  // the value: in quotes if it has spaces

 private:
  std::string name_;
  std::variant<int64_t, bool, std::string> value_;
};

struct LoggedEvent {
  uint64_t number = 0;   // from 1, of this process
  uint64_t wall_ms = 0;  // since 1970
  Level level = Level::kInfo;
  int node = -1;  // -1: not about a node
  std::string name;
  std::vector<EventField> fields;

  std::string json() const;  // without a newline
  std::string text() const;  // without the time
};

class EventLog {
 public:
  enum class Form : uint8_t { kPeople, kJson };
  static constexpr size_t kKept = 256;
  static constexpr size_t kLineBytesMax = 4096;  // a pipe takes that many atomically

  // `node` is the default for events that name none. `fd` is not closed; -1: events are only kept. `wall` is the time
  // since 1970.
  EventLog(int fd, Form form, Clock* wall, int node = -1) : fd_(fd), form_(form), wall_(wall), node_(node) {}
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  static Form form_for(int fd);  // text for a terminal

  void emit(Level level, std::string_view name, std::initializer_list<EventField> fields = {}) {
    emit_of(node_, level, name, fields);
  }
  // An event of another node than this process's.
  void emit_of(int node, Level level, std::string_view name, std::initializer_list<EventField> fields);

  uint64_t wall_ms() const { return wall_->now_ns() / 1'000'000; }

  std::vector<LoggedEvent> since(uint64_t number) const;  // the kept events after it
  uint64_t last() const;                                  // number of the last event; 0: there is none
  std::array<uint64_t, kLevels> counts() const;           // by level
  uint64_t dropped() const;                               // lines

 private:
  void write_line(const LoggedEvent& event);

  const int fd_;
  const Form form_;
  Clock* const wall_;
  const int node_;
  mutable std::mutex mutex_;
  std::deque<LoggedEvent> kept_;
  uint64_t last_ = 0;
  uint64_t dropped_ = 0;
  uint64_t dropped_said_ = 0;
  std::array<uint64_t, kLevels> counts_{};
};

// A JSON string, quotes included. Bytes that are not UTF-8 are taken for Latin-1, so that the result is always valid.
std::string json_string(std::string_view text);

}  // namespace weft
