// Engine: the transactions of one worker: those its application runs (coordinator side) and its part in those of the
// other nodes' workers of the same index (participant side). Each phase has a file with both sides:
//
//   execute.cc    reads: at a replica of this node in the table batch, else by message; single-key reads
//   plan.cc       what the row means for a transaction's keys: which phase goes where; credit; the messages
//   commit.cc     the driver: walks the plan from phase to phase, tells the client
//   alone.cc      commits that concern this node alone, in one go
//   answer.cc     waits that have taken too long
//   done.cc       what rides on later messages: raising, truncation
//   lock.cc, validate.cc, replicate.cc, unlock.cc
//   onesided_execute.cc, onesided_commit.cc, onesided_log.cc, onesided_recovery.cc   by verbs, in rows that say so
//   fate.cc       what became of a transaction: noting it, and asking all members for it
//   walk.cc       pages of a partition's keys, for who walks over it
//   peers.cc      peers that sent what no correct peer sends
//   recovery.cc, recovery_report.cc, recovery_apply.cc, recovery_leader.cc   from one view into the next
//   fill.cc       copies partitions to replicas that are filling
//   discard.cc    takes partitions out of the tables that this node replicates no more
//   burst.cc      takes arriving messages apart, prefetches all their keys, then lets the handlers run
//
// What holds:
// - A slot's commit state changes only here, on the worker's own thread, by an event: a call of the application, an
//   answer, credit that came back.
// - Before its first commit message a transaction holds credit at every participant for all its messages and their
//   answers (rule K3). A transaction that waits for credit holds no locks, or aborts.
// - Nothing is told before the row's rule says so (told_after in protocol.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/base/event_log.h"
#include "weft/base/histogram.h"
#include "weft/base/random.h"
#include "weft/cluster.h"
#include "weft/fabric/credit.h"
#include "weft/fabric/port.h"
#include "weft/fabric/view.h"
#include "weft/run/worker.h"
#include "weft/store/table.h"
#include "weft/txn/change.h"
#include "weft/txn/locations.h"
#include "weft/txn/log.h"
#include "weft/txn/log_ring.h"
#include "weft/txn/messages.h"
#include "weft/txn/node.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/pool.h"
#include "weft/txn/posts.h"
#include "weft/txn/protocol.h"
#include "weft/txn/recovery.h"
#include "weft/txn/slot.h"
#include "weft/txn/worker_figures.h"

namespace weft {

// What a node does beside transactions, on the thread of its worker 0: leases and membership (cluster/agent.h).
class Chore {
 public:
  virtual ~Chore() = default;
  virtual bool step(uint64_t now_ns) = 0;    // true if it did something
  virtual uint64_t deadline_ns() const = 0;  // of the next step at the latest
  virtual void hear(NodeId from, ByteView message) = 0;
};

// Where an answer to Engine::ask comes: it belongs to the worker that asked.
struct FateReply {
  Fate fate = Fate::kForgotten;
  bool done = false;
};

// Of packets: while recovering into a view, and when it is active.
inline constexpr Epoch port_epoch(Epoch view, bool active) { return Epoch(2 * view.value - (active ? 1 : 2)); }

class Engine final : public Duties {
 public:
  static Result<std::unique_ptr<Engine>> create(Node* node, WorkerId id, Worker* worker, Environment* env);
  ~Engine() override;

  // Stops, and recovers into the view together with the others. Not from a handler.
  void adopt(std::shared_ptr<const View> view);
  bool active() const { return active_; }
  bool retired() const { return retired_; }  // the view is without this node, or has another one of its name
  const View& view() const { return *view_; }
  // Whether what this worker fills in that view is all copied. From any thread.
  bool filled_in(Epoch epoch) const { return filled_epoch_.load(std::memory_order_acquire) == epoch.value; }
  void set_chore(Chore* chore) { chore_ = chore; }
  // To another node's chore, or to the own.
  void send_control(NodeId to, ByteView message);
  // What was sent there before has not left yet.
  bool control_waits(NodeId to) const { return port_.backlog(to, Flow::kControl) > 0; }

