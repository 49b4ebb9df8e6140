// Pages of scans: what a replica has of a range of an ordered table, as a first look of a transaction, and how scans
// are checked (rule G8). Both sides use these: the node that scans, at its own replica, and a primary for other nodes.
//
// A page is items in the order of the scan, each 8-byte aligned:
//
//   0            8            12           16
//   | version    | key bytes  | value bytes| key, padded | value, padded |
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/hash.h"
#include "weft/store/ordered_scan.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"

namespace weft {

struct PageItemHead {
  uint64_t version;
  uint32_t key_bytes;
  uint32_t value_bytes;
};
static_assert(sizeof(PageItemHead) == 16);

// Pages that other nodes ask for have at most so many bytes, or one item; small ones share packets with the messages of
// commits.
inline constexpr size_t kScanPageBytes = 32 << 10;
inline constexpr size_t kScanSmallPage = 2048;

struct PageItem {
  Version version;
  ByteView key;
  ByteView value;
};
constexpr size_t page_item_bytes(size_t key_bytes, size_t value_bytes) {
  return sizeof(PageItemHead) + padded(key_bytes) + padded(value_bytes);
}
// Parses the item at `*at`, and advances past it. False: there is none in the bytes up to `end`.
bool take_item(const std::byte** at, const std::byte* end, PageItem* out);

// What of a range to read at a time.
struct PageRange {
  TableId table;
  PartitionId partition;
  ByteView from, to;
  bool backward = false;
  uint64_t items_max = 0;
  size_t bytes_max = 0;
};
struct PageEnd {
  Code code = Code::kOk;  // or kLocked: an item is just being written, by `holder`
  Owner holder;
  uint32_t items = 0;
  bool more = false;    // there may be more in the range
  uint64_t needed = 0;  // the first item takes so many bytes, more than there were
};

// A scan's version: the keys and versions that a range has, in ascending order.
class ScanDigest {
 public:
  void add(ByteView key, Version version) {
    hash_ = hash_bytes_128(key.data(), key.size(), {hash_.low ^ version.value, hash_.high ^ key.size()});
    ++items_;
  }
  const Hash128& hash() const { return hash_; }
  uint32_t items() const { return items_; }

 private:
  Hash128 hash_;
  uint32_t items_ = 0;
};

// What is checked of a scan at its partition's primary.
struct ScanCheck {
  TableId table;
  PartitionId partition;
  ByteView from, to;
  Hash128 digest;
  uint32_t items = 0;
  bool has_erases = false;  // else the primary counts for itself
  uint64_t erases = 0;      // Table::erases() there before what was read could change
};

// The worker's scans of the tables of its node.
class TableScans {
 public:
  explicit TableScans(WorkerContext& ctx);

  // Reads items from the beginning of the range, appends them to `out`, and says how far it came.
  PageEnd read(const PageRange& range, std::vector<std::byte>* out);
  // Whether the range still has what the digest says, and nothing in it is written by another than `self`: kOk,
  // kLocked, kVersionMoved.
  Code check(const ScanCheck& check, Owner self, Owner* holder);

 private:
  WorkerContext& ctx_;
  std::vector<std::unique_ptr<OrderedScan>> scans_;  // by table; nullptr: it is not ordered
};

}  // namespace weft
