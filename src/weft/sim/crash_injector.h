// CrashInjector: crashes at the moments that matter. Beside those at random times, a campaign crashes a node when the
// n-th transaction enters a phase of its commit (its coordinator, a primary or a backup of one of its keys, or two of
// them at once), while a recovery is between deciding and active, or while a replica fills. The seed draws which. In
// the same way it breaks the connection between a transaction's coordinator and one of its other nodes, and has one of
// the two hear nothing of membership for a while: it is the one that goes, and does not know.
//
// Every crash, aimed or not, is counted by what it hit: CrashCoverage.
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

// Who crashed, as a transaction sees it that was in some phase of its commit.
enum class VictimRole : uint8_t {
  kCoordinator,
  kPrimary,
  kBackup,
  kTwo,         // two of these, before anybody had a view without the first
  kRecovery,    // a member of a recovery that has begun to decide it and is not active
  kCatchingUp,  // a replica that is catching up with a partition it writes to, or the primary it copies from
};
inline constexpr int kVictimRoles = 6;
std::string_view victim_role_name(VictimRole role);

// By phase and who: crashes that hit such a transaction.
struct CrashCoverage {
  std::array<std::array<uint64_t, kVictimRoles>, kPhases> hits{};
  void add(const CrashCoverage& other);
  uint64_t& at(Phase phase, VictimRole role) { return hits[static_cast<size_t>(phase)][static_cast<size_t>(role)]; }
  uint64_t at(Phase phase, VictimRole role) const {
    return hits[static_cast<size_t>(phase)][static_cast<size_t>(role)];
  }
};

// Whether commits of a row pass through the phase (while a partition fills, all replicate).
bool has_phase(const Protocol& row, Phase phase);
bool has_phase(const RowSet& rows, Phase phase);

// What a crash hits; given the nodes that run, it looks at them just before.
class CrashCounter {
 public:
  // `epoch`: the newest view's. `running`: by node, nullptr if it does not run.
  void count(NodeId crashing, Epoch epoch, const std::vector<const Node*>& running);
  const CrashCoverage& coverage() const { return coverage_; }

 private:
  struct Hit {  // a transaction that a crash has hit
    Phase phase;
    uint64_t nodes;  // that take part
  };
  void count_recovery(NodeId crashing, const Node& node, CrashCoverage& now) const;

  CrashCoverage coverage_;
  Epoch epoch_;
  std::vector<Hit> before_;  // by crashes in this epoch
};

struct CrashTarget {
  VictimRole who = VictimRole::kCoordinator;
  Phase phase = Phase::kLock;
  TxnObserver::Recovered step = TxnObserver::Recovered::kDecided;  // kRecovery: in place of the phase
  uint32_t countdown = 1;                                          // the so many-th time
  uint64_t delay_ns = 0;
  uint64_t pick = 0;  // of several that fit
};

// The aims of a run, in order: the next one waits for the one before.
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
  void on_recovery(Recovered step, WorkerId worker, NodeId leader, uint64_t members) override;

 private:
  void crash_some(uint64_t nodes, int count);
  void count_down_to_link(NodeId coordinator, const TxnSlot& slot);

  CrashExecutor* const executor_;
  TxnObserver* audit_ = nullptr;
  std::vector<CrashTarget> targets_;
  CrashTarget link_;  // countdown 0: none, or over
  uint64_t deaf_ns_ = 0;
  size_t next_ = 0;
  // The first aim hits a transaction whose coordinator leads the recovery, which decides it, tells it, and crashes
  // before the others hear that the view is active: they must come to the same decision.
  bool leader_crashes_after_ack_ = false;
  // The second aim hits the leader when it says that the view is active: some hear that, and go on; others come into
  // the next view with decisions in writing that those have carried out.
  bool leader_crashes_activating_ = false;
  uint64_t coordinator_ = 0;  // bit n: of the transaction that the first aim hit
  WorkerId worker_;           // and its worker
};

}  // namespace weft
