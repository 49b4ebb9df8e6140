// The protocol table, human-readable: `weft protocols`.
#pragma once

#include <ostream>

namespace weft {

void print_protocols(std::ostream& out);

}  // namespace weft
