#include "weft/txn/engine.h"

#include <algorithm>
#include <new>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

namespace {

constexpr uint64_t kRecoveryStepNs = 100'000;  // at most, between two looks while recovering

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
  return std::unique_ptr<Engine>(new Engine(node, id, worker, env, std::move(*pool)));
}

Engine::Engine(Node* node, WorkerId id, Worker* worker, Environment* env, std::unique_ptr<Pool> pool)
    : node_(node),
      self_(node->id()),
      id_(id),
      worker_(worker),
      charges_(env->charges(node->id(), id)),
      witness_(env->witness()),
      limits_(node->spec().options.limits),
      bugs_(node->spec().bugs),
      row_(&node->protocol()),
      row_index_(static_cast<uint8_t>(row_ - kProtocols.data())),
      table_batching_(node->spec().options.table_batching),
      local_reads_(node->spec().options.local_reads),
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
      sequence_(node->last_sequence()),
      dones_(static_cast<size_t>(nodes_)) {
  for (int i = 0; i < slots_for(limits_); ++i) {
    auto slot = std::make_unique<TxnSlot>();
    slot->engine = this;
    slot->index = static_cast<uint8_t>(i);
    slots_.push_back(std::move(slot));
  }
  for (size_t i = slots_.size(); i > 0; --i) free_slots_.push_back(static_cast<uint8_t>(i - 1));
  for (DoneQueue& queue : dones_) queue.items.reserve(slots_.size());
  const size_t gets = slots_.size() * 16;
  local_gets_.reserve(gets);
  batch_.reserve(gets);
  gets_without_credit_.reserve(gets);
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
  port_.set_burst_hook([](void* e, Run burst) { static_cast<Engine*>(e)->on_burst(burst); }, this);
  port_.set_bad_peer(
      [](void* e, NodeId peer, const Error& error) {
        static_cast<Engine*>(e)->bad_peers_.push_back({peer, error, true});
      },
      this);
  handler(Kind::kRecovery, [](void* e, Run run) { static_cast<Engine*>(e)->on_recovery(run); });
  handler(Kind::kFill, [](void* e, Run run) { static_cast<Engine*>(e)->on_fill(run); });
  handler(Kind::kControl, [](void* e, Run run) { static_cast<Engine*>(e)->on_control(run); });
  handler(Kind::kFateAsk, [](void* e, Run run) { static_cast<Engine*>(e)->on_fate_ask(run); });
  handler(Kind::kFateAnswer, [](void* e, Run run) { static_cast<Engine*>(e)->on_fate_answer(run); });
  told_.reserve(slots_.size());
  if (active_) {
    incarnation_ = incarnation_of(self_);
    active_epoch_ = view_->epoch;
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
  if (credit_came_back_) {
    credit_came_back_ = false;
    busy |= retry_gets();
    busy |= retry_commits();
  }
  if (dones_queued_ > 0) busy |= send_dones();
  if (!asked_.empty()) busy |= ask_step();
  return busy;
}

void Engine::between_steps() {
  // Every step would be too often: a quiescent mark is a store to a line other workers read.
  if ((worker_->steps() & 15U) == 0) quiesce();
}

void Engine::quiesce() {
  for (size_t t = 0; t < node_->tables(); ++t) node_->table(TableId(static_cast<uint16_t>(t)))->quiesce(id_);
}

void Engine::before_sleep() {
  for (size_t t = 0; t < node_->tables(); ++t) node_->table(TableId(static_cast<uint16_t>(t)))->offline(id_);
}

bool Engine::pending() const {
  return !local_gets_.empty() || credit_came_back_ || node_->published_epoch() > view_->epoch.value ||
         !bad_peers_.empty() || port_.pending();
}

uint64_t Engine::deadline_ns() const {
  uint64_t deadline = chore_ != nullptr ? chore_->deadline_ns() : UINT64_MAX;
  if (!active_ && !retired_) deadline = std::min(deadline, worker_->now_ns() + kRecoveryStepNs);
  if (!told_.empty()) deadline = std::min(deadline, worker_->now_ns() + 1);
  for (const Question& question : asked_) deadline = std::min(deadline, question.due_ns);
  if (!fills_.empty()) deadline = std::min(deadline, fills_.back().ask_again_ns);
  if (dones_queued_ == 0) return deadline;
  for (const DoneQueue& queue : dones_) {
    if (!queue.items.empty()) deadline = std::min(deadline, queue.oldest_ns + kRideAlongNs);
  }
  return deadline;
}

bool Engine::idle() const {
  if (lost_peers_ != 0) return local_gets_.empty();
  return free_slots_.size() == slots_.size() && log_.open_records() == 0 && dones_queued_ == 0 && local_gets_.empty();
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
  return all;
}

// Slots.

TxnSlot* Engine::acquire() {
  if (free_slots_.empty() || in_use_ >= limits_.inflight || (!active_ && !retired_)) return nullptr;
  TxnSlot& slot = *slots_[free_slots_.back()];
  free_slots_.pop_back();
  ++in_use_;
  slot.state = SlotState::kExecuting;
  slot.attached = true;
  slot.single = slot.commit_wanted = slot.committing = slot.told = false;
  slot.rejected = Code::kOk;
  slot.incarnation = incarnation_;
  slot.epoch = view_->epoch.value;
  slot.sequence = ++sequence_;
  slot.count = slot.done_upto = slot.reads_pending = slot.wait_upto = 0;
  slot.capacity = TxnSlot::kInlineEntries;
  slot.entries = slot.inline_entries.data();
  slot.waiter = {};
  slot.row = nullptr;
  slot.phase = Phase::kExecute;
  slot.writes = slot.round_trips = 0;
  slot.dones_pending = 0;
  slot.waiting = slot.locked_nodes = slot.record_nodes = slot.participants = slot.fill_nodes = slot.fill_only = 0;
  slot.targets = {};
  slot.outcome = Outcome();
  slot.outcome.id = slot.id(id_);
  slot.bytes_used = slot.inline_used = slot.chunk_left = 0;
  slot.chunks = 0;
  if (retired_) reject(slot, Code::kClosed, nullptr, {});
  return &slot;
}

void Engine::wait_for_slot(Session::BeginAwaiter* waiter) {
  waiter->next = nullptr;
  (begin_last_ != nullptr ? begin_last_->next : begin_first_) = waiter;
  begin_last_ = waiter;
}

void Engine::let_go(TxnSlot* slot) {
  slot->attached = false;
  slot->waiter = {};
  --in_use_;
  if (slot->state == SlotState::kExecuting) {
    if (slot->locked_nodes != 0 || slot->reads_pending != 0) WEFT_MARK("dropped_half_way");
    give_up(*slot, Code::kApplication);
  }
  maybe_free(*slot);
  give_slot_to_waiter();
}

void Engine::free_slot(TxnSlot& slot) {
  for (int i = 0; i < slot.chunks; ++i) {
    const TxnSlot::Chunk& chunk = slot.chunk[static_cast<size_t>(i)];
    pool_->free(chunk.block, chunk.bytes);
  }
  slot.state = SlotState::kFree;
  free_slots_.push_back(slot.index);
  give_slot_to_waiter();
}

void Engine::give_slot_to_waiter() {
  if (begin_first_ == nullptr || in_use_ >= limits_.inflight || free_slots_.empty()) return;
  if (!active_ && !retired_) return;
  Session::BeginAwaiter* waiter = begin_first_;
  begin_first_ = waiter->next;
  if (begin_first_ == nullptr) begin_last_ = nullptr;
  waiter->slot = acquire();
  worker_->ready(waiter->waiter);
}

void Engine::wake(TxnSlot& slot) {
  if (!slot.waiter) return;
  worker_->ready(slot.waiter);
  slot.waiter = {};
}

void Engine::wake_leased(TxnSlot& slot) {
  if (!slot.waiter) return;
  if (slot.outcome.code == Code::kOk && node_->leased() && !bugs_.has(Bug::kNoLeaseCheck)) {
    told_.push_back({&slot, slot.sequence});
  } else {
    wake(slot);
  }
}

// The epoch ends before this worker could be sure of its lease again: what it read may not have been current.
void Engine::refuse_untold(TxnSlot& slot) {
  if (!slot.waiter || slot.row != &kReadOnly) return;
  fail(slot, Code::kEpoch, nullptr, Owner());
  wake(slot);
}

void Engine::release_told(bool now) {
  if (!now && worker_->now_ns() >= node_->lease_until_ns()) {
    WEFT_MARK("an outcome waits for the lease");
    return;
  }
  if (!now && !told_.empty()) change_.told(worker_->now_ns());
  for (const auto& [slot, sequence] : told_) {
    if (slot->sequence == sequence) wake(*slot);  // else the application has gone, and the slot is another's
  }
  told_.clear();
}

std::byte* Engine::take_chunk_bytes(TxnSlot& slot, size_t need) {
  if (need > slot.chunk_left) {
    // Each block at least doubles the last, so that their number stays small.
    const size_t room = Pool::room(std::max(need, size_t{4096} << std::min<int>(slot.chunks, 8)));
    WEFT_CHECK(slot.chunks < TxnSlot::kChunksMax, "blocks double");
    slot.chunk_next = pool_->allocate(room);
    slot.chunk_left = static_cast<uint32_t>(room);
    slot.chunk[slot.chunks++] = {slot.chunk_next, static_cast<uint32_t>(room)};
  }
  std::byte* at = slot.chunk_next;
  slot.chunk_next += need;
  slot.chunk_left -= static_cast<uint32_t>(need);
  return at;
}

Entry* Engine::find_entry(TxnSlot& slot, const Table* table, const HashedKey& key) {
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if (e.key.hash != key.hash || e.table != table) continue;
    // The hash of an integer is as good as the integer.
    if (table->integer_keys() || as_text(e.key.bytes) == as_text(key.bytes)) return &e;
  }
  return nullptr;
}

