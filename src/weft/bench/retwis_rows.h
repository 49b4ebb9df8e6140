// The records of Retwis and the arguments of its procedures: plain data.
#pragma once

#include <array>
#include <cstdint>

#include "weft/bench/retwis.h"
#include "weft/bench/rows.h"

namespace weft::bench::retwis {

// Everything after `version` follows from what is before it, so that a value mixed from two is noticed.
struct Record {
  uint64_t key;
  uint64_t writer;   // the transaction that wrote it last, 0: loaded
  uint64_t version;  // the version of this write, if the writer had read the one before; 0: put blindly
  std::array<uint64_t, 5> text;
  friend bool operator==(const Record&, const Record&) = default;
};
static_assert(sizeof(Record) == 64);

constexpr uint64_t kLoadedVersion = 1;

constexpr Record record_of(uint64_t key, uint64_t writer, uint64_t version) {
  Record record{key, writer, version, {}};
  uint64_t word = key * 0x9e3779b97f4a7c15U ^ writer ^ version;
  for (uint64_t& each : record.text) each = word = word * 0xbf58476d1ce4e5b9U + 1;
  return record;
}

inline bool intact(uint64_t key, std::string_view bytes) {
  if (bytes.size() != sizeof(Record)) return false;
  const auto record = row_of<Record>(bytes);
  return record == record_of(key, record.writer, record.version);
}

// Only as many keys are sent as there are.
struct Arguments {
  uint64_t writer;
  Retwis::KeyList keys;
};
static_assert(sizeof(Arguments) == 8 + 8 * Retwis::kKeysMax);

constexpr uint32_t keys_in(std::string_view arguments) {
  return static_cast<uint32_t>((arguments.size() - sizeof(uint64_t)) / sizeof(uint64_t));
}

}  // namespace weft::bench::retwis
