// A single-producer, single-consumer ring of byte frames: a RingWriter and a RingReader over one buffer, each used by
// one thread (or both by the same). FrameQueue joins the two for a queue inside one worker.
//
// A frame is contiguous and 8-byte aligned, behind a word with its length. A frame that does not fit before the end of
// the buffer goes to the beginning, and a skip word stands where it would have been.
//
// Positions count bytes since the start and never decrease; an origin maps them into the buffer: place = position -
// origin. Each side keeps its own. The producer publishes `tail` (written so far), the consumer `head` (released so
// far).
//
// Restart: a ring that is nearly always nearly empty would still walk through its whole buffer and evict everything
// else from the cache. So, past kRestartBytes, the producer checks whether the ring is empty (head == tail == P), and
// if so continues at place 0: its origin becomes P, and it stores P into `restart` before it publishes the next tail.
// When the consumer is at position `restart` and there is a frame, it takes that as its origin too.
//
// I1: a frame is overwritten only after the consumer's release() of it was seen (acquire of head).
// I2: at most one restart is outstanding: the next one needs an empty ring, so the consumer has passed the
//     previous one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "weft/base/bytes.h"

namespace weft {

// The shared words of one ring. tail and restart are on the producer's cache line, head is on the consumer's.
struct RingEnds {
  std::atomic<uint64_t>* tail;
  std::atomic<uint64_t>* restart;
  std::atomic<uint64_t>* head;
};

inline constexpr size_t kRestartBytes = 4096;
inline constexpr uint64_t kSkipFrame = ~uint64_t{0};

constexpr size_t frame_bytes(size_t payload) { return 8 + align_up(payload, 8); }

class RingWriter {
 public:
  RingWriter() = default;
  // `capacity` is a multiple of 8.
  RingWriter(std::byte* buffer, size_t capacity, RingEnds ends) : buffer_(buffer), capacity_(capacity), ends_(ends) {}

  // Copies a frame in and publishes it; false if there is no room. `fenced` publishes with sequential consistency: a
  // later load (of the flag that says whether the consumer sleeps) cannot be reordered before it.
  bool write(ByteView frame, bool fenced = false) {
    const size_t need = frame_bytes(frame.size());
    uint64_t place = tail_ - origin_;
    if (place + need > kRestartBytes && place != 0 && drained()) {
      origin_ = tail_;
      ends_.restart->store(tail_, std::memory_order_relaxed);
      place = 0;
    }
    const uint64_t waste = place + need > capacity_ ? capacity_ - place : 0;
    if (tail_ + waste + need - head_seen_ > capacity_) [[unlikely]] {
      head_seen_ = ends_.head->load(std::memory_order_acquire);
      if (tail_ + waste + need - head_seen_ > capacity_) return false;
    }
    if (place + need > capacity_) {
      if (waste != 0) store(buffer_ + place, kSkipFrame);
      tail_ += waste;
      origin_ += capacity_;
      place = 0;
    }
    store(buffer_ + place, uint64_t{frame.size()});
    std::memcpy(buffer_ + place + 8, frame.data(), frame.size());
    tail_ += need;
    ends_.tail->store(tail_, fenced ? std::memory_order_seq_cst : std::memory_order_release);
    return true;
  }

 private:
  bool drained() {
    if (head_seen_ != tail_) head_seen_ = ends_.head->load(std::memory_order_acquire);
    return head_seen_ == tail_;
  }

  std::byte* buffer_ = nullptr;
  size_t capacity_ = 0;
  uint64_t tail_ = 0;
  uint64_t origin_ = 0;
  uint64_t head_seen_ = 0;
  RingEnds ends_{};
};

class RingReader {
 public:
  RingReader() = default;
  RingReader(const std::byte* buffer, size_t capacity, RingEnds ends)
      : buffer_(buffer), capacity_(capacity), ends_(ends) {}

  // Whether no frame is left. Reads the shared tail only if no frame is known.
  bool empty_now() {
    if (cursor_ != tail_seen_) return false;
    tail_seen_ = ends_.tail->load(std::memory_order_acquire);
    return cursor_ == tail_seen_;
  }
  bool empty() const { return ends_.tail->load(std::memory_order_acquire) == cursor_; }

  // The oldest frame not popped yet; call it only when the ring is not empty. Valid until release().
  ByteView front() {
    if (ends_.restart->load(std::memory_order_relaxed) == cursor_) origin_ = cursor_;
    uint64_t place = cursor_ - origin_;
    if (place == capacity_ || load<uint64_t>(buffer_ + place) == kSkipFrame) {
      cursor_ += capacity_ - place;
      origin_ += capacity_;
      place = 0;
    }
    return {buffer_ + place + 8, load<uint64_t>(buffer_ + place)};
  }
  // front() where the producer is another process and not trusted: data() is nullptr if the frame is not inside the
  // buffer and before the tail that empty_now() saw.
  ByteView front_checked() {
    if (tail_seen_ - cursor_ > capacity_) return {};
    if (ends_.restart->load(std::memory_order_relaxed) == cursor_) origin_ = cursor_;
    uint64_t place = cursor_ - origin_;
    uint64_t length = place == capacity_ ? kSkipFrame : load_shared(buffer_ + place);
    if (length == kSkipFrame) {
      if (capacity_ - place >= tail_seen_ - cursor_) return {};
      cursor_ += capacity_ - place;
      origin_ += capacity_;
      place = 0;
      length = load_shared(buffer_);
    }
    if (length > capacity_ || frame_bytes(length) > std::min(capacity_ - place, tail_seen_ - cursor_)) return {};
    return {buffer_ + place + 8, length};
  }
  // Skips the frame that front() returned; its bytes stay valid until release().
  void pop(ByteView front) { cursor_ += frame_bytes(front.size()); }
  // Position of the next frame: the ring is empty while the published tail equals it.
  uint64_t cursor() const { return cursor_; }
  // Returns the space of all popped frames to the producer.
  void release() { ends_.head->store(cursor_, std::memory_order_release); }

 private:
  const std::byte* buffer_ = nullptr;
  size_t capacity_ = 0;
  uint64_t cursor_ = 0;
  uint64_t origin_ = 0;
  uint64_t tail_seen_ = 0;
  RingEnds ends_{};
};

// Both ends together: a bounded FIFO of frames in memory that the owner provides. Not movable once set up.
class FrameQueue {
 public:
  FrameQueue() = default;
  FrameQueue(const FrameQueue&) = delete;
  FrameQueue& operator=(const FrameQueue&) = delete;

  void set_up(std::byte* buffer, size_t capacity) {
    writer_ = RingWriter(buffer, capacity, {&tail_, &restart_, &head_});
    reader_ = RingReader(buffer, capacity, {&tail_, &restart_, &head_});
  }

  bool push(ByteView frame) { return writer_.write(frame); }
  bool empty() const { return reader_.empty(); }
  ByteView front() { return reader_.empty_now() ? ByteView() : reader_.front(); }
  void pop(ByteView front) { reader_.pop(front); }
  void release() { reader_.release(); }

 private:
  std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> restart_{0};
  std::atomic<uint64_t> head_{0};
  RingWriter writer_;
  RingReader reader_;
};

}  // namespace weft
