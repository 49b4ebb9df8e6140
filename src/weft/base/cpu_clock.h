// ThreadCpuClock: how much processor time the calling thread has taken. For measurements that other work on the machine
// must not change; it says nothing about when.
#pragma once

#include "weft/base/clock.h"

namespace weft {

class ThreadCpuClock final : public Clock {
 public:
  uint64_t now_ns() override;
};

}  // namespace weft
