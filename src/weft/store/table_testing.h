// Shared by the tests and the benchmark of the table: a table with its region, and keys and values as bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/store/owner_testing.h"
#include "weft/store/table.h"

namespace weft::testing {

struct TableBox {
  explicit TableBox(const TableOptions& options) {
    region = std::move(*Region::create(Table::region_bytes(options)));
    auto made = Table::create(options, region.get());
    WEFT_CHECK(bool{made}, "the table of a test is made");
    table = std::move(*made);
  }
  Table* operator->() const { return table.get(); }
  Table& operator*() const { return *table; }

  std::unique_ptr<Region> region;
  std::unique_ptr<Table> table;
};

inline TableOptions integer_table(uint64_t capacity, uint32_t value_bytes_max = 64) {
  TableOptions options;
  options.spec.name = "t";
  options.spec.capacity = capacity;
  options.spec.value_bytes_max = value_bytes_max;
  options.hash_seed = 0x5eed;
  return options;
}

inline TableOptions bytes_table(uint64_t capacity, uint32_t value_bytes_max = 64) {
  TableOptions options = integer_table(capacity, value_bytes_max);
  options.spec.keys = KeyKind::kBytes;
  return options;
}

// Owns the key's bytes.
struct IntegerKey {
  explicit IntegerKey(uint64_t k) : value(k) {}
  ByteView bytes() const { return {reinterpret_cast<const std::byte*>(&value), sizeof value}; }
  uint64_t value;
};

inline constexpr Owner kAlice = make_owner(NodeId(0), WorkerId(0), 1);
inline constexpr Owner kBob = make_owner(NodeId(1), WorkerId(0), 1);

// The value as text, or "-" if the key is absent.
inline std::string get(const Table& table, const HashedKey& key, Word* word = nullptr) {
  std::vector<std::byte> value(table.spec().value_bytes_max);
  const ReadResult result = table.read(key, value.data(), value.size());
  if (word != nullptr) *word = result.word;
  return result.found ? std::string(as_text(ByteView(value.data(), result.value_bytes))) : "-";
}

inline Code write(Table& table, const HashedKey& key, Write kind, std::string_view value = {}) {
  const LockResult r = table.lock(key, kAlice, kind, std::nullopt, static_cast<uint32_t>(value.size()));
  if (r.code == Code::kOk) table.commit(key, kAlice, kind, as_bytes(value), r.locked);
  return r.code;
}

}  // namespace weft::testing
