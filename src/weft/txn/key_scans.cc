#include "weft/txn/key_scans.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/store/table.h"
#include "weft/txn/messages.h"

namespace weft {

namespace {

enum class ScanStep : uint8_t { kAsk, kItem, kEnd };

constexpr int kPageBins = 4096;               // limit of one page, for an index that is mostly empty
constexpr size_t kPageBytes = 32 << 10;       // limit of one page, may be exceeded by the items of one bin
constexpr size_t kPageItemsMax = kPageBytes;  // limit of what is accepted, whatever a peer sends

struct ScanHeader {
  uint64_t cursor;     // kAsk: start here; kEnd: continue here, 0: the end
  uint64_t records;    // kEnd: number of records in the partition
  uint32_t question;   // returned with the answers
  uint32_t keys_max;   // kAsk
  uint32_t key_bytes;  // kItem: the key, then the first bytes of its value
  uint16_t table;
  uint16_t partition;
  uint8_t prefix_bytes;
  uint8_t step;  // ScanStep
  uint8_t unused[6];
};
static_assert(sizeof(ScanHeader) == 40);

}  // namespace

// Calls f(key, value). It visits complete bins, so that the cursor only has to say where a bin begins.
template <class F>
uint64_t KeyScans::read_page(const Table& table, PartitionId partition, uint64_t cursor, uint32_t keys_max,
                             bool* met_tombstone, F f) {
  uint32_t keys = 0;
  size_t bytes = 0;
  const uint64_t from = cursor >> kScanCursorSpare;
  if (keys_max == 0 || table.is_empty(partition)) return 0;
  // The limits do not stop it while the cursor has advanced only in bits that a caller's cursor has no room for.
  for (int bins = 0; cursor >> kScanCursorSpare == from || (bins < kPageBins && keys < keys_max && bytes < kPageBytes);
       ++bins) {
    const auto copy = [&](ByteView key, ByteView value, Version) {
      f(key, value);
      ++keys;
      bytes += sizeof(ScanHeader) + key.size();
    };
    cursor = table.export_bin(partition, cursor, ctx_.scratch.data(), KeyItem::kPrefixBytes, copy, met_tombstone);
    if (cursor == 0) return 0;
  }
  return cursor >> kScanCursorSpare << kScanCursorSpare;
}

bool KeyScans::parse(const Message& m) const {
  if (m.body.size() < sizeof(ScanHeader)) return false;
  const auto header = load<ScanHeader>(m.body.data());
  if (header.step > static_cast<uint8_t>(ScanStep::kEnd) || header.table >= ctx_.tables.count() ||
      header.partition >= ctx_.view().partitions.size()) {
    return false;
  }
  const bool item = static_cast<ScanStep>(header.step) == ScanStep::kItem;
  const size_t rest = item ? padded(size_t{header.key_bytes} + header.prefix_bytes) : 0;
  return m.body.size() - sizeof header == rest && header.key_bytes <= ctx_.limits.key_bytes_max &&
         header.prefix_bytes <= KeyItem::kPrefixBytes;
}

void KeyScans::on_message(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    static_cast<ScanStep>(load<ScanHeader>(m.body.data()).step) == ScanStep::kAsk ? serve_page(m) : receive_page(m);
  }
}

void KeyScans::serve_page(const Message& m) {
  // Nobody holds credit for this. An asker without an answer asks again.
  if (ctx_.port.queued_bytes(m.source, Flow::kExecution) > ctx_.limits.credit_bytes / 2) return;
  auto header = load<ScanHeader>(m.body.data());
  const PartitionId partition(header.partition);
  if (ctx_.view().placement(partition).primary() != ctx_.self || !ctx_.has_lease()) return;
  const Table& table = *ctx_.tables.at(TableId(header.table));
  const auto send = [&](ScanStep step, size_t bytes) {
    header.step = static_cast<uint8_t>(step);
    std::byte* at =
        ctx_.port.reserve(m.source, Flow::kExecution, static_cast<uint8_t>(Kind::kScan), sizeof header + padded(bytes));
    store(at, header);
    std::memset(at + sizeof header, 0, padded(bytes));  // padding goes over the wire
    return at + sizeof header;
  };
  const auto item = [&](ByteView key, ByteView value) {
    header.key_bytes = static_cast<uint32_t>(key.size());
    header.prefix_bytes = static_cast<uint8_t>(std::min(value.size(), KeyItem::kPrefixBytes));
    std::byte* at = send(ScanStep::kItem, key.size() + header.prefix_bytes);
    std::memcpy(at, key.data(), key.size());
    if (header.prefix_bytes != 0) std::memcpy(at + key.size(), value.data(), header.prefix_bytes);
  };
  bool tombstones = false;  // a primary's are of deletes that are decided
  header.cursor = read_page(table, partition, header.cursor, header.keys_max, &tombstones, item);
  header.records = table.records(partition);
  header.key_bytes = 0;
  header.prefix_bytes = 0;
  send(ScanStep::kEnd, 0);
}

void KeyScans::receive_page(const Message& m) {
  const auto header = load<ScanHeader>(m.body.data());
  for (size_t i = 0; i < scans_.size(); ++i) {
    if (scans_[i].question != header.question) continue;
    if (scans_[i].asked != m.source) return ctx_.faults.report(m.source, "a page that another node was asked for");
    KeyPage& page = *scans_[i].page;
    if (static_cast<ScanStep>(header.step) == ScanStep::kItem) {
      if (page.items.size() >= kPageItemsMax) return;
      const char* at = reinterpret_cast<const char*>(m.body.data() + sizeof header);
      page.items.push_back(
          {std::string(at, header.key_bytes), std::string(at + header.key_bytes, header.prefix_bytes)});
      return;
    }
    page.next = header.cursor;
    page.records = header.records;
    page.done = true;
    scans_.erase(scans_.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

uint32_t KeyScans::ask(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max,
                       const std::shared_ptr<KeyPage>& page) {
  WEFT_CHECK(page != nullptr, "who asks has a place for the answer");
  ScanHeader header{};
  header.cursor = cursor;
  header.question = ++questions_;
  header.keys_max = keys_max;
  header.table = table.value;
  header.partition = partition.value;
  header.step = static_cast<uint8_t>(ScanStep::kAsk);
  const NodeId to = ctx_.view().placement(partition).primary();
  if (ctx_.port.queued_bytes(to, Flow::kExecution) <= ctx_.limits.credit_bytes / 2) {
    store(ctx_.port.reserve(to, Flow::kExecution, static_cast<uint8_t>(Kind::kScan), sizeof header), header);
  }
  page->items.clear();
  scans_.push_back({header.question, to, page});
  return header.question;
}

void KeyScans::forget(uint32_t question) {
  std::erase_if(scans_, [&](const Scan& scan) { return scan.question == question; });
}

bool KeyScans::scan_here(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max, KeyPage* page) {
  const Placement& placement = ctx_.view().placement(partition);
  const bool primary = placement.primary() == ctx_.self;
  if (!placement.is_in_sync(ctx_.self) || !(primary || backups_answer_ || keys_max == 0)) return false;
  const Table& from = *ctx_.tables.at(table);
  const auto item = [&](ByteView key, ByteView value) {
    page->items.push_back({std::string(as_text(key)), std::string(as_text(value).substr(0, KeyItem::kPrefixBytes))});
  };
  bool tombstones = false;
  page->next = read_page(from, partition, cursor, keys_max, &tombstones, item);
  if (tombstones && !primary) {
    *page = {};
    return false;
  }
  page->records = from.records(partition);
  page->done = true;
  return true;
}

}  // namespace weft
