#include "weft/txn/scans.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/scan_messages.h"

namespace weft {

namespace {

constexpr uint32_t kScanOverhead = 256;       // headers of the request and of its answer, each in a packet of its own
constexpr uint32_t kScanByTurn = UINT32_MAX;  // TxnScan::credit of a page that has its peer's turn instead
constexpr size_t kLocalPageBytes = 64 << 10;  // that are read here in one step

ByteView bytes_of_key(const Key& key) { return {reinterpret_cast<const std::byte*>(key.data()), key.size()}; }

bool executes(const TxnSlot& slot) {
  return slot.stage == TxnStage::kExecuting || slot.stage == TxnStage::kAwaitingReads;
}

}  // namespace

// What the application asks for.

ScanHandle Scans::start(TxnSlot& slot, TableId table, const Key& from, const Key& to, uint32_t limit,
                        Direction direction) {
  constexpr ScanHandle kNone{UINT16_MAX};
  if (slot.stage != TxnStage::kExecuting || why_not(slot, table, from, to, limit) != Code::kOk) return kNone;
  TxnScan* const scan = add(slot, table, from, to, limit, direction);
  if (scan == nullptr) return kNone;
  ++slot.reads_pending;
  if (slot.expired) {
    fail(slot, *scan, Code::kNoAnswer);
  } else if (!ctx_.views.active() || slot.epoch != ctx_.view().epoch.value) {
    fail(slot, *scan, slot.rejected == Code::kPeerUnreachable ? Code::kPeerUnreachable : Code::kEpoch);
  } else {
    dispatch(slot, *scan);
  }
  return {scan->index};
}

// What no scan may be is rejected.
Code Scans::why_not(TxnSlot& slot, TableId id, const Key& from, const Key& to, uint32_t limit) {
  const auto no = [&](Code code, const ExceededLimit& by) { return reject(slot, code, nullptr, by); };
  if (id.value >= ctx_.tables.count()) {
    return no(Code::kNoSuchTable, {"the number of tables", ctx_.tables.count(), id.value});
  }
  const Table& table = *ctx_.tables.at(id);
  if (!table.ordered()) return no(Code::kNotOrdered, {});
  for (const Key* key : {&from, &to}) {
    if (table.integer_keys() && key->size() != sizeof(uint64_t)) {
      return no(Code::kInvalidArgument, {"the bytes of an integer key", sizeof(uint64_t), key->size()});
    }
    if (key->size() > ctx_.limits.key_bytes_max) {
      return no(Code::kKeyTooLong, {"limits.key_bytes_max", ctx_.limits.key_bytes_max, key->size()});
    }
  }
  if (limit == 0) return no(Code::kScanEmpty, {"the least limit of a scan", 1, 0});
  if (table.compare(bytes_of_key(from), bytes_of_key(to)) >= 0) return no(Code::kScanEmpty, {});
  if (!table.share_prefix(bytes_of_key(from), bytes_of_key(to))) return no(Code::kScanTwoPartitions, {});
  return Code::kOk;
}

// Bytes of the slot's memory, which count as its keys do. Empty: rejected.
ByteView Scans::copy(TxnSlot& slot, ByteView bytes, size_t more) {
  std::byte* const to = keys_.take_or_reject(slot, std::max<size_t>(bytes.size() + more, 1), TxnKeys::CountAs::kUsed);
  if (to == nullptr) return {};
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  if (more != 0) std::memset(to + bytes.size(), 0, more);
  return {to, bytes.size() + more};
}

TxnScan* Scans::add(TxnSlot& slot, TableId id, const Key& from, const Key& to, uint32_t limit, Direction direction) {
  TxnScan** end = &slot.scans;
  uint16_t index = 0;
  for (; *end != nullptr; end = &(*end)->next) ++index;
  if (index == TxnScan::kScansMax) {
    reject(slot, Code::kTxnTooLarge, nullptr, {"the scans of one transaction", TxnScan::kScansMax, index + 1U});
    return nullptr;
  }
  std::byte* const memory = keys_.take_or_reject(slot, sizeof(TxnScan), TxnKeys::CountAs::kNothing);
  if (memory == nullptr) return nullptr;
  TxnScan& scan = *new (memory) TxnScan();
  scan.table = ctx_.tables.at(id);
  scan.table_id = id;
  scan.index = index;
  scan.backward = direction == Direction::kBackward;
  scan.from = copy(slot, bytes_of_key(from));
  scan.to = copy(slot, bytes_of_key(to));
  if (slot.rejected != Code::kOk) return nullptr;
  scan.rest_from = scan.from;
  scan.rest_to = scan.to;
  scan.partition = partition_of_range(*scan.table, scan.from);
  scan.placement = &ctx_.view().placement(scan.partition);
  scan.limit = std::min(limit, ctx_.limits.txn_keys_max + 1);  // one more is too many
  scan.wanted = scan.limit;
  if (!note_own_writes(slot, scan)) return nullptr;
  *end = &scan;
  return &scan;
}

// The first look, page by page.

void Scans::dispatch(TxnSlot& slot, TxnScan& scan) {
  const bool backup = at_backups_ && scan.placement->is_in_sync(ctx_.self);
  if (backup || scan.placement->primary() == ctx_.self) {
    scan.at_replica = true;
    local_.push_back({&slot, &scan});
  } else if (ctx_.views.is_lost(scan.placement->primary())) {
    fail(slot, scan, Code::kPeerLost);
  } else {
    scan.room = static_cast<uint32_t>(std::clamp<uint64_t>(credit_.limit() / 8, 256, kScanPageBytes));
    ask(slot, scan);
  }
}

void Scans::ask(TxnSlot& slot, TxnScan& scan) {
  if (send(slot, scan)) return;
  if (!slot.participants.empty() && !goes_by_turn(scan)) {
    // It holds locks that others wait for, so it does not wait.
    WEFT_MARK("no credit for a scan with locks held");
    fail(slot, scan, Code::kBusy);
  } else {
    WEFT_MARK("a scan waits for credit");
    without_credit_.push_back({&slot, &scan});
  }
}

bool Scans::goes_by_turn(const TxnScan& scan) const {
  return kScanOverhead + scan_bounds_bytes(scan.rest_from.size(), scan.rest_to.size()) + scan.room >
         credit_.limit() / 4;
}

bool Scans::send(TxnSlot& slot, TxnScan& scan) {
  const NodeId to = scan.placement->primary();
  const size_t bounds = scan_bounds_bytes(scan.rest_from.size(), scan.rest_to.size());
  const auto credit = static_cast<uint32_t>(kScanOverhead + bounds + scan.room);
  if (goes_by_turn(scan)) {
    if (!reads_.take_turn(to)) return false;
    WEFT_MARK("a scan's page has its turn");
    scan.credit = kScanByTurn;
  } else {
    if (!credit_.take(to, credit)) return false;
    scan.credit = credit;
  }
  ScanRequest request{};
  request.sequence = static_cast<uint32_t>(slot.sequence);
  request.scan = scan.index;
  request.table = scan.table_id.value;
  request.items_max = scan.wanted - scan.received;
  request.room = scan.room;
  request.from_bytes = static_cast<uint32_t>(scan.rest_from.size());
  request.to_bytes = static_cast<uint32_t>(scan.rest_to.size()) & 0x7fffffffU;
  request.backward = scan.backward ? 1 : 0;
  const size_t bytes = sizeof request + bounds;
  std::byte* const at = ctx_.port.reserve(to, bytes <= kScanSmallPage ? Flow::kCommit : Flow::kExecution,
                                          static_cast<uint8_t>(Kind::kScanRange), bytes, slot.index);
  store(at, request);
  put_bounds(at + sizeof request, scan.rest_from, scan.rest_to);
  ++ctx_.counters.remote_gets;
  ++ctx_.counters.phase_messages[index_of(Phase::kExecute)];
  return true;
}

void Scans::give_credit(NodeId from, TxnScan& scan) {
  if (scan.credit != kScanByTurn) {
    credit_.give(from, scan.credit);
  } else {
    reads_.give_turn(from);
    credit_.retry_waiters();
  }
  scan.credit = 0;
}

bool Scans::retry() {
  size_t kept = 0;
  const size_t count = without_credit_.size();
  for (size_t i = 0; i < count; ++i) {
    const Queued waiting = without_credit_[i];
    if (ctx_.views.is_lost(waiting.scan->placement->primary())) {
      fail(*waiting.slot, *waiting.scan, Code::kPeerLost);
    } else if (send(*waiting.slot, *waiting.scan)) {
      continue;
    } else if (!waiting.slot->participants.empty() && !goes_by_turn(*waiting.scan)) {
      fail(*waiting.slot, *waiting.scan, Code::kBusy);  // a get of it has locked meanwhile
    } else {
      without_credit_[kept++] = waiting;
    }
  }
  without_credit_.erase(without_credit_.begin() + static_cast<ptrdiff_t>(kept),
                        without_credit_.begin() + static_cast<ptrdiff_t>(count));
  return kept != count;
}

bool Scans::run_batch() {
  if (local_.empty()) return false;
  batch_.swap(local_);
  for (const Queued& queued : batch_) {
    TxnScan& scan = *queued.scan;
    PageRange range{.table = scan.table_id,
                    .partition = scan.partition,
                    .from = scan.rest_from,
                    .to = scan.rest_to,
                    .backward = scan.backward,
                    .items_max = scan.wanted - scan.received,
                    .bytes_max = kLocalPageBytes};
    page_.clear();
    PageEnd end = tables_.read(range, &page_);
    if (end.needed != 0) {
      range.items_max = 1;
      range.bytes_max = SIZE_MAX;
      end = tables_.read(range, &page_);
    }
    ++ctx_.counters.local_gets;
    take_page(*queued.slot, scan, end, page_);
  }
  batch_.clear();
  return true;
}

bool Scans::parse(const Message& m) const {
  if (m.tag >= slots_.size() || m.body.size() < sizeof(ScanReply)) return false;
  const auto reply = load<ScanReply>(m.body.data());
  if (!is_answer(static_cast<Code>(reply.code)) || reply.more > 1) return false;
  const std::byte* at = m.body.data() + sizeof reply;
  const std::byte* const end = m.body.data() + m.body.size();
  PageItem item;
  uint32_t items = 0;
  for (; at != end; ++items) {
    if (!take_item(&at, end, &item)) return false;
  }
  return items == reply.items;
}

void Scans::on_scanned(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    TxnSlot& slot = slots_.at(m.tag);
    const auto reply = load<ScanReply>(m.body.data());
    const ByteView items = m.body.subspan(sizeof reply);
    TxnScan* const scan =
        slot.stage == TxnStage::kFree || slot.stage == TxnStage::kFinished ? nullptr : find_scan(slot, reply.scan);
    if (scan == nullptr || scan->credit == 0 || scan->done || scan->placement->primary() != m.source ||
        static_cast<uint32_t>(slot.sequence) != reply.sequence || !makes_sense(*scan, reply, items)) {
      ctx_.faults.report(m.source, "an answer to no scan");
      continue;
    }
    ++ctx_.counters.phase_messages[index_of(Phase::kExecute)];
    give_credit(m.source, *scan);
    // The first count holds for all pages: what is erased after it may be missed by any of them.
    if (!scan->check.has_erases) scan->check.erases = reply.erases;
    scan->check.has_erases = true;
    PageEnd end;
    end.code = static_cast<Code>(reply.code);
    end.holder = Owner(reply.holder);
    end.items = reply.items;
    end.more = reply.more != 0;
    end.needed = reply.needed;
    take_page(slot, *scan, end, items);
  }
}

