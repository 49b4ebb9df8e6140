#include "weft/txn/scan_page.h"

#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

bool take_item(const std::byte** at, const std::byte* end, PageItem* out) {
  const auto left = static_cast<size_t>(end - *at);
  if (left < sizeof(PageItemHead)) return false;
  const auto head = load<PageItemHead>(*at);
  if (head.version > kVersionMax || left < page_item_bytes(head.key_bytes, head.value_bytes)) return false;
  const std::byte* const key = *at + sizeof head;
  out->version = Version(head.version);
  out->key = {key, head.key_bytes};
  out->value = {key + padded(head.key_bytes), head.value_bytes};
  *at += page_item_bytes(head.key_bytes, head.value_bytes);
  return true;
}

TableScans::TableScans(WorkerContext& ctx) : ctx_(ctx) {
  for (size_t t = 0; t < ctx.tables.count(); ++t) {
    const Table& table = *ctx.tables.at(TableId(static_cast<uint16_t>(t)));
    scans_.push_back(table.ordered() ? std::make_unique<OrderedScan>(table) : nullptr);
  }
}

PageEnd TableScans::read(const PageRange& range, std::vector<std::byte>* out) {
  WEFT_CHECK(scans_[range.table.value] != nullptr, "only an ordered table is scanned");
  OrderedScan& scan = *scans_[range.table.value];
  const size_t begin = out->size();
  PageEnd end;
  scan.start({.partition = range.partition,
              .from = range.from,
              .to = range.to,
              .expected = range.items_max + 1,
              .backward = range.backward});
  for (ScanItem item; scan.next(&item);) {
    ctx_.touch_record();
    if (item.state == ScanState::kTorn) {
      end.code = Code::kLocked;
      end.holder = item.word.owner();
      return end;
    }
    // What is being inserted is not there yet. An erase that may still be undone counts as done: if it is not, the
    // transaction is of an epoch that has ended.
    if (item.state == ScanState::kChanging && !item.found) continue;
    const size_t bytes = page_item_bytes(item.key.size(), item.value.size());
    if (end.items >= range.items_max || out->size() - begin + bytes > range.bytes_max) {
      end.more = true;
      if (end.items == 0) end.needed = bytes;
      return end;
    }
    const size_t at = out->size();
    out->resize(at + bytes);  // the padding is 0
    store(out->data() + at, PageItemHead{item.word.version().value, static_cast<uint32_t>(item.key.size()),
                                         static_cast<uint32_t>(item.value.size())});
    std::memcpy(out->data() + at + sizeof(PageItemHead), item.key.data(), item.key.size());
    if (!item.value.empty()) {
      std::memcpy(out->data() + at + sizeof(PageItemHead) + padded(item.key.size()), item.value.data(),
                  item.value.size());
    }
    ++end.items;
  }
  return end;
}

// Rule G8. The count is read before the first record, and again after the last.
Code TableScans::check(const ScanCheck& check, Owner self, Owner* holder) {
  WEFT_CHECK(scans_[check.table.value] != nullptr, "only an ordered table is scanned");
  OrderedScan& scan = *scans_[check.table.value];
  const Table& table = *ctx_.tables.at(check.table);
  const uint64_t erases = check.has_erases ? check.erases : table.erases(check.partition);
  ScanDigest digest;
  scan.start({.partition = check.partition,
              .from = check.from,
              .to = check.to,
              .expected = uint64_t{check.items} + 1,
              .keys_only = true,
              .self = self});
  for (ScanItem item; scan.next(&item);) {
    if (ctx_.bugs.has(PlantedBug::kScanWithoutBound) && digest.items() == check.items) break;
    ctx_.touch_record();
    if (item.state != ScanState::kPresent) {
      WEFT_MARK("a scan meets what another writes");
      *holder = item.word.owner();
      return Code::kLocked;
    }
    if (digest.items() == check.items) return Code::kVersionMoved;
    digest.add(item.key, item.word.version());
  }
  if (digest.items() != check.items || digest.hash() != check.digest) return Code::kVersionMoved;
  if (table.erases(check.partition) == erases) return Code::kOk;
  WEFT_MARK("a scan that may have missed what came and went");
  return Code::kVersionMoved;
}

}  // namespace weft
