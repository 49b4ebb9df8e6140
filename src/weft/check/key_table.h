// Small tables for the checker: keys become dense numbers in order of first use, and (key, element) finds the append
// that wrote it. Neither can be iterated in hash order, so nothing the checker says depends on it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/base/hash.h"

namespace weft::checking {

// The strings must outlive the table.
class KeyTable {
 public:
  uint32_t intern(std::string_view key) {
    const auto [it, fresh] = ids_.try_emplace(key, static_cast<uint32_t>(names_.size()));
    if (fresh) names_.push_back(key);
    return it->second;
  }
  std::string_view name(uint32_t id) const { return names_[id]; }
  size_t size() const { return names_.size(); }

 private:
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::vector<std::string_view> names_;
};

// Open addressing with linear probing, sized once: holds at most `capacity` entries at half load or less.
template <class Value>
class ElementMap {
 public:
  explicit ElementMap(size_t capacity) : slots_(std::bit_ceil(capacity * 2 + 2)) {}

  // The entry's value, and whether it is the one just given.
  std::pair<Value*, bool> insert(uint32_t key, int64_t element, Value value) {
    Slot& slot = slots_[probe(key, element)];
    const bool fresh = !slot.used;
    if (fresh) slot = Slot{element, key, true, value};
    return {&slot.value, fresh};
  }

  const Value* find(uint32_t key, int64_t element) const {
    const Slot& slot = slots_[probe(key, element)];
    return slot.used ? &slot.value : nullptr;
  }

 private:
  struct Slot {
    int64_t element = 0;
    uint32_t key = 0;
    bool used = false;
    Value value{};
  };

  size_t probe(uint32_t key, int64_t element) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash_u64(static_cast<uint64_t>(element), mix64(key + 1)) & mask;
    while (slots_[i].used && (slots_[i].key != key || slots_[i].element != element)) i = (i + 1) & mask;
    return i;
  }

  std::vector<Slot> slots_;
};

}  // namespace weft::checking
