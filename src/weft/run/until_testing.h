// Shared by tests of threads.
#pragma once

#include <functional>
#include <thread>

namespace weft {

// Waits for another thread without asserting how long it takes; the test's time limit ends a hang.
inline void until(const std::function<bool()>& done) {
  while (!done()) std::this_thread::yield();
}

}  // namespace weft
