// Quiescence: decides when memory that lock-free readers may still use can be freed: when every reader has declared,
// after the memory was unlinked, that it holds no pointers (quiescent-state-based reclamation).
//
// There is a fixed number of readers, 0 .. readers - 1; each is one thread at a time (or one peer, whose
// acknowledgements some thread forwards). A reader is online at first. While online it may hold pointers between two
// calls of quiesce(); while offline it must hold and access nothing. quiesce() brings it online again.
//
//   unlink the memory; ticket = mark(); ... later, when passed(ticket): free it
//
// mark() and passed() may be called by any thread; quiesce() and offline() only by the reader itself. No call waits.
//
// Why it is correct: mark() increments the epoch after the unlinking. A reader stores the epoch that it reads, and
// reads the epoch again after the store. So a reader whose number is at or above the ticket saw the increment, and
// everything before it. A reader that passed() saw offline and that comes back later reads the epoch after its store,
// sees the increment too, and finds nothing that was unlinked.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace weft {

class Quiescence {
 public:
  explicit Quiescence(int readers);

  void quiesce(int reader) {
    std::atomic<uint64_t>& seen = readers_[static_cast<size_t>(reader)].seen;
    if (seen.load(std::memory_order_relaxed) != epoch_.load(std::memory_order_acquire)) catch_up(seen);
  }
  void offline(int reader) { readers_[static_cast<size_t>(reader)].seen.store(kOffline, std::memory_order_seq_cst); }

  uint64_t mark() { return epoch_.fetch_add(1, std::memory_order_seq_cst) + 1; }
  bool passed(uint64_t ticket) const;

  int readers() const { return static_cast<int>(readers_.size()); }

 private:
  static constexpr uint64_t kOffline = 0;
  struct alignas(64) Reader {
    std::atomic<uint64_t> seen{1};
  };
  void catch_up(std::atomic<uint64_t>& seen);

  alignas(64) std::atomic<uint64_t> epoch_{1};
  std::vector<Reader> readers_;
};

}  // namespace weft
