// LocalAtomics: compare-and-swap on words of a node's own regions by whatever carries out its peers' atomic verbs. It
// is there where that is a NIC whose atomics do not go with the processor's (Wire::atomic_with_cpu).
//
// Any thread may call it; done when it returns.
#pragma once

#include <cstdint>

#include "weft/fabric/region.h"

namespace weft {

class LocalAtomics {
 public:
  virtual ~LocalAtomics() = default;
  // Whether the 8 aligned bytes were `expected`; they are `desired` then. False, too, if it has failed.
  virtual bool swap(RegionId region, uint64_t offset, uint64_t expected, uint64_t desired) = 0;
  virtual uint64_t swaps() const = 0;  // so far
  // It swaps nothing any more, for ever: no record can be locked here, and the node has to leave its view.
  virtual bool failed() const { return false; }
};

}  // namespace weft