// Whether it is what was asked for.
bool Scans::makes_sense(const TxnScan& scan, const ScanReply& reply, ByteView items) const {
  const Table& table = *scan.table;
  const auto code = static_cast<Code>(reply.code);
  if (code != Code::kOk) return items.empty() && reply.needed == 0;
  if (reply.items > scan.wanted - scan.received || items.size() > scan.room) return false;
  if (reply.needed != 0) {
    const size_t most = page_item_bytes(ctx_.limits.key_bytes_max, table.spec().value_bytes_max);
    if (reply.items != 0 || reply.more == 0 || reply.needed <= scan.room || reply.needed > most) return false;
  } else if (reply.more != 0 && reply.items == 0) {
    return false;
  }
  ByteView from = scan.rest_from, to = scan.rest_to;
  bool first = true;
  PageItem item;
  const std::byte* const end = items.data() + items.size();
  for (const std::byte* at = items.data(); at != end && take_item(&at, end, &item); first = false) {
    if (table.integer_keys() ? item.key.size() != 8 : item.key.size() > ctx_.limits.key_bytes_max) return false;
    if (item.value.size() > table.spec().value_bytes_max) return false;
    const int below = table.compare(item.key, from), above = table.compare(item.key, to);
    if (above >= 0 || below < 0 || (below == 0 && !first && !scan.backward)) return false;
    (scan.backward ? to : from) = item.key;
  }
  return true;
}

