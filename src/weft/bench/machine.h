// Describes this machine: for the heading of figures, and to refuse a load that does not fit into its memory.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace weft::bench {

struct Machine {
  std::string cpu;
  int cores = 0;
  uint64_t memory_bytes = 0;
  std::string huge_pages;  // the kernel's setting for anonymous memory
  std::string compiler;
};
Machine describe_machine();

// The beginning of a page of figures: its title, the command that made it, at which commit (`label`, may be empty), and
// this machine.
void print_heading(std::ostream& out, std::string_view title, std::string_view command, std::string_view label);

// The memory that the kernel could give now without swapping; 0 if unknown.
uint64_t memory_available_bytes();

}  // namespace weft::bench
