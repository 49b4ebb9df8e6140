// Texts shared by the frontend's files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/types.h"

namespace weft {

inline constexpr std::string_view kRemoved =
    "ERR rejected: this node was removed from the view and starts over: ask another node";

// incarnation.worker.sequence
inline std::string id_text(const TxnId& id) {
  return std::to_string(id.incarnation) + "." + std::to_string(id.worker.value) + "." + std::to_string(id.sequence);
}

inline std::string limit_text(std::string_view name, uint64_t limit, uint64_t asked) {
  return std::string(name) + " is " + std::to_string(limit) + ", asked for " + std::to_string(asked);
}

}  // namespace weft
