#include "weft/txn/log.h"

#include <algorithm>
#include <initializer_list>
#include <new>

#include "weft/base/bytes.h"

namespace weft {

const LogKey* LogRecord::find_value(uint8_t index) const {
  for (const LogPart* list : std::initializer_list<const LogPart*>{locked, applied, decided}) {
    for (const LogPart* part = list; part != nullptr; part = part->next) {
      for (const LogKey& key : part->all()) {
        if (key.index == index && key.has_value) return &key;
      }
    }
  }
  return nullptr;
}

bool LogRecord::covers(uint8_t index) const {
  for (const LogPart* list : {locked, applied}) {
    for (const LogPart* part = list; part != nullptr; part = part->next) {
      for (const LogKey& key : part->all()) {
        if (key.index == index && (list == locked || key.applied || key.staged)) return true;
      }
    }
  }
  return false;
}

// The keys are still to be made.
inline LogPart* LogTable::allocate(uint32_t keys, size_t bytes, std::byte** bytes_at) {
  const size_t fixed = sizeof(LogPart) + keys * sizeof(LogKey);
  auto* part = reinterpret_cast<LogPart*>(pool_->allocate(fixed + bytes));
  *part = {nullptr, static_cast<uint32_t>(fixed + bytes), keys};
  *bytes_at = reinterpret_cast<std::byte*>(part) + fixed;
  return part;
}

LogPart* LogTable::make_part(uint32_t keys, size_t bytes, std::byte** bytes_at) {
  LogPart* part = allocate(keys, bytes, bytes_at);
  for (LogKey& key : part->all()) new (&key) LogKey();
  return part;
}

LogPart* LogTable::make_part(std::span<const KeyRef> keys, size_t more_bytes, std::byte** more_at) {
  size_t bytes = more_bytes;
  for (const KeyRef& ref : keys) bytes += align_up(ref.key.bytes.size(), 8) + align_up(ref.value.size(), 8);
  std::byte* at;
  LogPart* part = allocate(static_cast<uint32_t>(keys.size()), bytes, &at);
  LogKey* key = part->all().data();
  for (const KeyRef& ref : keys) {
    const ByteView name = ref.key.bytes;
    const ByteView value = ref.value;
    new (key) LogKey(ref);
    copy_words(at, name.data(), name.size());
    key->key.bytes = {at, name.size()};
    at += align_up(name.size(), 8);
    copy_words(at, value.data(), value.size());
    key->value = {at, value.size()};
    at += align_up(value.size(), 8);
    ++key;
  }
  *more_at = at;
  return part;
}

void LogTable::drop_parts(LogPart* part) {
  while (part != nullptr) {
    LogPart* next = part->next;
    pool_->free(reinterpret_cast<std::byte*>(part), part->block_bytes);
    part = next;
  }
}

void LogTable::drop(LogRecord& record, bool committed) {
  drop_parts(record.locked);
  drop_parts(record.applied);
  const auto finished = static_cast<uint32_t>(record.sequence);
  const uint32_t incarnation = record.incarnation;
  record = LogRecord();
  record.finished = finished;
  record.finished_incarnation = incarnation;
  record.finished_commit = committed;
}

void LogTable::forget(NodeId coordinator) {
  for (int slot = 0; slot < slots_; ++slot) {
    LogRecord& record = at(coordinator, static_cast<uint8_t>(slot));
    drop(record, false);
    record = LogRecord();
  }
}

size_t LogTable::open_records() const {
  return static_cast<size_t>(
      std::count_if(records_.begin(), records_.end(), [](const LogRecord& r) { return r.state != 0; }));
}

}  // namespace weft
