// The cluster options of `up`, `bench` and `sim`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/options.h"
#include "weft/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace weft::cli {

inline constexpr int kReplicasDefault = 3;  // or as many as there are nodes that hold data

// --memory M and --compute C, in place of --nodes.
struct RoleFlags {
  std::optional<int> memory, compute;
  bool given() const { return memory.has_value(); }
  int nodes() const { return *memory + *compute; }
  std::vector<NodeRoles> roles() const { return memory_and_compute(*memory, *compute); }
  void add_to(CLI::App& command);
  Result<void> check(const CLI::App& command) const;
};

struct ClusterFlags {
  RoleFlags roles;
  int nodes = 3;
  std::optional<int> replicas;  // not given: kReplicasDefault
  std::optional<int> threads;   // not given: one per core
  void add_to(CLI::App& command);
  // kBadOption for values that the cluster itself would take for "choose for me".
  Result<Options> options(const CLI::App& command) const;
};

}  // namespace weft::cli