  // The worker's loop.
  void begin_step() override {
    if (!told_.empty()) release_told(false);
  }
  bool table_batch() override;
  bool commit_steps() override;
  bool flush() override {
    const bool posted = posts_ != nullptr && posts_->flush(worker_->now_ns());
    return port_.flush() || posted;
  }
  bool poll() override;
  void between_steps() override;
  void before_sleep() override;
  void after_sleep() override { quiesce(); }
  bool pending() const override;
  uint64_t deadline_ns() const override;
  bool waits() const override { return free_slots_.size() != slots_.size(); }

  // Called by Session and Txn.
  TxnSlot* acquire(uint64_t until_ns = 0);  // nullptr if all are in use
  void wait_for_slot(Session::BeginAwaiter* waiter);
  void let_go(TxnSlot* slot);  // the application dropped its handle
  Ticket start_get(TxnSlot& slot, TableId table, Key key, Intent intent);
  Code write(TxnSlot& slot, TableId table, Key key, Write write, std::string_view value);
  void count_single(const TxnSlot& slot) {
    ++counters_.committed;
    latency_ns_.record(worker_->now_ns() - slot.begun_ns);
  }
  void start_commit(TxnSlot& slot);
  void give_up(TxnSlot& slot, Code why);  // while executing
  void start_single(TxnSlot& slot, TableId table, Key key);
  void wait_for(TxnSlot& slot, std::coroutine_handle<> waiter);
  uint64_t answer_ns() const { return answer_ns_; }
  OutcomeKind kind_of_left() const {
    return bugs_.has(Bug::kNothingTooLate) ? OutcomeKind::kAborted : OutcomeKind::kUnknown;
  }
  // What keeps this worker from answering, for people; empty: nothing that it knows of.
  std::string trouble() const;

  // What became of a transaction of this worker's index. The answer is posted to the asker's mailbox.
  void ask(TxnId id, Worker* asker, std::shared_ptr<FateReply> reply);

  // For Session::walk (walk.cc). Here: false if this node has no whole replica of the partition. Else its primary is
  // asked; the question's number, by which it is forgotten if the answer does not come.
  bool has_lease() const { return worker_->clock_ns() < node_->lease_until_ns(); }  // what is here is current
  bool walk_here(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max, WalkPage* page);
  uint32_t ask_walk(TableId table, PartitionId partition, uint64_t cursor, uint32_t keys_max,
                    const std::shared_ptr<WalkPage>& page);
  void forget_walk(uint32_t question);

  NodeId node_id() const { return self_; }
  WorkerId worker_id() const { return id_; }
  Worker* worker() const { return worker_; }
  Random& random() { return random_; }
  Node* node() const { return node_; }
  const Limits& limits() const { return limits_; }
  Counters counters() const;  // by the worker's thread, or while it does not run
  // From any thread.
  WorkerFigures figures() const { return board_.read(); }
  const Histogram& latency_ns() const { return latency_ns_; }  // of committed transactions, from begin to the outcome
  EventLog* events() const { return events_; }                 // may be nullptr
  ViewChange last_change() const { return change_.read(); }    // from any thread
  const LogTable& log() const { return log_; }
  const OutcomeLog& outcomes() const { return outcomes_; }
  uint64_t last_sequence() const { return sequence_; }
  template <class F>  // f(const TxnSlot&): those in use
  void for_each_slot(F f) const {
    for (const auto& slot : slots_) {
      if (slot->state != SlotState::kFree) f(*slot);
    }
  }
  // Recovers, and something is decided.
  bool deciding() const {
    const bool leads = leader_ != nullptr && leader_->stage != LeaderRecovery::Stage::kGather;
    return !active_ && !retired_ && (leads || !decisions_.empty());
  }
  const Port& port() const { return port_; }
  // Takes what peers have logged into this worker's rings. Also for who wants to see the records as they are.
  void drain_rings();
  bool idle() const;  // no slot in use, no record kept, nothing under way; what a lost peer left open does not count

 private:
  struct Parsed {  // one arrived message
    uint32_t first_key;
    uint16_t keys;
    bool ok;
  };
  struct LocalGet {
    TxnSlot* slot;
    uint16_t entry;
  };
  struct BadPeerNote {
    NodeId peer;
    Error error;
    bool closed;  // by the port; else the port has to be told
  };
  // What waits to ride on other messages (done.cc).
  struct Notices {
    struct Queue {
      std::vector<DoneNotice> items;
      uint64_t oldest_ns = 0;
    };
    std::vector<Queue> queues;  // by node
    uint32_t queued = 0;

