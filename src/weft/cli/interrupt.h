// Ctrl-C and termination as a flag: the first one asks a run to end in order, a second one ends the process at once.
#pragma once

#include <atomic>

#include "weft/base/fd.h"

namespace weft::cli {

// Installs the handlers; the flag is set when a signal came. The main thread calls it, once.
const std::atomic<bool>& watch_interrupts();

// For a process that waits for descriptors: readable when a signal came that asks it to end. Before any thread starts.
// A connection that breaks is no signal then either.
Fd stop_signals();

}  // namespace weft::cli
