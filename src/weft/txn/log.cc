#include "weft/txn/log.h"

#include <algorithm>
#include <new>

namespace weft {

const LogKey* LogRecord::find_value(uint8_t index) const {
  for (const LogPart* list : {locked, applied}) {
    for (const LogPart* part = list; part != nullptr; part = part->next) {
      for (const LogKey& key : part->all()) {
        if (key.index == index && key.has_value) return &key;
      }
    }
  }
  return nullptr;
}

LogPart* LogTable::make_part(uint32_t keys, size_t bytes, std::byte** bytes_at) {
  const size_t fixed = sizeof(LogPart) + keys * sizeof(LogKey);
  auto* part = reinterpret_cast<LogPart*>(pool_->allocate(fixed + bytes));
  *part = {nullptr, static_cast<uint32_t>(fixed + bytes), keys};
  for (LogKey& key : part->all()) new (&key) LogKey();
  *bytes_at = reinterpret_cast<std::byte*>(part) + fixed;
  return part;
}

void LogTable::drop_parts(LogPart* part) {
  while (part != nullptr) {
    LogPart* next = part->next;
    pool_->free(reinterpret_cast<std::byte*>(part), part->block_bytes);
    part = next;
  }
}

void LogTable::drop(LogRecord& record) {
  drop_parts(record.locked);
  drop_parts(record.applied);
  record = LogRecord();
}

size_t LogTable::open_records() const {
  return static_cast<size_t>(
      std::count_if(records_.begin(), records_.end(), [](const LogRecord& r) { return r.state != 0; }));
}

}  // namespace weft
