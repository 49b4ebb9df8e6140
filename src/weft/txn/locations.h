// LocationCache: where records were when a worker last saw them at their primaries (DrTM+H's location cache). A
// location is a hint: a record read there shows by its key, its flags and its checksum whether it is still the right
// one.
//
// It is a table of 16-byte entries without chains: two keys that share a place evict each other. Keys are identified by
// their hash, table and node, so a primary that moves leaves no entry behind that would be looked up.
//
// Plain data of one worker.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "weft/base/hash.h"
#include "weft/fabric/region.h"
#include "weft/store/table.h"
#include "weft/types.h"

namespace weft {

class LocationCache {
 public:
  // Uses at most `bytes` (Limits::location_bytes); pages are touched as they are used. 0: remembers nothing.
  static Result<LocationCache> create(size_t bytes) {
    LocationCache cache;
    const size_t entries = bytes / sizeof(Entry) == 0 ? 0 : std::bit_floor(bytes / sizeof(Entry));
    if (entries == 0) return cache;
    auto region = Region::create(entries * sizeof(Entry));
    if (!region) return region.error();
    cache.memory_ = std::move(*region);
    cache.entries_ = reinterpret_cast<Entry*>(cache.memory_->base());
    cache.mask_ = entries - 1;
    return cache;
  }

  RecordSlot find(NodeId node, TableId table, uint64_t hash) const {
    if (entries_ == nullptr) return {};
    const uint64_t tag = tag_of(node, table, hash);
    const Entry& entry = entries_[tag & mask_];
    return entry.tag == tag ? RecordSlot(entry.slot) : RecordSlot();
  }
  void put(NodeId node, TableId table, uint64_t hash, RecordSlot slot) {
    if (entries_ == nullptr) return;
    const uint64_t tag = tag_of(node, table, hash);
    entries_[tag & mask_] = {tag, slot.bits};
  }
  void forget(NodeId node, TableId table, uint64_t hash) {
    if (entries_ == nullptr) return;
    const uint64_t tag = tag_of(node, table, hash);
    if (entries_[tag & mask_].tag == tag) entries_[tag & mask_] = {};
  }

 private:
  struct Entry {
    uint64_t tag = 0;
    uint64_t slot = 0;
  };
  static_assert(sizeof(Entry) == 16);
  static uint64_t tag_of(NodeId node, TableId table, uint64_t hash) {
    return mix64(hash ^ (uint64_t{table.value} << 8 | node.value) * 0x9e3779b97f4a7c15U);
  }

  std::unique_ptr<Region> memory_;
  Entry* entries_ = nullptr;
  uint64_t mask_ = 0;
};

}  // namespace weft
