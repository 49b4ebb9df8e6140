// Batch: the keys that the messages of one burst name. The dispatcher fills it before any handler runs, and notes in
// each message whether it is well-formed and which keys are its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "weft/base/check.h"
#include "weft/fabric/message.h"
#include "weft/txn/prepared_table.h"

namespace weft {

// The keys of a batch, contiguous. Like a vector, but a new element is not cleared first.
class KeyBuffer {
 public:
  // Returns the place of the next keys, with room for `more`; the caller constructs them there, and calls
  // end_adding().
  KeyRef* begin_adding(size_t more) {
    if (size_ + more > capacity_) [[unlikely]]
      grow(size_ + more);
    return keys_.get() + size_;
  }
  void end_adding(const KeyRef* end) { size_ = static_cast<size_t>(end - keys_.get()); }
  void cut(size_t size) {  // truncates to this many
    WEFT_CHECK(size <= size_, "keys are cut off, not made");
    size_ = size;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const KeyRef* data() const { return keys_.get(); }
  std::span<const KeyRef> all() const { return {keys_.get(), size_}; }
  const KeyRef* begin() const { return keys_.get(); }
  const KeyRef* end() const { return keys_.get() + size_; }

 private:
  static_assert(std::is_trivially_copyable_v<KeyRef> && std::is_trivially_destructible_v<KeyRef>);
  void grow(size_t least) {
    const size_t capacity = std::max({size_t{256}, 2 * capacity_, least});
    auto grown = std::make_unique<KeyRef[]>(capacity);
    std::copy(begin(), end(), grown.get());
    keys_ = std::move(grown);
    capacity_ = capacity;
  }

  std::unique_ptr<KeyRef[]> keys_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

struct Batch {
  KeyBuffer keys;       // of all messages
  uint32_t logged = 0;  // keys of the records that messages of this burst name

  void begin() {
    keys.cut(0);
    logged = 0;
  }
  // The message has been parsed. If it is well-formed, its keys are those from `first_key` on.
  void note(Message& message, size_t first_key, bool ok) {
    if (!ok) [[unlikely]]
      keys.cut(first_key);
    message.ok = ok;
    message.keys = static_cast<uint16_t>(keys.size() - first_key);
    message.first_key = static_cast<uint32_t>(first_key);
  }
  std::span<const KeyRef> keys_of(const Message& message) const {
    return {keys.data() + message.first_key, message.keys};
  }
};

}  // namespace weft
