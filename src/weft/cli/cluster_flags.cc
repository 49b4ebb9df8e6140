#include "weft/cli/cluster_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "weft/types.h"

namespace weft::cli {
namespace {

int cores() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kWorkersMax); }

}  // namespace

void RoleFlags::add_to(CLI::App& command) {
  command.add_option("--memory", memory,
                     "Disaggregated memory, with --compute: nodes that hold the data and run no transactions");
  command.add_option("--compute", compute, "Nodes that run transactions and hold no data; they have the lowest ids");
}

Result<void> RoleFlags::check(const CLI::App& command) const {
  const auto bad = [](std::string detail) { return Error{Code::kBadOption, std::move(detail)}; };
  if (!memory && !compute) return {};
  if (!memory || !compute) {
    return bad(std::string(memory ? "--memory" : "--compute") + " goes with " + (memory ? "--compute" : "--memory"));
  }
  if (command.get_option_no_throw("--nodes") != nullptr && command.count("--nodes") > 0)
    return bad("--nodes and --memory with --compute: both say how many nodes there are");
  if (*memory < 1) return bad("--memory " + std::to_string(*memory) + ": at least 1 node holds data");
  if (*compute < 1) return bad("--compute " + std::to_string(*compute) + ": at least 1 node runs transactions");
  if (*memory > kNodesMax - *compute) {
    return bad("--memory " + std::to_string(*memory) + " --compute " + std::to_string(*compute) + ": at most " +
               std::to_string(kNodesMax) + " nodes in all");
  }
  return {};
}

void ClusterFlags::add_to(CLI::App& command) {
  roles.add_to(command);
  command
      .add_option("--nodes", nodes,
                  "Nodes of the cluster, all in this process (1 to " + std::to_string(kNodesMax) + ")")
      ->capture_default_str();
  command.add_option("--replicas", replicas,
                     "Copies of every record, at most one per node that holds data (default: 3, or as many as those "
                     "if that is less)");
  command.add_option("--threads", threads,
                     "Threads, and workers of each node, 1 to " + std::to_string(kWorkersMax) +
                         " (default: one per core, here " + std::to_string(cores()) + ")");
}

Result<Options> ClusterFlags::options(const CLI::App& command) const {
  Options out;
  if (const auto good = roles.check(command); !good) return good.error();
  if (roles.given()) out.roles = roles.roles();
  out.nodes = roles.given() ? roles.nodes() : nodes;
  out.replicas = replicas ? *replicas : std::clamp(out.data_nodes(), 1, kReplicasDefault);
  const int count = threads ? *threads : cores();
  if (count < 1 || count > kWorkersMax) {
    return Error{Code::kBadOption,
                 "--threads " + std::to_string(count) + ": there can be 1 to " + std::to_string(kWorkersMax)};
  }
  out.threads = out.workers = count;
  return out;
}

}  // namespace weft::cli
