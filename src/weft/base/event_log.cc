#include "weft/base/event_log.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

namespace weft {

namespace {

// The length of the UTF-8 sequence that begins here, 0 if it is not valid. Overlong forms and surrogates are invalid.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](size_t n) {
    for (size_t i = 1; i < n; ++i) {
      if ((byte(i) & 0xc0U) != 0x80U) return size_t{0};
    }
    return n;
  };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return tail(2);
  if (first >= 0xe0 && first < 0xf0) {
    const bool bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0);
    return bad ? 0 : tail(3);
  }
  if (first >= 0xf0 && first < 0xf5) {
    const bool bad = (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
    return bad ? 0 : tail(4);
  }
  return 0;
}

void append_u(std::string& out, unsigned char c) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", c);
  out += text;
}

std::string stamp(uint64_t wall_ms, const char* format, bool utc) {
  const auto seconds = static_cast<time_t>(wall_ms / 1000);
  tm parts{};
  if (utc) {
    gmtime_r(&seconds, &parts);
  } else {
    localtime_r(&seconds, &parts);
  }
  char text[40];
  const size_t n = std::strftime(text, sizeof text, format, &parts);
  std::snprintf(text + n, sizeof text - n, ".%03d", static_cast<int>(wall_ms % 1000));
  return text;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const size_t length = utf8_length(text.substr(i));
    if (length > 1) {
      out += text.substr(i, length);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (length == 0 || byte < 0x20 || byte == 0x7f) {
      append_u(out, byte);
    } else {
      out += c;
    }
    i += length == 0 ? 1 : length;
  }
  return out + '"';
}

std::string_view level_name(Level level) {
  constexpr std::array<std::string_view, kLevels> kNames = {"info", "warn", "error"};
  return kNames[static_cast<size_t>(level)];
}

std::string EventField::json() const {
  if (const auto* number = std::get_if<int64_t>(&value_)) return std::to_string(*number);
  if (const auto* yes = std::get_if<bool>(&value_)) return *yes ? "true" : "false";
  return json_string(std::get<std::string>(value_));
}

std::string EventField::text() const {
  const auto* text = std::get_if<std::string>(&value_);
  if (text == nullptr) return json();
  const bool plain = !text->empty() && text->find_first_of(" \"=\\") == std::string::npos;
  std::string quoted = json_string(*text);
  return plain && quoted.size() == text->size() + 2 ? *text : quoted;
}

std::string LoggedEvent::json() const {
  std::string out = "{\"time\":\"" + stamp(wall_ms, "%Y-%m-%dT%H:%M:%S", true) + "Z\",\"level\":\"";
  out += level_name(level);
  out += '"';
  if (node >= 0) out += ",\"node\":" + std::to_string(node);
  out += ",\"event\":" + json_string(name);
  for (const EventField& field : fields) out += "," + json_string(field.name()) + ":" + field.json();
  return out + "}";
}

std::string LoggedEvent::text() const {
  std::string out(level_name(level));
  out.resize(6, ' ');
  if (node >= 0) out += "node " + std::to_string(node) + ": ";
  out += name;
  for (const EventField& field : fields) out += " " + field.name() + "=" + field.text();
  return out;
}

EventLog::Form EventLog::form_for(int fd) { return isatty(fd) == 1 ? Form::kPeople : Form::kJson; }

void EventLog::emit_of(int node, Level level, std::string_view name, std::initializer_list<EventField> fields) {
  const uint64_t wall_ms = this->wall_ms();
  const std::scoped_lock lock(mutex_);
  kept_.push_back({++last_, wall_ms, level, node, std::string(name), fields});
  if (kept_.size() > kKept) kept_.pop_front();
  ++counts_[static_cast<size_t>(level)];
  if (fd_ >= 0) write_line(kept_.back());
}

void EventLog::write_line(const LoggedEvent& event) {
  pollfd room{fd_, POLLOUT, 0};
  if (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0) {
    ++dropped_;
    return;
  }
  LoggedEvent said = event;
  if (dropped_ > dropped_said_) said.fields.emplace_back("dropped", dropped_ - dropped_said_);
  // On a terminal this overwrites a progress line that may be there.
  std::string line =
      form_ == Form::kJson ? said.json() : "\r\x1b[K" + stamp(event.wall_ms, "%H:%M:%S", false) + " " + said.text();
  if (line.size() + 1 > kLineBytesMax) {
    said.fields = {{"bytes", line.size()}, {"too_long", true}};
    line = form_ == Form::kJson ? said.json() : said.text();
  }
  line += '\n';
  if (write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    ++dropped_;
  } else {
    dropped_said_ = dropped_;
  }
}

std::vector<LoggedEvent> EventLog::since(uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  std::vector<LoggedEvent> out;
  for (const LoggedEvent& event : kept_) {
    if (event.number > number) out.push_back(event);
  }
  return out;
}

uint64_t EventLog::last() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

std::array<uint64_t, kLevels> EventLog::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

uint64_t EventLog::dropped() const {
  const std::scoped_lock lock(mutex_);
  return dropped_;
}

}  // namespace weft
