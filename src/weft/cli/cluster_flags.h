// The cluster options of `up` and `bench`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/options.h"
#include "weft/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace weft::cli {

inline constexpr int kReplicasDefault = 3;  // or as many as there are nodes

struct ClusterFlags {
  int nodes = 3;
  std::optional<int> replicas;  // not given: three, or as many as there are nodes
  std::optional<int> threads;   // not given: one per core
  void add_to(CLI::App& command);
  // kBadOption for values that the cluster itself would take for "choose for me".
  Result<Options> options() const;
};

}  // namespace weft::cli
