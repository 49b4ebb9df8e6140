// RESP, the Redis protocol, on the server side: RespReader parses commands from a client's bytes, RespWriter appends
// replies. Both belong to one connection and are used by one thread; neither does I/O.
//
// A command is an array of bulk strings, or a line as a person types it into telnet, with Redis's rules of quoting:
//
//   *2\r\n$3\r\nGET\r\n$3\r\nkey\r\n          GET "key"\r\n
//
// The result depends on the bytes only, never on how they were divided into reads, and the work is linear in them.
// Errors have Redis's texts where Redis has one, followed by limit and value if a limit was exceeded. It is stricter
// in two places: a count ends with both \r and \n, and so does a bulk string.
//
// Memory: the buffer doubles as bytes arrive, regardless of announced lengths, up to buffer_bytes_max; arguments take
// 16 bytes each as they arrive. Commands that are not larger than earlier ones allocate nothing.
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
  bool unauthenticated = false;       // for clients before authentication; errors say so
};

// As in Redis: a client that is not authenticated cannot make the server buffer much.
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
  kCommand,  // command() returns it
  kMore,     // more input is needed
  kError,    // error() says why; there is no further output, and the connection should be closed
};

class RespReader {
 public:
  static constexpr size_t kRoomBytes = 16 << 10;

  explicit RespReader(const RespLimits& limits = {}) : limits_(limits) {}
  // Takes effect from the next count on; call it before the first bytes, or between two commands.
  void set_limits(const RespLimits& limits) { limits_ = limits; }

  // The space for the next bytes, then how many arrived. The space is at least `least` bytes, less only near
  // buffer_bytes_max; after next() returned kMore it is empty only if memory is exhausted.
  std::span<char> room(size_t least = kRoomBytes);
  void filled(size_t bytes);

  RespRead next();
  // After kCommand: at least one argument, valid until the next call of a non-const member. The bytes that they point
  // to stay in place until room() or shrink(), whatever next() finds after them.
  std::span<const std::string_view> command() const { return arguments_; }
  std::string_view error() const { return error_; }  // "Protocol error: ..."

  bool idle() const { return begin_ == end_ && arguments_.empty(); }  // all input was returned as commands
  size_t unread_bytes() const { return end_ - begin_; }  // received, including those of the last returned command
  size_t memory_bytes() const { return capacity_ + arguments_.capacity() * sizeof(std::string_view); }
  // Releases buffer space that the remaining bytes do not need, for an idle connection.
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
  size_t begin_ = 0;             // of the command being parsed
  size_t at_ = 0;                // what is parsed next
  size_t seen_ = 0;              // where the search for the end of a line continues, or ended
  size_t end_ = 0;               // of the received bytes
  size_t left_ = 0;              // arguments of the array still to come
  size_t bulk_bytes_ = kNoBulk;  // of the next one
  bool given_ = false;           // the command between begin_ and at_ was returned
  std::vector<std::string_view> arguments_;
  std::string error_;

  static constexpr size_t kNoBulk = SIZE_MAX;  // its length is still to come
};

// Error replies by their first word, so that the buffer need not be parsed again.
struct RespErrors {
  size_t command = 0;  // the index of the command being answered
  std::vector<std::pair<size_t, std::string>> seen;
  void add(std::string_view text) { seen.emplace_back(command, text.substr(0, text.find(' '))); }
};

// Replies, appended to a buffer that belongs to the connection. Where RESP3 has its own form (null, map, set, push,
// boolean, double, verbatim text), version 2 gets what Redis sends there. Counts are those of the elements that
// follow.
//
// A string that would make the buffer longer than bytes_max is left out: then over() is true, and the buffer does not
// hold a valid reply.
class RespWriter {
 public:
  explicit RespWriter(std::string* out, size_t bytes_max = SIZE_MAX) : out_(out), bytes_max_(bytes_max) {}

  bool over() const { return over_; }

  int version() const { return version_; }  // 2, or 3 once the client said HELLO 3
  void set_version(int version) { version_ = version; }
  void set_errors(RespErrors* errors) { errors_ = errors; }

  void simple(std::string_view text) { line('+', text); }  // line breaks become spaces
  void error(std::string_view text) {                      // "ERR ..."; likewise
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
