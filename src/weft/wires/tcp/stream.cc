#include "weft/wires/tcp/stream.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/wires/tcp/tls.h"

namespace weft {
namespace {

constexpr size_t kRecordBytes = 16 << 10;  // the most that one TLS record carries

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

Error address_error(const std::string& address, const std::string& what) {
  return {Code::kBadOption, "address " + address + ": " + what};
}

Error os_error(const std::string& address, const char* call) {
  return {Code::kOs, "address " + address + ": " + call + ": " + tcp_error_text(errno)};
}

struct HostPort {
  std::string host, port;
};

Result<HostPort> split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return address_error(address, "has no port; host:port");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return HostPort{std::move(host), address.substr(colon + 1)};
}

// Returns the result of getaddrinfo.
int look_up(const HostPort& at, int flags, SocketAddress& out) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(at.host.empty() ? nullptr : at.host.c_str(), at.port.c_str(), &hints, &list);
  if (error != 0) return error;
  out.bytes = list->ai_addrlen;
  std::memcpy(&out.storage, list->ai_addr, list->ai_addrlen);
  freeaddrinfo(list);
  return 0;
}

Result<SocketAddress> resolve(const std::string& address, int flags) {
  const Result<HostPort> at = split(address);
  if (!at) return at.error();
  SocketAddress found;
  if (const int error = look_up(*at, flags, found); error != 0) return address_error(address, gai_strerror(error));
  return found;
}

Descriptor open_socket(const SocketAddress& address) {
  return Descriptor(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

const sockaddr* generic(const SocketAddress& address) { return reinterpret_cast<const sockaddr*>(&address.storage); }

std::string text_of(const SocketAddress& address) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  constexpr int kNumbers = NI_NUMERICHOST | NI_NUMERICSERV;
  if (getnameinfo(generic(address), address.bytes, host, sizeof host, port, sizeof port, kNumbers) != 0) {
    return "unknown";
  }
  const bool v6 = address.storage.ss_family == AF_INET6;
  return (v6 ? "[" : "") + std::string(host) + (v6 ? "]:" : ":") + port;
}

}  // namespace

const char* tcp_error_text(int error) {
  const char* const text = strerrordesc_np(error);
  return text != nullptr ? text : "unknown error";
}

ssize_t tcp_recv(int fd, void* to, size_t bytes) {
  for (;;) {
    const ssize_t got = recv(fd, to, bytes, 0);
    if (got >= 0 || errno != EINTR) return got;
  }
}

ssize_t tcp_send(int fd, const void* from, size_t bytes) {
  for (;;) {
    const ssize_t sent = ::send(fd, from, bytes, MSG_NOSIGNAL);
    if (sent >= 0 || errno != EINTR) return sent;
  }
}

void Descriptor::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

TcpStream::~TcpStream() {
  if (ssl_ != nullptr) SSL_free(ssl_);
}

TcpIo TcpStream::handshake(TcpFault* fault) {
  if (ssl_ == nullptr) return TcpIo::kDone;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) return TcpIo::kDone;
  const int error = SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return TcpIo::kAgain;
  tls_fault(ssl_, error, "TLS handshake", fault);
  return TcpIo::kClosed;
}

TcpStream::Moved TcpStream::read(std::byte* to, size_t bytes, TcpFault* fault) {
  if (ssl_ != nullptr) return read_tls(to, bytes, fault);
  const ssize_t got = tcp_recv(socket_.get(), to, bytes);
  if (got > 0) return {static_cast<size_t>(got), static_cast<size_t>(got) < bytes ? TcpIo::kAgain : TcpIo::kDone};
  if (got == 0) {
    fault->set("the other side closed the connection");
    return {0, TcpIo::kClosed};
  }
  if (would_block(errno)) return {0, TcpIo::kAgain};
  fault->set("recv: %s", tcp_error_text(errno));
  return {0, TcpIo::kClosed};
}

TcpStream::Moved TcpStream::write(const std::byte* from, size_t bytes, TcpFault* fault) {
  if (ssl_ != nullptr) return write_tls(from, bytes, fault);
  const ssize_t sent = tcp_send(socket_.get(), from, bytes);
  if (sent >= 0) return {static_cast<size_t>(sent), static_cast<size_t>(sent) < bytes ? TcpIo::kAgain : TcpIo::kDone};
  if (would_block(errno)) return {0, TcpIo::kAgain};
  fault->set("send: %s", tcp_error_text(errno));
  return {0, TcpIo::kClosed};
}

// Reads a record at a time until no complete one is left: only then the socket is drained.
TcpStream::Moved TcpStream::read_tls(std::byte* to, size_t bytes, TcpFault* fault) {
  size_t done = 0;
  while (done < bytes) {
    ERR_clear_error();
    size_t got = 0;
    const int result = SSL_read_ex(ssl_, to + done, bytes - done, &got);
    if (result == 1) {
      done += got;
      continue;
    }
    const int error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {done, TcpIo::kAgain};
    if (done != 0) return {done, TcpIo::kDone};  // the next read gets the error again
    if (error == SSL_ERROR_ZERO_RETURN) {
      fault->set("the other side closed the connection");
    } else {
      tls_fault(ssl_, error, "TLS", fault);
    }
    return {done, TcpIo::kClosed};
  }
  return {done, TcpIo::kDone};
}

TcpStream::Moved TcpStream::write_tls(const std::byte* from, size_t bytes, TcpFault* fault) {
  size_t done = 0;
  while (done < bytes) {
    ERR_clear_error();
    size_t sent = 0;
    const int result = SSL_write_ex(ssl_, from + done, std::min(bytes - done, kRecordBytes), &sent);
    if (result == 1) {
      done += sent;
      continue;
    }
    const int error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {done, TcpIo::kAgain};
    tls_fault(ssl_, error, "TLS", fault);
    return {done, TcpIo::kClosed};
  }
  return {done, TcpIo::kDone};
}

Result<SocketAddress> tcp_resolve(const std::string& address) { return resolve(address, 0); }

std::optional<Result<SocketAddress>> tcp_address_of_number(const std::string& address) {
  const Result<HostPort> at = split(address);
  if (!at) return at.error();
  SocketAddress found;
  const int error = look_up(*at, AI_NUMERICHOST, found);
  if (error == 0) return found;
  if (error == EAI_NONAME && !at->host.empty()) return std::nullopt;
  return address_error(address, gai_strerror(error));
}

Result<Descriptor> tcp_listen(const std::string& address) {
  const auto found = resolve(address, AI_PASSIVE);
  if (!found) return found.error();
  Descriptor fd = open_socket(*found);
  if (!fd) return os_error(address, "socket");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), generic(*found), found->bytes) != 0) return os_error(address, "bind");
  if (listen(fd.get(), SOMAXCONN) != 0) return os_error(address, "listen");
  return fd;
}

Result<Descriptor> tcp_connect(const SocketAddress& address) {
  Descriptor fd = open_socket(address);
  if (!fd) return os_error(text_of(address), "socket");
  if (connect(fd.get(), generic(address), address.bytes) != 0 && errno != EINPROGRESS) {
    return os_error(text_of(address), "connect");
  }
  return fd;
}

Result<void> tcp_connected(int fd) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error != 0) return Error{Code::kOs, tcp_error_text(error)};
  return {};
}

std::string tcp_local_address(int fd) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) != 0) return "unknown";
  return text_of(address);
}

std::string tcp_peer_address(int fd) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) != 0) return "unknown";
  return text_of(address);
}

void tcp_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace weft
