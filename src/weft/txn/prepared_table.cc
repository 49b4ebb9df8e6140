#include "weft/txn/prepared_table.h"

#include <algorithm>
#include <initializer_list>
#include <new>

namespace weft {

const PreparedKey* PreparedTxn::find_value(uint16_t index) const {
  for (const PreparedKeys* list : std::initializer_list<const PreparedKeys*>{locked, applied, decided}) {
    for (const PreparedKeys* part = list; part != nullptr; part = part->next) {
      const PreparedKey* key = find_index(part->all(), index);
      if (key != nullptr && key->has(kHasValue)) return key;
    }
  }
  return nullptr;
}

bool PreparedTxn::locked_by_verb(uint16_t index) const {
  for (const PreparedKeys* part = applied; part != nullptr; part = part->next) {
    const PreparedKey* key = find_index(part->all(), index);
    if (key != nullptr && key->has(kByVerb)) return true;
  }
  return false;
}

bool PreparedTxn::covers(uint16_t index) const {
  for (const PreparedKeys* list : {locked, applied}) {
    for (const PreparedKeys* part = list; part != nullptr; part = part->next) {
      const PreparedKey* key = find_index(part->all(), index);
      if (key != nullptr && (list == locked || key->applied || key->deferred_apply)) return true;
    }
  }
  return false;
}

PreparedKeys* PreparedTable::make_part(uint32_t keys, size_t bytes, std::byte** bytes_at) {
  PreparedKeys* part = allocate(keys, bytes, bytes_at);
  for (PreparedKey& key : part->all()) new (&key) PreparedKey();
  return part;
}

PreparedTable::NewPart PreparedTable::gather_part(std::span<const KeyRef> keys) {
  size_t bytes = 0;
  for (const KeyRef& ref : keys) bytes += padded(ref.key.bytes.size()) + padded(ref.value.size());
  std::byte* at;
  PreparedKeys* part = allocate(static_cast<uint32_t>(keys.size()), bytes, &at);
  PreparedKey* key = part->all().data();
  for (const KeyRef& ref : keys) {
    new (key) PreparedKey(ref);
    copy_bytes(at, ref.key.bytes.data(), ref.key.bytes.size());
    key->key.bytes = {at, ref.key.bytes.size()};
    at += padded(ref.key.bytes.size());
    copy_bytes(at, ref.value.data(), ref.value.size());
    key->value = {at, ref.value.size()};
    at += padded(ref.value.size());
    ++key;
  }
  return {part, {at, reinterpret_cast<std::byte*>(part) + part->block_bytes}};
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
