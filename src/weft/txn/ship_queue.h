// ShipQueue: shipped procedures that wait at their executor for a key that another transaction has locked.
//
// Locking does not wait, since those who wait with locks held may wait for each other. A shipped procedure whose keys
// are all at its executor holds nothing before it is executed, at no node (rule H9): it may wait for the lock to be
// released, instead of being refused and shipped again. Who came first is executed first. A bounded number waits, each
// for a bounded time; after that they are refused.
//
// A coroutine of this node that holds nothing may wait among them, to begin a transaction when it is its turn: then the
// key is kept for it for a moment. Without that a key that others always wait for would never be free for its own node.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/fabric/message.h"
#include "weft/fabric/nodes.h"
#include "weft/store/table.h"
#include "weft/txn/messages.h"
#include "weft/txn/slot.h"

namespace weft {

class ShipQueue {
 public:
  static constexpr size_t kPlaces = 32;
  static constexpr size_t kKeyBytesMax = 128;     // nobody waits for a longer key
  static constexpr uint64_t kWaitNs = 2'000'000;  // at most
  static constexpr uint64_t kLookNs = 10'000;     // between two looks, if nothing else happens
  static constexpr uint64_t kKeptNs = 50'000;     // a key is kept for who was resumed

  // A key that somebody waits for.
  class LockedKey {
   public:
    // False: it is too long.
    bool set(const Table& table, const HashedKey& key);
    bool is_free() const;
    bool is(const Table& table, const HashedKey& key) const;
    bool operator==(const LockedKey& other) const;

   private:
    const Table* table_ = nullptr;
    HashedKey key_;  // without its bytes
    size_t bytes_ = 0;
    alignas(8) std::array<std::byte, kKeyBytesMax> key_bytes_{};
  };

  ShipQueue();
  bool empty() const { return order_.empty(); }
  uint64_t deadline_ns() const { return empty() ? UINT64_MAX : look_ns_; }

  // Copies the message. False: there is no room.
  bool add(const Message& message, const LockedKey& key, uint64_t now_ns);
  // A coroutine instead of a message.
  bool add(std::coroutine_handle<> coroutine, const LockedKey& key, uint64_t now_ns);
  // Whether the key is kept for a coroutine.
  bool keeps(const Table& table, const HashedKey& key) const;

  // f(const Message&, bool may_wait) -> const LockedKey*: executes it; the key that it goes on waiting for, or nullptr.
  // Called for those whose key is free, and for those that must not wait any longer. resume(coroutine) is called in
  // their place for coroutines. Returns whether one was called.
  template <class F, class Resume>
  bool retry(NodeSet lost, uint64_t now_ns, F f, Resume resume);
  // Resumes all coroutines, and forgets the messages.
  template <class Resume>
  void clear(Resume resume);

 private:
  struct Place {
    Message message;
    LockedKey key;
    uint64_t until_ns;
    std::coroutine_handle<> coroutine;  // if it is no message
    bool resumed;                       // the key is kept for it
    alignas(8) std::array<std::byte, kShipBytesMax> body;
  };
  Place* take_place(const LockedKey& key, uint64_t now_ns);
  // Whether one of the first `count` has the key kept for it.
  bool is_kept(const LockedKey& key, size_t count) const;
  bool goes_on_waiting(Place& place, uint64_t now_ns, bool free, const auto& resume);

  std::unique_ptr<std::array<Place, kPlaces>> places_;
  std::vector<uint8_t> order_, free_;
  uint64_t look_ns_ = 0;
};

template <class Resume>
void ShipQueue::clear(Resume resume) {
  for (const uint8_t i : order_) {
    const Place& place = (*places_)[i];
    if (place.coroutine && !place.resumed) resume(place.coroutine);
    free_.push_back(i);
  }
  order_.clear();
}

// Of a coroutine.
bool ShipQueue::goes_on_waiting(Place& place, uint64_t now_ns, bool free, const auto& resume) {
  const bool late = now_ns >= place.until_ns;
  if (place.resumed) return free && !late;  // until it has locked the key
  if (!free && !late) return true;
  resume(place.coroutine);
  place.resumed = true;
  place.until_ns = now_ns + kKeptNs;
  return !late;
}

template <class F, class Resume>
bool ShipQueue::retry(NodeSet lost, uint64_t now_ns, F f, Resume resume) {
  look_ns_ = now_ns + kLookNs;
  bool called = false;
  size_t kept = 0;
  for (const uint8_t i : order_) {
    Place& place = (*places_)[i];
    const bool free = place.key.is_free() && !is_kept(place.key, kept);
    const bool late = now_ns >= place.until_ns;
    bool waits = true;
    if (place.coroutine) {
      waits = goes_on_waiting(place, now_ns, free, resume);
      called |= !waits || place.resumed;
    } else if (lost.contains(place.message.source)) {
      waits = false;
    } else if (late || free) {
      called = true;
      const LockedKey* const key = f(place.message, !late);
      waits = key != nullptr;
      if (waits) place.key = *key;
    }
    if (waits) {
      order_[kept++] = i;
    } else {
      free_.push_back(i);
    }
  }
  order_.resize(kept);
  return called;
}

}  // namespace weft
