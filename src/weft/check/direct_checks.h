// Finds the anomalies that one or two transactions show by themselves, without a graph: what may be in a list, whether
// a transaction agrees with itself, whether the reads of a key agree with each other, and what has disappeared.
#pragma once

#include <optional>

#include "weft/check/checker.h"
#include "weft/check/history_index.h"

namespace weft::checking {

// Runs the checks in the order of Anomaly and returns the first anomaly found. If there is none, the index is complete:
// every read is a prefix of its key's order, and first_reads, seen and the positions of all appends are set.
std::optional<Verdict> check_directly(HistoryIndex& index);

}  // namespace weft::checking
