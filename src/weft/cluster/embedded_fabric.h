// Connects the nodes of an embedded cluster: rings in plain memory (local), or, to measure their cost, the
// interconnects that connect processes (shm, tcp), one per node.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/fabric/local.h"
#include "weft/fabric/region.h"
#include "weft/options.h"
#include "weft/run/thread.h"
#include "weft/status.h"
#include "weft/wires/interconnect.h"

namespace weft {

class EmbeddedFabric {
 public:
  // Connected when it returns. The regions, by node, and the clock outlive it.
  static Result<std::unique_ptr<EmbeddedFabric>> create(const Options& options,
                                                        const std::vector<std::unique_ptr<Regions>>& regions,
                                                        Clock* clock);

  Wire* wire(NodeId node, WorkerId worker);
  LocalAtomics* local_atomics(NodeId node) {
    return local_ != nullptr ? nullptr : interconnects_[node.value]->local_atomics();
  }
  std::string_view name() const;  // what is actually in use
  // Wakes the threads of these workers; none for local, where all workers of an index share a thread.
  std::vector<WakeupSource*> wakeup_sources(WorkerId worker);
  void control_step();  // called often, by the control thread

 private:
  struct InterconnectWakeup;
  EmbeddedFabric() = default;
  Result<void> make_interconnects(const Options& options, const std::vector<std::unique_ptr<Regions>>& regions,
                                  Clock* clock);
  Result<void> connect(Clock* clock);

  std::unique_ptr<LocalFabric> local_;
  std::vector<std::unique_ptr<Interconnect>> interconnects_;                // by node
  std::vector<std::vector<std::unique_ptr<WakeupSource>>> wakeup_sources_;  // by worker
};

}  // namespace weft