void Scans::take_page(TxnSlot& slot, TxnScan& scan, const PageEnd& end, ByteView items) {
  WEFT_CHECK(!scan.done && end.items <= scan.wanted - scan.received, "a page is of what was asked for");
  if (end.code != Code::kOk) return fail(slot, scan, end.code, end.holder);
  if (slot.outcome.code != Code::kOk || !executes(slot)) {
    return fail(slot, scan, slot.outcome.code != Code::kOk ? slot.outcome.code : Code::kApplication);
  }
  if (end.items != 0) {
    std::byte* const memory = keys_.take_or_reject(slot, sizeof(TxnScan::Page), TxnKeys::CountAs::kNothing);
    std::byte* const bytes = keys_.take_or_reject(slot, items.size(), TxnKeys::CountAs::kRead);
    if (memory == nullptr || bytes == nullptr) return fail(slot, scan, slot.outcome.code);
    std::memcpy(bytes, items.data(), items.size());
    auto* const page = new (memory) TxnScan::Page{nullptr, {bytes, items.size()}};
    (scan.last_page != nullptr ? scan.last_page->next : scan.pages) = page;
    scan.last_page = page;
    scan.received += end.items;
    uint64_t all = 0;
    for (const TxnScan* of = slot.scans; of != nullptr; of = of->next) all += of->received;
    const uint64_t most = uint64_t{TxnScan::kItemsFactor} * ctx_.limits.txn_keys_max;
    if (all > most) {
      reject(slot, Code::kTxnTooLarge, nullptr, {"the items that the scans of one transaction bring", most, all});
      return fail(slot, scan, slot.outcome.code);
    }
  }
  scan.more = end.more;
  if (!end.more || scan.received == scan.wanted) return finish(slot, scan);
  if (end.items != 0) {
    PageItem last;
    const std::byte* at = scan.last_page->items.data();
    const std::byte* const stop = at + scan.last_page->items.size();
    while (at != stop && take_item(&at, stop, &last)) {
    }
    if (!narrow(slot, scan, last.key)) return;
  }
  if (scan.at_replica) {
    local_.push_back({&slot, &scan});
  } else if (ctx_.views.is_lost(scan.placement->primary())) {
    fail(slot, scan, Code::kPeerLost);
  } else {
    if (end.needed != 0) scan.room = static_cast<uint32_t>(end.needed);
    ask(slot, scan);
  }
}

