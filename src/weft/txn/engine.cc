#include "weft/txn/engine.h"

#include <algorithm>
#include <new>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

namespace {

constexpr uint64_t kRecoveryStepNs = 100'000;  // at most, between two looks while recovering
constexpr uint64_t kParkedStepNs = 50'000;     // and at writes that wait for what they follow

int slots_for(const Limits& limits) {
  // More slots than transactions in flight: a finished one keeps its slot until its notices have left.
  return std::min<int>(kSlotsMax, static_cast<int>(limits.inflight + limits.inflight / 4 + 8));
}

size_t pool_bytes(const Options& options) {
  const Limits& limits = options.limits;
  const size_t held = size_t{limits.credit_bytes} * static_cast<size_t>(options.nodes) * 2 +
                      size_t{limits.txn_bytes_max} * static_cast<size_t>(slots_for(limits)) * 2;
  // Blocks stay in their size class, and undo logs hold old values of any size: reserve plenty, only what is touched
  // costs memory.
  return held * 8 + (256U << 20);
}

PortOptions port_options(const Node& node, WorkerId id) {
  const Options& options = node.spec().options;
  PortOptions port;
  port.self = node.id();
  port.worker = id;
  port.nodes = options.nodes;
  // A commit message can carry a whole transaction and, for each of its keys, what describes it; an answer one value.
  port.message_bytes_max = size_t{options.limits.txn_bytes_max} + size_t{options.limits.txn_keys_max} * 64 +
                           options.limits.value_bytes_max + 4096;
  // Requests under our own credit, and answers under the peer's. Recovery sends without credit, while less than half of
  // it waits, messages that carry whole transactions.
  port.queued_bytes_max = size_t{options.limits.credit_bytes} * 4 + 8 * kPacketBytesMax;
  if (node.spec().recovers) port.queued_bytes_max += wire_bytes_max(port.message_bytes_max);
  port.batching = options.network_batching;
  return port;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(Node* node, WorkerId id, Worker* worker, Environment* env) {
  auto pool = Pool::create(pool_bytes(node->spec().options));
  if (!pool) return pool.error();
  const bool remembers = node->protocol().location_cache;
  auto locations = LocationCache::create(remembers ? node->spec().options.limits.location_bytes : 0);
  if (!locations) return locations.error();
  std::unique_ptr<Engine> engine(new Engine(node, id, worker, env, std::move(*pool)));
  engine->locations_ = std::move(*locations);
  return engine;
}

Engine::Engine(Node* node, WorkerId id, Worker* worker, Environment* env, std::unique_ptr<Pool> pool)
    : node_(node),
      self_(node->id()),
      id_(id),
      worker_(worker),
      charges_(env->charges(node->id(), id)),
      witness_(env->witness()),
      events_(env->events()),
      limits_(node->spec().options.limits),
      answer_ns_(node->spec().answer_ns != 0 ? node->spec().answer_ns : limits_.answer_ms * uint64_t{1'000'000}),
      bugs_(node->spec().bugs),
      row_(&node->protocol()),
      row_index_(static_cast<uint8_t>(row_ - kRows.data())),
      table_batching_(node->spec().options.table_batching),
      local_reads_(node->spec().options.local_reads),
      passive_acks_(node->spec().options.passive_acks),
      nodes_(node->spec().options.nodes),
      wire_(env->wire(node->id(), id)),
      view_(node->shared_view()),
      incarnation_(0),
      active_(!node->joins()),
      served_(!node->joins()),
      random_(env->seed(node->id(), id)),
      pool_(std::move(pool)),
      port_(port_options(*node, id), env->wire(node->id(), id), charges_),
      credit_(nodes_, limits_.credit_bytes),
      log_(nodes_, slots_for(limits_), pool_.get()),
      outcomes_(limits_.outcome_bytes),
      sequence_(node->last_sequence()) {
  for (int i = 0; i < slots_for(limits_); ++i) {
    auto slot = std::make_unique<TxnSlot>();
    slot->engine = this;
    slot->index = static_cast<uint8_t>(i);
    slots_.push_back(std::move(slot));
  }
  for (size_t i = slots_.size(); i > 0; --i) free_slots_.push_back(static_cast<uint8_t>(i - 1));
  refused_.engine = this;
  refused_.state = SlotState::kFinished;
  refused_.entries = refused_.inline_entries.data();
  refused_.rejected = refused_.outcome.code = Code::kNoAnswer;
  refused_.outcome.kind = OutcomeKind::kRejected;
  for (Notices* notices : {&dones_, &unlocked_}) {
    notices->queues.resize(static_cast<size_t>(nodes_));
    for (Notices::Queue& queue : notices->queues) queue.items.reserve(slots_.size());
  }
  const size_t gets = slots_.size() * 16;
  local_gets_.reserve(gets);
  batch_.reserve(gets);
  gets_without_credit_.reserve(gets);
  alone_.reserve(slots_.size());
  alone_locks_.resize(limits_.txn_keys_max);
  parsed_.reserve(1024);
  keys_.reserve(4096);
  size_t value_max = 0;
  for (const TableSpec& spec : node->spec().tables) value_max = std::max<size_t>(value_max, spec.value_bytes_max);
  scratch_.resize(padded(value_max) + 8);

  const auto handler = [this](Kind kind, Handler h) { port_.set_handler(static_cast<uint8_t>(kind), h, this); };
  using Run = std::span<const Message>;
  handler(Kind::kGet, [](void* e, Run run) { static_cast<Engine*>(e)->on_get(run); });
  handler(Kind::kGetReply, [](void* e, Run run) { static_cast<Engine*>(e)->on_get_reply(run); });
  handler(Kind::kLock, [](void* e, Run run) { static_cast<Engine*>(e)->on_lock(run); });
  handler(Kind::kValidate, [](void* e, Run run) { static_cast<Engine*>(e)->on_validate(run); });
  handler(Kind::kReplicate, [](void* e, Run run) { static_cast<Engine*>(e)->on_replicate(run); });
  handler(Kind::kUnlock, [](void* e, Run run) { static_cast<Engine*>(e)->on_unlock(run); });
  handler(Kind::kReply, [](void* e, Run run) { static_cast<Engine*>(e)->on_reply(run); });
  handler(Kind::kDone, [](void* e, Run run) { static_cast<Engine*>(e)->on_done(run); });
  handler(Kind::kUnlocked, [](void* e, Run run) { static_cast<Engine*>(e)->on_unlocked(run); });
  port_.set_burst_hook([](void* e, Run burst) { static_cast<Engine*>(e)->on_burst(burst); }, this);
  port_.set_bad_peer(
      [](void* e, NodeId peer, const Error& error) {
        static_cast<Engine*>(e)->bad_peers_.push_back({peer, error, true});
      },
      this);
  handler(Kind::kRecovery, [](void* e, Run run) { static_cast<Engine*>(e)->on_recovery(run); });
  handler(Kind::kFill, [](void* e, Run run) { static_cast<Engine*>(e)->on_fill(run); });
  handler(Kind::kControl, [](void* e, Run run) { static_cast<Engine*>(e)->on_control(run); });
  handler(Kind::kWalk, [](void* e, Run run) { static_cast<Engine*>(e)->on_walk(run); });
  handler(Kind::kFateAsk, [](void* e, Run run) { static_cast<Engine*>(e)->on_fate_ask(run); });
  handler(Kind::kFateAnswer, [](void* e, Run run) { static_cast<Engine*>(e)->on_fate_answer(run); });
  handler(Kind::kRingRead, [](void* e, Run run) { static_cast<Engine*>(e)->on_ring_read(run); });
  start_verbs();
  told_.reserve(slots_.size());
  if (active_) {
    incarnation_ = incarnation_of(self_);
    active_epoch_ = view_->epoch;
    node_->went_active(view_);
    port_.set_epoch(port_epoch(view_->epoch, true));
    for (const Member& m : view_->members) {
      if (m.node == self_) continue;
      met_[m.node.value] = m.incarnation;
      wire_->admit(m.node, m.incarnation);
    }
    begin_filling();
  }
  worker_->set_duties(this);
}

Engine::~Engine() = default;

// The loop's duties.

bool Engine::commit_steps() {
  bool busy = false;
  if (!bad_peers_.empty()) handle_bad_peers();
  if (chore_ != nullptr) busy |= chore_->step(worker_->now_ns());
  if (node_->published_epoch() > view_->epoch.value) adopt(node_->published());
  if (!active_ && !retired_) busy |= recovery_step();
  if (!fills_.empty() && active_) busy |= fill_step();
  if (discards_ && active_) busy |= discard_step();
  if (rings_ != nullptr && active_) busy |= ring_step();
  if (!alone_.empty()) busy |= commit_alone_ones();
  if (credit_came_back_) {
    credit_came_back_ = false;
    busy |= retry_gets();
    busy |= retry_commits();
  }
  const bool short_of_slots = free_slots_.size() < slots_.size() / 8 + 1;
  if (posts_ != nullptr && short_of_slots) posts_->hurry();
  if (dones_.queued > 0) busy |= send_notices(dones_, Kind::kDone, short_of_slots);
  if (unlocked_.queued > 0) busy |= send_notices(unlocked_, Kind::kUnlocked, false);
  if (!asked_.empty()) busy |= ask_step();
  if (worker_->now_ns() >= due_ns_) busy |= end_waits();
  return busy;
}

bool Engine::poll() {
  bool busy = false;
  if (posts_ != nullptr) {
    drain_rings();
    busy = posts_->poll(
        worker_->now_ns(), [](void* e, Post& post) { static_cast<Engine*>(e)->on_posted(post); }, this);
  }
  return port_.poll() || busy;
}

void Engine::between_steps() {
  // Every step would be too often: a quiescent mark is a store to a line other workers read.
  if ((worker_->steps() & 15U) != 0) return;
  quiesce();
  if (board_.due(worker_->now_ns())) put_figures();
}

void Engine::quiesce() {
  for (size_t t = 0; t < node_->tables(); ++t) node_->table(TableId(static_cast<uint16_t>(t)))->quiesce(id_);
}

void Engine::before_sleep() {
  put_figures();
  for (size_t t = 0; t < node_->tables(); ++t) node_->table(TableId(static_cast<uint16_t>(t)))->offline(id_);
}

bool Engine::pending() const {
  return !local_gets_.empty() || !alone_.empty() || credit_came_back_ ||
         node_->published_epoch() > view_->epoch.value || !bad_peers_.empty() || port_.pending() ||
         (posts_ != nullptr && posts_->pending());
}

uint64_t Engine::deadline_ns() const {
  uint64_t deadline = chore_ != nullptr ? chore_->deadline_ns() : UINT64_MAX;
  if (!active_ && !retired_) deadline = std::min(deadline, worker_->now_ns() + kRecoveryStepNs);
  if (!told_.empty()) deadline = std::min(deadline, worker_->now_ns() + 1);
  deadline = std::min(deadline, due_ns_);
  for (const Question& question : asked_) deadline = std::min(deadline, question.due_ns);
  if (!fills_.empty()) deadline = std::min(deadline, fills_.back().ask_again_ns);
  if (posts_ != nullptr) deadline = std::min(deadline, posts_->deadline_ns());
  if (!parked_.empty()) deadline = std::min(deadline, worker_->now_ns() + kParkedStepNs);
  if (dones_.queued != 0) deadline = std::min(deadline, dones_.deadline_ns());
  if (unlocked_.queued != 0) deadline = std::min(deadline, unlocked_.deadline_ns());
  return deadline;
}

bool Engine::idle() const {
  if (lost_peers_ != 0) return local_gets_.empty();
  if (rings_ != nullptr && (rings_have_entries() || !parked_.empty())) return false;
  return free_slots_.size() == slots_.size() && log_.open_records() == 0 && dones_.queued == 0 &&
         unlocked_.queued == 0 && local_gets_.empty();
}

Counters Engine::counters() const {
  Counters all = counters_;
  const PortCounters& port = port_.counters();
  all.packets_sent = port.packets_sent;
  all.messages_sent = port.messages_sent;
  all.bytes_sent = port.bytes_sent;
  all.packets_received = port.packets_received;
  all.messages_received = port.messages_received;
  all.steps = worker_->steps();
  if (posts_ != nullptr) all.doorbells = posts_->doorbells();
  if (id_.value == 0 && node_->own_words() != nullptr) all.own_swaps = node_->own_words()->swaps();  // of the node
  return all;
}

}  // namespace weft