    void add(NodeId to, DoneNotice notice, uint64_t now_ns);
    void clear();
    uint64_t deadline_ns() const;
  };

  Engine(Node* node, WorkerId id, Worker* worker, Environment* env, std::unique_ptr<Pool> pool);

  void quiesce();
  void put_figures() { board_.put({counters(), in_use_}, worker_->now_ns()); }
  uint32_t incarnation_of(NodeId node) const {
    // Members are sorted; while all are there, each is at its place.
    const std::vector<Member>& members = view_->members;
    if (node.value < members.size() && members[node.value].node == node) return members[node.value].incarnation;
    const Member* member = view_->find(node);
    return member == nullptr ? 0 : member->incarnation;
  }

  // Recovery, the member's side (recovery.cc).
  void begin_anew(NodeId peer, uint32_t incarnation);
  void stop_transactions();
  void note_own(const TxnSlot& slot);
  void retire();
  bool recovery_step();
  void send_recovery(NodeId to, RecoveryStep step);
  void send_recovery(NodeId to, RecoveryHeader header, std::span<const std::byte> keys);
  static void add_key(std::vector<std::byte>& to, const KeyPart& part, ByteView key, ByteView value);
  bool report();
  void report_own(RecoveryHeader header, const TxnSlot& slot);
  void report_record(NodeId coordinator, uint8_t slot);
  void send_part(NodeId to, RecoveryHeader header, const LogPart* part, bool locked);
  bool parse_recovery(const Message& message);
  void on_recovery(std::span<const Message> run);
  void write_decision(const Message& message, const RecoveryHeader& header);
  bool all_decided() const;
  // More than can be open in the cluster at workers of one index: each has a record's place, and a decision may be
  // kept beside it.
  size_t open_max() const { return size_t{4} * static_cast<size_t>(nodes_) * static_cast<size_t>(log_.slots()); }
  const Decision* decision_on(NodeId coordinator, uint32_t incarnation, uint8_t slot, uint32_t sequence) const;
  void forget_decisions();
  enum class Progress : uint8_t { kWaits, kGoesOn, kDone };  // for others; there is more to do
  Progress carry_out_step();
  bool free_locks_step();
  void carry_out(bool commits);
  void commit_record(LogRecord& record, Owner owner, const LogPart* decided);
  void abort_record(LogRecord& record, Owner owner);
  void install_decided(const LogPart* part, const LogRecord* record, Owner owner);
  void activate();
  void stop_verbs(const View& next);
  // What the change leaves to do in the tables (discard.cc).
  bool settle_tables();
  bool discard_step();
  bool discard_slice(int bins);
  // The leader's side (recovery_leader.cc).
  void hear(const Message& message, const RecoveryHeader& header);
  void hear_record(const Message& message, const RecoveryHeader& header, OpenTransaction& open);
  static void hear_keys(const Message& message, const RecoveryHeader& header, OpenTransaction& open);
  void decide(const LeaderRecovery::Id& id, OpenTransaction& open);
  bool lead();
  bool send_decisions();
  void send_decision(NodeId to, const LeaderRecovery::Id& id, const OpenTransaction& open);

  // Filling (fill.cc).
  struct Fill {
    PartitionId partition;
    TableId table;
    uint64_t cursor = 0;
    uint64_t ask_again_ns = 0;
    uint64_t patience_ns = 0;
    uint32_t question = 0;        // the one under way; 0: none
    uint32_t first_question = 0;  // from the same place
  };
  void begin_filling();
  bool fill_step();
  bool parse_fill(const Message& message);
  void on_fill(std::span<const Message> run);
  void give_copies(const Message& message);
  void take_copies(const Message& message);
  void on_control(std::span<const Message> run);

  // Telling (slots.cc): who is told of something current waits for a look at the lease (rule E4).
  void wake(TxnSlot& slot);
  void wake_leased(TxnSlot& slot);
  void refuse_untold(TxnSlot& slot);
  void release_told(bool now);

