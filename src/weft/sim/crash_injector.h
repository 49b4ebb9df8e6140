// CrashInjector crashes nodes at the moments that matter. Besides crashes at random times, a campaign crashes a node
// when the n-th transaction enters a phase of its commit (its coordinator, a primary or a backup of one of its keys, or
// two of them at once), while a recovery is between deciding and active, or while a replica is catching up. The seed
// draws which. In the same way it breaks the connection between a transaction's coordinator and another of its nodes,
// and cuts one of the two off from membership for a while: that one is removed and does not know it.
//
// CrashCoverage counts every crash, aimed or not, by what it hit.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/sim/config.h"
#include "weft/txn/node.h"
#include "weft/txn/protocol.h"
#include "weft/txn/row_set.h"
#include "weft/txn/txn_observer.h"
#include "weft/types.h"

namespace weft {

// Which node crashed, from the point of view of a transaction that was in some phase of its commit.
enum class VictimRole : uint8_t {
  kCoordinator,
  kPrimary,
  kBackup,
  kTwo,         // two of these, before any node had a view without the first
  kRecovery,    // a member of a recovery that has begun to decide the transaction and is not active yet
  kCatchingUp,  // a replica that is catching up on a partition that the transaction writes, or the primary it copies
                // from
  kExecutor,    // of a shipped transaction
  kBoth,        // of a shipped transaction: coordinator and executor, before any node had a view without the first
};
inline constexpr int kVictimRoles = 8;
std::string_view victim_role_name(VictimRole role);

// Crashes that hit such a transaction, by phase and role.
struct CrashCoverage {
  std::array<std::array<uint64_t, kVictimRoles>, kPhases> hits{};
  void add(const CrashCoverage& other);
  uint64_t& at(Phase phase, VictimRole role) { return hits[static_cast<size_t>(phase)][static_cast<size_t>(role)]; }
  uint64_t at(Phase phase, VictimRole role) const {
    return hits[static_cast<size_t>(phase)][static_cast<size_t>(role)];
  }
};

// Whether commits of one of the rows have the phase, and in it a node of this role.
bool has_phase(const RowSet& rows, Phase phase);
bool has_cell(const RowSet& rows, Phase phase, VictimRole role);

// Counts what a crash hits: it looks at the running nodes just before the crash.
class CrashCounter {
 public:
  // `epoch` is the newest view's. `running` has the nodes by id, nullptr for a node that does not run.
  void count(NodeId crashing, Epoch epoch, const std::vector<const Node*>& running);
  const CrashCoverage& coverage() const { return coverage_; }

 private:
  struct Hit {  // a transaction that a crash has hit
    Phase phase;
    NodeSet nodes;  // the participants
    NodeSet both;   // coordinator and executor, if it was shipped
  };
  void count_recovery(NodeId crashing, const Node& node, CrashCoverage& now) const;

  CrashCoverage coverage_;
  Epoch epoch_;
  std::vector<Hit> before_;  // hit by crashes in this epoch
};

struct CrashTarget {
  VictimRole who = VictimRole::kCoordinator;
  Phase phase = Phase::kLock;
  TxnObserver::Recovered step = TxnObserver::Recovered::kDecided;  // kRecovery: used in place of the phase
  uint32_t countdown = 1;                                          // crash when it has happened this many times
  uint64_t delay_ns = 0;
  uint64_t pick = 0;  // chooses one of several that fit
};

// The crash targets of a run, one after the other: each waits until the one before was hit.
class CrashInjector final : public TxnObserver {
 public:
  class CrashExecutor {
   public:
    virtual ~CrashExecutor() = default;
    virtual void crash_after(NodeId node, uint64_t delay_ns) = 0;
    virtual void sever_after(NodeId a, NodeId deaf, uint64_t delay_ns, uint64_t deaf_ns) = 0;
  };
  CrashInjector(const SimConfig& config, uint64_t seed, CrashExecutor* executor);

  void set_audit(TxnObserver* audit) { audit_ = audit; }
  bool pending() const { return next_ < targets_.size() || link_.countdown != 0; }

  void on_commit_point(NodeId coordinator, WorkerId worker, const TxnSlot& slot) override {
    if (audit_ != nullptr) audit_->on_commit_point(coordinator, worker, slot);
  }
  void on_phase(NodeId coordinator, WorkerId worker, const TxnSlot& slot) override;
  void on_recovery(Recovered step, WorkerId worker, NodeId leader, NodeSet members) override;

 private:
  void crash_some(NodeSet nodes, int count);
  void count_down_to_link(NodeId coordinator, const TxnSlot& slot);

  CrashExecutor* const executor_;
  TxnObserver* audit_ = nullptr;
  std::vector<CrashTarget> targets_;
  CrashTarget link_;  // the link to break; countdown 0: none, or done
  uint64_t deaf_ns_ = 0;
  size_t next_ = 0;
  // The first target is a transaction whose coordinator leads the recovery. The leader decides the transaction,
  // acknowledges it, and crashes before the others hear that the view is active: they must reach the same decision.
  bool leader_crashes_after_ack_ = false;
  // The second target is the leader when it says that the view is active. Some members hear that and continue; others
  // enter the next view with written decisions that the first have already applied.
  bool leader_crashes_activating_ = false;
  NodeSet coordinator_;  // of the transaction that the first target hit; empty: not yet
  WorkerId worker_;      // and its worker
};

}  // namespace weft