// nullptr: rejected, and the slot's outcome says why.
Entry* Engine::lookup_or_add(TxnSlot& slot, TableId table_id, Key key) {
  if (table_id.value >= node_->tables()) {
    reject(slot, Code::kNoSuchTable, nullptr, {"the number of tables", node_->tables(), table_id.value});
    return nullptr;
  }
  Table* table = node_->table(table_id);
  if (table->integer_keys() && key.size() != 8) {
    reject(slot, Code::kMisuse, nullptr, {"the bytes of an integer key", 8, key.size()});
    return nullptr;
  }
  if (key.size() > limits_.key_bytes_max) {
    reject(slot, Code::kKeyTooLong, nullptr, {"limits.key_bytes_max", limits_.key_bytes_max, key.size()});
    return nullptr;
  }
  const HashedKey hashed = table->hashed({reinterpret_cast<const std::byte*>(key.data()), key.size()});
  if (Entry* e = find_entry(slot, table, hashed)) return e;
  if (slot.count >= limits_.txn_keys_max) {
    reject(slot, Code::kTxnTooLarge, nullptr, {"limits.txn_keys_max", limits_.txn_keys_max, slot.count + 1U});
    return nullptr;
  }
  if (slot.count == slot.capacity) grow_entries(slot);
  std::byte* bytes = take_bytes(slot, key.size());
  if (bytes == nullptr) {
    reject(slot, Code::kTxnTooLarge, nullptr, bytes_limit(slot, key.size()));
    return nullptr;
  }
  copy_bytes(bytes, key.data(), key.size());
  Entry* e = new (slot.entries + slot.count) Entry();
  ++slot.count;
  e->key = hashed;
  e->key.bytes = {bytes, key.size()};
  e->table = table;
  e->table_id = table_id;
  e->placement = &view_->placement(hashed.partition);
  return e;
}

