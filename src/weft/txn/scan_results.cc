// The results of scans: what the replica had, merged with the transaction's own writes, and what of it is checked.
#include <algorithm>
#include <cstring>
#include <new>

#include "weft/base/check.h"
#include "weft/txn/scans.h"

namespace weft {

void fail_scan(TxnSlot& slot, const TxnScan* scan, Code code, Owner holder) {
  if (slot.outcome.code != Code::kOk) return;
  fail(slot, code, nullptr, holder);
  if (scan == nullptr) return;
  Outcome& out = slot.outcome;
  out.table = scan->table_id;
  out.key_bytes = static_cast<uint32_t>(scan->from.size());
  out.integer_key = scan->table->integer_keys();
  std::memcpy(out.key_start, scan->from.data(), std::min(scan->from.size(), sizeof out.key_start));
}

bool Scans::note_own_writes(TxnSlot& slot, TxnScan& scan) {
  const Table& table = *scan.table;
  const auto is_one = [&](const Entry& e) {
    return e.write != Write::kNone && e.table == &table && table.compare(e.key.bytes, scan.from) >= 0 &&
           table.compare(e.key.bytes, scan.to) < 0;
  };
  const auto count = static_cast<size_t>(std::count_if(slot.entries, slot.entries + slot.count, is_one));
  if (count == 0) return true;
  std::byte* const memory = keys_.take_or_reject(slot, count * sizeof(OwnWrite), TxnKeys::CountAs::kNothing);
  if (memory == nullptr) return false;
  auto* const own = reinterpret_cast<OwnWrite*>(memory);
  size_t n = 0;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (!is_one(e)) continue;
    const bool erases = e.write == Write::kErase;
    new (own + n++) OwnWrite{e.key.bytes, {e.new_value, erases ? 0 : e.new_bytes}, erases};
    // What it has erased fills no limit.
    if (erases) ++scan.wanted;
  }
  std::sort(own, own + count, [&](const OwnWrite& a, const OwnWrite& b) {
    return scan.backward ? table.compare(b.key, a.key) < 0 : table.compare(a.key, b.key) < 0;
  });
  scan.own = {own, count};
  return true;
}

bool Scans::is_ready(const TxnSlot& slot, ScanHandle handle) {
  const TxnScan* const scan = find_scan(slot, handle.index);
  return scan == nullptr || scan->done || slot.expired;
}

Scan Scans::result(const TxnSlot& slot, ScanHandle handle) {
  const TxnScan* const scan = find_scan(slot, handle.index);
  Scan out;
  if (scan == nullptr) {
    out.code = slot.rejected != Code::kOk ? slot.rejected : Code::kInvalidArgument;
  } else if (!scan->done) {
    out.code = slot.expired ? Code::kNoAnswer : Code::kInvalidArgument;
  } else {
    out = {scan->code, scan->items, scan->limited};
  }
  return out;
}

// The result.

void Scans::finish(TxnSlot& slot, TxnScan& scan) {
  items_.clear();
  for (const TxnScan::Page* page = scan.pages; page != nullptr; page = page->next) {
    const std::byte* const end = page->items.data() + page->items.size();
    PageItem item;
    for (const std::byte* at = page->items.data(); at != end && take_item(&at, end, &item);) items_.push_back(item);
  }
  const size_t most = std::min<size_t>(scan.limit, items_.size() + scan.own.size());
  std::byte* const memory = keys_.take_or_reject(slot, most * sizeof(Scan::Item), TxnKeys::CountAs::kNothing);
  if (memory == nullptr) return fail(slot, scan, slot.outcome.code);
  auto* const out = reinterpret_cast<Scan::Item*>(memory);
  size_t seen = 0;
  const size_t count = merge(scan, {out, most}, &seen);
  if (count > ctx_.limits.txn_keys_max) {
    reject(slot, Code::kTxnTooLarge, nullptr, {"limits.txn_keys_max", ctx_.limits.txn_keys_max, count});
    return fail(slot, scan, slot.outcome.code);
  }
  scan.items = {out, count};
  if (!note_check(slot, scan, seen)) return fail(slot, scan, slot.outcome.code);
  complete(slot, scan);
}

// Merges what the replica has with the transaction's own writes, up to the limit. `seen`: how many items of the
// replica are not behind the last one of the result. Those that were read are enough: at most the own erases are left
// out of them.
size_t Scans::merge(TxnScan& scan, std::span<Scan::Item> out, size_t* seen) const {
  const Table& table = *scan.table;
  size_t count = 0, store = 0, own = 0, at_limit = 0;
  while (store < items_.size() || own < scan.own.size()) {
    int order = store == items_.size() ? 1 : own == scan.own.size() ? -1 : 0;
    if (order == 0) order = table.compare(items_[store].key, scan.own[own].key) * (scan.backward ? -1 : 1);
    Scan::Item item;
    ByteView key;
    bool erased = false;
    if (order <= 0) {
      key = items_[store].key;
      item.value = as_text(items_[store].value);
      item.version = items_[store].version;
      ++store;
    }
    if (order >= 0) {
      key = scan.own[own].key;
      item.value = as_text(scan.own[own].value);
      erased = scan.own[own].erases;
      ++own;
    }
    if (erased) continue;
    scan.limited = count == scan.limit;
    if (scan.limited) break;
    item.key = as_text(key);
    if (table.integer_keys()) item.integer = load<uint64_t>(key.data());
    new (&out[count++]) Scan::Item(item);
    if (count == scan.limit) at_limit = store;
  }
  scan.limited |= count == scan.limit && scan.more;
  *seen = scan.limited ? at_limit : store;
  return count;
}

// What the commit checks: the range up to where the limit ended the scan, and what the replica had of it.
bool Scans::note_check(TxnSlot& slot, TxnScan& scan, size_t seen) {
  ScanCheck& check = scan.check;
  check.table = scan.table_id;
  check.partition = scan.partition;
  check.from = scan.from;
  check.to = scan.to;
  if (scan.limited) {
    const std::string_view text = scan.items.back().key;
    const ByteView last(reinterpret_cast<const std::byte*>(text.data()), text.size());
    if (scan.backward) {
      check.from = last;
    } else if (scan.table->integer_keys()) {
      const uint64_t next = load<uint64_t>(last.data()) + 1;
      check.to = copy(slot, {reinterpret_cast<const std::byte*>(&next), sizeof next});
    } else {
      check.to = copy(slot, last, 1);
    }
    if (slot.rejected != Code::kOk) return false;
  }
  ScanDigest digest;
  for (size_t i = 0; i < seen; ++i) {
    const PageItem& item = items_[scan.backward ? seen - 1 - i : i];
    digest.add(item.key, item.version);
  }
  check.digest = digest.hash();
  check.items = digest.items();
  return true;
}

}  // namespace weft
