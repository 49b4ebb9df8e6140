// Server: one node of a multi-process cluster. It waits for a view that includes it, makes the node and its workers'
// threads, and then acts as the node's control thread: it opens and closes connections as the views require, monitors
// the membership and the workers, and ends when it is stopped, removed, its device fails, or the membership ends.
//
// A node that joins first asks the members whether they agree with it and reach it (preflight_join,
// member/admission.h). One with another configuration, the wrong certificates, or the wrong address stays outside and
// logs why, and no view changes for it.
//
// A process has one Server at a time. One that was removed (it was silent for too long, or another process replaced
// it), or can no longer lock because its device fails to (LocalAtomics::failed), is discarded with all its data; a new
// one joins with an empty store and catches up.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/member/admission.h"
#include "weft/member/membership.h"
#include "weft/member/node_agent.h"
#include "weft/redis/frontend.h"
#include "weft/redis/node_stats.h"
#include "weft/run/thread.h"
#include "weft/server/http_routes.h"
#include "weft/server/stats_collector.h"
#include "weft/txn/node.h"
#include "weft/txn/txn_worker.h"
#include "weft/wires/interconnect.h"
#include "weft/wires/tcp/tls.h"
#include "weft/wires/verbs/device_selector.h"

namespace weft {

struct ServerOptions {
  std::string cluster = "weft";  // its name; both ends of a connection must agree on it
  NodeId node;
  NodeRoles roles = NodeRoles::kBoth;
  ClusterSpec spec;
  bool takes_protocol = false;  // from the view, if that has another one than `spec`
  std::string fabric = "shm";   // tcp, verbs
  std::string listen;           // of the interconnect: host:port, or a socket ('@name' or a path)
  std::string advertise;        // the address for the others; empty: where it listens
  TcpTlsFiles tls;              // of tcp and verbs: all three files, or none
  VerbsDeviceSelector device;   // of verbs
  int initial_members = 1;      // with fewer members the cluster does not count as fully replicated
  uint64_t lease_ns = 500'000'000;
  std::string clients;            // host:port for clients; empty: none
  std::string clients_advertise;  // the address announced to clients (CLUSTER SLOTS); empty: where it listens
  TcpTlsFiles clients_tls;        // certificate and key, or none
  FrontendOptions front;
  EventLog* events = nullptr;           // required
  HttpRoutes* http_routes = nullptr;    // where the node serves its pages; nullptr: nowhere
  JoinBackoff* join_backoff = nullptr;  // for this node, in this process; nullptr: it never waits
};

class Server final : private Environment {
 public:
  enum class End : uint8_t {
    kStopped,
    kRemoved,
    kDeviceFailed,
    kMembershipEnded,
    kOtherProtocol,  // the view has another one, and the options allow to take it
  };

  // Checks the options and binds the addresses; clients may connect, and wait until the node is active. The membership
  // and the clock outlive the server.
  static Result<std::unique_ptr<Server>> create(const ServerOptions& options, Membership* membership, Clock* clock);
  ~Server() override;

  // Runs until stop_fd is readable, or it cannot continue; why() says more. An error: it could not start.
  Result<End> run(int stop_fd);
  const std::string& why() const { return why_; }
  const std::string& protocol_of_view() const { return protocol_of_view_; }  // after kOtherProtocol

 private:
  struct InterconnectWakeup final : WakeupSource {
    InterconnectWakeup(Interconnect* m, WorkerId w) : interconnect(m), worker(w) {}
    Interconnect* const interconnect;
    const WorkerId worker;
    int fd() const override { return interconnect->wait_fd(worker); }
    void set_sleeping(bool sleeping) override { interconnect->set_sleeping(worker, sleeping); }
  };

  Server(const ServerOptions& options, Membership* membership, Clock* clock);
  Result<void> start_interconnect();
  Result<void> bind_clients();
  Result<void> make_tables();
  Result<void> start(const View& view);
  std::shared_ptr<const View> usable(const std::shared_ptr<const View>& view);
  std::shared_ptr<const View> newest_of(const std::shared_ptr<const View>& told) const;
  void follow(const std::shared_ptr<const View>& view);
  void handle_interconnect_events();
  void log_peer_event(const InterconnectEvent& event);
  bool may_log_refusal();
  void log_joiner_event(const InterconnectEvent& event);
  void on_peer_lost(NodeId peer);
  void rejoin();
  bool preflight_join(const View& view);
  bool other_protocol(const View& view);
  void reject_clients();
  void on_probe_reply(const InterconnectEvent& event);
  void log_view(const View& view) const;
  void log_changes();
  void release_memory();
  std::string unavailable_reason(const View& view) const;  // empty: it is available
  NodeStats node_stats() const;
  bool fully_replicated(const View& view) const;
  void wait(int stop_fd);
  void notify();  // from any thread: the control thread has work to do
  void wake_workers();
  Thread& thread_of(size_t worker) { return *threads_[worker % threads_.size()]; }
  bool in(const View& view) const;

  Clock* clock(NodeId) override { return clock_; }
  CostModel* cost_model(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId, WorkerId worker) override { return interconnect_->wire(worker); }
  LocalAtomics* local_atomics(NodeId) override { return interconnect_->local_atomics(); }
  Regions* regions(NodeId) override { return &regions_; }
  uint64_t seed(NodeId node, WorkerId worker) override;
  EventLog* events() override { return options_.events; }

  const ServerOptions options_;
  const ClusterSpec spec_;
  Membership* const membership_;
  Clock* const clock_;
  Member self_;
  Regions regions_;
  Fd client_socket_;
  WallClock wall_;
  std::unique_ptr<TcpTls> client_tls_;
  FrontendShared front_shared_;
  std::unique_ptr<Interconnect> interconnect_;
  NodeTables tables_;  // until there is a node
  std::unique_ptr<Node> node_;
  std::unique_ptr<NodeAgent> agent_;
  std::unique_ptr<StatsCollector> stats_collector_;
  std::vector<std::unique_ptr<RedisFrontend>> fronts_;  // by worker
  std::vector<std::unique_ptr<WakeupSource>> wakeup_sources_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::array<uint32_t, kNodesMax> joined_{};  // incarnations
  std::array<uint32_t, kNodesMax> lost_{};    // those of them whose connection was lost
  std::unique_ptr<Admission> admission_;
  struct Joiner {
    std::string unreached, waits;  // what was last logged about a node that cannot join
  };
  std::array<Joiner, kNodesMax> joiners_;  // by node
  struct Refusals {
    uint64_t second = 0;
    uint64_t count = 0;  // in that second
  } refusals_;
  uint64_t clients_held_ = 0;  // the most since memory was released
  uint64_t release_memory_ns_ = 0;
  uint64_t quiet_from_ns_ = 0;  // from then on the control thread polls less often
  Fd wakeup_eventfd_;           // signalled by notify()
  uint64_t started_ns_ = 0;     // when the node started
  uint32_t incarnation_ = 0;
  std::atomic<uint64_t> cut_{0};  // bits of a NodeSet: whose connections are to be closed
  std::shared_ptr<const View> followed_;
  std::string logged_unavailable_;
  std::string logged_membership_error_;
  std::string protocol_of_view_;
  std::string rejected_view_reason_;  // why the membership's newest view is rejected; empty: it is not
  std::string logged_rejected_view_;
  std::string why_;
};

}  // namespace weft
