// RESP, the Redis protocol, at the server's end: RespReader takes commands out of what a client sends, RespWriter
// appends replies. Both belong to one connection and are used by one thread; neither does I/O.
//
// A command is an array of bulk strings, or a line as a person types it into telnet, with Redis's rules of quoting:
//
//   *2\r\n$3\r\nGET\r\n$3\r\nkey\r\n          GET "key"\r\n
//
// What comes out depends on the bytes only, never on how they were divided into reads, and the work is linear in them.
// Errors have Redis's texts where Redis has one, followed by limit and value where a limit is the reason. It is
// stricter in two places: a count ends with both \r and \n, and so does a bulk string.
//
// Memory: the buffer grows by doubling, as bytes come and whatever lengths are announced, to at most buffer_bytes_max;
// arguments take 16 bytes each, as they come. Commands that are no larger than those before allocate nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

struct RespLimits {
  size_t arguments_max = 1 << 20;     // of one command
  size_t bulk_bytes_max = 512 << 20;  // of one argument
  size_t line_bytes_max = 64 << 10;   // of an inline command, and of a count
  size_t buffer_bytes_max = 1 << 30;  // of one command as it is sent
  bool unauthenticated = false;       // of who gave no password yet; errors say so
};

// As in Redis: who gave no password yet cannot make the server keep much.
constexpr RespLimits unauthenticated(RespLimits limits) {
  constexpr size_t kArguments = 10, kBytes = 16 << 10;
  limits.arguments_max = std::min(limits.arguments_max, kArguments);
  limits.bulk_bytes_max = std::min(limits.bulk_bytes_max, kBytes);
  limits.line_bytes_max = std::min(limits.line_bytes_max, kBytes);
  limits.buffer_bytes_max = std::min(limits.buffer_bytes_max, 4 * kBytes);
  limits.unauthenticated = true;
  return limits;
}

enum class RespRead : uint8_t {
  kCommand,  // command() has it
  kMore,     // what came is used up
  kError,    // error() says why; nothing more comes out, the connection is to be closed
};

class RespReader {
 public:
  static constexpr size_t kRoomBytes = 16 << 10;

  explicit RespReader(const RespLimits& limits = {}) : limits_(limits) {}
  // From the next count on; before the first bytes, or between two commands.
  void set_limits(const RespLimits& limits) { limits_ = limits; }

  // Where the next bytes go, then how many came. The room is `least` bytes or more, fewer only near buffer_bytes_max;
  // after next() has said kMore there is none only if the machine gave no memory.
  std::span<char> room(size_t least = kRoomBytes);
  void filled(size_t bytes);

  RespRead next();
  // After kCommand: at least one argument, valid until a member that is not const is called. The bytes they point to
  // stay where they are until room() or shrink(), whatever next() finds behind them.
  std::span<const std::string_view> command() const { return arguments_; }
  std::string_view error() const { return error_; }  // "Protocol error: ..."

  bool idle() const { return begin_ == end_ && arguments_.empty(); }  // nothing came that was not given out
  size_t unread_bytes() const { return end_ - begin_; }  // that came, with those of the command given out last
  size_t memory_bytes() const { return capacity_ + arguments_.capacity() * sizeof(std::string_view); }
  // Gives back what the bytes at hand do not need, for a connection that is idle.
  void shrink();

 private:
  enum class Step : uint8_t { kDone, kMore, kFailed };
  struct Frees {
    void operator()(char* memory) const { std::free(memory); }
  };

  void retire();
  Step read_count();
  Step read_arguments();
  Step read_inline();
  bool split_line(char* from, const char* end);
  bool take_word(char*& from, const char* end);
  Step find(char last, std::string_view too_long);
  bool short_count(size_t high, size_t& value);
  Step number_line(std::string_view too_long, std::string_view of, int64_t low, size_t high, size_t& value);
  Step fail(std::string_view what);
  void compact();
  bool resize(size_t capacity);
  void rebase(uintptr_t from);

  RespLimits limits_;
  std::unique_ptr<char, Frees> memory_;
  size_t capacity_ = 0;
  size_t begin_ = 0;             // of the command that is being read
  size_t at_ = 0;                // what is read next
  size_t seen_ = 0;              // where the search for the end of a line goes on, or has ended
  size_t end_ = 0;               // of what came
  size_t left_ = 0;              // arguments of the array that are still to come
  size_t bulk_bytes_ = kNoBulk;  // of the next one
  bool given_ = false;           // the command between begin_ and at_ was given out
  std::vector<std::string_view> arguments_;
  std::string error_;

  static constexpr size_t kNoBulk = SIZE_MAX;  // its length is still to come
};

// Errors that were replied, by their first word: what is in the buffer need not be looked at again.
struct RespErrors {
  size_t command = 0;  // which one of several is answered
  std::vector<std::pair<size_t, std::string>> seen;
  void add(std::string_view text) { seen.emplace_back(command, text.substr(0, text.find(' '))); }
};

// Replies, appended to a buffer that belongs to the connection. Where RESP3 has a form of its own (null, map, set,
// push, boolean, double, verbatim text), version 2 gets what Redis sends there. Counts are of what follows.
//
// A string that would make the buffer longer than bytes_max is left out: over() says so, and what is in the buffer is
// no reply then.
class RespWriter {
 public:
  explicit RespWriter(std::string* out, size_t bytes_max = SIZE_MAX) : out_(out), bytes_max_(bytes_max) {}

  bool over() const { return over_; }

  int version() const { return version_; }  // 2, or 3 once the client said HELLO 3
  void set_version(int version) { version_ = version; }
  void set_errors(RespErrors* errors) { errors_ = errors; }

  void simple(std::string_view text) { line('+', text); }  // a line break in it becomes a space
  void error(std::string_view text) {                      // "ERR ..."; the same
    line('-', text);
    if (errors_ != nullptr) errors_->add(text);
  }
  void integer(int64_t value) { number(':', value); }
  void bulk(std::string_view bytes);
  void null();        // instead of a bulk string
  void null_array();  // instead of an array
  void array(size_t elements) { number('*', static_cast<int64_t>(elements)); }
  void map(size_t pairs);
  void set(size_t elements) { count('~', elements); }
  void push(size_t elements) { count('>', elements); }
  void boolean(bool value);
  void real(double value);
  void verbatim(std::string_view text);  // for a person

 private:
  void line(char kind, std::string_view text);
  void number(char kind, int64_t value);
  bool fits(size_t bytes);
  void count(char kind, size_t elements) { number(version_ >= 3 ? kind : '*', static_cast<int64_t>(elements)); }

  std::string* const out_;
  const size_t bytes_max_;
  RespErrors* errors_ = nullptr;
  bool over_ = false;
  int version_ = 2;
};

}  // namespace weft
