// Where the sources are, for tests that read a page or a script beside the code.
#pragma once

#include <filesystem>
#include <string>

namespace weft {

// The folder above the program that holds the presets. Looked for when the test runs and not written into the program:
// a compiler cache then knows the object in every clone.
inline std::string source_path(const std::string& name) {
  std::filesystem::path at = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  while (at.has_relative_path() && !exists(at / "CMakePresets.json")) at = at.parent_path();
  return (at / name).string();
}

}  // namespace weft
