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
  if (auto opened = interconnect->open(options, clock); !opened) return opened.error();
  if (regions != nullptr) regions->set_remote_initiators(interconnect.get());
  return interconnect;
}

Result<void> VerbsInterconnect::open(const VerbsOptions& options, Clock* clock) {
  const VerbsLibrary* library = options.library;
  if (library == nullptr) {
    const auto loaded = VerbsLibrary::load();
    if (!loaded) return loaded.error();
    library = *loaded;
  }
  auto nic = VerbsNic::open(*library, options.device);
  if (!nic) return nic.error();
  nic_ = std::move(*nic);
  registered_ = std::make_unique<VerbsRegions>(*nic_, regions_);
  auto target_cq = VerbsCq::create(*nic_, 1);
  if (!target_cq) return target_cq.error();
  target_cq_ = std::move(*target_cq);

  // A node with verbs and one without cannot work together; the handshake names the difference.
  TcpOptions tcp = options.tcp;
  tcp.params.fields.emplace_back("fabric verbs", kVerbsVersion);
  if (auto made = make_loop(options, tcp.params); !made) return made.error();
  auto made = TcpInterconnect::create(tcp, nullptr, clock);
  if (!made) return made.error();
  tcp_ = std::move(*made);
  return make_wires(options);
}

// A verb uses the atomics of the target's device, so every node must know how the others lock.
Result<void> VerbsInterconnect::make_loop(const VerbsOptions& options, HandshakeParams& params) {
  if (!options.remote_lock_mode) return {};
  const bool with_cpu = nic_->atomic_with_cpu();
  const bool loopback = !with_cpu && *options.remote_lock_mode == RemoteLockMode::kNicLoopback;
  params.fields.emplace_back("locks (0: verbs, 1: messages, 2: loopback)", with_cpu ? 0 : loopback ? 2 : 1);
  if (!loopback) return {};
  auto loop = NicLoopbackAtomics::create(*nic_, regions_, registered_.get());
  if (!loop) return loop.error();
  loop_ = std::move(*loop);
  return {};
}

Result<void> VerbsInterconnect::make_wires(const VerbsOptions& options) {
  const VerbsNode node = {self_,       options.nodes,           *nic_, regions_, registered_.get(),
                          *target_cq_, options.worker_doorbells};
  for (int w = 0; w < options.tcp.workers; ++w) {
    auto wire = VerbsWire::create(node, options.tcp.completions_max, tcp_->wire(WorkerId(static_cast<uint8_t>(w))));
    if (!wire) return wire.error();
    doorbells_.add((*wire)->worker_domain());
    wires_.push_back(std::move(*wire));
  }
  return {};
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
  if (!std::exchange(doorbells_said_, true)) {
    std::string shared = doorbells_.text(*nic_);
    if (!shared.empty()) events.push_back({InterconnectEvent::Kind::kDoorbellsShared, self_, 0, std::move(shared)});
  }
  for (const auto& wire : wires_) {
    std::string trouble = wire->take_trouble();
    if (!trouble.empty()) events.push_back({InterconnectEvent::Kind::kRefused, self_, 0, std::move(trouble)});
  }
  return events;
}

}  // namespace weft
