// One line of live statistics of a cluster, at the bottom of a terminal, rewritten once a second.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "weft/member/view.h"

namespace weft::cli {

// `samples`: by node, kSampleKeys of redis/node_stats.h; null for a node that reports none. At most `width` characters
// long.
std::string live_line(const View& view, const std::vector<nlohmann::json>& samples, size_t width);

}  // namespace weft::cli
