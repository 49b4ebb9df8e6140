#include "weft/txn/prepared_table.h"

#include <algorithm>
#include <initializer_list>
#include <new>

namespace weft {

const PreparedKey* PreparedTxn::find_value(uint8_t index) const {
  for (const PreparedKeys* list : std::initializer_list<const PreparedKeys*>{locked, applied, decided}) {
    for (const PreparedKeys* part = list; part != nullptr; part = part->next) {
      for (const PreparedKey& key : part->all()) {
        if (key.index == index && key.has(kHasValue)) return &key;
      }
    }
  }
  return nullptr;
}

bool PreparedTxn::locked_by_verb(uint8_t index) const {
  for (const PreparedKeys* part = applied; part != nullptr; part = part->next) {
    for (const PreparedKey& key : part->all()) {
      if (key.index == index && key.has(kByVerb)) return true;
    }
  }
  return false;
}

bool PreparedTxn::covers(uint8_t index) const {
  for (const PreparedKeys* list : {locked, applied}) {
    for (const PreparedKeys* part = list; part != nullptr; part = part->next) {
      for (const PreparedKey& key : part->all()) {
        if (key.index == index && (list == locked || key.applied || key.deferred_apply)) return true;
      }
    }
  }
  return false;
}

PreparedKeys* PreparedTable::make_part(uint32_t keys, size_t bytes, std::byte** bytes_at) {
  PreparedKeys* part = allocate(keys, bytes, bytes_at);
  for (PreparedKey& key : part->all()) new (&key) PreparedKey();
  return part;
}

void PreparedTable::drop_parts(PreparedKeys* part) {
  while (part != nullptr) {
    PreparedKeys* next = part->next;
    pool_->free(reinterpret_cast<std::byte*>(part), part->block_bytes);
    part = next;
  }
}

void PreparedTable::drop(PreparedTxn& record, bool committed) {
  drop_parts(record.locked);
  drop_parts(record.applied);
  const uint64_t finished = record.sequence;
  const uint32_t incarnation = record.incarnation;
  record = PreparedTxn();
  record.finished = finished;
  record.finished_incarnation = incarnation;
  record.finished_commit = committed;
}

void PreparedTable::forget(NodeId coordinator) {
  for (int slot = 0; slot < slots_; ++slot) {
    PreparedTxn& record = at(coordinator, static_cast<uint8_t>(slot));
    drop(record, false);
    record = PreparedTxn();
  }
}

size_t PreparedTable::open_records() const {
  return static_cast<size_t>(
      std::count_if(records_.begin(), records_.end(), [](const PreparedTxn& r) { return r.state != 0; }));
}

}  // namespace weft
