// VerbsInterconnect: the fabric between processes over RDMA (interconnect.h).
//
//   verbs.h            this: a TcpInterconnect, and a VerbsWire on each of its wires
//   wire.h             one worker's end
//   link.h             one connection between two workers: its set-up and its messages
//   handshake.h        the encoding of those messages
//   packets.h          packets: SEND and RECEIVE on one queue pair
//   initiator_queue.h  one-sided verbs: the initiator's end of a queue pair
//   target_queue.h     one-sided verbs: the target's end
//   nic_loopback.h     a node's CAS verbs on its own memory
//   worker_domain.h    a worker's own doorbell register
//   doorbells.h        who shares a register where there are no such domains
//   qp.h               queue pairs and completion queues
//   read_queues.h      queue pairs arranged in other ways, for comparison
//   nic.h              the open device, its port and GID, and registered memory
//   devices.h          the devices of the machine
//   library.h          libibverbs, loaded at run time
//
// Connecting, the handshake, TLS, join probes, refusals and their texts are those of tcp.h: set-up runs over tcp. TLS
// protects set-up only: the traffic between the devices is not encrypted.
//
// A peer's death shows when its tcp connection closes, or when its device does not respond (qp.cc says how long that
// takes); both are kDown, with device, port and GID.
//
// Grants: Regions::close(peer, domain) destroys the peer's queue pairs of that domain at this node before it returns.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/fabric/region.h"
#include "weft/options.h"
#include "weft/wires/interconnect.h"
#include "weft/wires/tcp/tcp.h"
#include "weft/wires/verbs/nic.h"
#include "weft/wires/verbs/nic_loopback.h"
#include "weft/wires/verbs/wire.h"

namespace weft {

struct VerbsOptions {
  TcpOptions tcp;  // for set-up; completions_max applies to the wires
  VerbsDeviceSelector device;
  std::optional<RemoteLockMode> remote_lock_mode;  // of a row that locks by verbs: the same at all nodes
  int nodes = kNodesMax;                           // at most: completion queues are sized for them
  bool worker_doorbells = true;                    // each worker rings a doorbell register of its own
  const VerbsLibrary* library = nullptr;           // nullptr: libibverbs is loaded. It outlives the interconnect.
};

class VerbsInterconnect final : public Interconnect, private RemoteInitiators {
 public:
  // An error names the address, the file, or the device and what to do. `regions` may be nullptr: then all verbs of
  // peers are refused. `regions` and `clock` outlive the interconnect.
  static Result<std::unique_ptr<VerbsInterconnect>> create(const VerbsOptions& options, Regions* regions, Clock* clock);
  ~VerbsInterconnect() override;

  std::string_view name() const override { return "verbs"; }
  const std::string& address() const override { return tcp_->address(); }
  VerbsWire* wire(WorkerId worker) override { return wires_[worker.value].get(); }
  LocalAtomics* local_atomics() override { return loop_.get(); }
  int own_doorbells() const override { return doorbells_.own; }
  int wait_fd(WorkerId worker) const override { return wires_[worker.value]->wait_fd(); }
  void set_sleeping(WorkerId worker, bool sleeping) override;

  void set_incarnation(uint32_t incarnation) override { tcp_->set_incarnation(incarnation); }
  void join(const InterconnectPeer& peer) override { tcp_->join(peer); }
  void leave(NodeId peer) override;
  void probe(const InterconnectPeer& peer, const JoinProbe& as) override { tcp_->probe(peer, as); }
  int control_fd() const override { return tcp_->control_fd(); }
  void control_step() override { tcp_->control_step(); }
  std::vector<InterconnectEvent> take_events() override;

  const VerbsNic& nic() const { return *nic_; }
  size_t links() const { return tcp_->links(); }  // tcp connections that are not freed yet

 private:
  VerbsInterconnect(NodeId self, Regions* regions) : self_(self), regions_(regions) {}
  Result<void> open(const VerbsOptions& options, Clock* clock);
  Result<void> make_loop(const VerbsOptions& options, HandshakeParams& params);
  Result<void> make_wires(const VerbsOptions& options);
  void publish(NodeId peer, Domain domain, uint32_t grants) override;
  bool inside(NodeId, Domain) override { return false; }  // publish() has waited

  const NodeId self_;
  Regions* const regions_;
  std::unique_ptr<VerbsNic> nic_;
  std::unique_ptr<VerbsRegions> registered_;
  std::unique_ptr<VerbsCq> target_cq_;
  std::unique_ptr<NicLoopbackAtomics> loop_;
  std::unique_ptr<TcpInterconnect> tcp_;
  std::vector<std::unique_ptr<VerbsWire>> wires_;
  WorkerDoorbells doorbells_;
  bool doorbells_said_ = false;
};

}  // namespace weft
