// OrderedScan: reads the records of one partition of an ordered table in the order of their keys, forward or backward.
//
// It is no snapshot. A record that is there all the time is given exactly once, each as it is when it comes to it; what
// is inserted or erased meanwhile may be given or not. What a transaction needs beyond that it validates: by the keys
// and versions, by the states below, and by Table::erases().
//
// Thread-safety: one thread at a time. It may be kept and used again for as long as the table exists.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "weft/base/bytes.h"
#include "weft/store/order_cursor.h"
#include "weft/store/table.h"

namespace weft {

struct ScanRange {
  PartitionId partition;
  std::optional<ByteView> from = {};  // the lowest key; none: the first of the partition
  std::optional<ByteView> to = {};    // the key above the highest; none: the last of the partition is the highest
  uint64_t limit = UINT64_MAX;        // items, whatever their states
  uint64_t expected = UINT64_MAX;     // how many the caller will probably take; others cost more
  bool backward = false;
  bool keys_only = false;  // values may be cut
  Owner self = {};         // whose locks are no obstacle; its own inserts are not there yet
};

enum class ScanState : uint8_t {
  kPresent,   // not locked for writing by another. At a backup it may be unreadable: see the word
  kChanging,  // another writes, inserts or erases it, or its erase may still be undone: it may be there or not
  kTorn,      // as in ReadResult: only the key and the word's owner are valid
};

// Key and value are valid until the next call of the scan.
struct ScanItem {
  ScanState state = ScanState::kPresent;
  bool found = false;  // kChanging: it has a value, as it was before
  ByteView key;
  ByteView value;  // kChanging: the value before, or none
  Word word;       // as in ReadResult
};

class OrderedScan {
 public:
  // The table is ordered. Takes memory for the longest key and value, once.
  explicit OrderedScan(const Table& table);

  // Both bounds must stay until the last next(); those of integer keys have 8 bytes.
  void start(const ScanRange& range);
  // False: there are no more, or the limit is reached.
  bool next(ScanItem* item);

 private:
  bool look_at(const HashedKey& key, ScanItem* item);

  const Table& table_;
  OrderCursor cursor_;
  PartitionId partition_;
  Owner self_;
  uint64_t left_ = 0;
  size_t value_max_ = 0;
  const size_t value_room_;
  const std::unique_ptr<std::byte[]> value_;
};

}  // namespace weft
