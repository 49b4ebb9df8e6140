// Memory with a file descriptor, so that other processes can map it: a memfd. It has no name in any file system and
// disappears with the last process that holds or maps it.
//
// It is sealed against changing its size: accessing a mapping of a file that shrank would raise SIGBUS.
#pragma once

#include <cstddef>

#include "weft/base/fd.h"
#include "weft/status.h"

namespace weft {

// `name` is what /proc/PID/maps shows.
Result<Fd> make_memory_file(const char* name, size_t bytes);

// Checks that a descriptor received from a peer is one that make_memory_file() makes, of exactly this size.
Result<void> check_memory_file(int fd, size_t bytes);

}  // namespace weft
