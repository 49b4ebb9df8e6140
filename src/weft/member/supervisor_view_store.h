// SupervisorViewStore: the view of a one-host cluster, as its supervisor keeps it: the first view when all nodes are
// there, compare-and-set after that, and which processes have ended.
//
// A view without a member is published when that member's process has ended (rule E2): propose() says whom to kill.
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

  // A process wants to be in the first view: its node, token and address. The last of a node counts.
  void announce(const Member& self);
  // The view becomes `next` if its epoch is the next one and no change is under way; false: it does not.
  bool propose(const View& next);
  void process_ended(uint64_t token);

  std::shared_ptr<const View> view() const { return view_; }  // nullptr: there is none yet
  std::shared_ptr<const View> next() const { return next_; }  // accepted and not published yet; nullptr: none
  // Processes whose end is waited for before the next view is published.
  std::vector<uint64_t> processes_to_kill() const;
  // Incarnations of members whose processes have ended.
  const std::set<uint32_t>& ended_incarnations() const { return ended_incarnations_; }
  // The name of a partition that can not come back, since the processes of all its whole replicas have ended; or
  // nothing.
  std::string lost_partition() const;

 private:
  void accept(const View& next);
  void publish_if_fenced();

  const BootstrapOptions bootstrap_;
  std::vector<std::optional<Member>> announced_;  // by node, until there is a view
  std::shared_ptr<const View> view_;
  std::shared_ptr<const View> next_;           // accepted, and waits for ends
  std::set<uint64_t> ended_tokens_;            // tokens
  std::map<uint64_t, uint32_t> incarnations_;  // of tokens that were in a view
  std::set<uint32_t> ended_incarnations_;
};

}  // namespace weft
