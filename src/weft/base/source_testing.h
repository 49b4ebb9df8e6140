// The path of the sources, for tests that read a page or a script beside the code.
#pragma once

#include <filesystem>
#include <string>

namespace weft {

// The folder above the program that holds the presets. Searched at run time and not compiled in, so that a compiler
// cache can share the object between clones.
inline std::string source_path(const std::string& name) {
  std::filesystem::path at = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  while (at.has_relative_path() && !exists(at / "CMakePresets.json")) at = at.parent_path();
  return (at / name).string();
}

}  // namespace weft
