// Addresses as a user writes them, checked without name resolution. An error's detail says what is wrong, in a few
// words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/fd.h"
#include "weft/status.h"

namespace weft {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;
  bool is_wildcard() const { return host == "0.0.0.0" || host == "::"; }
  // By its text: 127.x.y.z, ::1 or localhost. Other names are not resolved, and do not count as loopback.
  bool is_loopback() const;
};

// "name:port", "1.2.3.4:port", "[::1]:port".
Result<HostPort> parse_host_port(std::string_view text);

// A listening, non-blocking socket. Two processes may bind the same port, but only one can listen.
Result<Fd> listen_on(const std::string& address, int backlog);
// The port that a socket is bound to.
uint16_t port_of(int socket);

// Of a connection, host:port; "?:0" if it is no longer connected. `source` gets its origin as a word: an IPv4 address,
// or the network half of an IPv6 address, since a host that has one address of a network has all of them.
std::string peer_address(int socket, uint64_t* source = nullptr);
std::string own_address(int socket);

inline constexpr size_t kSocketPathBytesMax = 107;  // sockaddr_un has 108, including the zero

// '@' and an abstract name, or a path.
inline bool is_abstract_socket(std::string_view address) { return address.starts_with('@'); }
Result<void> check_socket_address(std::string_view address);

// What is wrong with the path of a node in ZooKeeper; empty: nothing.
std::string zookeeper_path_fault(std::string_view path);

}  // namespace weft
