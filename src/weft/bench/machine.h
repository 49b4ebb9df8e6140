// What machine this is: for the heading of figures, and to refuse a load that does not fit into its memory.
#pragma once

#include <cstdint>
#include <string>

namespace weft::bench {

struct Machine {
  std::string cpu;
  int cores = 0;
  uint64_t memory_bytes = 0;
  std::string huge_pages;  // the kernel's setting for anonymous memory
  std::string compiler;
};
Machine describe_machine();

// What the kernel would give now without swapping; 0 if it does not say.
uint64_t memory_available_bytes();

}  // namespace weft::bench
