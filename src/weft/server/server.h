// Server: one node of a cluster of processes. It waits for a view that has a place for it, makes the node and its
// workers' threads, and then is the node's control thread: it makes and ends connections as the views say, watches the
// membership and the workers, and ends when it is told to, is removed, its device fails, or the membership ends.
//
// A node that is to join asks the members first whether they agree with it and reach it (may_join,
// member/admission.h): one that is configured otherwise, has the wrong certificates, or is not where it says, stays
// outside and says why, and no view changes for it.
//
// A process has one Server at a time. One that was removed (it was silent for too long, or another process took its
// place), or can lock nothing any more because its device does not do it (LocalAtomics::failed), is thrown away with
// all its data; a new one joins with an empty store and is filled.
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
#include "weft/redis/figures.h"
#include "weft/redis/frontend.h"
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
  std::string cluster = "weft";  // its name: both ends of a connection agree on it
  NodeId node;
  ClusterSpec spec;
  std::string fabric = "shm";  // tcp, verbs
  std::string listen;          // of the mesh: host:port, or a socket ('@name' or a path)
  std::string advertise;       // what the others connect to; empty: what is listened on
  TcpTlsFiles tls;             // of tcp and verbs: all three files, or none
  VerbsDeviceSelector device;  // of verbs
  int initial_members = 1;     // with fewer members the cluster is not whole
  uint64_t lease_ns = 500'000'000;
  std::string clients;            // host:port where clients are answered; empty: nowhere
  std::string clients_advertise;  // what clients are told of this node (CLUSTER SLOTS); empty: where it listens
  TcpTlsFiles clients_tls;        // certificate and key, or none
  FrontendOptions front;
  EventLog* events = nullptr;           // required
  HttpRoutes* site = nullptr;           // where the node shows itself; nullptr: nowhere
  JoinBackoff* join_backoff = nullptr;  // of this node's name, in this process; nullptr: it never waits
};

class Server final : private Environment {
 public:
  enum class End : uint8_t { kStopped, kRemoved, kDeviceFailed, kMembershipEnded };

  // Checks the options and takes the addresses; clients may connect, and wait until the node is active. The membership
  // and the clock outlive the server.
  static Result<std::unique_ptr<Server>> create(const ServerOptions& options, Membership* membership, Clock* clock);
  ~Server() override;

  // Until stop_fd is readable, or it cannot go on; why() says more. An error: it could not start.
  Result<End> run(int stop_fd);
  const std::string& why() const { return why_; }

 private:
  struct MeshBell final : WakeupSource {
    MeshBell(Interconnect* m, WorkerId w) : mesh(m), worker(w) {}
    Interconnect* const mesh;
    const WorkerId worker;
    int fd() const override { return mesh->wait_fd(worker); }
    void set_sleeping(bool sleeping) override { mesh->set_sleeping(worker, sleeping); }
  };

  Server(const ServerOptions& options, Membership* membership, Clock* clock);
  Result<void> start_mesh();
  Result<void> bind_clients();
  Result<void> make_tables();
  Result<void> start(const View& view);
  std::shared_ptr<const View> usable(const std::shared_ptr<const View>& view);
  std::shared_ptr<const View> newest_of(const std::shared_ptr<const View>& told) const;
  void follow(const std::shared_ptr<const View>& view);
  void hear_mesh();
  void say_of_peer(const InterconnectEvent& event);
  bool may_say_refusal();
  void say_of_joiner(const InterconnectEvent& event);
  void lose(NodeId peer);
  void rejoin();
  bool may_join(const View& view);
  void turn_clients_away();
  void hear_answer(const InterconnectEvent& event);
  void say_of_view(const View& view) const;
  void say_what_changed();
  void give_memory_back();
  Figures figures() const;
  bool whole(const View& view) const;
  void wait(int stop_fd);
  void ring();  // from any thread: the control thread has something to do
  void wake_workers();
  Thread& thread_of(size_t worker) { return *threads_[worker % threads_.size()]; }
  bool in(const View& view) const;

  Clock* clock(NodeId) override { return clock_; }
  CostModel* cost_model(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId, WorkerId worker) override { return mesh_->wire(worker); }
  LocalAtomics* local_atomics(NodeId) override { return mesh_->local_atomics(); }
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
  std::unique_ptr<Interconnect> mesh_;
  NodeTables tables_;  // until there is a node
  std::unique_ptr<Node> node_;
  std::unique_ptr<NodeAgent> agent_;
  std::unique_ptr<StatsCollector> watch_;
  std::vector<std::unique_ptr<RedisFrontend>> fronts_;  // by worker
  std::vector<std::unique_ptr<WakeupSource>> bells_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::array<uint32_t, kNodesMax> joined_{};  // incarnations
  std::array<uint32_t, kNodesMax> lost_{};    // of them, those whose connection was lost
  std::unique_ptr<Admission> admission_;
  struct Joiner {
    std::string unreached, waits;  // what was last said of one that is to join and cannot
  };
  std::array<Joiner, kNodesMax> joiners_;  // by node
  struct Refusals {
    uint64_t second = 0;
    uint64_t count = 0;  // in it
  } refusals_;
  uint64_t clients_held_ = 0;  // the most since memory was given back
  uint64_t gives_back_ns_ = 0;
  uint64_t quiet_from_ns_ = 0;  // the control thread looks less often then
  Fd news_;                     // an eventfd: ring()
  uint64_t started_ns_ = 0;     // the node
  uint32_t incarnation_ = 0;
  std::atomic<uint64_t> cut_{0};  // bit n: the connection to node n is to be closed
  std::shared_ptr<const View> followed_;
  std::string said_;
  std::string said_trouble_;
  std::string misfit_;  // why the membership's newest view is not taken; empty: it is
  std::string said_misfit_;
  std::string why_;
};

}  // namespace weft
