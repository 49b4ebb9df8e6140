// Ctrl-C and termination as a flag: the first signal asks a run to end in order, a second one ends the process at
// once.
#pragma once

#include <atomic>

#include "weft/base/fd.h"

namespace weft::cli {

// Installs the handlers; a signal sets the flag. The main thread calls it, once.
const std::atomic<bool>& watch_interrupts();

// For a process that waits on descriptors: readable when a signal asks it to end. Call it before any thread starts. It
// also ignores SIGPIPE.
Fd stop_signals();

}  // namespace weft::cli
