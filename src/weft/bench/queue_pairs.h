// What sharing queue pairs and doorbell registers costs on an RDMA device: the experiment of SMART (ASPLOS '24,
// sections 3.1 and 6.3), from one command, as Markdown.
//
// Each thread again and again posts READs of 8 bytes from random places of a region, rings the doorbell once, and waits
// for all of them. The policies are those of wires/verbs/read_queues.h. The target is the device itself, so one machine
// is enough; what the wire between two devices can do is not measured.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "weft/bench/progress.h"
#include "weft/status.h"
#include "weft/wires/verbs/device_selector.h"
#include "weft/wires/verbs/library.h"

namespace weft::bench {

struct QueuePairOptions {
  uint32_t threads = 1;  // at most; with 1, 2, 4, ... of them
  uint32_t depth = 8;    // READs that a thread has in flight
  double seconds = 1;    // of each policy and number of threads, all rounds together
  uint64_t region_bytes = 256 << 20;
  VerbsDeviceSelector device;
  const VerbsLibrary* library = nullptr;  // nullptr: libibverbs is loaded
  std::string label;                      // in the heading: the commit
};

// Writes to `out` as figures come in. kBadOption if there is no device that works.
Result<void> run_queue_pairs(const QueuePairOptions& options, std::ostream& out, Progress& progress);

// 1, 2, 4, ... and `most`.
std::vector<uint32_t> numbers_of_threads(uint32_t most);

}  // namespace weft::bench
