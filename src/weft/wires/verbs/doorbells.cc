#include "weft/wires/verbs/doorbells.h"

#include <algorithm>
#include <set>
#include <vector>

namespace weft {

size_t threads_on_one_doorbell(const DoorbellRegisters& registers, std::span<const uint32_t> threads) {
  std::vector<std::set<uint32_t>> ringing(registers.count());
  size_t most = 0;
  for (size_t i = 0; i < threads.size(); ++i) {
    std::set<uint32_t>& here = ringing[registers.of(i)];
    here.insert(threads[i]);
    most = std::max(most, here.size());
  }
  return most;
}

size_t threads_on_one_doorbell(const DoorbellRegisters& registers, uint32_t threads, uint32_t peers) {
  std::vector<uint32_t> created;
  created.reserve(size_t{threads} * peers);
  for (uint32_t peer = 0; peer < peers; ++peer) {
    for (uint32_t thread = 0; thread < threads; ++thread) created.push_back(thread);
  }
  return threads_on_one_doorbell(registers, created);
}

}  // namespace weft
