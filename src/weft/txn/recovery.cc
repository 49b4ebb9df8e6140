#include "weft/txn/recovery.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/key_part.h"

namespace weft {

namespace {

constexpr uint64_t kStepNs = 100'000;  // longest time between two steps while recovering

bool is_leaders(RecoveryStep step) {
  return step == RecoveryStep::kAsk || step == RecoveryStep::kDecide || step == RecoveryStep::kWrite ||
         step == RecoveryStep::kApply || step == RecoveryStep::kActive;
}

// Steps that do not concern a single transaction.
bool is_plain(RecoveryStep step) {
  return step != RecoveryStep::kRecord && step != RecoveryStep::kDecided && step != RecoveryStep::kFinished &&
         step != RecoveryStep::kSlot && step != RecoveryStep::kDecide;
}

}  // namespace

Recovery::Recovery(WorkerContext& ctx, const RecoveredParts& parts, bool verb_locks)
    : ctx_(ctx),
      parts_(parts),
      decisions_(ctx, parts.records),
      applier_(ctx, parts.barrier, parts.records, decisions_, parts.participant, parts.verb_memory, verb_locks),
      reporter_(ctx, parts.slots, parts.records, decisions_, this) {}

void Recovery::start_active() {
  WEFT_CHECK(ctx_.views.active(), "the worker starts in an active view");
  ctx_.state.views.went_active(ctx_.views.shared());
  ctx_.port.set_epoch(port_epoch(ctx_.view().epoch, true));
  for (const Member& m : ctx_.view().members) {
    if (m.node != ctx_.self) ctx_.wire->accept_incarnation(m.node, m.incarnation);
  }
  for (Service* service : services_) service->on_view_active();
}

// Stopping.

void Recovery::adopt_newest() {
  if (ctx_.state.views.published_epoch() <= ctx_.view().epoch.value) return;
  std::shared_ptr<const View> next = ctx_.state.views.published();
  if (parts_.verbs != nullptr && !parts_.verbs->stop_access(next->epoch)) return;  // asked again in the next step
  adopt(std::move(next));
}

void Recovery::adopt(std::shared_ptr<const View> view) {
  if (parts_.verbs != nullptr) stop_verbs();
  ViewState& views = ctx_.views;
  parts_.acks.change().adopted(view->epoch.value, parts_.slots.in_use(), ctx_.now_ns());
  views.stop(views.is_removed_by(*view, ctx_.state.views.token()));
  stop_transactions();
  for (Service* service : services_) service->on_view_ended();
  WEFT_CHECK(!views.active(), "a worker has stopped when it meets its peers anew");
  if (ctx_.bugs.has(PlantedBug::kForgetsDecisions)) decisions_.forget();
  meet_peers(*view);
  views.adopt(std::move(view));
  ctx_.state.links.worker_adopted(ctx_.view().epoch, ctx_.id);
  if (views.removed()) {
    ctx_.port.set_epoch(port_epoch(ctx_.view().epoch, false));
    retire();
    return;
  }
  if (!ctx_.bugs.has(PlantedBug::kOldEpochAccepted) || !views.was_active()) {
    ctx_.port.set_epoch(port_epoch(ctx_.view().epoch, false));
  }
  progress_ = Progress();
  applier_.begin();
  reporter_.begin();
  leader_.reset();
  if (ctx_.view().leader() == ctx_.self) {
    RecoveryHost* const host = this;
    leader_ = std::make_unique<RecoveryLeader>(views.shared(), ctx_.limits, ctx_.bugs, decisions_.open_max(), host);
  }
}

void Recovery::stop_verbs() {
  parts_.verbs->stop();
  const LogReceiver* log = parts_.verbs->log_receiver();
  // Others were active in a view where this worker was not, and have logged here: this worker becomes active now, for a
  // moment. All decisions were applied here before the others became active.
  if (log != nullptr && ctx_.views.recovering() && progress_.applied && log->has_entries()) {
    WEFT_MARK("logged at a worker that was not active yet");
    activate();  // the node did not become active with it: what had to be settled still has to be
  }
  parts_.verbs->finish_view();
}

void Recovery::stop_transactions() {
  parts_.reads.drop_queues();
  parts_.coordinator.drop_queues();
  parts_.participant.drop_notices();
  parts_.credit.reset();
  parts_.slots.for_each([&](TxnSlot& slot) {
    reporter_.note_coordinated(slot);
    parts_.interrupted.freeze(slot);
  });
}

// Opens channels to the peers of the next view, and closes those to nodes that are not in it.
void Recovery::meet_peers(const View& next) {
  for (int n = 0; n < ctx_.nodes; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    if (node == ctx_.self) continue;
    const Member* now = ctx_.views.removed() ? nullptr : next.find(node);
    const uint32_t is = now == nullptr ? 0 : now->incarnation;
    const bool same = ctx_.views.peer_incarnation(node) == is;
    if (same && is != 0 && ctx_.state.links.reconnects(node) > ctx_.view().epoch.value) {
      // The same two processes get a new connection: nothing of the old one is kept, nor what waits for it.
      WEFT_MARK("two that have lost each other begin anew");
      ctx_.port.reset_peer(node);
      ctx_.wire->accept_incarnation(node, 0);
      ctx_.wire->accept_incarnation(node, is);
    }
    if (same) continue;
    ctx_.views.replace_peer(node, is);
    ctx_.port.reset_peer(node);  // first: what is still queued for the old peer must not reach the new one
    ctx_.wire->accept_incarnation(node, is);
  }
}

bool Recovery::services_left_view() const {
  return std::all_of(services_.begin(), services_.end(),
                     [](const Service* service) { return service->has_left_view(); });
}

void Recovery::retire() {
  WEFT_MARK("retired");
  parts_.slots.for_each([&](TxnSlot& slot) { parts_.interrupted.abandon(slot); });
  parts_.acks.release_all();
  parts_.slots.serve_waiters();
}

// From stopped to active.

bool Recovery::step(uint64_t now_ns) {
  adopt_newest();
  if (!ctx_.views.recovering()) return false;
  bool busy = false;
  if (progress_.asked && !progress_.reported && services_left_view()) {
    const RecoveryReporter::Sent sent = reporter_.send();
    progress_.reported = sent.all;
    busy |= sent.some;
  }
  const bool fenced = now_ns >= ctx_.state.lease.fenced_after_ns() || ctx_.bugs.has(PlantedBug::kNoFenceWait);
  if (progress_.applying && !progress_.applied && fenced) {
    const DecisionApplier::Progress applied = applier_.step();
    busy |= applied != DecisionApplier::Progress::kWaits;
    if (applied == DecisionApplier::Progress::kDone) {
      progress_.applied = true;
      send(ctx_.view().leader(), RecoveryStep::kApplied);
    }
  }
  WEFT_CHECK(leader_ == nullptr || ctx_.view().leader() == ctx_.self, "the view says who leads");
  if (leader_ != nullptr) {
    busy |= leader_->step(now_ns);
    if (leader_->done()) leader_.reset();
  }
  if (progress_.all_applied) {
    if (parts_.gc.settle()) {
      activate();
      ctx_.state.views.went_active(ctx_.views.shared());
    }
    busy = true;
  }
  return busy;
}

uint64_t Recovery::deadline_ns() const { return ctx_.views.recovering() ? ctx_.now_ns() + kStepNs : UINT64_MAX; }

void Recovery::activate() {
  WEFT_CHECK(progress_.wrote || ctx_.bugs.has(PlantedBug::kNotWritten), "nothing is applied that is not written");
  WEFT_CHECK(progress_.applied, "a worker is active when it has applied everything");
  parts_.slots.for_each([&](TxnSlot& slot) {
    if (!slot.in_phases()) return;
    const Decision* decision = decisions_.find(ctx_.self, ctx_.views.incarnation(), slot.index, slot.sequence);
    WEFT_CHECK(decision != nullptr, "recovery decides every commit of a member");
    parts_.interrupted.resolve(slot, decision->commit);
  });
  finish_records();
  decisions_.finish();
  reporter_.forget_coordinated();
  leader_.reset();
  ctx_.views.activate(oldest_epoch_in_use());
  ctx_.port.set_epoch(port_epoch(ctx_.view().epoch, true));
  parts_.acks.change().active(ctx_.now_ns());
  parts_.acks.release_all();
  for (Service* service : services_) service->on_view_active();
  parts_.slots.serve_waiters();
}

void Recovery::finish_records() {
  PreparedTable& records = parts_.records;
  for (int n = 0; n < ctx_.nodes; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    for (int s = 0; s < records.slots(); ++s) {
      PreparedTxn& record = records.at(node, static_cast<uint8_t>(s));
      if (record.state == 0) continue;
      const Decision* decision = decisions_.find(node, static_cast<uint8_t>(s), record);
      WEFT_CHECK(decision != nullptr && decision->applied, "recovery decides every record");
      records.drop(record, decision->commit);
    }
    if (!ctx_.views.departed(node)) continue;
    for (int s = 0; s < records.slots(); ++s) {
      parts_.participant.note_aborted(records.at(node, static_cast<uint8_t>(s)));
    }
    records.forget(node);
  }
}

uint32_t Recovery::oldest_epoch_in_use() const {
  uint32_t oldest = ctx_.view().epoch.value;
  parts_.slots.for_each([&](const TxnSlot& slot) { oldest = std::min(oldest, slot.epoch); });
  return oldest;
}

// Messages.

bool Recovery::parse(const Message& m) const {
  if (m.body.size() < sizeof(RecoveryHeader)) return false;
  const auto header = load<RecoveryHeader>(m.body.data());
  if (header.step > static_cast<uint8_t>(RecoveryStep::kActive) || header.coordinator >= ctx_.nodes ||
      header.slot >= parts_.records.slots() || header.unanimous > 1 ||
      header.ending > static_cast<uint8_t>(Ending::kAbort)) {
    return false;
  }
  // What is reported need not have its value; what is decided has it.
  const Kind like = static_cast<RecoveryStep>(header.step) == RecoveryStep::kDecide ? Kind::kReplicate : Kind::kLock;
  const std::byte* at = m.body.data() + sizeof header;
  for (int i = 0; i < header.keys; ++i) {
    KeyPartView in;
    if (!take_key(&at, m.body.data() + m.body.size(), &in)) return false;
    if (in.part.table >= ctx_.tables.count()) return false;
    const Table* table = ctx_.tables.at(TableId(in.part.table));
    if (!fits_table(in.part, *table, ctx_.limits.key_bytes_max)) return false;
    if (!value_makes_sense(like, in.part)) return false;
  }
  return true;
}

void Recovery::on_message(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const auto header = load<RecoveryHeader>(m.body.data());
    if (header.epoch != ctx_.view().epoch.value || !ctx_.views.recovering()) continue;
    const auto step = static_cast<RecoveryStep>(header.step);
    const ByteView keys = m.body.subspan(sizeof header);
    const char* wrong = nullptr;
    if (ctx_.view().find(m.source) == nullptr) {
      wrong = "a step of recovery from a node that is not in the view";
    } else if (!is_leaders(step)) {
      if (leader_ != nullptr) wrong = leader_->on_message(m.source, header, keys);
    } else if (m.source != ctx_.view().leader()) {
      wrong = "a step of recovery from a node that does not lead it";
    } else {
      wrong = on_leader(step, header, keys);
    }
    if (wrong != nullptr) ctx_.faults.report(m.source, wrong);
  }
}

