// What a node holds, in a text that can be compared between nodes while nothing is written: WEFT DIGEST.
#pragma once

#include <string>

#include "weft/fabric/view.h"
#include "weft/txn/node.h"

namespace weft {

// {"node", "epoch", "locked", "unreadable", "partitions": {"3": {"store": {"records", "sum", "absence"}}}}, of the
// partitions of which the node has a whole replica.
std::string digest_text(const Node& node, const View& view);

}  // namespace weft
