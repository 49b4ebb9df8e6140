// ClientOutput: replies that wait to be written, in pieces, so that a long reply is neither copied nor kept longer
// than it takes to write it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/bytes.h"

namespace weft {

class ClientOutput {
 public:
  static constexpr size_t kPieceBytes = 64 << 10;
  static constexpr size_t kKeptBytes = 16 << 10;  // of an empty buffer

  bool empty() const { return bytes() == 0; }
  size_t bytes() const { return full_bytes_ + last_.size() - sent_; }
  size_t memory_bytes() const { return full_memory_ + heap_bytes(last_); }
  bool begun() const { return begun_; }  // part of the content has been written

  // The buffer for the next reply, at the end. Valid until the next call of a non-const member.
  std::string& last() {
    if (last_.size() >= kPieceBytes) seal();
    return last_;
  }
  // Appends all of the reply, and empties it.
  void take(std::string& reply) {
    const bool whole = empty() || reply.size() >= kPieceBytes;
    if (!whole) {
      last().append(reply);
    } else {
      if (!last_.empty()) seal();
      last_.swap(reply);
    }
    clear(reply);
  }

  // What to write next, and how much of it was written.
  std::string_view first() const { return std::string_view(next_ < full_.size() ? full_[next_] : last_).substr(sent_); }
  void wrote(size_t bytes) {
    begun_ = true;
    sent_ += bytes;
    if (next_ < full_.size() && sent_ == full_[next_].size()) {
      full_bytes_ -= sent_;
      full_memory_ -= full_[next_].capacity();
      std::string().swap(full_[next_++]);
      sent_ = 0;
    }
    if (next_ == full_.size()) {
      full_.clear();
      next_ = 0;
      if (sent_ == last_.size()) {
        clear(last_);
        sent_ = 0;
        begun_ = false;
      }
    }
  }
  void drop() {
    const ClientOutput gone = std::move(*this);  // a string that is assigned a short one keeps its memory
    *this = ClientOutput();
  }

  static void clear(std::string& buffer) {
    buffer.clear();
    if (buffer.capacity() > kKeptBytes) std::string().swap(buffer);
  }

 private:
  void seal() {
    full_bytes_ += last_.size();
    full_memory_ += last_.capacity();
    full_.push_back(std::exchange(last_, {}));
  }

  std::vector<std::string> full_;  // from next_ on
  size_t next_ = 0;
  size_t full_bytes_ = 0, full_memory_ = 0;
  std::string last_;
  size_t sent_ = 0;  // of the first piece
  bool begun_ = false;
};

}  // namespace weft
