// Raw tables: a Dlht with its own memory, for programs that want a fast concurrent map without transactions.
//
//   RawTable   8-byte keys to 8-byte values, both in the index: one cache line for most operations.
//   ByteTable  byte strings to byte strings. The index holds the hash and a pointer to an immutable heap entry with key
//              and value; a write replaces the entry, and the old one is freed when all readers have quiesced.
//
// Threads: as for Dlht. A thread is one of the readers, by its number, and calls quiesce() regularly, or offline()
// before it is idle for long. Memory (index and entries) never exceeds memory_bytes_max: an operation that would exceed
// it fails with an error that names the limit and the value, and leaves the table unchanged.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/hash.h"
#include "weft/status.h"
#include "weft/store/dlht.h"

namespace weft {

// Anonymous memory, on huge pages where the kernel provides them, up to a limit.
class MappedMemory final : public IndexMemory {
 public:
  explicit MappedMemory(size_t limit) : limit_(limit) {}
  std::byte* allocate(size_t bytes) override;
  void free(std::byte* memory, size_t bytes) override;
  size_t limit() const override { return limit_; }

  // For memory that comes from elsewhere but counts against the same limit.
  bool reserve(size_t bytes);
  void release(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const size_t limit_;
  std::atomic<size_t> used_{0};
};

struct RawTableOptions {
  uint64_t capacity = 1024;              // keys it is created for; it grows beyond
  uint64_t memory_bytes_max = SIZE_MAX;  // of everything
  int readers = 1;
  uint64_t hash_seed = 0;
  bool resizable = true;
  uint32_t key_bytes_max = 2047;        // ByteTable
  uint32_t value_bytes_max = 64 << 10;  // ByteTable
};

class RawTable {
 public:
  static Result<std::unique_ptr<RawTable>> create(const RawTableOptions& options);

  bool get(uint64_t key, uint64_t* value) const { return index_->get(hash(key), MatchAny(), value); }
  bool put(uint64_t key, uint64_t value, uint64_t* old) { return index_->put(hash(key), MatchAny(), value, old); }
  bool compare_put(uint64_t key, uint64_t old, uint64_t value) { return index_->compare_put(hash(key), old, value); }
  bool erase(uint64_t key, uint64_t* old) { return index_->erase(hash(key), MatchAny(), old); }
  // False: the key exists. Errors: kBinFull, kNoMemory.
  Result<bool> insert(uint64_t key, uint64_t value);

  // Executes the requests in order, by their keys, with their memory accesses overlapped.
  void run(std::span<DlhtRequest> requests);

  // A step of a walk: see Dlht::scan. visit(uint64_t key, uint64_t value).
  template <class Visit>
  uint64_t scan(uint64_t cursor, Visit visit) const {
    return index_->scan(cursor, [&](uint64_t hash, uint64_t value) { visit(unmix64(hash) ^ seed_, value); });
  }

  void quiesce(int reader) { index_->quiesce(reader); }
  void offline(int reader) { index_->offline(reader); }
  uint64_t size() const { return index_->size(); }
  size_t memory_bytes() const { return memory_.used(); }
  Dlht& index() { return *index_; }

  // The inverse of mix64: the hash of an 8-byte key is the key.
  static constexpr uint64_t unmix64(uint64_t x) {
    uint64_t inverse = 0xd6e8feb86659fd93U;  // Newton: each step doubles the number of correct low bits, from 3
    for (int i = 0; i < 5; ++i) inverse *= 2 - 0xd6e8feb86659fd93U * inverse;
    x ^= x >> 32;
    x *= inverse;
    x ^= x >> 32;
    x *= inverse;
    x ^= x >> 32;
    return x;
  }

 private:
  explicit RawTable(const RawTableOptions& options) : seed_(options.hash_seed), memory_(options.memory_bytes_max) {}
  uint64_t hash(uint64_t key) const { return hash_u64(key, seed_); }

  const uint64_t seed_;
  MappedMemory memory_;
  std::unique_ptr<Dlht> index_;
};
static_assert(RawTable::unmix64(mix64(0x0123456789abcdefU)) == 0x0123456789abcdefU);

class ByteTable {
 public:
  static Result<std::unique_ptr<ByteTable>> create(const RawTableOptions& options);
  ~ByteTable();

  // Copies the value to `value`. False: the key does not exist.
  bool get(ByteView key, std::vector<std::byte>* value) const;
  // Inserts or replaces. True: the key is new. Errors: kKeyTooLong, kValueTooLong, kBinFull, kNoMemory.
  Result<bool> put(int reader, ByteView key, ByteView value);
  // False: the key exists and is not changed. Errors as above.
  Result<bool> insert(ByteView key, ByteView value);
  bool erase(int reader, ByteView key);

  // visit(ByteView key, ByteView value); the views are valid until the caller quiesces.
  template <class Visit>
  uint64_t scan(uint64_t cursor, Visit visit) const {
    return index_->scan(cursor, [&](uint64_t, uint64_t value) {
      const Entry* const entry = at(value);
      visit(entry->key(), entry->value());
    });
  }

  void quiesce(int reader);
  void offline(int reader) { index_->offline(reader); }
  uint64_t size() const { return index_->size(); }
  size_t memory_bytes() const { return memory_.used(); }
  Dlht& index() { return *index_; }

 private:
  // Key and value follow it.
  struct Entry {
    uint32_t key_bytes;
    uint32_t value_bytes;
    const std::byte* data() const { return reinterpret_cast<const std::byte*>(this + 1); }
    ByteView key() const { return {data(), key_bytes}; }
    ByteView value() const { return {data() + key_bytes, value_bytes}; }
    size_t bytes() const { return sizeof(Entry) + key_bytes + value_bytes; }
  };
  // Entries that a reader has unlinked: those of its current round, and those of the previous round, which are freed
  // when all readers have passed the ticket.
  struct alignas(64) Limbo {
    std::vector<Entry*> fresh;
    std::vector<Entry*> waiting;
    uint64_t ticket = 0;
  };

  explicit ByteTable(const RawTableOptions& options)
      : options_(options), memory_(options.memory_bytes_max), limbo_(static_cast<size_t>(options.readers)) {}

  static Entry* at(uint64_t value) { return reinterpret_cast<Entry*>(value); }
  uint64_t hash(ByteView key) const { return hash_bytes(key.data(), key.size(), options_.hash_seed); }
  Result<Entry*> make(ByteView key, ByteView value);
  void free(Entry* entry);
  void retire(int reader, uint64_t value) { limbo_[static_cast<size_t>(reader)].fresh.push_back(at(value)); }
  Error refused(InsertCode code, ByteView key) const;

  const RawTableOptions options_;
  MappedMemory memory_;
  std::unique_ptr<Dlht> index_;
  std::vector<Limbo> limbo_;
};

}  // namespace weft
