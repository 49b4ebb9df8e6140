// Batch: the parsed messages of one burst: which of them are well-formed, and the keys they name. The dispatcher fills
// it before any handler runs; handlers get it together with their messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/fabric/message.h"
#include "weft/txn/prepared_table.h"

namespace weft {

// The keys of a batch, contiguous. Like a vector, but a new element is not cleared first.
class KeyBuffer {
 public:
  // Returns the place of the next key; the caller constructs it there.
  KeyRef* add() {
    if (size_ == capacity_) [[unlikely]]
      grow();
    return keys_.get() + size_++;
  }
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
  void grow() {
    const size_t capacity = std::max<size_t>(256, 2 * capacity_);
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
  struct Parsed {
    uint32_t first_key;
    uint16_t keys;
    bool ok;
  };

  const Message* base = nullptr;
  size_t messages = 0;
  std::vector<Parsed> parsed;
  KeyBuffer keys;       // of all messages
  uint32_t logged = 0;  // keys of the records that messages of this burst name

  void begin(std::span<const Message> burst) {
    base = burst.data();
    messages = burst.size();
    parsed.resize(messages);
    keys.cut(0);
    logged = 0;
  }
  // Message `at` has been parsed. If it is well-formed, its keys are those from `first_key` on.
  void add(size_t at, size_t first_key, bool ok) {
    if (!ok) [[unlikely]]
      keys.cut(first_key);
    parsed[at] = {static_cast<uint32_t>(first_key), static_cast<uint16_t>(keys.size() - first_key), ok};
  }
  const Parsed& of(const Message& message) const {
    const auto at = static_cast<size_t>(&message - base);
    WEFT_CHECK(at < messages, "a message of this burst");
    return parsed[at];
  }
  bool ok(const Message& message) const { return of(message).ok; }
  std::span<const KeyRef> keys_of(const Message& message) const {
    const Parsed& p = of(message);
    return {keys.data() + p.first_key, p.keys};
  }
};

}  // namespace weft