  // Slots and their bytes (slots.cc).
  void maybe_free(TxnSlot& slot) {
    const bool busy = slot.attached || slot.reads_pending != 0 || slot.dones_pending != 0;
    if (!busy && slot.state == SlotState::kFinished) free_slot(slot);
  }
  void free_slot(TxnSlot& slot);
  void give_slot_to_waiter();
  std::byte* take_bytes(TxnSlot& slot, size_t bytes) {  // nullptr: over Limits::txn_bytes_max
    const size_t need = padded(bytes);
    if (slot.bytes_used + need > limits_.txn_bytes_max) return nullptr;
    slot.bytes_used += static_cast<uint32_t>(need);
    std::byte* at;
    if (slot.inline_used + need <= TxnSlot::kInlineBytes) [[likely]] {
      at = slot.bytes.data() + slot.inline_used;
      slot.inline_used += static_cast<uint32_t>(need);
    } else {
      at = take_chunk_bytes(slot, need);
    }
    if (need != 0) store(at + need - 8, uint64_t{0});  // padding goes over the wire: never what was there before
    return at;
  }
  std::byte* take_chunk_bytes(TxnSlot& slot, size_t need);
  static Entry* guess_entry(TxnSlot& slot, const Table* table, std::string_view key);
  static Entry* find_entry(TxnSlot& slot, const Table* table, const HashedKey& key);
  struct Limit {  // which one was exceeded, and by what
    const char* name = nullptr;
    uint64_t is = 0, asked = 0;
  };
  Entry* lookup_or_add(TxnSlot& slot, TableId table, Key key);
  void grow_entries(TxnSlot& slot);
  Code reject(TxnSlot& slot, Code code, const Entry* entry, const Limit& limit);
  Limit bytes_limit(const TxnSlot& slot, size_t more) const {
    return {"limits.txn_bytes_max", limits_.txn_bytes_max, slot.bytes_used + more};
  }
  void charge(Step step, uint64_t n) {
    if (charges_ != nullptr) charges_->charge(step, n);
  }
  void bad_message(NodeId from, const char* what);
  void handle_bad_peers();
  void lose_peer(NodeId peer, const Error& error);
  void lose_peer_of(TxnSlot& slot, NodeId peer);

  // Reads (execute.cc).
  void begin_read(TxnSlot& slot, uint16_t entry, Intent intent);
  void dispatch_get(TxnSlot& slot, uint16_t entry);
  void ask_primary(TxnSlot& slot, uint16_t entry);
  bool send_get(TxnSlot& slot, uint16_t entry);
  void read_local(TxnSlot& slot, uint16_t entry);
  bool retry_gets();
  void got(TxnSlot& slot, uint16_t entry);
  void fail_get(TxnSlot& slot, uint16_t entry, Code code);
  void keep_value(TxnSlot& slot, Entry& entry, ByteView value);
  void answer_get(const Message& message, const KeyRef& ref);
  Code lock_for_get(const Message& message, const KeyRef& ref, Owner* holder, Version* base);
  void on_get(std::span<const Message> run);
  void on_get_reply(std::span<const Message> run);

  // Waits that have taken too long (answer.cc).
  bool end_waits();
  void end_begins(uint64_t now_ns);
  void expire(TxnSlot& slot);
  bool others_may_commit(const TxnSlot& slot) const;
  uint64_t silent_nodes(const TxnSlot& slot) const;
  void leave_credit_queue(TxnSlot& slot);
  void fail_for_peer(TxnSlot& slot, const Entry* entry, uint64_t nodes);

  // The driver (commit.cc).
  static constexpr uint64_t kRideAlongNs = 1'000'000;  // what rides on later messages goes alone after this long
  void begin_commit(TxnSlot& slot);
  bool retry_commits();
  void walk(TxnSlot& slot);
  bool take_credit(TxnSlot& slot);
  void enter(TxnSlot& slot, Phase phase);
  Phase tell_phase(const TxnSlot& slot) const;
  void advance(TxnSlot& slot);
  void fail(TxnSlot& slot, Code code, const Entry* entry, Owner holder);
  void release(TxnSlot& slot);
  void tell(TxnSlot& slot);
  void finish(TxnSlot& slot);
  void on_reply(std::span<const Message> run);
  void on_unlocked(std::span<const Message> run);
  bool send_notices(Notices& notices, Kind kind, bool at_once);

