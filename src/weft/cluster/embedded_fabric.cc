#include "weft/cluster/embedded_fabric.h"

#include <string>
#include <thread>
#include <utility>

#include "weft/base/os_random.h"
#include "weft/wires/interconnect_factory.h"

namespace weft {

namespace {
constexpr uint64_t kConnectNs = 10'000'000'000;
}

struct EmbeddedFabric::InterconnectWakeup final : WakeupSource {
  InterconnectWakeup(Interconnect* m, WorkerId w) : mesh(m), worker(w) {}
  Interconnect* const mesh;
  const WorkerId worker;
  int fd() const override { return mesh->wait_fd(worker); }
  void set_sleeping(bool sleeping) override { mesh->set_sleeping(worker, sleeping); }
};

Result<std::unique_ptr<EmbeddedFabric>> EmbeddedFabric::create(const Options& options,
                                                               const std::vector<std::unique_ptr<Regions>>& regions,
                                                               Clock* clock) {
  std::unique_ptr<EmbeddedFabric> fabric(new EmbeddedFabric);
  if (options.fabric != "local") {
    if (auto made = fabric->make_interconnects(options, regions, clock); !made) return made.error();
    if (auto connected = fabric->connect(clock); !connected) return connected.error();
    return fabric;
  }
  LocalOptions local;
  local.nodes = options.nodes;
  local.workers = options.workers;
  fabric->local_ = std::make_unique<LocalFabric>(local);
  for (size_t n = 0; n < regions.size(); ++n) {
    fabric->local_->set_regions(NodeId(static_cast<uint8_t>(n)), regions[n].get());
  }
  return fabric;
}

Result<void> EmbeddedFabric::make_interconnects(const Options& options,
                                                const std::vector<std::unique_ptr<Regions>>& regions, Clock* clock) {
  const std::string name = "weft-embedded-" + std::to_string(os_random());
  for (size_t n = 0; n < regions.size(); ++n) {
    InterconnectOptions mesh;
    mesh.kind = options.fabric;
    mesh.node = NodeId(static_cast<uint8_t>(n));
    mesh.incarnation = static_cast<uint32_t>(n) + 1;  // as in the first view
    mesh.workers = options.workers;
    mesh.nodes = options.nodes;
    mesh.listen = options.fabric == "shm" ? "@" + name + "-" + std::to_string(n) : "127.0.0.1:0";
    // All nodes have the same certificate, so it cannot name one of them.
    mesh.tls = {.ca = options.tls.ca, .certificate = options.tls.certificate, .key = options.tls.key, .any_node = true};
    mesh.params.cluster = name;
    mesh.remote_lock_mode = options.remote_lock_mode;
    mesh.worker_doorbells = options.worker_doorbells;
    auto made = make_interconnect(mesh, regions[n].get(), clock);
    if (!made) return made.error();
    interconnects_.push_back(std::move(*made));
  }
  wakeup_sources_.resize(static_cast<size_t>(options.workers));
  for (size_t w = 0; w < wakeup_sources_.size(); ++w) {
    for (const auto& mesh : interconnects_) {
      wakeup_sources_[w].push_back(std::make_unique<InterconnectWakeup>(mesh.get(), WorkerId(static_cast<uint8_t>(w))));
    }
  }
  return {};
}

Result<void> EmbeddedFabric::connect(Clock* clock) {
  for (size_t a = 0; a < interconnects_.size(); ++a) {
    for (size_t b = 0; b < interconnects_.size(); ++b) {
      if (a == b) continue;
      interconnects_[a]->join(
          {NodeId(static_cast<uint8_t>(b)), static_cast<uint32_t>(b) + 1, interconnects_[b]->address()});
    }
  }
  size_t missing = interconnects_.size() * (interconnects_.size() - 1);
  std::string why = "no answer";
  for (const uint64_t end_ns = clock->now_ns() + kConnectNs; missing > 0;) {
    if (clock->now_ns() > end_ns) return Error{Code::kOs, "the nodes do not get connected: " + why};
    for (const auto& mesh : interconnects_) {
      mesh->control_step();
      for (const InterconnectEvent& event : mesh->take_events()) {
        if (event.kind == InterconnectEvent::Kind::kUp) {
          --missing;
        } else if (event.kind != InterconnectEvent::Kind::kDoorbellsShared) {
          why = event.why;
        }
      }
    }
    std::this_thread::yield();
  }
  return {};
}

Wire* EmbeddedFabric::wire(NodeId node, WorkerId worker) {
  if (local_ != nullptr) return local_->wire(node, worker);
  return interconnects_[node.value]->wire(worker);
}

std::string_view EmbeddedFabric::name() const { return local_ != nullptr ? "local" : interconnects_.front()->name(); }

std::vector<WakeupSource*> EmbeddedFabric::wakeup_sources(WorkerId worker) {
  std::vector<WakeupSource*> out;
  if (local_ != nullptr) return out;
  for (const auto& bell : wakeup_sources_[worker.value]) out.push_back(bell.get());
  return out;
}

void EmbeddedFabric::control_step() {
  for (const auto& mesh : interconnects_) {
    mesh->control_step();
    mesh->take_events();
  }
}

}  // namespace weft