// Goes on behind the last key. False: the scan has ended.
bool Scans::narrow(TxnSlot& slot, TxnScan& scan, ByteView last) {
  if (scan.backward) {
    scan.rest_to = last;
  } else if (scan.table->integer_keys()) {
    const uint64_t next = load<uint64_t>(last.data()) + 1;
    scan.rest_from = copy(slot, {reinterpret_cast<const std::byte*>(&next), sizeof next});
  } else {
    scan.rest_from = copy(slot, last, 1);
  }
  if (slot.rejected != Code::kOk) {
    fail(slot, scan, slot.outcome.code);
    return false;
  }
  if (scan.table->compare(scan.rest_from, scan.rest_to) < 0) return true;
  scan.more = false;
  finish(slot, scan);
  return false;
}

void Scans::fail(TxnSlot& slot, TxnScan& scan, Code code, Owner holder) {
  scan.code = code;
  if (code == Code::kPeerLost) {
    fail_for_peer(slot, nullptr, NodeSet::of(scan.placement->primary()));
  } else {
    fail_scan(slot, &scan, code, holder);
  }
  complete(slot, scan);
}

void Scans::complete(TxnSlot& slot, TxnScan& scan) {
  WEFT_CHECK(slot.reads_pending != 0 && !scan.done, "a scan has one result");
  scan.done = true;
  --slot.reads_pending;
  if (slot.stage == TxnStage::kAwaitingReads) {
    if (slot.reads_pending == 0) coordinator_.begin_commit(slot);
    return;
  }
  if (slot.awaited_scan == &scan) {
    slot.awaited_scan = nullptr;
    acks_.wake(slot);
  }
  if (slot.stage == TxnStage::kDraining && slot.reads_pending == 0) coordinator_.abort(slot);
}

void Scans::on_peer_lost(TxnSlot& slot, NodeId peer) {
  const auto waits = [&](const TxnScan& scan) {
    return !scan.done && scan.credit != 0 && scan.placement->primary() == peer;
  };
  int left = 0;
  for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) left += waits(*scan) ? 1 : 0;
  // With the last of them the transaction may end, and its memory with it.
  for (TxnScan* scan = slot.scans; left > 0; scan = scan->next) {
    while (scan != nullptr && !waits(*scan)) scan = scan->next;
    WEFT_CHECK(scan != nullptr, "so many wait as were counted");
    --left;
    if (scan->credit == kScanByTurn) reads_.give_turn(peer);
    scan->credit = 0;
    fail(slot, *scan, Code::kPeerLost);
    if (left == 0) return;
  }
}

}  // namespace weft