  static bool phase_over(const TxnSlot& slot) { return slot.waiting == 0 && slot.posts_waiting == 0; }

  // The phases by verbs (onesided_*.cc).
  static constexpr uint8_t kLocksByVerb = 1U << static_cast<int>(Phase::kLock) | 1U << static_cast<int>(Phase::kUnlock);
  static constexpr uint8_t kCheckedByVerb = 1U << static_cast<int>(Phase::kValidate);
  struct Rings {
    std::vector<LogRingWriter> to;    // by node
    std::vector<LogRingReader> from;  // by node
    std::vector<std::byte> scratch;
  };
  struct Parked {  // a Replicate message that waits for what it follows
    NodeId source;
    uint16_t slot;
    std::vector<std::byte> body;
  };
  void start_verbs();
  bool read_by_verb(TxnSlot& slot, uint16_t entry);
  bool post_record(TxnSlot& slot, uint16_t entry, RecordSlot where, bool cached);
  bool post_bin(TxnSlot& slot, uint16_t entry);
  void on_record_read(Post& post);
  void on_bin_read(const Post& post);
  void look_elsewhere(TxnSlot& slot, uint16_t entry, bool into_the_index);
  void note_place(const Entry& entry, NodeId from, const GetWhere& where);
  void on_posted(Post& post);
  void post_phase(TxnSlot& slot, Phase phase);
  void post_lock(TxnSlot& slot, uint16_t entry);
  void post_check(TxnSlot& slot, uint16_t entry);
  void post_install(TxnSlot& slot, uint16_t entry);
  void post_release(TxnSlot& slot, uint16_t entry);
  void on_lock_posted(TxnSlot& slot, const Post& post);
  void on_check_posted(TxnSlot& slot, const Post& post);
  void count_verbs(Phase phase, const Post& post);
  Post* make_post(Post::What what, const TxnSlot& slot, NodeId peer, uint16_t entry, size_t bytes);
  Verb verb_on(const Entry& entry, VerbKind kind, std::byte* local) const;
  bool locks_by_verb(const Entry& entry) const {
    return row_->by.lock == Primitive::kOneSided && entry.write == Write::kPut && entry.read && entry.found &&
           entry.where && !entry.locked && entry.placement->primary() != self_ &&
           (wire_->atomic_with_cpu() || node_->own_words() != nullptr) && entry.version.value < kVersionMax &&
           record_bytes(entry.key.bytes.size(), entry.new_bytes) <= std::min(entry.where.bytes(), kVerbBytesMax);
  }
  bool checked_by_verb(const Entry& entry) const {
    return row_->by.validate == Primitive::kOneSided && entry.found && entry.where &&
           entry.placement->primary() != self_;
  }
  // Of rows whose backups lag: not a put of what was there. Such writes are applied at backups as they come, after what
  // they replace, so that a later put always finds the record. An earlier one may be late: Table::overwrite.
  bool in_order(const Entry& entry) const {
    return row_->backups_lag() && entry.write != Write::kNone &&
           !(entry.write == Write::kPut && entry.read && entry.found);
  }
  void plan_rings(TxnSlot& slot);
  void reserve_rings(TxnSlot& slot);
  void give_back_rings(TxnSlot& slot);
  void post_log(TxnSlot& slot, NodeId node);
  bool ring_step();
  bool rings_have_entries() const;
  void on_ring_read(std::span<const Message> run);
  void handle_alone(const Message& message, bool from_ring);
  bool follows_in_order(std::span<const KeyRef> keys) const;
  void park(const Message& message);

  // Commits of this node alone (alone.cc).
  bool is_alone(const TxnSlot& slot, uint64_t nodes) const;
  bool commit_alone_ones();
  void commit_alone(TxnSlot& slot);
  uint16_t lock_alone(TxnSlot& slot, Owner owner);
  void validate_alone(TxnSlot& slot, Owner owner);

