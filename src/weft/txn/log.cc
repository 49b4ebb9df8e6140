#include "weft/txn/log.h"

#include <algorithm>
#include <initializer_list>
#include <new>

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

bool LogRecord::locked_by_verb(uint8_t index) const {
  for (const LogPart* part = applied; part != nullptr; part = part->next) {
    for (const LogKey& key : part->all()) {
      if (key.index == index && key.by_verb) return true;
    }
  }
  return false;
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

LogPart* LogTable::make_part(uint32_t keys, size_t bytes, std::byte** bytes_at) {
  LogPart* part = allocate(keys, bytes, bytes_at);
  for (LogKey& key : part->all()) new (&key) LogKey();
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
