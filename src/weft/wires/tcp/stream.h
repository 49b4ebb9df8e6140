// A connected, non-blocking socket, with or without TLS on it; and the addresses such sockets have.
//
// One thread at a time: the control thread until the hello is exchanged, then the worker it is handed to.
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

// A file descriptor that is closed when it goes.
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
  kDone,    // more may go at once
  kAgain,   // the socket has no more, or takes no more, for now
  kClosed,  // it is over; the fault says why
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
  // Takes the object over. From here on everything goes through it, beginning with its handshake.
  void start_tls(ssl_st* ssl) { ssl_ = ssl; }
  bool tls() const { return ssl_ != nullptr; }
  const ssl_st* ssl() const { return ssl_; }

  // kDone at once without TLS.
  TcpIo handshake(TcpFault* fault);
  // Bytes may have been moved whatever `io` says.
  Moved read(std::byte* to, size_t bytes, TcpFault* fault);
  // After kAgain the same bytes come first in the next write, and no fewer.
  Moved write(const std::byte* from, size_t bytes, TcpFault* fault);

 private:
  Moved read_tls(std::byte* to, size_t bytes, TcpFault* fault);
  Moved write_tls(const std::byte* from, size_t bytes, TcpFault* fault);

  Descriptor socket_;
  ssl_st* ssl_ = nullptr;
};

// What strerror says, for any thread.
const char* tcp_error_text(int error);

// recv and send that do not return for a signal. With edge-triggered events, "not now" must mean that the socket is
// drained or full: only then it will say when that changes. Writing to a closed socket raises no SIGPIPE.
ssize_t tcp_recv(int fd, void* to, size_t bytes);
ssize_t tcp_send(int fd, const void* from, size_t bytes);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};
// "host:port", "[v6]:port". A name is looked up, which may block for long.
Result<SocketAddress> tcp_resolve(const std::string& address);
// What needs no looking up: the host is a number, or the text makes no sense. Nothing: it is a name.
std::optional<Result<SocketAddress>> tcp_address_of_number(const std::string& address);
// Port 0 lets the kernel choose. May block as tcp_resolve().
Result<Descriptor> tcp_listen(const std::string& address);
// Begins to connect; the socket is writable when that has ended, and tcp_connected() says how.
Result<Descriptor> tcp_connect(const SocketAddress& address);
Result<void> tcp_connected(int fd);
// What the socket is bound to, and what is at its other end.
std::string tcp_local_address(int fd);
std::string tcp_peer_address(int fd);
// Sends at once, does not wait to fill a segment.
void tcp_no_delay(int fd);

}  // namespace weft
