// The value of a key in the list-append workload:
//
//   0       4       8                     8 + 8 * count     end
//   | count | pad   | elements ...        | pad bytes       |
//
// Pad bytes make a value large. They depend on the count, so that a mixture of two versions is detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace weft::sim {

using List = std::vector<uint64_t>;

inline constexpr size_t kListHeader = 8;
constexpr size_t list_bytes(size_t elements, size_t pad) { return kListHeader + elements * 8 + pad; }

inline std::string encode_list(const List& list, uint32_t pad) {
  const auto count = static_cast<uint32_t>(list.size());
  std::string value(kListHeader + count * 8 + pad, static_cast<char>(count * 37 + 1));
  std::memcpy(value.data(), &count, 4);
  std::memcpy(value.data() + 4, &pad, 4);
  if (count > 0) std::memcpy(value.data() + kListHeader, list.data(), count * 8);
  return value;
}

// False if no transaction can have written these bytes.
inline bool decode_list(std::string_view value, List& list) {
  uint32_t count = 0;
  uint32_t pad = 0;
  if (value.size() < kListHeader) return false;
  std::memcpy(&count, value.data(), 4);
  std::memcpy(&pad, value.data() + 4, 4);
  if (value.size() != kListHeader + size_t{count} * 8 + pad) return false;
  list.resize(count);
  if (count > 0) std::memcpy(list.data(), value.data() + kListHeader, count * 8);
  const std::string_view rest = value.substr(kListHeader + count * 8);
  return rest.find_first_not_of(static_cast<char>(count * 37 + 1)) == std::string_view::npos;
}

}  // namespace weft::sim
