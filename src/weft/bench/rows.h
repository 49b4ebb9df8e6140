// Rows are plain structs, copied in and out of values.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

namespace weft::bench {

template <class Row>
Row row_of(std::string_view bytes) {
  Row row{};
  std::memcpy(&row, bytes.data(), std::min(bytes.size(), sizeof row));
  return row;
}

template <class Row>
std::string_view bytes_of(const Row& row) {
  return {reinterpret_cast<const char*>(&row), sizeof row};
}

}  // namespace weft::bench
