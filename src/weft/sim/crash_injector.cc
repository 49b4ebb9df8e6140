#include "weft/sim/crash_injector.h"

#include "weft/base/hash.h"
#include "weft/base/marks.h"
#include "weft/txn/txn_worker.h"

namespace weft {

namespace {

constexpr std::string_view kRoleNames[kVictimRoles] = {"coordinator", "primary",     "backup",   "two",
                                                       "recovery",    "catching_up", "executor", "both"};
constexpr Phase kCommitPhases[] = {Phase::kLock, Phase::kValidate, Phase::kReplicate, Phase::kUnlock};

struct Parts {
  NodeSet primaries, backups;
  NodeSet checked;      // primaries of keys that are only read: they validate
  NodeSet catching_up;  // replicas that are catching up, and the primaries they copy from
};

// The nodes that hold the keys that the transaction locks, validates or writes.
Parts parts_of(const TxnSlot& slot) {
  Parts parts;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    // Of a shipped transaction the coordinator knows only what may be written.
    const bool shipped = !slot.shipped_to.empty();
    const bool writes = shipped ? e.may_write : e.write != Write::kNone;
    if (!e.read && !writes && !shipped) continue;
    const NodeSet primary = NodeSet::of(e.placement->primary());
    parts.primaries |= primary;
    if (!writes) parts.checked |= primary;
    if (!writes && !slot.unanimous) continue;
    parts.backups |= e.placement->in_sync - primary;
    if (writes && !e.placement->catching_up.empty()) parts.catching_up |= e.placement->catching_up | primary;
  }
  return parts;
}

// The node that so many nodes of the set precede.
NodeId nth_of(NodeSet nodes, uint64_t n) {
  for (; n > 0; --n) nodes.remove(nodes.first());
  return nodes.first();
}

bool is_commit(const TxnSlot& slot) {
  return slot.stage == TxnStage::kCommitting && !slot.read_only && slot.phase >= Phase::kLock &&
         slot.phase <= Phase::kUnlock;
}

// The phase of a transaction whose coordinator is gone, as far as its record shows.
Phase phase_of(const PreparedTxn& record) {
  if ((record.state & kCommitted) != 0) return Phase::kUnlock;
  return (record.state & kReplicated) != 0 ? Phase::kReplicate : Phase::kLock;
}

}  // namespace

std::string_view victim_role_name(VictimRole role) { return kRoleNames[static_cast<size_t>(role)]; }

void CrashCoverage::add(const CrashCoverage& other) {
  for (size_t p = 0; p < hits.size(); ++p) {
    for (size_t s = 0; s < hits[p].size(); ++s) hits[p][s] += other.hits[p][s];
  }
}

bool has_phase(const RowSet& rows, Phase phase) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (has_phase(rows.at(i), phase)) return true;
  }
  return false;
}

bool has_cell(const RowSet& rows, Phase phase, VictimRole role) {
  if (role != VictimRole::kExecutor && role != VictimRole::kBoth) return has_phase(rows, phase);
  return rows.ships_procedures() && (phase == Phase::kReplicate || phase == Phase::kUnlock);
}

void CrashCounter::count(NodeId crashing, Epoch epoch, const std::vector<const Node*>& running) {
  if (epoch != epoch_) before_.clear();
  epoch_ = epoch;
  CrashCoverage now;
  for (const Hit& hit : before_) {
    if (hit.nodes.contains(crashing)) now.at(hit.phase, VictimRole::kTwo) = 1;
    if (hit.both.contains(crashing)) now.at(hit.phase, VictimRole::kBoth) = 1;
  }
  for (const Node* node : running) {
    if (node == nullptr) continue;
    for (int w = 0; w < node->workers(); ++w) {
      const TxnWorker* txn_worker = node->txn_worker(WorkerId(static_cast<uint8_t>(w)));
      if (!txn_worker->active()) continue;
      txn_worker->slots().for_each([&](const TxnSlot& slot) {
        if (!is_commit(slot)) return;
        const Parts parts = parts_of(slot);
        const NodeSet nodes = NodeSet::of(node->id()) | parts.primaries | parts.backups;
        if (node->id() == crashing) now.at(slot.phase, VictimRole::kCoordinator) = 1;
        if (parts.primaries.contains(crashing)) now.at(slot.phase, VictimRole::kPrimary) = 1;
        if (parts.backups.contains(crashing)) now.at(slot.phase, VictimRole::kBackup) = 1;
        if (parts.catching_up.contains(crashing)) now.at(slot.phase, VictimRole::kCatchingUp) = 1;
        if (slot.shipped_to.contains(crashing)) now.at(slot.phase, VictimRole::kExecutor) = 1;
        if (!nodes.contains(crashing)) return;
        const NodeSet gone = NodeSet::of(crashing);
        NodeSet both = slot.shipped_to.empty() ? NodeSet() : slot.shipped_to | NodeSet::of(node->id());
        both = (both & gone).empty() ? NodeSet() : both - gone;
        before_.push_back({slot.phase, nodes - gone, both});
      });
    }
    count_recovery(crashing, *node, now);
  }
  coverage_.add(now);
}

