// A connected, non-blocking socket, with or without TLS, and socket addresses.
//
// Used by one thread at a time: the control thread until the hello is exchanged, then the worker.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "weft/base/bytes.h"
#include "weft/status.h"
#include "weft/wires/tcp/frame.h"

struct ssl_st;

namespace weft {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

enum class TcpIo : uint8_t {
  kDone,    // more may be possible at once
  kAgain,   // the socket has no more data, or no more room, for now
  kClosed,  // the connection has ended; the fault says why
};

class TcpStream {
 public:
  struct Moved {
    size_t bytes;
    TcpIo io;
  };

  TcpStream() = default;
  explicit TcpStream(Descriptor socket) : socket_(std::move(socket)) {}
  ~TcpStream();
  TcpStream(TcpStream&& other) noexcept : socket_(std::move(other.socket_)), ssl_(std::exchange(other.ssl_, nullptr)) {}
  TcpStream& operator=(TcpStream&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(ssl_, other.ssl_);
    return *this;
  }

  int fd() const { return socket_.get(); }
  // Takes ownership of `ssl`. From now on all data goes through it, beginning with its handshake.
  void start_tls(ssl_st* ssl) { ssl_ = ssl; }
  bool tls() const { return ssl_ != nullptr; }
  const ssl_st* ssl() const { return ssl_; }

  // Without TLS returns kDone at once.
  TcpIo handshake(TcpFault* fault);
  // Bytes may have been moved whatever `io` is.
  Moved read(std::byte* to, size_t bytes, TcpFault* fault);
  // After kAgain the next write must begin with the same bytes, and must not be shorter.
  Moved write(const std::byte* from, size_t bytes, TcpFault* fault);

 private:
  Moved read_tls(std::byte* to, size_t bytes, TcpFault* fault);
  Moved write_tls(const std::byte* from, size_t bytes, TcpFault* fault);

  Descriptor socket_;
  ssl_st* ssl_ = nullptr;
};

// Like strerror, but thread-safe.
const char* tcp_error_text(int error);

// recv and send that retry after a signal. With edge-triggered events EAGAIN must mean that the socket is drained or
// full: only then it reports when that changes. Writing to a closed socket raises no SIGPIPE.
ssize_t tcp_recv(int fd, void* to, size_t bytes);
ssize_t tcp_send(int fd, const void* from, size_t bytes);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};
// Resolves "host:port" or "[v6]:port". Looking up a name may block for long.
Result<SocketAddress> tcp_resolve(const std::string& address);
// The result if no lookup is needed: the host is numeric, or the text is invalid. Empty: it is a name.
std::optional<Result<SocketAddress>> tcp_address_of_number(const std::string& address);
// Port 0 lets the kernel choose. May block like tcp_resolve().
Result<Descriptor> tcp_listen(const std::string& address);
// Begins to connect; the socket becomes writable at the end, and tcp_connected() returns the result.
Result<Descriptor> tcp_connect(const SocketAddress& address);
Result<void> tcp_connected(int fd);
// The addresses of the socket's two ends.
std::string tcp_local_address(int fd);
std::string tcp_peer_address(int fd);
// Sends at once instead of waiting to fill a segment.
void tcp_no_delay(int fd);

}  // namespace weft
