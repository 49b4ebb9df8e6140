// SupervisorViewStore: the view of a one-host cluster, as kept by its supervisor: the first view once all nodes have
// announced themselves, compare-and-set after that, and which processes have ended.
//
// A view without a member is published only when that member's process has ended (rule E2): processes_to_kill() lists
// those to kill.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weft/member/initial_members.h"
#include "weft/member/view.h"

namespace weft {

class SupervisorViewStore {
 public:
  explicit SupervisorViewStore(const BootstrapOptions& bootstrap)
      : bootstrap_(bootstrap), announced_(static_cast<size_t>(bootstrap.nodes)) {}

  // A process wants to be in the first view: its node, token, address and roles. The last one of a node counts. An
  // error: all have come, and their roles do not suffice.
  Result<void> announce(const Member& self);
  // Makes `next` the view if its epoch is the next one and no change is in progress; otherwise returns false.
  bool propose(const View& next);
  void process_ended(uint64_t token);

  std::shared_ptr<const View> view() const { return view_; }  // nullptr: there is none yet
  std::shared_ptr<const View> next() const { return next_; }  // accepted, not published yet; nullptr: none
  // Processes that must end before the next view is published.
  std::vector<uint64_t> processes_to_kill() const;
  // Incarnations of members whose processes have ended.
  const std::set<uint32_t>& ended_incarnations() const { return ended_incarnations_; }
  // The name of a partition that cannot come back because the processes of all its in-sync replicas have ended; empty
  // if there is none.
  std::string lost_partition() const;

 private:
  void accept(const View& next);
  void publish_if_fenced();

  const BootstrapOptions bootstrap_;
  std::vector<std::optional<Member>> announced_;  // by node, until there is a view
  std::shared_ptr<const View> view_;
  std::shared_ptr<const View> next_;  // accepted; waits for processes to end
  std::set<uint64_t> ended_tokens_;
  std::map<uint64_t, uint32_t> incarnations_;  // by token, of members that were in a view
  std::set<uint32_t> ended_incarnations_;
};

}  // namespace weft
