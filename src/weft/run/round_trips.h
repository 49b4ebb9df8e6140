// RoundTrips: the shortest round trip of the last second: what the fabric takes, without what queues add to it.
//
// Kept in tenths of a second, each with its shortest; so a round trip counts for 0.9 to 1 second.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace weft {

class RoundTrips {
 public:
  static constexpr uint64_t kTenthNs = 100'000'000;

  void note(uint64_t ns, uint64_t now_ns) {
    Tenth& tenth = tenths_[now_ns / kTenthNs % tenths_.size()];
    if (tenth.number != now_ns / kTenthNs) tenth = {now_ns / kTenthNs, UINT64_MAX};
    tenth.shortest_ns = std::min(tenth.shortest_ns, ns);
  }

  // UINT64_MAX: there was none.
  uint64_t shortest_ns(uint64_t now_ns) const {
    uint64_t shortest_ns = UINT64_MAX;
    for (const Tenth& tenth : tenths_) {
      if (tenth.number + tenths_.size() > now_ns / kTenthNs) shortest_ns = std::min(shortest_ns, tenth.shortest_ns);
    }
    return shortest_ns;
  }

 private:
  struct Tenth {
    uint64_t number = 0;
    uint64_t shortest_ns = UINT64_MAX;
  };
  std::array<Tenth, 10> tenths_;
};

}  // namespace weft
