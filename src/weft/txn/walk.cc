// Walking over the keys of a partition that may be at another node, a page at a time. Outside any transaction: a key
// that is there throughout a walk is in it, whatever else happens, and others may be.
//
// A cursor is a position in the order of the keys' hashes, which is the same at every node and does not depend on the
// size of any index: a walk goes on where it was at another replica, through a resize and through a change of the view.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

enum class WalkStep : uint8_t { kAsk, kItem, kEnd };

constexpr int kPageBins = 4096;               // of one page, of an index that is mostly empty
constexpr size_t kPageBytes = 32 << 10;       // of one page, but for those of one bin
constexpr size_t kPageItemsMax = kPageBytes;  // that are taken, whatever a peer sends
constexpr uint64_t kSilentNs = 20'000'000;    // then it is asked again
constexpr uint64_t kLookNs = 5'000;
constexpr uint64_t kLookNsMax = 500'000;

struct WalkHeader {
  uint64_t cursor;    // kAsk: from here on; kEnd: go on from here, 0: that was all
  uint64_t records;   // kEnd: of the partition
  uint32_t question;  // comes back with the answers
  uint32_t keys_max;  // kAsk
  uint16_t table;
  uint16_t partition;
  uint16_t key_bytes;  // kItem: the key, then the first bytes of its value
  uint8_t head_bytes;
  uint8_t step;  // WalkStep
};
static_assert(sizeof(WalkHeader) == 32);

}  // namespace

// f(key, value). Whole bins, so that the cursor need not say more than where a bin begins.
template <class F>
uint64_t Engine::page(const Table& table, PartitionId partition, uint64_t cursor, uint32_t keys_max, F f) {
  uint32_t keys = 0;
  size_t bytes = 0;
  const uint64_t from = cursor >> kWalkCursorSpare;
  // A key that is there throughout the walk is counted.
  if (table.records(partition) == 0) return 0;
  // The bits that a caller's cursor has no room for do not stop it.
  for (int bins = 0; cursor >> kWalkCursorSpare == from || (bins < kPageBins && keys < keys_max && bytes < kPageBytes);
       ++bins) {
    cursor = table.copy_bin(partition, cursor, scratch_.data(), [&](ByteView key, ByteView value, Version) {
      f(key, value);
      ++keys;
      bytes += sizeof(WalkHeader) + key.size();
    });
    if (cursor == 0) return 0;
  }
  return cursor >> kWalkCursorSpare << kWalkCursorSpare;
}

bool Engine::parse_walk(const Message& m) const {
  if (m.body.size() < sizeof(WalkHeader)) return false;
  const auto header = load<WalkHeader>(m.body.data());
  if (header.step > static_cast<uint8_t>(WalkStep::kEnd) || header.table >= node_->tables() ||
      header.partition >= view_->partitions.size()) {
    return false;
  }
  const bool item = static_cast<WalkStep>(header.step) == WalkStep::kItem;
  const size_t rest = item ? padded(size_t{header.key_bytes} + header.head_bytes) : 0;
  return m.body.size() - sizeof header == rest && header.key_bytes <= limits_.key_bytes_max &&
         header.head_bytes <= WalkItem::kHeadBytes;
}

void Engine::on_walk(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    static_cast<WalkStep>(load<WalkHeader>(m.body.data()).step) == WalkStep::kAsk ? give_page(m) : take_page(m);
  }
}

void Engine::give_page(const Message& m) {
  // Nobody holds credit for this. Who is not answered asks again.
  if (port_.backlog(m.source, Flow::kExecution) > limits_.credit_bytes / 2) return;
  auto header = load<WalkHeader>(m.body.data());
  const PartitionId partition(header.partition);
  if (!view_->placement(partition).held_by(self_) || !has_lease()) return;
  const Table& table = *node_->table(TableId(header.table));
  const auto send = [&](WalkStep step, size_t bytes) {
    header.step = static_cast<uint8_t>(step);
    std::byte* at =
        port_.reserve(m.source, Flow::kExecution, static_cast<uint8_t>(Kind::kWalk), sizeof header + padded(bytes));
    store(at, header);
    std::memset(at + sizeof header, 0, padded(bytes));  // padding goes over the wire
    return at + sizeof header;
  };
  const auto item = [&](ByteView key, ByteView value) {
    header.key_bytes = static_cast<uint16_t>(key.size());
    header.head_bytes = static_cast<uint8_t>(std::min(value.size(), WalkItem::kHeadBytes));
    std::byte* at = send(WalkStep::kItem, key.size() + header.head_bytes);
    std::memcpy(at, key.data(), key.size());
    if (header.head_bytes != 0) std::memcpy(at + key.size(), value.data(), header.head_bytes);
  };
  const uint64_t next = header.keys_max == 0 ? 0 : page(table, partition, header.cursor, header.keys_max, item);
  header.cursor = next;
  header.records = table.records(partition);
  header.key_bytes = header.head_bytes = 0;
  send(WalkStep::kEnd, 0);
}

