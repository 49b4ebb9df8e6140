#include "weft/wires/verbs/verbs.h"

#include <utility>

namespace weft {

Result<std::unique_ptr<VerbsInterconnect>> VerbsInterconnect::create(const VerbsOptions& options, Regions* regions,
                                                                     Clock* clock) {
  if (options.nodes < 1 || options.nodes > kNodesMax) {
    return Error{Code::kBadOption,
                 "nodes is " + std::to_string(options.nodes) + ", must be 1 to " + std::to_string(kNodesMax)};
  }
  std::unique_ptr<VerbsInterconnect> interconnect(new VerbsInterconnect(options.tcp.self, regions));
  auto nic = VerbsNic::open(options.device);
  if (!nic) return nic.error();
  interconnect->nic_ = std::move(*nic);
  interconnect->registered_ = std::make_unique<VerbsRegions>(*interconnect->nic_, regions);

  // A node with verbs and one without cannot work together; the handshake names the difference.
  TcpOptions tcp = options.tcp;
  tcp.params.fields.emplace_back("fabric verbs", kVerbsVersion);
  if (options.remote_lock_mode) {
    const bool with_cpu = interconnect->nic_->atomic_with_cpu();
    const bool loopback = !with_cpu && *options.remote_lock_mode == RemoteLockMode::kNicLoopback;
    // A verb uses the atomics of the target's device, so every node must know how the others lock.
    tcp.params.fields.emplace_back("locks (0: verbs, 1: messages, 2: loopback)", with_cpu ? 0 : loopback ? 2 : 1);
    if (loopback) {
      auto loop = NicLoopbackAtomics::create(*interconnect->nic_, regions, interconnect->registered_.get());
      if (!loop) return loop.error();
      interconnect->loop_ = std::move(*loop);
    }
  }
  auto made = TcpInterconnect::create(tcp, nullptr, clock);
  if (!made) return made.error();
  interconnect->tcp_ = std::move(*made);
  for (int w = 0; w < tcp.workers; ++w) {
    auto wire =
        VerbsWire::create(*interconnect->nic_, regions, interconnect->registered_.get(), tcp.self, options.nodes,
                          tcp.completions_max, interconnect->tcp_->wire(WorkerId(static_cast<uint8_t>(w))));
    if (!wire) return wire.error();
    interconnect->wires_.push_back(std::move(*wire));
  }
  if (regions != nullptr) regions->set_remote_initiators(interconnect.get());
  return interconnect;
}

VerbsInterconnect::~VerbsInterconnect() {
  if (regions_ != nullptr && !wires_.empty()) regions_->set_remote_initiators(nullptr);
}

void VerbsInterconnect::set_sleeping(WorkerId worker, bool sleeping) {
  if (sleeping) {
    wires_[worker.value]->arm();
  } else {
    wires_[worker.value]->disarm();
  }
}

void VerbsInterconnect::leave(NodeId peer) {
  tcp_->leave(peer);
  for (const auto& wire : wires_) wire->withdraw(peer);
}

void VerbsInterconnect::publish(NodeId peer, Domain domain, uint32_t grants) {
  if (peer.value >= kNodesMax) return;
  // Pinning a large region takes longer than a lease, so no worker should have to. If it fails, the worker that
  // announces to the peer fails again, and reports it.
  if (grants % 2 == 1) static_cast<void>(registered_->refresh());
  for (const auto& wire : wires_) {
    if (grants % 2 == 0) wire->revoke(peer, domain);
    wire->wake();
  }
}

std::vector<InterconnectEvent> VerbsInterconnect::take_events() {
  std::vector<InterconnectEvent> events = tcp_->take_events();
  for (const auto& wire : wires_) {
    std::string trouble = wire->take_trouble();
    if (!trouble.empty()) events.push_back({InterconnectEvent::Kind::kRefused, self_, 0, std::move(trouble)});
  }
  return events;
}

}  // namespace weft
