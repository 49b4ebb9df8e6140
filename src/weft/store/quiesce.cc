#include "weft/store/quiesce.h"

namespace weft {

Quiescence::Quiescence(int readers) : readers_(static_cast<size_t>(readers)) {}

void Quiescence::catch_up(std::atomic<uint64_t>& seen) {
  uint64_t epoch = epoch_.load(std::memory_order_seq_cst);
  for (;;) {
    seen.exchange(epoch, std::memory_order_seq_cst);
    const uint64_t again = epoch_.load(std::memory_order_seq_cst);
    if (again == epoch) return;
    epoch = again;
  }
}

bool Quiescence::passed(uint64_t ticket) const {
  for (const Reader& reader : readers_) {
    const uint64_t seen = reader.seen.load(std::memory_order_seq_cst);
    if (seen != kOffline && seen < ticket) return false;
  }
  return true;
}

}  // namespace weft
