#include "weft/redis/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace weft {
namespace {

constexpr size_t kHostBytesMax = 253;  // of a name

Error bad(std::string what) { return {Code::kBadOption, std::move(what)}; }

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

Result<void> check_v6(const std::string& host) {
  const std::string number = host.substr(0, host.find('%'));  // a zone may follow
  in6_addr address{};
  if (inet_pton(AF_INET6, number.c_str(), &address) == 1) return {};
  return bad("what is in brackets is no IPv6 address");
}

Result<void> check_name(const std::string& host) {
  if (host.empty()) return bad("the host is empty");
  if (host.size() > kHostBytesMax) {
    return bad("the host has " + std::to_string(host.size()) + " bytes, at most " + std::to_string(kHostBytesMax));
  }
  if (!std::all_of(host.begin(), host.end(),
                   [](char c) { return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_' || c == ':'; })) {
    return bad("a host has letters, digits, '.', '-' and '_'");
  }
  if (host.find(':') != std::string::npos) return bad("an IPv6 address goes in brackets");
  in_addr address{};
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;
  if (numeric && inet_pton(AF_INET, host.c_str(), &address) != 1) return bad("the host is no IPv4 address");
  return {};
}

std::string address_text(const sockaddr_storage& at, socklen_t bytes) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&at), bytes, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?:0";
  }
  return at.ss_family == AF_INET6 ? "[" + std::string(host) + "]:" + port : std::string(host) + ":" + port;
}

uint64_t source_of(const sockaddr_storage& at) {
  if (at.ss_family == AF_INET) return reinterpret_cast<const sockaddr_in&>(at).sin_addr.s_addr;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(at).sin6_addr;
  uint64_t network = 0;
  uint32_t mapped = 0;
  std::memcpy(&network, address.s6_addr, sizeof network);
  std::memcpy(&mapped, address.s6_addr + 12, sizeof mapped);
  return IN6_IS_ADDR_V4MAPPED(&address) ? mapped : network;
}

}  // namespace

std::string peer_address(int socket, uint64_t* source) {
  sockaddr_storage at{};
  socklen_t bytes = sizeof at;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&at), &bytes) != 0) return "?:0";
  if (source != nullptr) *source = source_of(at);
  return address_text(at, bytes);
}

std::string own_address(int socket) {
  sockaddr_storage at{};
  socklen_t bytes = sizeof at;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&at), &bytes) != 0) return "?:0";
  return address_text(at, bytes);
}

bool HostPort::is_loopback() const {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

Result<HostPort> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.ends_with(']')) return bad("there is no port");
  HostPort out;
  out.host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool brackets = out.host.size() >= 2 && out.host.front() == '[' && out.host.back() == ']';
  if (brackets) out.host = out.host.substr(1, out.host.size() - 2);
  if (const auto host = brackets ? check_v6(out.host) : check_name(out.host); !host) return host.error();
  const bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits) return bad("the port is no number");
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc()) return bad("the port is above 65535");
  return out;
}

Result<Fd> listen_on(const std::string& address, int backlog) {
  const Result<HostPort> at = parse_host_port(address);
  if (!at) return bad(address + ": " + at.error().detail);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(at->port);
  if (const int failed = getaddrinfo(at->host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    return bad(address + ": " + gai_strerror(failed));
  }
  Fd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int one = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const bool listens = bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(socket.get(), backlog) == 0;
  freeaddrinfo(found);
  if (!listens) return bad(address + ": " + strerrordesc_np(errno));
  return socket;
}

uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
                                       : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<void> check_socket_address(std::string_view address) {
  if (address.find('\0') != std::string_view::npos) return bad("there is a zero byte in it");
  if (address.empty() || address == "@") return bad("it is empty");
  if (address.size() > kSocketPathBytesMax) {
    return bad("a socket's address has at most " + std::to_string(kSocketPathBytesMax) + " bytes, this one " +
               std::to_string(address.size()));
  }
  return {};
}

std::string zookeeper_path_fault(std::string_view path) {
  if (!path.starts_with('/')) return "it does not begin with '/'";
  if (path.ends_with('/')) return "it ends with '/'";
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty()) return "a part of it is empty";
    if (part == "." || part == "..") return "a part of it is \"" + std::string(part) + "\"";
    at = end + 1;
  }
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return plain ? "" : "it has characters that are not printable ASCII";
}

}  // namespace weft
