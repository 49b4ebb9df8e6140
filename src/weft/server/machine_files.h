// Reading what the kernel says of the machine in /proc and /sys. What is not there reads as empty.
#pragma once

#include <string>

namespace weft {

std::string first_line(const std::string& file);
// The text behind "name:" in a file of such lines.
std::string field_in(const std::string& file, const std::string& name);
// The word in brackets of a line like "always [madvise] never".
std::string chosen_in(const std::string& file);

}  // namespace weft
