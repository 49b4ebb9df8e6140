// Creating a table, hashing keys, and walks over all records.
#include "weft/store/table.h"

#include <array>
#include <climits>

#include "weft/store/ordered_index.h"
#include "weft/store/table_inline.h"

namespace weft {
namespace {

// CCITT, as in Redis: polynomial 0x1021, nothing reflected. Row n has what a byte adds that n others follow.
constexpr size_t kCrcTogether = 8;  // bytes
constexpr auto kCrc16 = [] {
  std::array<std::array<uint16_t, 256>, kCrcTogether> rows{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i << 8;
    for (auto& row : rows) {
      for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
      crc &= 0xffff;
      row[i] = static_cast<uint16_t>(crc);
    }
  }
  return rows;
}();

}  // namespace

uint32_t redis_slot(ByteView key) {
  // If the key has a {tag} that is not empty, only the tag counts.
  const std::string_view text = as_text(key);
  const size_t open = text.find('{');
  if (open != std::string_view::npos) {
    const size_t close = text.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) key = key.subspan(open + 1, close - open - 1);
  }
  uint32_t crc = 0;
  const auto add = [](size_t followed_by, uint32_t byte) -> uint32_t { return kCrc16[followed_by][byte & 0xff]; };
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(key[i]); };
  for (; key.size() >= kCrcTogether; key = key.subspan(kCrcTogether)) {
    crc = add(7, crc >> 8 ^ byte(0)) ^ add(6, crc ^ byte(1)) ^ add(5, byte(2)) ^ add(4, byte(3)) ^ add(3, byte(4)) ^
          add(2, byte(5)) ^ add(1, byte(6)) ^ add(0, byte(7));
  }
  for (; !key.empty(); key = key.subspan(1)) crc = (crc << 8 ^ add(0, crc >> 8 ^ byte(0))) & 0xffff;
  return crc % kRedisSlots;
}

Result<std::unique_ptr<Table>> Table::create(const TableOptions& options, Region* region) {
  const Result<TableLayout> layout = table_layout(options);
  if (!layout) return layout.error();
  WEFT_CHECK((*layout).end <= region->bytes(), "the region is as large as region_bytes() asks");
  std::unique_ptr<Table> table(new Table(options, region, *layout));
  DlhtOptions index_options;
  index_options.capacity = (*layout).keys;
  index_options.readers = options.workers;
  Result<std::unique_ptr<Dlht>> index = Dlht::create(index_options, &table->extents_);
  if (!index) return index.error();
  table->index_ = std::move(*index);
  if (options.spec.ordered) table->make_order(options, *layout);
  return table;
}

size_t Table::region_bytes(const TableOptions& options) {
  const Result<TableLayout> layout = table_layout(options);
  return layout ? (*layout).end : 1;  // create() will return the error
}

Table::Table(const TableOptions& options, Region* region, const TableLayout& layout)
    : extents_(region, layout.index_at, layout.blocks_at),
      base_(region->base()),
      absence_(region->base() + layout.absence_at),
      seed_(options.hash_seed),
      partitions_(static_cast<uint32_t>(options.partitions)),
      absence_per_partition_(layout.absence_per_partition),
      integer_keys_(options.spec.keys == KeyKind::kInteger),
      checksums_(options.checksums),
      plain_(options.spec.keys == KeyKind::kInteger && options.spec.partition == PartitionBy::kHash),
      bugs_(options.bugs),
      looking_(options.looking),
      looking_context_(options.looking_context),
      records_limit_(layout.records_per_partition),
      bytes_limit_(layout.bytes_per_partition),
      memory_bytes_max_(options.spec.memory_bytes_max != 0 && options.partitions_held != 0
                            ? options.spec.memory_bytes_max
                            : layout.end),
      blocks_(region->base(), layout.blocks_at, layout.end),
      usage_(new PartitionUsage[static_cast<size_t>(options.partitions)]),
      spec_(options.spec),
      partitions_held_(options.partitions_held) {
  usual_ = is_usual();
  shared_.reserve(64);
}

Table::~Table() = default;

HashedKey Table::hashed_otherwise(ByteView key) const {
  WEFT_CHECK(!integer_keys_ || key.size() == sizeof(uint64_t), "an integer key has 8 bytes");
  WEFT_CHECK(key.size() <= kKeyBytesMax, "the caller enforces key_bytes_max");
  const uint64_t hash = hash_of(key);
  uint32_t partition = 0;
  switch (spec_.partition) {
    case PartitionBy::kHash:
      partition = reduce_low(hash, partitions_);
      break;
    case PartitionBy::kPrefix: {
      const size_t bytes = std::min<size_t>(key.size(), spec_.prefix_bytes);
      if (integer_keys_) {
        uint64_t number = load<uint64_t>(key.data());
        if (bytes < 8) {
          number = prefix_is_high(spec_) ? number >> (64 - bytes * 8) : number & ((uint64_t{1} << bytes * 8) - 1);
        }
        partition = static_cast<uint32_t>(number % partitions_);
        break;
      }
      partition = reduce_low(hash_bytes(key.data(), bytes, seed_), partitions_);
      break;
    }
    case PartitionBy::kRedisSlot:
      partition = partitions_ == 1 ? 0 : redis_slot(key) * partitions_ / kRedisSlots;
      break;
  }
  return HashedKey{key, hash, PartitionId(static_cast<uint16_t>(partition)), {}};
}

