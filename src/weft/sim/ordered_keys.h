// Numbers as keys of an ordered table, dealt out to a few prefixes, each of which lies in one partition.
#pragma once

#include <cstdint>

#include "weft/options.h"

namespace weft::sim {

struct OrderedKeys {
  uint64_t prefixes = 1;

  static constexpr int kLowBits = 16;
  uint64_t key(uint64_t number) const { return (number % prefixes) << kLowBits | number / prefixes; }
  uint64_t number(uint64_t key) const { return (key & ((uint64_t{1} << kLowBits) - 1)) * prefixes + (key >> kLowBits); }
  static uint64_t key_at(uint64_t prefix, uint64_t low) { return prefix << kLowBits | low; }
  static void make_ordered(TableSpec& spec) {
    spec.ordered = true;
    spec.partition = PartitionBy::kPrefix;
    spec.prefix_bytes = (64 - kLowBits) / 8;
  }
};

}  // namespace weft::sim