void CrashCounter::count_recovery(NodeId crashing, const Node& node, CrashCoverage& now) const {
  for (int w = 0; w < node.workers(); ++w) {
    const TxnWorker* txn_worker = node.txn_worker(WorkerId(static_cast<uint8_t>(w)));
    if (!txn_worker->recovery().deciding() || txn_worker->view().find(crashing) == nullptr) continue;
    txn_worker->slots().for_each([&](const TxnSlot& slot) {
      if (is_commit(slot)) now.at(slot.phase, VictimRole::kRecovery) = 1;
    });
    txn_worker->records().for_each([&](const PreparedTxn& record) {
      if (record.state != 0) now.at(phase_of(record), VictimRole::kRecovery) = 1;
    });
  }
}

CrashInjector::CrashInjector(const SimConfig& config, uint64_t seed, CrashExecutor* executor) : executor_(executor) {
  link_.countdown = 0;
  if (config.aimed_links) {
    Random links(mix64(seed) ^ 0x11c8);
    const RowSet rows = RowSet::of(config.options);
    do {
      link_.phase = kCommitPhases[links.below(std::size(kCommitPhases))];
    } while (!has_phase(rows, link_.phase));
    link_.countdown = static_cast<uint32_t>(links.between(1, 60));
    link_.delay_ns = links.chance(50) ? 0 : links.below(2 * (config.network.base_ns + config.network.jitter_ns));
    link_.pick = links.next();
    deaf_ns_ = links.chance(70) ? links.between(config.lease_ns / 2, 4 * config.lease_ns) : 0;
  }
  if (!config.aimed) return;
  Random random(mix64(seed) ^ 0xa13);
  const RowSet rows = RowSet::of(config.options);
  const uint64_t trip_ns = config.network.base_ns + config.network.jitter_ns;
  const auto draw = [&](VictimRole who, uint32_t times) {
    CrashTarget target;
    target.who = who;
    do {
      target.phase = kCommitPhases[random.below(std::size(kCommitPhases))];
    } while (!has_phase(rows, target.phase) && (who != VictimRole::kCatchingUp || target.phase != Phase::kReplicate));
    target.countdown = static_cast<uint32_t>(random.between(1, times));
    target.delay_ns = random.chance(30) ? 0 : random.below(random.chance(50) ? trip_ns : 3 * trip_ns);
    target.pick = random.next();
    target.step = static_cast<TxnObserver::Recovered>(std::min<uint64_t>(random.below(4), 2));
    targets_.push_back(target);
  };
  if (config.leader_crashes_after_ack || random.chance(15)) {
    leader_crashes_after_ack_ = true;
    draw(random.chance(50) ? VictimRole::kPrimary : VictimRole::kBackup, 20);
    targets_.back().phase = has_phase(rows, Phase::kReplicate) ? Phase::kReplicate : Phase::kLock;
    draw(VictimRole::kRecovery, 1);
    targets_.back().step = Recovered::kActivated;
    targets_.back().delay_ns = random.below(2 * trip_ns + 1'000);
    return;
  }
  Random some(mix64(seed) ^ 0xa15);
  if (config.leader_crashes_activating || some.chance(8)) {
    leader_crashes_activating_ = true;
    draw(VictimRole::kCoordinator, 40);
    targets_.back().phase = has_phase(rows, Phase::kReplicate) ? Phase::kReplicate : Phase::kUnlock;
    draw(VictimRole::kRecovery, 1);
    targets_.back().step = Recovered::kActivated;
    targets_.back().delay_ns = some.below(config.network.base_ns);
    return;
  }
  // First one or two nodes of a transaction; then perhaps one of the recovery from that crash, or a replica that
  // catches up afterwards.
  draw(static_cast<VictimRole>(random.below(4)), 60);
  const uint64_t then = random.below(100);
  if (then < 30) draw(VictimRole::kRecovery, 2);
  if (then >= 30 && then < 65) draw(VictimRole::kCatchingUp, 8);
  // Executors of shipped transactions, alone or with their coordinator.
  Random shipped(mix64(seed) ^ 0xa16);
  if (rows.ships_procedures() && shipped.chance(60)) {
    CrashTarget& target = targets_.front();
    target.who = shipped.chance(50) ? VictimRole::kExecutor : VictimRole::kBoth;
    target.phase = shipped.chance(75) ? Phase::kReplicate : Phase::kUnlock;
    target.countdown = static_cast<uint32_t>(shipped.between(1, 30));
    return;
  }
  // Rare situations are targeted more often: validations, and commits that replicate only because a replica is catching
  // up.
  Random rare(mix64(seed) ^ 0xa14);
  if (then >= 65 && then < 85) {
    draw(rare.chance(40) ? VictimRole::kTwo : static_cast<VictimRole>(rare.below(4)), 4);
    if (!has_phase(rows, Phase::kReplicate)) targets_.back().phase = Phase::kReplicate;
  }
  if (has_phase(rows, Phase::kValidate) && rare.chance(40)) {
    targets_.back().phase = Phase::kValidate;
    if (then >= 30) return;
    targets_.front().phase = Phase::kValidate;
    targets_.front().who = VictimRole::kPrimary;  // the coordinator waits for its answer until the next view
    targets_.front().delay_ns = 0;
  }
}

void CrashInjector::crash_some(NodeSet nodes, int count) {
  const CrashTarget& target = targets_[next_++];
  uint64_t pick = target.pick;
  for (; count > 0 && !nodes.empty(); --count) {
    const NodeId node = nth_of(nodes, pick % static_cast<uint64_t>(nodes.size()));
    executor_->crash_after(node, target.delay_ns);
    nodes.remove(node);
    pick /= 7;
  }
}

// Breaks the link between the coordinator and one of the transaction's other nodes. Either of them may be the one that
// is cut off from membership.
void CrashInjector::count_down_to_link(NodeId coordinator, const TxnSlot& slot) {
  if (link_.countdown == 0 || link_.phase != slot.phase || !is_commit(slot)) return;
  const Parts parts = parts_of(slot);
  const NodeSet nodes = (parts.primaries | parts.backups) - NodeSet::of(coordinator);
  if (nodes.empty() || --link_.countdown != 0) return;
  WEFT_MARK("a broken connection that was aimed");
  const NodeId other = nth_of(nodes, link_.pick / 2 % static_cast<uint64_t>(nodes.size()));
  const bool coordinator_goes = link_.pick % 2 == 0;
  executor_->sever_after(coordinator_goes ? other : coordinator, coordinator_goes ? coordinator : other, link_.delay_ns,
                         deaf_ns_);
}

void CrashInjector::on_phase(NodeId coordinator, WorkerId worker, const TxnSlot& slot) {
  count_down_to_link(coordinator, slot);
  if (next_ >= targets_.size()) return;
  CrashTarget& target = targets_[next_];
  if (target.phase != slot.phase || target.who == VictimRole::kRecovery || !is_commit(slot)) return;
  if (leader_crashes_after_ack_ && slot.txn_worker->view().leader() != coordinator) return;
  const Parts parts = parts_of(slot);
  const NodeSet self = NodeSet::of(coordinator);
  NodeSet nodes;
  if (target.who == VictimRole::kCoordinator) nodes = self;
  if (target.who == VictimRole::kPrimary) {
    nodes = (target.phase == Phase::kValidate ? parts.checked : parts.primaries) - self;
  }
  if (target.who == VictimRole::kBackup) nodes = parts.backups - self;
  if (target.who == VictimRole::kTwo) nodes = self | parts.primaries | parts.backups;
  if (target.who == VictimRole::kCatchingUp) nodes = parts.catching_up;
  if (target.who == VictimRole::kExecutor) nodes = slot.shipped_to;
  if (target.who == VictimRole::kBoth && !slot.shipped_to.empty()) nodes = self | slot.shipped_to;
  const int count = target.who == VictimRole::kTwo || target.who == VictimRole::kBoth ? 2 : 1;
  if (nodes.size() < count || --target.countdown != 0) return;
  WEFT_MARK("a crash that was aimed");
  coordinator_ = self;
  worker_ = worker;
  crash_some(nodes, count);
}

// Often crashes the coordinator of the transaction that is decided: clients that query the outcome later find it gone,
// but what it acknowledged must stand.
void CrashInjector::on_recovery(Recovered step, WorkerId worker, NodeId leader, NodeSet members) {
  if (next_ >= targets_.size() || (leader_crashes_after_ack_ && worker != worker_)) return;
  CrashTarget& target = targets_[next_];
  if (target.who != VictimRole::kRecovery || target.step != step || --target.countdown != 0) return;
  WEFT_MARK("a crash while recovery decides");
  const bool known = !(members & coordinator_).empty() && (leader_crashes_after_ack_ || target.pick % 2 == 0);
  crash_some(leader_crashes_activating_ ? NodeSet::of(leader) : known ? coordinator_ : members, 1);
}

}  // namespace weft
