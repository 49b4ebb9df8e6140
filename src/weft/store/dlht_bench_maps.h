// The maps that dlht_bench compares, behind one interface: 8-byte keys and values, created for a number of keys.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <tbb/concurrent_hash_map.h>

#include <cstdint>
#include <libcuckoo/cuckoohash_map.hh>
#include <memory>
#include <span>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/store/raw_table.h"

namespace weft::dlht_bench {

class WeftMap {
 public:
  static constexpr const char* kName = "weft::Dlht";
  static constexpr const char* kThreads = "concurrent";
  static constexpr bool kBatches = true;

  explicit WeftMap(uint64_t keys) : table_(std::move(*RawTable::create({.capacity = keys}))) {}
  bool get(uint64_t key, uint64_t* value) const { return table_->get(key, value); }
  bool put(uint64_t key, uint64_t value) {
    uint64_t old;
    return table_->put(key, value, &old);
  }
  bool insert(uint64_t key, uint64_t value) {
    const Result<bool> inserted = table_->insert(key, value);
    return inserted && *inserted;
  }
  bool erase(uint64_t key) {
    uint64_t old;
    return table_->erase(key, &old);
  }
  void run(std::span<DlhtRequest> requests) { table_->run(requests); }

 private:
  std::unique_ptr<RawTable> table_;
};

class AbslMap {
 public:
  static constexpr const char* kName = "absl::flat_hash_map";
  static constexpr const char* kThreads = "one thread";
  static constexpr bool kBatches = false;

  explicit AbslMap(uint64_t keys) { map_.reserve(keys); }
  bool get(uint64_t key, uint64_t* value) const {
    const auto it = map_.find(key);
    if (it == map_.end()) return false;
    *value = it->second;
    return true;
  }
  bool put(uint64_t key, uint64_t value) {
    const auto it = map_.find(key);
    if (it == map_.end()) return false;
    it->second = value;
    return true;
  }
  bool insert(uint64_t key, uint64_t value) { return map_.emplace(key, value).second; }
  bool erase(uint64_t key) { return map_.erase(key) == 1; }

 private:
  absl::flat_hash_map<uint64_t, uint64_t> map_;
};

// TBB's hash of an integer is the integer itself, which would turn the dense keys here into a plain array, so it gets
// ours.
class TbbMap {
 public:
  static constexpr const char* kName = "tbb::concurrent_hash_map";
  static constexpr const char* kThreads = "concurrent";
  static constexpr bool kBatches = false;

  explicit TbbMap(uint64_t keys) : map_(keys) {}
  bool get(uint64_t key, uint64_t* value) const {
    Map::const_accessor found;
    if (!map_.find(found, key)) return false;
    *value = found->second;
    return true;
  }
  bool put(uint64_t key, uint64_t value) {
    Map::accessor found;
    if (!map_.find(found, key)) return false;
    found->second = value;
    return true;
  }
  bool insert(uint64_t key, uint64_t value) { return map_.insert({key, value}); }
  bool erase(uint64_t key) { return map_.erase(key); }

 private:
  struct Hash {
    static size_t hash(uint64_t key) { return mix64(key); }
    static bool equal(uint64_t a, uint64_t b) { return a == b; }
  };
  using Map = tbb::concurrent_hash_map<uint64_t, uint64_t, Hash>;
  Map map_;
};

class CuckooMap {
 public:
  static constexpr const char* kName = "libcuckoo::cuckoohash_map";
  static constexpr const char* kThreads = "concurrent";
  static constexpr bool kBatches = false;

  explicit CuckooMap(uint64_t keys) : map_(keys) {}
  bool get(uint64_t key, uint64_t* value) const { return map_.find(key, *value); }
  bool put(uint64_t key, uint64_t value) { return map_.update(key, value); }
  bool insert(uint64_t key, uint64_t value) { return map_.insert(key, value); }
  bool erase(uint64_t key) { return map_.erase(key); }

 private:
  struct Hash {
    size_t operator()(uint64_t key) const { return mix64(key); }
  };
  libcuckoo::cuckoohash_map<uint64_t, uint64_t, Hash> map_;
};

}  // namespace weft::dlht_bench