  // What each phase sends to which node (plan.cc).
  void plan(TxnSlot& slot);
  void settle(TxnSlot& slot, Entry& entry);
  uint64_t plan_key(TxnSlot& slot, Entry& entry, bool several_primaries);
  void plan_credit(TxnSlot& slot);
  bool carries_values(const TxnSlot& slot, Phase phase) const;
  std::byte* encode_key(std::byte* to, const Entry& entry, uint8_t index, Phase phase, bool with_value) const;
  size_t phase_bytes(const TxnSlot& slot, Phase phase, NodeId node) const;
  void encode_phase(std::byte* to, const TxnSlot& slot, Phase phase, NodeId node) const;
  void send_phase(TxnSlot& slot, Phase phase, uint64_t nodes);

  // Participant side.
  Owner owner_of(const Message& message) const {
    return Owner(message.source, id_, static_cast<uint8_t>(message.spare));
  }
  LogRecord* open_record(const Message& message);
  void reply(const Message& message, Phase phase, Code code, uint8_t index, Owner holder,
             std::span<const uint64_t> bases = {}, size_t erased = 0);
  void acknowledge(const Message& message, Phase phase);  // reply that it is done
  void on_lock(std::span<const Message> run);
  void lock_keys(const Message& message, LogRecord& record, std::span<const KeyRef> keys);
  bool relock_held(LogRecord& record, const KeyRef& ref, Owner owner, LockResult* result);
  void release_part(LogPart* part, size_t keys, Owner owner);
  void on_validate(std::span<const Message> run);
  void on_replicate(std::span<const Message> run);
  void apply_key(LogRecord& record, LogKey& key, std::byte** undo_at);
  void on_unlock(std::span<const Message> run);
  void commit_key(const LogRecord& record, LogKey& key, Owner owner, std::span<const KeyRef> carried);
  void on_done(std::span<const Message> run);
  void finish_record(LogRecord& record);
  void finish_key(const LogKey& key);

  // What became of transactions (fate.cc).
  struct Question {
    TxnId id;
    Worker* asker;
    std::shared_ptr<FateReply> reply;
    uint32_t number = 0;    // of the round under way
    uint32_t epoch = 0;     // in which it was asked; 0: none is
    uint64_t waiting = 0;   // nodes that have not answered
    bool open = false;      // somebody says so
    uint64_t due_ns = 0;    // the next look at it
    uint64_t until_ns = 0;  // then nobody knows
    std::optional<Fate> fate;
  };
  void note_outcome(uint32_t incarnation, uint64_t sequence, bool committed) {
    outcomes_.note(incarnation, sequence, committed, worker_->now_ns());
  }
  void note_told(const TxnSlot& slot);
  void note_aborted_here(LogRecord& record);
  Standing standing_of(uint32_t incarnation, uint64_t sequence) const;
  bool ask_step();
  void look_at(Question& question);
  void begin_round(Question& question);
  static void hear_standing(Question& question, Standing standing);
  void end_round(Question& question);
  void on_fate_ask(std::span<const Message> run);
  void on_fate_answer(std::span<const Message> run);

  // Pages of keys (walk.cc).
  struct Walk {
    uint32_t question;
    std::shared_ptr<WalkPage> page;
  };
  template <class F>
  uint64_t page(const Table& table, PartitionId partition, uint64_t cursor, uint32_t keys_max, F f);
  bool parse_walk(const Message& message) const;
  void on_walk(std::span<const Message> run);
  void give_page(const Message& message);
  void take_page(const Message& message);

  // Arriving messages (burst.cc).
  void on_burst(std::span<const Message> burst);
  Parsed parse(const Message& message);
  static bool makes_sense(Kind kind, const KeyPart& part);
  bool parse_get(const Message& message);
  bool parse_keys(const Message& message, uint16_t* keys);
  bool parse_done(const Message& message);
  bool parse_unlocked(const Message& message) const;
  static std::span<const DoneNotice> notices_of(const Message& message) {
    return {reinterpret_cast<const DoneNotice*>(message.body.data()), message.body.size() / sizeof(DoneNotice)};
  }
  void touch_later(const LogPart* part);
  void prefetch_slot(const Message& message) const;
  const Parsed& parsed(const Message& message) const { return parsed_[static_cast<size_t>(&message - burst_base_)]; }
  std::span<const KeyRef> keys_of(const Message& message) const {
    const Parsed& p = parsed(message);
    return {keys_.data() + p.first_key, p.keys};
  }

