#include "weft/redis/keyspace.h"

#include <algorithm>

#include "weft/base/marks.h"
#include "weft/redis/frontend.h"

namespace weft {

// A command that has asked for a key may ask for it again.
inline ReadHandle Keyspace::handle_of(std::string_view key) {
  constexpr size_t kAheadMax = 4;  // keys that a command did not ask for
  for (size_t i = 0; i < std::min(read_keys_.size(), kAheadMax); ++i) {
    const std::string_view name = read_keys_[i].name;
    if (name.data() != key.data() || name.size() != key.size()) continue;
    read_keys_ = read_keys_.subspan(i);
    return read_keys_.front().handle;
  }
  return txn_->get_async(table_, key, Intent::kHead);
}

inline Value Keyspace::value_of(std::string_view key) {
  return txn_ != nullptr ? txn_->value(handle_of(key)) : values_->get(key);
}

Keyspace::Found Keyspace::find(std::string_view key) {
  const Found found = find_any(key);
  if (counts_) ++(found.exists ? hits_ : misses_);
  return found;
}

Keyspace::Found Keyspace::find_any(std::string_view key) {
  Found found;
  if (key.size() > key_bytes_max_) return found;  // no such key exists
  const Value value = value_of(key);
  if (value.code != Code::kOk) {
    note(value.code);
    return found;
  }
  if (!value.found) return found;
  static_cast<StoredValue&>(found) = parse_value(value.bytes);
  found.length = value.length - (value.bytes.size() - found.bytes.size());
  found.exists = !found.due(now_ms());
  if (!found.exists) {
    WEFT_MARK_OUTSIDE("an expired key is found");
    erase(key);
    return {};
  }
  return found;
}

size_t Keyspace::bytes_of(std::string_view key) const {
  if (key.size() > key_bytes_max_) return 0;
  const Value value = txn_ != nullptr ? txn_->value(txn_->get_async(table_, key, Intent::kHead)) : values_->get(key);
  return value.found ? value.length - (value.bytes.size() - parse_value(value.bytes).bytes.size()) : 0;
}

bool Keyspace::find_string(std::string_view key, Found* found, RespWriter& reply) {
  *found = find(key);
  if (!found->exists || found->type == ValueType::kString) return true;
  reply.error("WRONGTYPE Operation against a key holding the wrong kind of value");
  return false;
}

bool Keyspace::fits(uint64_t bytes, RespWriter& reply) {
  if (values_ != nullptr && bytes > values_->string_bytes_max() && bytes <= string_bytes_max_) {
    note(Code::kAskInstead);
    return false;
  }
  if (bytes <= string_bytes_max_) return true;
  reply.error("ERR string exceeds maximum allowed size: store.value_bytes_max is " + std::to_string(string_bytes_max_) +
              ", asked for " + std::to_string(bytes));
  return false;
}

bool Keyspace::put(std::string_view key, std::string_view bytes, int64_t deadline_ms, RespWriter& reply) {
  if (!fits(bytes.size(), reply)) return false;
  put(key, StoredValue{ValueType::kString, deadline_ms, bytes});
  return true;
}

void Keyspace::put(std::string_view key, const StoredValue& value) {
  add_work(2 * bytes_ns(value.bytes.size()));  // into the scratch buffer, and out of it
  store_value(*scratch_, value.type, value.deadline_ms, value.bytes);
  note(txn_ != nullptr ? txn_->put(table_, key, *scratch_) : values_->put(key, *scratch_, value.deadline_ms));
  if (value.deadline_ms != kNoDeadline && front_ != nullptr) front_->note_deadline(key, value.deadline_ms);
}

void Keyspace::erase(std::string_view key) { note(txn_ != nullptr ? txn_->erase(table_, key) : values_->erase(key)); }

}  // namespace weft
