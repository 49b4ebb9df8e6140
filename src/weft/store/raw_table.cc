#include "weft/store/raw_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace weft {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = 2 << 20;

std::string bytes_text(uint64_t n) { return std::to_string(n) + " bytes"; }

Error no_room(uint64_t limit, uint64_t used, const std::string& what) {
  return {Code::kNoMemory,
          "memory limit of " + bytes_text(limit) + ", " + bytes_text(used) + " in use, no room for " + what};
}

Error bin_full(const std::string& key) {
  return {Code::kBinFull, "more than " + std::to_string(dlht::kBinSlots) + " keys collide with key " + key};
}

std::string printable(ByteView key) {
  constexpr size_t kShown = 32;
  std::string out = "\"";
  for (const std::byte b : key.first(std::min(key.size(), kShown))) {
    const char c = static_cast<char>(b);
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out + (key.size() > kShown ? "...\"" : "\"");
}

}  // namespace

bool MappedMemory::reserve(size_t bytes) {
  size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

std::byte* MappedMemory::allocate(size_t bytes) {
  if (!reserve(bytes)) return nullptr;
  // A huge page must be aligned to its size: map one more, and unmap the rest on both sides.
  const size_t mapped = align_up(bytes, kPage);
  const size_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* const at = mmap(nullptr, mapped + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    release(bytes);
    return nullptr;
  }
  std::byte* const first = static_cast<std::byte*>(at);
  if (slack == 0) return first;
  const size_t head = align_up(reinterpret_cast<uintptr_t>(first), kHugePage) - reinterpret_cast<uintptr_t>(first);
  if (head > 0) munmap(first, head);
  if (slack > head) munmap(first + head + mapped, slack - head);
  madvise(first + head, mapped, MADV_HUGEPAGE);
  return first + head;
}

void MappedMemory::free(std::byte* memory, size_t bytes) {
  munmap(memory, align_up(bytes, kPage));
  release(bytes);
}

// ---- RawTable.

Result<std::unique_ptr<RawTable>> RawTable::create(const RawTableOptions& options) {
  std::unique_ptr<RawTable> table(new RawTable(options));
  auto index = Dlht::create({options.capacity, options.readers, options.resizable}, &table->memory_);
  if (!index) return index.error();
  table->index_ = std::move(*index);
  return table;
}

Result<bool> RawTable::insert(uint64_t key, uint64_t value) {
  switch (index_->insert(hash(key), MatchAny(), value).code) {
    case InsertCode::kInserted:
      return true;
    case InsertCode::kExists:
      return false;
    case InsertCode::kBinFull:
      return bin_full(std::to_string(key));
    case InsertCode::kNoMemory:
      break;
  }
  return no_room(memory_.limit(), memory_.used(), "a larger index than for " + std::to_string(size()) + " keys");
}

void RawTable::run(std::span<DlhtRequest> requests) {
  for (DlhtRequest& request : requests) request.hash = hash(request.key);
  index_->run(requests);
}

// ---- ByteTable.

Result<std::unique_ptr<ByteTable>> ByteTable::create(const RawTableOptions& options) {
  std::unique_ptr<ByteTable> table(new ByteTable(options));
  auto index = Dlht::create({options.capacity, options.readers, options.resizable}, &table->memory_);
  if (!index) return index.error();
  table->index_ = std::move(*index);
  return table;
}

ByteTable::~ByteTable() {
  if (index_ == nullptr) return;
  uint64_t cursor = 0;
  do {
    cursor = index_->scan(cursor, [this](uint64_t, uint64_t value) { free(at(value)); });
  } while (cursor != 0);
  for (Limbo& limbo : limbo_) {
    for (Entry* const entry : limbo.fresh) free(entry);
    for (Entry* const entry : limbo.waiting) free(entry);
  }
}

Result<ByteTable::Entry*> ByteTable::make(ByteView key, ByteView value) {
  if (key.size() > options_.key_bytes_max) {
    return Error{Code::kKeyTooLong,
                 "a key of " + bytes_text(key.size()) + ": the limit is " + bytes_text(options_.key_bytes_max)};
  }
  if (value.size() > options_.value_bytes_max) {
    return Error{Code::kValueTooLong,
                 "a value of " + bytes_text(value.size()) + ": the limit is " + bytes_text(options_.value_bytes_max)};
  }
  const size_t bytes = sizeof(Entry) + key.size() + value.size();
  if (!memory_.reserve(bytes)) return no_room(memory_.limit(), memory_.used(), "a record of " + bytes_text(bytes));
  void* const memory = ::operator new(bytes, std::nothrow);
  if (memory == nullptr) {
    memory_.release(bytes);
    return Error{Code::kNoMemory, "the system has no " + bytes_text(bytes) + " for a record"};
  }
  Entry* const entry = new (memory) Entry{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
  std::byte* const data = reinterpret_cast<std::byte*>(entry + 1);
  std::copy(key.begin(), key.end(), data);
  std::copy(value.begin(), value.end(), data + key.size());
  return entry;
}

void ByteTable::free(Entry* entry) {
  memory_.release(entry->bytes());
  ::operator delete(entry);
}

Error ByteTable::refused(InsertCode code, ByteView key) const {
  if (code == InsertCode::kBinFull) return bin_full(printable(key));
  return no_room(memory_.limit(), memory_.used(), "a larger index than for " + std::to_string(size()) + " keys");
}

bool ByteTable::get(ByteView key, std::vector<std::byte>* value) const {
  uint64_t found;
  if (!index_->get(
          hash(key), [key](uint64_t v) { return std::ranges::equal(at(v)->key(), key); }, &found))
    return false;
  const ByteView bytes = at(found)->value();
  value->assign(bytes.begin(), bytes.end());
  return true;
}

Result<bool> ByteTable::put(int reader, ByteView key, ByteView value) {
  const Result<Entry*> entry = make(key, value);
  if (!entry) return entry.error();
  const uint64_t h = hash(key);
  const auto match = [key](uint64_t v) { return std::ranges::equal(at(v)->key(), key); };
  for (;;) {
    uint64_t old;
    if (index_->put(h, match, reinterpret_cast<uint64_t>(*entry), &old)) {
      retire(reader, old);
      return false;
    }
    const InsertCode code = index_->insert(h, match, reinterpret_cast<uint64_t>(*entry)).code;
    if (code == InsertCode::kInserted) return true;
    if (code == InsertCode::kExists) continue;  // another thread inserted it meanwhile: replace that
    free(*entry);
    return refused(code, key);
  }
}

Result<bool> ByteTable::insert(ByteView key, ByteView value) {
  const Result<Entry*> entry = make(key, value);
  if (!entry) return entry.error();
  const auto match = [key](uint64_t v) { return std::ranges::equal(at(v)->key(), key); };
  const InsertCode code = index_->insert(hash(key), match, reinterpret_cast<uint64_t>(*entry)).code;
  if (code == InsertCode::kInserted) return true;
  free(*entry);  // no reader has seen it: Match is called with published values only
  if (code == InsertCode::kExists) return false;
  return refused(code, key);
}

bool ByteTable::erase(int reader, ByteView key) {
  uint64_t old;
  if (!index_->erase(
          hash(key), [key](uint64_t v) { return std::ranges::equal(at(v)->key(), key); }, &old))
    return false;
  retire(reader, old);
  return true;
}

void ByteTable::quiesce(int reader) {
  index_->quiesce(reader);
  Limbo& limbo = limbo_[static_cast<size_t>(reader)];
  if (!limbo.waiting.empty() && index_->quiescence().passed(limbo.ticket)) {
    for (Entry* const entry : limbo.waiting) free(entry);
    limbo.waiting.clear();
  }
  if (limbo.waiting.empty() && !limbo.fresh.empty()) {
    std::swap(limbo.fresh, limbo.waiting);
    limbo.ticket = index_->quiescence().mark();
  }
}

}  // namespace weft
