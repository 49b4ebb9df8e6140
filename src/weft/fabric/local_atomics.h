// LocalAtomics: compare-and-swap on words of the local node's regions, executed by the device that executes the peers'
// atomic verbs. Used only where that device is a NIC whose atomics are not atomic with the CPU's
// (Wire::atomic_with_cpu).
//
// Any thread may call it. Calls are synchronous.
#pragma once

#include <cstdint>

#include "weft/fabric/region.h"

namespace weft {

class LocalAtomics {
 public:
  virtual ~LocalAtomics() = default;
  // Replaces the 8 aligned bytes by `desired` and returns true if they were `expected`. Also false if the device has
  // failed.
  virtual bool swap(RegionId region, uint64_t offset, uint64_t expected, uint64_t desired) = 0;
  virtual uint64_t swaps() const = 0;  // so far
  // True if no swap will ever succeed again: no record can be locked here, and the node has to leave its view.
  virtual bool failed() const { return false; }
};

}  // namespace weft
