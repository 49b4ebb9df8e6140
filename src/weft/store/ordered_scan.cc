#include "weft/store/ordered_scan.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/store/table_in_place.h"

namespace weft {
namespace {

constexpr size_t kShortValue = 64;  // as soon copied as left out

const OrderedIndex& order_of(const Table& table) {
  WEFT_CHECK(table.ordered(), "only an ordered table is scanned in order");
  return table.order();
}

}  // namespace

OrderedScan::OrderedScan(const Table& table)
    : table_(table),
      cursor_(order_of(table)),
      value_room_(align_up(table.spec().value_bytes_max, 8)),
      value_(std::make_unique_for_overwrite<std::byte[]>(value_room_)) {}

void OrderedScan::start(const ScanRange& range) {
  for (const auto& bound : {range.from, range.to}) {
    WEFT_CHECK(!bound || !table_.integer_keys() || bound->size() == sizeof(uint64_t), "an integer key has 8 bytes");
  }
  partition_ = range.partition;
  self_ = range.self;
  left_ = range.limit;
  value_max_ = range.keys_only ? std::min(value_room_, kShortValue) : value_room_;
  cursor_.start(range.partition, range.from, range.to, range.backward, std::min(range.limit, range.expected));
}

bool OrderedScan::next(ScanItem* item) {
  ByteView key;
  uint64_t slot_bits = 0;
  while (left_ > 0 && cursor_.next(&key, &slot_bits)) {
    // The slot is only a hint: the record may be elsewhere by now, or gone.
    const HashedKey hashed{key, table_.hash_of(key), partition_, RecordSlot(slot_bits)};
    if (!look_at(hashed, item)) continue;
    --left_;
    return true;
  }
  return false;
}

// False: there is no such record any more, or not yet for its own transaction.
bool OrderedScan::look_at(const HashedKey& key, ScanItem* item) {
  ReadResult read;
  if (table_.read_in_place(key, value_.get(), value_max_, &read.word, &read.value_bytes)) [[likely]] {
    read.found = true;
  } else {
    read = table_.read(key, value_.get(), value_max_);
  }
  item->key = key.bytes;
  item->value = ByteView(value_.get(), read.found ? std::min<size_t>(read.value_bytes, value_max_) : 0);
  item->word = read.word;
  item->found = read.found;
  const bool own = read.word.owner() && read.word.owner() == self_;
  if (read.torn) {
    item->state = ScanState::kTorn;
    return true;
  }
  if (!read.found) {
    item->state = ScanState::kChanging;
    return !own && (read.word.owner() || !read.word.readable());
  }
  item->state = read.word.write_locked() && !own ? ScanState::kChanging : ScanState::kPresent;
  return true;
}

}  // namespace weft
