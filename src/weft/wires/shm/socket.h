// The unix sockets over which shm nodes set up their links: SOCK_SEQPACKET, so that a message arrives complete with its
// file descriptors or not at all. Everything here is non-blocking.
//
// An address that begins with '@' is a name of the abstract namespace: nothing in the file system, gone with its
// process. Any other is a path; the listener unlinks the file, and replaces one that a killed process left.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/fd.h"
#include "weft/status.h"

namespace weft {

inline constexpr size_t kShmMessageBytesMax = 32 << 10;
inline constexpr size_t kShmMessageFdsMax = 128;  // the kernel takes 253

struct ShmMessage {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};

enum class ShmSocket { kMessages, kStream };  // the supervisor uses streams (member/framed_socket.h)

Result<Fd> shm_listen(const std::string& address, ShmSocket kind = ShmSocket::kMessages);
void shm_unlink(const std::string& address);  // nothing for an abstract name
Result<Fd> shm_connect(const std::string& address, ShmSocket kind = ShmSocket::kMessages);
Fd shm_accept(int listener);  // empty if no connection waits

// Whether the process at the other end runs as the same user as this one (SO_PEERCRED).
Result<void> shm_check_user(int socket);

// False if the socket takes no more or is closed: set-up sends little and never waits.
bool shm_send(int socket, ByteView bytes, std::span<const int> fds = {});

enum class ShmReceived {
  kMessage,
  kNothing,
  kCut,  // the message is too long, or has more descriptors than this process may open
  kEnd,
};
ShmReceived shm_receive(int socket, ShmMessage& out);

// True once the other end is closed, whether or not something is left to read.
bool shm_hung_up(int socket);

}  // namespace weft
