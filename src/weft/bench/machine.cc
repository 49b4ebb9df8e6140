#include "weft/bench/machine.h"

#include <fstream>
#include <string>
#include <thread>

namespace weft::bench {
namespace {

// The text after "name<space>*:" in a file of such lines, or nothing.
std::string field(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return {};
}

uint64_t memory_field(const char* name) {
  const std::string text = field("/proc/meminfo", name);
  return text.empty() ? 0 : std::strtoull(text.c_str(), nullptr, 10) * 1024;
}

std::string chosen(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  const size_t open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos ? "unknown" : line.substr(open + 1, close - open - 1);
}

}  // namespace

Machine describe_machine() {
  Machine machine;
  machine.cpu = field("/proc/cpuinfo", "model name");
  if (machine.cpu.empty()) machine.cpu = "unknown CPU";
  machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  machine.memory_bytes = memory_field("MemTotal");
  machine.huge_pages = chosen("/sys/kernel/mm/transparent_hugepage/enabled");
#if defined(__clang__)
  machine.compiler = "clang " __clang_version__;
#else
  machine.compiler = "g++ " __VERSION__;
#endif
  return machine;
}

uint64_t memory_available_bytes() { return memory_field("MemAvailable"); }

}  // namespace weft::bench
