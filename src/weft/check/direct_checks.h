// The anomalies that one or two transactions show by themselves, without a graph: what may be in a list, whether a
// transaction agrees with itself, whether the reads of a key agree with each other, and what has vanished.
#pragma once

#include <optional>

#include "weft/check/checker.h"
#include "weft/check/history_index.h"

namespace weft::checking {

// Runs them in the order of Anomaly and returns the first found. If there is none, the index is complete: every read
// is a prefix of its key's order, and first_reads, seen and the positions of all appends are filled.
std::optional<Verdict> check_directly(HistoryIndex& index);

}  // namespace weft::checking
