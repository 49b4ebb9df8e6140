#include "weft/txn/ship_queue.h"

#include <algorithm>

#include "weft/base/bytes.h"

namespace weft {

bool ShipQueue::LockedKey::set(const Table& table, const HashedKey& key) {
  if (key.bytes.size() > kKeyBytesMax) return false;
  table_ = &table;
  key_ = key;
  bytes_ = key.bytes.size();
  std::copy(key.bytes.begin(), key.bytes.end(), key_bytes_.begin());
  return true;
}

bool ShipQueue::LockedKey::is(const Table& table, const HashedKey& key) const {
  return table_ == &table && key_.hash == key.hash &&
         std::equal(key_bytes_.begin(), key_bytes_.begin() + static_cast<ptrdiff_t>(bytes_), key.bytes.begin(),
                    key.bytes.end());
}

bool ShipQueue::LockedKey::operator==(const LockedKey& other) const {
  HashedKey key = other.key_;
  key.bytes = ByteView(other.key_bytes_.data(), other.bytes_);
  return other.table_ != nullptr && is(*other.table_, key);
}

bool ShipQueue::LockedKey::is_free() const {
  HashedKey key = key_;
  key.bytes = ByteView(key_bytes_.data(), bytes_);
  return !table_->read(key, nullptr, 0).word.owner();
}

ShipQueue::ShipQueue() : places_(std::make_unique<std::array<Place, kPlaces>>()) {
  order_.reserve(kPlaces);
  for (size_t i = kPlaces; i > 0; --i) free_.push_back(static_cast<uint8_t>(i - 1));
}

ShipQueue::Place* ShipQueue::take_place(const LockedKey& key, uint64_t now_ns) {
  if (free_.empty()) return nullptr;
  if (empty()) look_ns_ = now_ns + kLookNs;
  order_.push_back(free_.back());
  free_.pop_back();
  Place* const place = &(*places_)[order_.back()];
  place->key = key;
  place->until_ns = now_ns + kWaitNs;
  place->coroutine = {};
  place->resumed = false;
  return place;
}

bool ShipQueue::add(const Message& message, const LockedKey& key, uint64_t now_ns) {
  if (message.body.size() > kShipBytesMax) return false;
  Place* const place = take_place(key, now_ns);
  if (place == nullptr) return false;
  std::copy(message.body.begin(), message.body.end(), place->body.begin());
  place->message = message;
  place->message.body = ByteView(place->body.data(), message.body.size());
  return true;
}

bool ShipQueue::add(std::coroutine_handle<> coroutine, const LockedKey& key, uint64_t now_ns) {
  Place* const place = take_place(key, now_ns);
  if (place == nullptr) return false;
  place->coroutine = coroutine;
  return true;
}

bool ShipQueue::keeps(const Table& table, const HashedKey& key) const {
  return std::any_of(order_.begin(), order_.end(), [&](uint8_t i) {
    const Place& place = (*places_)[i];
    return place.resumed && place.key.is(table, key);
  });
}

bool ShipQueue::is_kept(const LockedKey& key, size_t count) const {
  return std::any_of(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(count), [&](uint8_t i) {
    const Place& place = (*places_)[i];
    return place.resumed && place.key == key;
  });
}

}  // namespace weft