bool Table::KeyMatch::collides(RecordSlot slot) const {
  std::array<std::byte, kKeyBytesMax> copy;
  const std::optional<size_t> bytes = table.copy_key(slot, copy.data());
  if (!bytes) return false;
  // It may be our key by now: an install that was in progress at the comparison has completed.
  if (as_text(ByteView(copy.data(), *bytes)) == as_text(key.bytes)) return false;
  return hash_bytes(copy.data(), *bytes, table.seed_) == key.hash;
}

void Table::quiesce(WorkerId worker) { index_->quiesce(worker.value); }
void Table::offline(WorkerId worker) { index_->offline(worker.value); }

void Table::visit(Visitor visitor, void* context) const {
  uint64_t cursor = 0;
  do {
    cursor = visit_some(cursor, INT_MAX, SIZE_MAX, visitor, context);
  } while (cursor != 0);
}

uint64_t Table::visit_some(uint64_t cursor, int bins, size_t bytes_max, Visitor visitor, void* context) const {
  // Not zeroed: a walk may cover only a few bins.
  const size_t value_room = align_up(spec_.value_bytes_max, 8);
  const auto key = std::make_unique_for_overwrite<std::byte[]>(kKeyBytesMax);
  const auto value = std::make_unique_for_overwrite<std::byte[]>(value_room);
  size_t read_bytes = 0;
  do {
    cursor = index_->scan(cursor, [&](uint64_t, uint64_t slot_value) {
      const RecordSlot slot(slot_value);
      const std::optional<size_t> bytes = copy_key(slot, key.get());
      if (!bytes || (integer_keys_ && *bytes != sizeof(uint64_t))) return;
      // read() finds the key wherever it was moved since.
      const HashedKey found = hashed(ByteView(key.get(), *bytes));
      const ReadResult result = read(found, value.get(), value_room);
      if (!result.found) return;
      read_bytes += result.value_bytes;
      visitor(context, found.bytes, ByteView(value.get(), result.value_bytes), result.word);
    });
  } while (cursor != 0 && --bins > 0 && read_bytes < bytes_max);
  return cursor;
}

Table::LeakReport Table::leak_report() const {
  LeakReport out;
  uint64_t cursor = 0;
  do {
    cursor = leak_report_some(cursor, INT_MAX, &out);
  } while (cursor != 0);
  for (uint32_t i = 0; i < partitions_ * absence_per_partition_; ++i) {
    if (load_word(absence_at(i)).owner()) ++out.locked;
  }
  return out;
}

uint64_t Table::leak_report_some(uint64_t cursor, int bins, LeakReport* out) const {
  do {
    cursor = index_->scan(cursor, [&](uint64_t, uint64_t slot_value) {
      const Word word = load_word(at(RecordSlot(slot_value)));
      if (word.owner()) ++out->locked;
      if (word.deleted() && !word.owner()) ++out->tombstones;
      if (!word.deleted() && !word.readable()) ++out->unreadable;
    });
  } while (cursor != 0 && --bins > 0);
  return cursor;
}

bool Table::absence_locked(PartitionId partition, uint32_t index) const {
  return static_cast<bool>(load_word(absence_at(partition.value * absence_per_partition_ + index)).owner());
}

uint64_t Table::records() const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < partitions_; ++i) sum += usage_[i].records();
  return sum;
}

uint64_t Table::memory_bytes() const {
  const uint64_t absence =
      uint64_t{absence_per_partition_} * static_cast<uint64_t>(partitions_held_) * sizeof(uint64_t);
  return absence + extents_.used() + blocks_.slab_bytes_used() + (ordered() ? order_->memory_bytes() : 0);
}

std::string Table::limit_text(Code code) const {
  if (code == Code::kBinFull) {
    return "table " + spec_.name + ": 15 keys in one bin of the index, at most 15";
  }
  return "table " + spec_.name + ": at most " + std::to_string(records_limit_) + " records and " +
         std::to_string(bytes_limit_) + " bytes of records in a partition (capacity " + std::to_string(spec_.capacity) +
         " in " + std::to_string(partitions_) + " partitions, memory_bytes_max " +
         std::to_string(spec_.memory_bytes_max) + ")" +
         (ordered() ? ", and " + std::to_string(order_->space().nodes()) + " nodes of 1 KiB for its order" : "");
}

}  // namespace weft
