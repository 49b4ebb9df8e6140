// Where the facts come from.
#include <dirent.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "weft/base/fd.h"
#include "weft/server/doctor.h"
#include "weft/server/machine_files.h"
#include "weft/wires/verbs/devices.h"

namespace weft {

namespace {

// What x86-64-v3 adds, and the 16-byte compare-and-swap, by the names of /proc/cpuinfo.
constexpr std::string_view kCpuNeeds[] = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "cx16"};

uint64_t kib(const std::string& root, const char* name) {
  return std::strtoull(field_in(root + "/proc/meminfo", name).c_str(), nullptr, 10) * 1024;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  DIR* const opened = opendir(folder.c_str());
  if (opened == nullptr) return out;
  while (const dirent* entry = readdir(opened)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    const std::string name = entry->d_name;
    if (!name.starts_with('.')) out.push_back(name);
  }
  closedir(opened);
  std::sort(out.begin(), out.end());
  return out;
}

uint64_t hard_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return 0;
  return limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
}

bool is_taken(int port) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 || listen(socket.get(), 1) != 0;
}

bool loads(const char* library) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

void gather_cores(const std::string& root, MachineFacts& out) {
  const std::vector<std::string> flags = words(field_in(root + "/proc/cpuinfo", "flags"));
  for (const std::string_view need : kCpuNeeds) {
    if (!flags.empty() && std::find(flags.begin(), flags.end(), need) == flags.end())
      out.cpu_missing.emplace_back(need);
  }
  out.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    out.cores_allowed = CPU_COUNT(&allowed);
    out.can_pin = sched_setaffinity(0, sizeof allowed, &allowed) == 0;
  }
  const std::vector<std::string> quota = words(first_line(root + "/sys/fs/cgroup/cpu.max"));
  if (quota.size() == 2 && quota[0] != "max") {
    const double period = std::strtod(quota[1].c_str(), nullptr);
    if (period > 0) out.cores_quota = std::strtod(quota[0].c_str(), nullptr) / period;
  }
  out.governor = first_line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
}

void gather_memory(const std::string& root, MachineFacts& out) {
  out.memory_bytes = kib(root, "MemTotal");
  out.memory_available_bytes = kib(root, "MemAvailable");
  out.swap_bytes = kib(root, "SwapTotal");
  const std::string quota = first_line(root + "/sys/fs/cgroup/memory.max");
  if (!quota.empty() && quota != "max") out.memory_quota_bytes = std::strtoull(quota.c_str(), nullptr, 10);
  out.overcommit = first_line(root + "/proc/sys/vm/overcommit_memory");
  out.huge_pages = chosen_in(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  out.shared_huge_pages = chosen_in(root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
}

}  // namespace

MachineFacts gather_facts(const std::string& root, const std::vector<int>& ports) {
  MachineFacts out;
  utsname names{};
  if (uname(&names) == 0) out.kernel = std::string(names.sysname) + " " + names.release;
  gather_cores(root, out);
  gather_memory(root, out);
  out.open_files_max = hard_limit(RLIMIT_NOFILE);
  out.locked_bytes_max = hard_limit(RLIMIT_MEMLOCK);
  out.clock_source = first_line(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  out.backlog_max = std::atoi(first_line(root + "/proc/sys/net/core/somaxconn").c_str());
  out.pidfd = static_cast<bool>(Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))));
  out.memfd = static_cast<bool>(Fd(memfd_create("weft doctor", MFD_CLOEXEC)));
  out.rdma_devices = names_in(root + "/sys/class/infiniband");
  out.verbs_library = loads("libibverbs.so.1");
  if (root.empty() && out.verbs_library && !out.rdma_devices.empty()) {
    const VerbsDevices found = verbs_devices();
    out.rdma_works = std::any_of(found.devices.begin(), found.devices.end(), [](const auto& d) { return d.usable(); });
    out.rdma_lines = verbs_lines(found);
  }
  out.ports = ports;
  std::copy_if(ports.begin(), ports.end(), std::back_inserter(out.ports_taken), is_taken);
  return out;
}

}  // namespace weft
