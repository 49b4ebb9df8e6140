// FramedSocket: text messages over a non-blocking stream socket: four bytes of length, then the text. Both ends are
// processes of one user (the supervisor and its nodes); lengths are checked all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/fd.h"

namespace weft {

class FramedSocket {
 public:
  static constexpr size_t kBytesMax = 4 << 20;  // of one message, and of the pending output

  FramedSocket() = default;
  explicit FramedSocket(Fd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool open() const { return static_cast<bool>(socket_); }
  void close() { socket_.reset(); }
  bool wants_to_write() const { return !output_.empty(); }

  // Sends as much as possible without blocking; flush() sends the rest. A message over the limit, or a peer that does
  // not read, closes the connection.
  void send(std::string_view text);
  void flush();
  // Takes one message if a complete one has arrived. At end of stream, or after malformed input, open() becomes false.
  bool receive(std::string* text);

 private:
  void read_available();

  Fd socket_;
  std::string input_;
  std::string output_;
};

}  // namespace weft
