// NoTasks: the tasks of a worker that has nothing to do, for tests of what runs beside them.
#pragma once

#include <cstdint>

#include "weft/run/worker.h"

namespace weft {

struct NoTasks final : WorkerTasks {
  bool table_batch() override { return false; }
  bool commit_steps() override { return false; }
  bool flush() override { return false; }
  bool poll() override { return false; }
  void between_steps() override {}
  void before_sleep() override {}
  void after_sleep() override {}
  bool pending() const override { return false; }
  uint64_t deadline_ns() const override { return UINT64_MAX; }
};

}  // namespace weft
