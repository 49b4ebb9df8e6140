// The two byte queues of a connection: bytes that wait to be written, and bytes that were read. Each is contiguous and
// restarts at the beginning of its memory whenever it is empty, so that a connection that keeps up stays in the cache.
//
// Only the worker that owns the connection uses them.
#pragma once

#include <cstddef>
#include <cstring>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/base/mapping.h"
#include "weft/wires/tcp/frame.h"

namespace weft {

// Packets and requests may fill it up to `bytes_max`; replies have kTcpVerbWindowBytes more for each access domain.
class TcpOutput {
 public:
  explicit TcpOutput(size_t bytes_max)
      : bytes_max_(bytes_max), memory_(Mapping::or_throw(2 * (bytes_max + kRepliesBytes))) {}

  size_t bytes_max() const { return bytes_max_; }
  bool fits(size_t bytes) const { return size() + bytes <= bytes_max_; }
  bool fits_reply(size_t bytes) const { return size() + bytes <= bytes_max_ + kRepliesBytes; }

  // Space at the end, which commit() then adds to the queue. The caller has checked that it fits.
  std::byte* prepare(size_t bytes) {
    if (head_ == tail_) head_ = tail_ = 0;
    // The memory is twice what may wait, so a move never copies more than was added since the last move.
    if (tail_ + bytes > memory_.bytes()) {
      std::memmove(memory_.base(), memory_.base() + head_, size());
      tail_ -= head_;
      head_ = 0;
    }
    return memory_.base() + tail_;
  }
  void commit(size_t bytes) { tail_ += bytes; }

  size_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  ByteView waiting() const { return {memory_.base() + head_, size()}; }
  void consume(size_t bytes) { head_ += bytes; }

 private:
  static constexpr size_t kRepliesBytes = kDomains * kTcpVerbWindowBytes;
  const size_t bytes_max_;
  Mapping memory_;
  size_t head_ = 0;
  size_t tail_ = 0;
};

// Popped bytes stay valid until make_room().
class TcpInput {
 public:
  static constexpr size_t kBytes = 256 << 10;
  static_assert(kBytes >= 2 * kTcpFrameBytesMax);

  TcpInput() : memory_(Mapping::or_throw(kBytes)) {}

  ByteView waiting() const { return {memory_.base() + head_, tail_ - head_}; }
  void pop(size_t bytes) { head_ += bytes; }

  // Whether there is room for a whole frame behind the bytes, without moving anything.
  bool has_room() const { return kBytes - tail_ >= kTcpFrameBytesMax; }
  // Moves the remaining bytes (at most part of a frame) to the front if necessary.
  void make_room() {
    if (head_ == tail_) {
      head_ = tail_ = 0;
    } else if (!has_room()) {
      WEFT_CHECK(tail_ - head_ < kTcpFrameBytesMax, "only a part of a frame is moved");
      std::memmove(memory_.base(), memory_.base() + head_, tail_ - head_);  // a frame's beginning stays 8-aligned
      tail_ -= head_;
      head_ = 0;
    }
  }
  std::byte* end() const { return memory_.base() + tail_; }
  size_t room() const { return kBytes - tail_; }
  void add(size_t bytes) { tail_ += bytes; }

 private:
  Mapping memory_;
  size_t head_ = 0;
  size_t tail_ = 0;
};

}  // namespace weft
