#include "weft/bench/machine.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "weft/server/machine_files.h"

namespace weft::bench {
namespace {

uint64_t memory_field(const char* name) {
  const std::string text = field_in("/proc/meminfo", name);
  return text.empty() ? 0 : std::strtoull(text.c_str(), nullptr, 10) * 1024;
}

}  // namespace

Machine describe_machine() {
  Machine machine;
  machine.cpu = field_in("/proc/cpuinfo", "model name");
  if (machine.cpu.empty()) machine.cpu = "unknown CPU";
  machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  machine.memory_bytes = memory_field("MemTotal");
  machine.huge_pages = chosen_in("/sys/kernel/mm/transparent_hugepage/enabled");
  if (machine.huge_pages.empty()) machine.huge_pages = "unknown";
#if defined(__clang__)
  machine.compiler = "clang " __clang_version__;
#else
  machine.compiler = "g++ " __VERSION__;
#endif
  return machine;
}

uint64_t memory_available_bytes() { return memory_field("MemAvailable"); }

void print_heading(std::ostream& out, std::string_view title, std::string_view command, std::string_view label) {
  const Machine machine = describe_machine();
  fmt::print(out, "# {}\n\n", title);
  fmt::print(out, "Made by `{}`{}{}.\n\n", command, label.empty() ? "" : ", commit ", label);
  fmt::print(out, "- Machine: {}, {} cores, {:.0f} GiB, transparent huge pages: {}. Built with {}.\n", machine.cpu,
             machine.cores, static_cast<double>(machine.memory_bytes) / static_cast<double>(uint64_t{1} << 30),
             machine.huge_pages, machine.compiler);
}

}  // namespace weft::bench