  Node* const node_;
  const NodeId self_;
  const WorkerId id_;
  Worker* const worker_;
  Charges* const charges_;
  Witness* const witness_;
  EventLog* const events_;
  const Limits limits_;
  const uint64_t answer_ns_;
  const Bugs bugs_;
  const Protocol* const row_;
  const uint8_t row_index_;
  const bool table_batching_;
  const bool local_reads_;
  const bool passive_acks_;
  const int nodes_;
  Wire* const wire_;
  std::shared_ptr<const View> view_;
  std::vector<std::shared_ptr<const View>> old_views_;  // transactions that began in them still point there
  uint32_t incarnation_;
  bool active_ = true;
  bool served_ = true;  // was active once
  bool retired_ = false;
  Epoch active_epoch_;                         // the last one
  std::array<uint32_t, kNodesMax + 1> met_{};  // incarnations of the peers whose channels are open
  uint64_t gone_ = 0;                          // bit n: node n is not what it was when this worker was last active
  MemberRecovery member_;
  std::unique_ptr<LeaderRecovery> leader_;
  std::vector<OwnTransaction> own_;
  std::vector<Decision> decisions_;
  struct Told {
    TxnSlot* slot;
    uint64_t sequence;
  };
  std::vector<Told> told_;
  std::vector<Fill> fills_;
  uint32_t questions_ = 0;
  std::atomic<uint32_t> filled_epoch_{0};
  bool discards_ = false;  // this worker has partitions to discard, beside transactions
  Chore* chore_ = nullptr;
  Random random_;
  std::unique_ptr<Pool> pool_;
  Port port_;
  Credit credit_;
  LogTable log_;
  OutcomeLog outcomes_;
  std::vector<Question> asked_;
  uint32_t rounds_ = 0;  // of questions
  std::vector<Walk> walks_;
  uint32_t walk_questions_ = 0;

  std::vector<std::unique_ptr<TxnSlot>> slots_;
  std::vector<uint8_t> free_slots_;
  TxnSlot refused_;               // of all transactions that could not begin in time: finished, and never changes
  uint64_t due_ns_ = UINT64_MAX;  // no wait is over before
  uint64_t sequence_ = 0;
  uint32_t in_use_ = 0;      // slots an application holds
  uint64_t lost_peers_ = 0;  // bit n: the channel to node n is closed
  std::vector<BadPeerNote> bad_peers_;
  Session::BeginAwaiter* begin_first_ = nullptr;
  Session::BeginAwaiter* begin_last_ = nullptr;

  std::vector<LocalGet> local_gets_;
  std::vector<LocalGet> batch_;
  std::vector<LocalGet> gets_without_credit_;
  std::vector<TxnSlot*> alone_;      // commits of this step that concern this node alone
  std::vector<Locked> alone_locks_;  // what the one under way holds, by entry
  TxnSlot* credit_first_ = nullptr;  // commits that wait for credit, first come first served
  TxnSlot* credit_last_ = nullptr;
  bool credit_came_back_ = false;
  Notices dones_, unlocked_;

  std::unique_ptr<Posts> posts_;  // nullptr: the row has no verbs
  std::unique_ptr<Rings> rings_;  // nullptr: it logs by message
  LocationCache locations_;
  std::vector<IndexPlace> indexes_;  // by node and table
  std::vector<Parked> parked_;
  bool from_ring_ = false;

  const Message* burst_base_ = nullptr;
  std::vector<Parsed> parsed_;
  std::vector<KeyRef> keys_;
  std::vector<Parsed> alone_parsed_;  // in their place while a message outside a burst is handled
  std::vector<KeyRef> alone_keys_;
  uint32_t logged_ = 0;  // keys of records that messages of this burst name
  std::vector<std::byte> scratch_;
  Counters counters_;
  Histogram latency_ns_;
  WorkerFiguresBoard board_;
  ViewChangeWatch change_;
};

}  // namespace weft