void Engine::take_page(const Message& m) {
  const auto header = load<WalkHeader>(m.body.data());
  for (size_t i = 0; i < walks_.size(); ++i) {
    if (walks_[i].question != header.question) continue;
    WalkPage& page = *walks_[i].page;
    if (static_cast<WalkStep>(header.step) == WalkStep::kItem) {
      if (page.items.size() >= kPageItemsMax) return;
      const char* at = reinterpret_cast<const char*>(m.body.data() + sizeof header);
      page.items.push_back({std::string(at, header.key_bytes), std::string(at + header.key_bytes, header.head_bytes)});
      return;
    }
    page.next = header.cursor;
    page.records = header.records;
    page.done = true;
    walks_.erase(walks_.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

uint32_t Engine::ask_walk(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max,
                          const std::shared_ptr<WalkPage>& page) {
  WalkHeader header{};
  header.cursor = cursor;
  header.question = ++walk_questions_;
  header.keys_max = keys_max;
  header.table = table.value;
  header.partition = partition.value;
  header.step = static_cast<uint8_t>(WalkStep::kAsk);
  const NodeId to = view_->placement(partition).primary();
  if (port_.backlog(to, Flow::kExecution) <= limits_.credit_bytes / 2) {
    store(port_.reserve(to, Flow::kExecution, static_cast<uint8_t>(Kind::kWalk), sizeof header), header);
  }
  page->items.clear();
  walks_.push_back({header.question, page});
  return header.question;
}

void Engine::forget_walk(uint32_t question) {
  std::erase_if(walks_, [&](const Walk& walk) { return walk.question == question; });
}

bool Engine::walk_here(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max, WalkPage* page) {
  if (!view_->placement(partition).held_by(self_)) return false;
  const Table& from = *node_->table(table);
  const auto item = [&](ByteView key, ByteView value) {
    page->items.push_back({std::string(as_text(key)), std::string(as_text(value).substr(0, WalkItem::kHeadBytes))});
  };
  page->next = keys_max == 0 ? 0 : this->page(from, partition, cursor, keys_max, item);
  page->records = from.records(partition);
  page->done = true;
  return true;
}

Task<std::shared_ptr<WalkPage>> Session::walk(TableId table, PartitionId partition, uint64_t cursor,
                                              uint32_t keys_max) {
  auto page = std::make_shared<WalkPage>();
  const uint64_t answer_ns = answer_by_ns();
  for (;;) {
    page->late = now_ns() >= answer_ns;
    if (engine_->retired() || page->late) co_return page;
    if (!engine_->active()) {
      co_await sleep_ns(kLookNsMax);
      continue;
    }
    if (engine_->walk_here(table, partition, cursor, keys_max, page.get())) {
      if (engine_->has_lease()) co_return page;
      *page = {};
      co_await sleep_ns(kLookNsMax);
      continue;
    }
    const Epoch epoch = engine_->view().epoch;
    const uint32_t question = engine_->ask_walk(table, partition, cursor, keys_max, page);
    const uint64_t until_ns = std::min(now_ns() + kSilentNs, answer_ns);
    for (uint64_t wait_ns = kLookNs; !page->done; wait_ns = std::min(wait_ns * 2, kLookNsMax)) {
      if (engine_->retired() || engine_->view().epoch != epoch || now_ns() >= until_ns) break;
      co_await sleep_ns(wait_ns);
    }
    if (page->done) co_return page;
    WEFT_MARK_OUTSIDE("a walk asks again");
    engine_->forget_walk(question);
  }
}

}  // namespace weft
