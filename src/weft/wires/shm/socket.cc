#include "weft/wires/shm/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace weft {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

bool is_abstract(const std::string& address) { return !address.empty() && address[0] == '@'; }

Error socket_error(const char* call, const std::string& address) {
  return Error{Code::kOs, std::string(call) + " " + address + ": " + strerrordesc_np(errno)};
}

Result<Address> parse(const std::string& text) {
  Address address;
  constexpr size_t kBytesMax = sizeof(address.name.sun_path) - 1;
  if (text.size() < 2 || text.size() > kBytesMax) {
    return Error{Code::kBadOption, "the socket address '" + text + "' has " + std::to_string(text.size()) +
                                       " bytes; it may have 2 to " + std::to_string(kBytesMax)};
  }
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path, text.data(), text.size());
  if (is_abstract(text)) address.name.sun_path[0] = '\0';
  // An abstract name has an explicit length; a path is zero-terminated.
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + (is_abstract(text) ? 0 : 1));
  return address;
}

Fd make_socket(ShmSocket kind) {
  const int type = kind == ShmSocket::kStream ? SOCK_STREAM : SOCK_SEQPACKET;
  return Fd(socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

const sockaddr* raw(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.name); }

}  // namespace

Result<Fd> shm_listen(const std::string& text, ShmSocket kind) {
  const Result<Address> address = parse(text);
  if (!address) return address.error();
  Fd fd = make_socket(kind);
  if (!fd) return socket_error("socket", text);
  int bound = bind(fd.get(), raw(*address), (*address).bytes);
  if (bound != 0 && errno == EADDRINUSE && !is_abstract(text)) {
    const Fd probe = make_socket(kind);
    if (connect(probe.get(), raw(*address), (*address).bytes) != 0 && errno == ECONNREFUSED) {
      shm_unlink(text);
      bound = bind(fd.get(), raw(*address), (*address).bytes);
    } else {
      errno = EADDRINUSE;
    }
  }
  if (bound != 0) return socket_error("bind", text);
  if (listen(fd.get(), 64) != 0) return socket_error("listen", text);
  return fd;
}

void shm_unlink(const std::string& address) {
  if (!is_abstract(address)) unlink(address.c_str());
}

Result<Fd> shm_connect(const std::string& text, ShmSocket kind) {
  const Result<Address> address = parse(text);
  if (!address) return address.error();
  Fd fd = make_socket(kind);
  if (!fd) return socket_error("socket", text);
  if (connect(fd.get(), raw(*address), (*address).bytes) != 0) return socket_error("connect", text);
  return fd;
}

Fd shm_accept(int listener) { return Fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)); }

Result<void> shm_check_user(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return socket_error("SO_PEERCRED", "of a peer");
  if (peer.uid == geteuid()) return {};
  return Error{Code::kBadPacket, "user: process " + std::to_string(peer.pid) + " runs as uid " +
                                     std::to_string(peer.uid) + ", this one as " + std::to_string(geteuid())};
}

bool shm_send(int socket, ByteView bytes, std::span<const int> fds) {
  if (bytes.size() > kShmMessageBytesMax || fds.size() > kShmMessageFdsMax) return false;
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kShmMessageFdsMax * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

ShmReceived shm_receive(int socket, ShmMessage& out) {
  out.bytes.resize(kShmMessageBytesMax);
  out.fds.clear();
  iovec part{out.bytes.data(), out.bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kShmMessageFdsMax * sizeof(int))> control;
  msghdr message{};
  ssize_t got = 0;
  // If the peer closed with unread data of ours, one call fails; what it sent before can still be read.
  bool again = true;
  for (bool reset_seen = false; again;) {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    again = got < 0 && (errno == EINTR || (errno == ECONNRESET && !reset_seen));
    reset_seen = reset_seen || (got < 0 && errno == ECONNRESET);
  }
  if (got < 0) return errno == EAGAIN ? ShmReceived::kNothing : ShmReceived::kEnd;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      out.fds.emplace_back(fd);
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return ShmReceived::kCut;
  if (got == 0) return ShmReceived::kEnd;  // or an empty message, which no peer sends
  out.bytes.resize(static_cast<size_t>(got));
  return ShmReceived::kMessage;
}

bool shm_hung_up(int socket) {
  pollfd look{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&look, 1, 0) == 1 && (look.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace weft
