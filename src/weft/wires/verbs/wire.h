// VerbsWire: a worker's end of its RDMA connections, one to the same worker of each peer, and one to the local node.
//
// It sits on a TcpWire, which makes and ends connections, knows the accepted incarnations, and reports lost
// connections; on each connection a VerbsLink sets up the queue pairs. What tcp/tcp.h and tcp/wire.h say about
// connections, accepted incarnations and loss holds here too: send() waits while the accepted incarnation is not
// connected, and packets to one that is lost are dropped. An incarnation that is not accepted any more is disconnected
// for good.
//
// Writing: send() gathers; poll() and release() hand what waits to the device, with one doorbell per peer. post() hands
// over verbs at once.
//
// Reading: one completion queue for everything. A busy worker checks tcp in one of kTcpEvery polls.
//
// The local node is accessed by verbs only, through the NIC (loopback), once its Regions grant it access to itself;
// both queue pairs of the loopback are here.
//
// Threads: the worker calls the functions of Wire, and arm and disarm; the control thread calls withdraw, revoke and
// wake, which use nothing of the worker's domain (I1 of worker_domain.h). As in TcpWire, a gate that is odd inside
// poll() makes withdraw() take effect at once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "weft/base/fd.h"
#include "weft/fabric/nodes.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"
#include "weft/wires/tcp/wire.h"
#include "weft/wires/verbs/link.h"
#include "weft/wires/verbs/nic.h"

namespace weft {

class VerbsWire final : public Wire {
 public:
  static constexpr uint32_t kTcpEvery = 32;

  // The completion queue also holds completions that an ended connection left. What `node` names outlives it, and so
  // does `tcp`.
  static Result<std::unique_ptr<VerbsWire>> create(const VerbsNode& node, size_t completions_max, TcpWire* tcp);
  ~VerbsWire() override;

  bool send(NodeId to, Flow flow, ByteView packet) override;
  size_t poll(std::span<Packet> out) override;
  void release() override;
  bool post(NodeId to, Domain domain, std::span<const Verb> verbs) override;
  size_t poll_completions(Domain domain, std::span<Completion> out) override {
    return shared_.completions.of(domain).poll(out);
  }
  void reset(NodeId to, Domain domain) override;
  void accept_incarnation(NodeId peer, uint32_t incarnation) override;
  bool pending() const override;
  bool atomic_with_cpu() const override { return shared_.nic.atomic_with_cpu(); }

  const VerbsCounters& counters() const { return shared_.counters; }
  const WorkerDomain& worker_domain() const { return *shared_.worker_domain; }
  bool up(NodeId peer) const { return links_[peer.value] != nullptr && links_[peer.value]->up(); }

  // arm() comes before the last check of pending() and the sleep; disarm() after it.
  void arm() { shared_.cq->arm(); }
  void disarm() { shared_.cq->disarm(); }

  // For the control thread.
  int wait_fd() const { return epoll_.get(); }
  // Called after the connection below was withdrawn: no poll() that begins later delivers anything from the peer, and
  // none of its verbs lands.
  void withdraw(NodeId peer);
  void revoke(NodeId peer, Domain domain) { shared_.served_to(peer, domain).close(); }  // its grant has ended
  void wake();                 // grants have changed; the worker polls once more, if it is asleep
  std::string take_trouble();  // why the loopback could not be opened; empty: no error

 private:
  struct Handed {
    NodeId peer;
    uint16_t generation;
    uint32_t index;
  };

  VerbsWire(const VerbsNode& node, size_t completions_max, TcpWire* tcp);
  VerbsLink* link_of(NodeId peer) { return links_[peer.value].get(); }
  void drop_ended();
  void receive_tcp();
  void open_links();
  Result<void> open_link(NodeId peer, uint64_t connection);
  void step_links();
  void open_loopbacks();
  void open_loopback(Domain domain);
  Result<void> open_loopback_queue(Domain domain, uint32_t grant);
  void give_back();
  size_t take_work(std::span<Packet> out);
  bool take(const ibv_wc& wc, Packet* out);
  bool take_packet_work(VerbsLink& link, const VerbsTag& tag, const ibv_wc& wc, Packet* out);
  void give_up(NodeId peer, const TcpFault& fault);

  const NodeId self_;
  TcpWire* const tcp_;
  Fd epoll_;
  VerbsShared shared_;
  std::atomic<uint64_t> gate_{0};
  mutable std::atomic<bool> news_{true};  // tcp or the grants must be checked now
  std::mutex trouble_mutex_;
  std::string trouble_;

  // For the worker.
  std::array<VerbsMemory, kNodesMax> memories_;  // by peer, kept for its next connection
  std::array<std::unique_ptr<VerbsLink>, kNodesMax> links_;
  struct Loopback {
    std::unique_ptr<VerbsInitiatorQueue> queue;
    uint32_t failed_grant = 0;  // the grant under which it could not be opened
  };
  Loopback& loopback(Domain domain) { return loopbacks_[index_of(domain)]; }
  std::array<Loopback, kDomains> loopbacks_;
  NodeSet linked_;  // those to which there is a link
  uint32_t polls_ = 0;
  std::vector<Handed> handed_;  // receives to post again at release()
  mutable std::array<ibv_wc, 16> work_;
  mutable size_t work_next_ = 0;  // next of those that were taken from the queue
  mutable size_t work_count_ = 0;
};

}  // namespace weft
