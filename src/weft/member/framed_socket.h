// FramedSocket: messages of text over a stream socket that does not block: four bytes of length, then the text. Both
// ends are processes of one user (the supervisor and its nodes), the lengths are checked all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/fd.h"

namespace weft {

class FramedSocket {
 public:
  static constexpr size_t kBytesMax = 4 << 20;  // of one message, and of what waits to be written

  FramedSocket() = default;
  explicit FramedSocket(Fd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool open() const { return static_cast<bool>(socket_); }
  void close() { socket_.reset(); }
  bool wants_to_write() const { return !output_.empty(); }

  // Sends as much as goes without waiting; the rest waits for flush(). A message over the limit, or an end that does
  // not read, closes the connection.
  void send(std::string_view text);
  void flush();
  // One message if a whole one is there. At the other side's end, or after what cannot be, open() turns false.
  bool receive(std::string* text);

 private:
  void read_available();

  Fd socket_;
  std::string input_;
  std::string output_;
};

}  // namespace weft
