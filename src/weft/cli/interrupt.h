// Ctrl-C and termination as a flag: the first one asks a run to end in order, a second one ends the process at once.
#pragma once

#include <atomic>

namespace weft::cli {

// Installs the handlers; the flag is set when a signal came. The main thread calls it, once.
const std::atomic<bool>& watch_interrupts();

}  // namespace weft::cli
