// Reads what the kernel says about the machine in /proc and /sys. Missing files read as empty.
#pragma once

#include <string>

namespace weft {

std::string first_line(const std::string& file);
// The text after "name:" in a file of such lines.
std::string field_in(const std::string& file, const std::string& name);
// The word in brackets of a line like "always [madvise] never".
std::string chosen_in(const std::string& file);

}  // namespace weft
