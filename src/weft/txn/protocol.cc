#include "weft/txn/protocol.h"

namespace weft {

std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[] = {"execute", "lock", "validate", "replicate", "unlock", "done"};
  return kNames[static_cast<int>(phase)];
}

const Protocol* find_protocol(std::string_view name) {
  for (const Protocol& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace weft
