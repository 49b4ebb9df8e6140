// Memory with a file descriptor, so that other processes can map it: a memfd. It has no name in any file system and is
// gone when the last process that holds or maps it is.
//
// It is sealed against changing its size: a mapping of a file that shrank would be a SIGBUS in whoever touches it.
#pragma once

#include <cstddef>

#include "weft/base/fd.h"
#include "weft/status.h"

namespace weft {

// `name` is what /proc/PID/maps shows.
Result<Fd> make_memory_file(const char* name, size_t bytes);

// Whether a descriptor that somebody sent is what make_memory_file() makes, of exactly this size.
Result<void> check_memory_file(int fd, size_t bytes);

}  // namespace weft
