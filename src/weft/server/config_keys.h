// The keys of a configuration as rows. The reader, the writer and the reference page iterate over them; constraints
// between keys are in config_check.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/server/config.h"

namespace weft {

enum class KeyType : uint8_t {
  kInteger,
  kSize,  // an integer, or a string with a unit: "64KiB"
  kBoolean,
  kChoice,  // one of several names
  kText,
};

// Where a key's value is stored.
template <class T>
using Field = T& (*)(NodeConfig&);
using AnyField =
    std::variant<Field<int>, Field<uint32_t>, Field<uint64_t>, Field<NodeId>, Field<bool>, Field<std::string>,
                 Field<FabricKind>, Field<MembershipKind>, Field<RemoteLockMode>, Field<NodeRoles>>;

struct ConfigKey {
  std::string_view table;  // "fabric.tls"
  std::string_view name;
  KeyType type;
  AnyField field;
  uint64_t low = 0;  // of integers and sizes, both included
  uint64_t high = 0;
  std::vector<std::string_view> choices{};  // of kChoice; in the order of the enumeration if the field is one
  bool secret = false;                      // never shown in an error
  std::string_view fallback{};              // the default in words, where the field's own does not say it all
  std::string_view about;
  bool path = false;  // of a file; a relative one starts at the folder of the file that gives it

  std::string full_name() const { return std::string(table) + "." + std::string(name); }
  std::string expected() const;  // "an integer, 1 to 63"
};

// In the order in which a file is written.
std::span<const ConfigKey> config_keys();
const ConfigKey* find_key(std::string_view full_name);  // nullptr if there is none

// A value as in a file: 3, true, "64KiB", "dnl4".
std::string value_text(const ConfigKey& key, const NodeConfig& config);

// "64KiB", "1GiB"; plain digits if no unit divides it.
std::string size_text(uint64_t bytes);
// False if it is not a size or out of range.
bool parse_size(std::string_view text, uint64_t& bytes);

// A TOML string with its quotes, on one line.
std::string toml_string(std::string_view text);
// The same for an error: at most a line.
std::string shown(std::string_view text);

// The current name of a key of an earlier version, `table.name`; empty if there was none of that name.
std::string_view renamed_key(std::string_view full_name);

}  // namespace weft
