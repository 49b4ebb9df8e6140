#include "weft/member/framed_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace weft {

namespace {
constexpr size_t kLengthBytes = 4;
}

void FramedSocket::send(std::string_view text) {
  if (!open()) return;
  if (text.size() > kBytesMax || output_.size() + text.size() > kBytesMax + kLengthBytes) return close();
  const auto length = static_cast<uint32_t>(text.size());
  char bytes[kLengthBytes];
  std::memcpy(bytes, &length, sizeof bytes);
  output_.append(bytes, sizeof bytes).append(text);
  flush();
}

void FramedSocket::flush() {
  while (open() && !output_.empty()) {
    const ssize_t n = ::send(fd(), output_.data(), output_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return close();
    output_.erase(0, static_cast<size_t>(n));
  }
}

void FramedSocket::read_available() {
  char bytes[64 << 10];
  for (;;) {
    const ssize_t n = recv(fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return close();
    input_.append(bytes, static_cast<size_t>(n));
    if (input_.size() > kBytesMax + kLengthBytes) return;  // consume what is buffered first
  }
}

bool FramedSocket::receive(std::string* text) {
  for (int round = 0; round < 2; ++round) {
    if (input_.size() >= kLengthBytes) {
      uint32_t length = 0;
      std::memcpy(&length, input_.data(), sizeof length);
      if (length > kBytesMax) {
        close();
        return false;
      }
      if (input_.size() >= kLengthBytes + length) {
        text->assign(input_, kLengthBytes, length);
        input_.erase(0, kLengthBytes + length);
        return true;
      }
    }
    if (round == 0 && open()) read_available();
  }
  return false;
}

}  // namespace weft
