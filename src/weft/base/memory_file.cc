#include "weft/base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace weft {
namespace {

// Newer kernels may be configured to refuse memory that could be executed; older ones do not know the flag.
constexpr unsigned kNoExecSeal = 8;  // MFD_NOEXEC_SEAL

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Error os_error(const char* call, size_t bytes) {
  return Error{Code::kOs, std::string(call) + " for " + std::to_string(bytes) + " bytes: " + strerrordesc_np(errno)};
}

}  // namespace

Result<Fd> make_memory_file(const char* name, size_t bytes) {
  if (bytes == 0 || bytes > SIZE_MAX / 2) {
    return Error{Code::kBadOption, "shared memory of " + std::to_string(bytes) + " bytes"};
  }
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal));
  if (!fd && errno == EINVAL) fd = Fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return os_error("memfd_create", bytes);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return os_error("ftruncate", bytes);
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) return os_error("sealing", bytes);
  return fd;
}

Result<void> check_memory_file(int fd, size_t bytes) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return os_error("fstat", bytes);
  if (static_cast<uint64_t>(status.st_size) != bytes) {
    return Error{Code::kBadPacket, "shared memory of " + std::to_string(bytes) + " bytes was announced, it has " +
                                       std::to_string(status.st_size)};
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return Error{Code::kBadPacket, "shared memory whose size is not sealed"};
  }
  return {};
}

}  // namespace weft
