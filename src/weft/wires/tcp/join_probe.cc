// Join probes of TcpInterconnect: a node that is not a member asks whether it could be one, and is called back before
// it gets a positive reply. So a positive reply means that the two reach each other, both ways, with the certificates
// that they use for either direction.
//
// Whoever can send a valid hello can make this node connect to an address of its choice and send its own hello there,
// one call at a time per node id. With TLS that needs the cluster's credentials.
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/wires/tcp/tcp.h"

namespace weft {

void TcpInterconnect::probe(const InterconnectPeer& peer, const JoinProbe& as) {
  WEFT_CHECK(incarnation_ == 0 && as.token != 0, "a member joins instead of probing");
  token_ = as.token;
  const uint64_t deadline_ns = clock_->now_ns() + options_.hello_ms * kMillisecondNs;
  TcpHello hello = hello_to(peer.node, peer.incarnation, WorkerId(0));
  hello.probe = as;
  auto setup = std::make_unique<TcpSetup>(tls_.get(), deadline_ns, peer, hello);
  setup->probes = true;
  add_setup(std::move(setup), next_serial_++);
}

// Handles a probe, or a call because of one of ours; the hello was found valid.
void TcpInterconnect::on_probe(uint64_t serial, TcpSetup& setup, const TcpHello& hello) {
  const bool probes = hello.incarnation == 0;
  if (probes && (hello.probe.token == 0 || hello.probe.address.empty())) {
    refuse(serial, setup, "a knock that does not say whom to call back, and where");
    return;
  }
  // A node that is not a member itself cannot judge; its hello says that it is none.
  if (probes && incarnation_ != 0) {
    call_back(serial, hello);
    return;
  }
  TcpHello answer = hello_to(setup.peer, hello.incarnation, setup.worker);
  answer.probe.token = hello.probe.token;
  setup.send(tcp_encode_hello(answer), TcpSetup::Stage::kRefusing);
  step_setup(serial, setup);
}

void TcpInterconnect::call_back(uint64_t serial, const TcpHello& hello) {
  std::vector<uint64_t> before;
  for (const auto& [other, setup] : setups_) {
    const bool probe = setup->stage() == TcpSetup::Stage::kCalling || setup->calls_for != 0;
    if (probe && setup->peer == hello.node) before.push_back(other);
  }
  for (const uint64_t other : before) close_setup(other);
  if (!hello.probe.trouble.empty()) {
    event(InterconnectEvent::Kind::kProbed, hello.node, 0, hello.probe.trouble, hello.probe.address);
  }
  const uint64_t now_ns = clock_->now_ns();
  TcpSetup& probe = *setups_.find(serial)->second;
  probe.set_stage(TcpSetup::Stage::kCalling);
  probe.set_deadline_ns(now_ns + options_.hello_ms * kMillisecondNs);
  const InterconnectPeer peer{hello.node, 0, hello.probe.address};
  TcpHello call = hello_to(peer.node, 0, WorkerId(0));
  call.probe.token = hello.probe.token;
  auto setup = std::make_unique<TcpSetup>(tls_.get(), now_ns + options_.hello_ms * kMillisecondNs / 2, peer, call);
  setup->probes = true;
  setup->calls_for = serial;
  setup->token = hello.probe.token;
  add_setup(std::move(setup), next_serial_++);
}

// Without `why` the sender of the probe has answered. The probe's connection may have ended by now.
void TcpInterconnect::end_call(uint64_t serial, const std::string& why) {
  const TcpSetup& call = *setups_.find(serial)->second;
  const uint64_t probe_serial = call.calls_for;
  const NodeId peer = call.peer;
  const std::string address = call.address();
  close_setup(serial);
  if (!why.empty()) event(InterconnectEvent::Kind::kUnreached, peer, 0, why, address);
  const auto it = setups_.find(probe_serial);
  if (it == setups_.end()) return;
  TcpSetup& probe = *it->second;
  const std::string reaches = "node " + std::to_string(options_.self.value) + " does not reach node " +
                              std::to_string(peer.value) + " at " + address + ": " + why;
  probe.send(
      why.empty() ? tcp_encode_hello(hello_to(peer, 0, probe.worker)) : tcp_encode_refusal(options_.self, reaches),
      TcpSetup::Stage::kRefusing);
  step_setup(probe_serial, probe);
}

}  // namespace weft