void Engine::grow_entries(TxnSlot& slot) {
  const auto capacity = static_cast<uint16_t>(limits_.txn_keys_max);
  const size_t room = Pool::room(capacity * sizeof(Entry));
  auto* grown = reinterpret_cast<Entry*>(pool_->allocate(room));
  slot.chunk[slot.chunks++] = {reinterpret_cast<std::byte*>(grown), static_cast<uint32_t>(room)};
  for (uint16_t i = 0; i < slot.count; ++i) new (grown + i) Entry(slot.entry(i));
  slot.entries = grown;
  slot.capacity = capacity;
}

Code Engine::reject(TxnSlot& slot, Code code, const Entry* entry, const Limit& limit) {
  if (slot.rejected == Code::kOk && slot.outcome.code == Code::kOk) {
    slot.rejected = code;
    fail(slot, code, entry, Owner());
    slot.outcome.limit_name = limit.name;
    slot.outcome.limit = limit.is;
    slot.outcome.asked = limit.asked;
  }
  return code;
}

Code Engine::write(TxnSlot& slot, TableId table_id, Key key, Write write, std::string_view value) {
  if (slot.state != SlotState::kExecuting) return Code::kMisuse;
  Entry* e = lookup_or_add(slot, table_id, key);
  if (e == nullptr) return slot.outcome.code;
  if (!e->read) e->done = true;
  const uint32_t value_max = std::min(e->table->spec().value_bytes_max, limits_.value_bytes_max);
  if (value.size() > value_max) {
    return reject(slot, Code::kValueTooLong, e, {"the table's value_bytes_max", value_max, value.size()});
  }
  // What this transaction has written is there for it, or is not.
  if (e->write == Write::kNone) {
    e->demand = write == Write::kInsert  ? Demand::kAbsent
                : write == Write::kErase ? Demand::kPresent
                                         : Demand::kNothing;
  } else if (write == Write::kInsert && e->write == Write::kPut) {
    fail(slot, Code::kExists, e, Owner());
    return Code::kExists;
  } else if (write == Write::kErase && e->write == Write::kErase) {
    fail(slot, Code::kNotFound, e, Owner());
    return Code::kNotFound;
  }
  const Write before = e->write;
  if (write == Write::kErase) {
    e->write = Write::kErase;
    e->new_bytes = 0;
  } else {
    std::byte* bytes = take_bytes(slot, value.size());
    if (bytes == nullptr) return reject(slot, Code::kTxnTooLarge, e, bytes_limit(slot, value.size()));
    copy_bytes(bytes, value.data(), value.size());
    e->new_value = bytes;
    e->new_bytes = static_cast<uint32_t>(value.size());
    e->write = Write::kPut;
  }
  // A key that changes sides within the transaction: whether it was there decides what is to be done, so look.
  if (before != Write::kNone && before != e->write && !e->read) {
    WEFT_MARK("written_both_ways_without_a_read");
    begin_read(slot, static_cast<uint16_t>(e - slot.entries), Intent::kRead);
  }
  return Code::kOk;
}

}  // namespace weft
