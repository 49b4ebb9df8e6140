// Supervisor: starts the processes of a one-host cluster, keeps their view, restarts those that died, and stops them
// when it ends: SIGTERM to each, SIGKILL to those that do not exit. If it is killed itself the kernel kills its
// children.
//
// It is the embedded membership (member/supervised.h is the nodes' end). It sees processes end, so that a crash is
// known at once. A process whose node a new view does not include is killed before anybody learns of that view. The
// shm wire needs this fence.
//
// Single-threaded; when it starts children, no other thread of the process may hold locks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/event_log.h"
#include "weft/base/fd.h"
#include "weft/member/admission.h"
#include "weft/member/framed_socket.h"
#include "weft/member/supervisor_view_store.h"
#include "weft/status.h"

namespace weft {

struct SupervisorOptions {
  std::string executable;            // `executable server --config FILE` runs a node
  std::string socket;                // where it listens for its nodes: '@name' or a path; named in their files
  std::vector<std::string> configs;  // of the nodes, in order: the text of their files
  int initial_members = 0;           // nodes that the first view waits for; 0: all
  int replicas = 1;
  int partitions = 1;
  std::string protocol = {};  // that the first view records
  uint32_t restart_ms = 100;  // before a process that died is started again; doubled while it dies young, up to 5 s.
                              // One that was removed while it ran waits as JoinBackoff says
  uint32_t stop_ms = 5000;    // for processes to end when told to
};

class Supervisor {
 public:
  static constexpr int kCannotStart = 2;  // a node that exits with it would do so again: the cluster ends

  static Result<std::unique_ptr<Supervisor>> create(const SupervisorOptions& options, Clock* clock, EventLog* events);
  ~Supervisor();  // stops
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Does what is due and waits for more, until stop_fd is readable (if it is not -1) or timeout_ms have passed. False:
  // the cluster cannot continue, why() says why.
  bool step(int stop_fd, int timeout_ms);
  void stop();
  const std::string& why() const { return why_; }

  std::shared_ptr<const View> view() const { return view_store_.view(); }
  pid_t pid(NodeId node) const { return children_[node.value].pid; }  // 0: it does not run
  uint64_t starts() const { return starts_; }
  // The node's statistics of its last second (kSampleKeys); null if it reports none.
  nlohmann::json sample(NodeId node) const;

 private:
  struct Child {
    pid_t pid = 0;
    Fd pidfd;
    FramedSocket talk;
    uint64_t token = 0;  // 0: not announced yet
    uint64_t started_ns = 0;
    uint64_t due_ns = 0;  // when to start it
    bool fenced = false;  // killed because it was removed: logged once, and not its fault
    uint32_t died_young = 0;
    nlohmann::json sample;
    uint64_t sample_ns = 0;
  };

  Supervisor(const SupervisorOptions& options, Clock* clock, EventLog* events);
  Result<void> start(size_t node);
  void start_due();
  void accept_nodes();
  void read_messages(size_t node);
  void take(size_t node, std::string_view text);
  void reap(size_t node);
  void fence();
  void broadcast_changes();
  void log(size_t node, Level level, std::string_view event, std::initializer_list<EventField> fields);

  const SupervisorOptions options_;
  Clock* const clock_;
  EventLog* const events_;
  Fd listener_;
  SupervisorViewStore view_store_;
  std::vector<Child> children_;
  std::vector<JoinBackoff> join_backoffs_;  // by node
  std::shared_ptr<const View> broadcast_view_;
  size_t broadcast_ended_ = 0;
  uint64_t starts_ = 0;
  std::string why_;
};

}  // namespace weft