// Returns what is wrong with the message, or nullptr.
const char* Recovery::on_leader(RecoveryStep step, const RecoveryHeader& header, ByteView keys) {
  switch (step) {
    case RecoveryStep::kAsk:
      progress_.asked = true;
      return nullptr;
    case RecoveryStep::kDecide:
      if (progress_.wrote) return "a decision after all were written";
      return decisions_.write(header, keys);
    case RecoveryStep::kWrite:
      if (!all_decided()) return "not all that is open has been decided";
      progress_.wrote = true;
      send(ctx_.view().leader(), RecoveryStep::kWrote);
      return nullptr;
    case RecoveryStep::kApply:
      if (!progress_.wrote && !ctx_.bugs.has(PlantedBug::kNotWritten)) return "decisions to apply that are not written";
      progress_.applying = true;
      return nullptr;
    case RecoveryStep::kActive:
      if (!progress_.applied) return "a view that is active before everything is applied";
      progress_.all_applied = true;
      return nullptr;
    default:
      return nullptr;
  }
}

// Whether every commit of this worker and every record here is decided. activate() relies on nothing else being left.
bool Recovery::all_decided() const {
  bool own = true;
  parts_.slots.for_each([&](const TxnSlot& slot) {
    if (!slot.in_phases()) return;
    own = own && decisions_.find(ctx_.self, ctx_.views.incarnation(), slot.index, slot.sequence) != nullptr;
  });
  return own && decisions_.covers_records();
}

// For the leader and the reporter.

void Recovery::send(NodeId to, const RecoveryHeader& header, ByteView keys) {
  std::byte* at =
      ctx_.port.reserve(to, Flow::kRecovery, static_cast<uint8_t>(Kind::kRecovery), sizeof header + keys.size());
  RecoveryHeader sent = header;
  if (is_plain(static_cast<RecoveryStep>(header.step))) sent.served = ctx_.views.was_active();
  store(at, sent);
  if (!keys.empty()) std::memcpy(at + sizeof header, keys.data(), keys.size());
}

void Recovery::arrive() { parts_.barrier.arrive(WorkerBarrier::Step::kActive, ctx_.view().epoch, ctx_.id); }

bool Recovery::all_arrived() const {
  return parts_.barrier.all_arrived(WorkerBarrier::Step::kActive, ctx_.view().epoch);
}

void Recovery::on_leader_step(TxnObserver::Recovered step, NodeSet members) {
  if (ctx_.observer != nullptr) ctx_.observer->on_recovery(step, ctx_.id, ctx_.self, members);
}

}  // namespace weft
