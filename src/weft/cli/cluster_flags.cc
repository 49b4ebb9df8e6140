#include "weft/cli/cluster_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "weft/types.h"

namespace weft::cli {
namespace {

int cores() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kWorkersMax); }

}  // namespace

void ClusterFlags::add_to(CLI::App& command) {
  command
      .add_option("--nodes", nodes,
                  "Nodes of the cluster, all in this process (1 to " + std::to_string(kNodesMax) + ")")
      ->capture_default_str();
  command.add_option("--replicas", replicas,
                     "Copies of every record, at most one per node (default: 3, or --nodes if "
                     "that is less)");
  command.add_option("--threads", threads,
                     "Threads, and workers of each node, 1 to " + std::to_string(kWorkersMax) +
                         " (default: one per core, here " + std::to_string(cores()) + ")");
}

Result<Options> ClusterFlags::options() const {
  Options out;
  out.nodes = nodes;
  out.replicas = replicas ? *replicas : std::clamp(nodes, 1, kReplicasDefault);
  const int count = threads ? *threads : cores();
  if (count < 1 || count > kWorkersMax) {
    return Error{Code::kBadOption,
                 "--threads " + std::to_string(count) + ": there can be 1 to " + std::to_string(kWorkersMax)};
  }
  out.threads = out.workers = count;
  return out;
}

}  // namespace weft::cli
