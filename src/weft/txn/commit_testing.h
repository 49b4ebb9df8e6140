// For tests of the parts that a transaction goes through at its coordinator: all of them on one context
// (part_testing.h), without a worker. A test plays the application, the loop and the peers.
//
// Three nodes with two replicas: a key whose primary is node n has its backup at node n + 1.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/run/detached_task.h"
#include "weft/txn/batch.h"
#include "weft/txn/client_acks.h"
#include "weft/txn/client_waits.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/interrupted_commits.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/own_transport.h"
#include "weft/txn/part_testing.h"
#include "weft/txn/participant.h"
#include "weft/txn/plan.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/reads.h"
#include "weft/txn/row_set.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/txn_keys.h"

namespace weft {

// A client's coroutine that waits for one thing.
class Waiter {
 public:
  Waiter() { run(this); }
  ~Waiter() {
    if (handle_) handle_.destroy();
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  std::coroutine_handle<> handle() const { return handle_; }
  bool woken() const { return !handle_; }

 private:
  struct Suspend {
    Waiter* of;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept { of->handle_ = h; }
    void await_resume() const noexcept {}
  };
  static DetachedTask run(Waiter* self) {
    const Suspend suspend{self};
    co_await suspend;
    self->handle_ = {};
  }

  std::coroutine_handle<> handle_;
};

class CommitTest : public PartTest {
 protected:
  static constexpr uint64_t kAnswerNs = 1'000'000;
  static constexpr NodeId kOne{1};
  static constexpr NodeId kTwo{2};

  explicit CommitTest(std::string_view rows = "dnl4", const Limits& limits = Limits(), bool recovers = true,
                      const ReadRules& rules = ReadRules())
      : PartTest(limits, PlantedBugs{}, recovers),
        rows_(*RowSet::parse(rows)),
        slots_(ctx_, pool_.get(), nullptr, kAnswerNs, 0),
        keys_(ctx_, pool_.get()),
        acks_(ctx_, outcomes_, slots_.size()),
        gate_(kNodes, limits.credit_bytes),
        planner_(rows_, kSelf, PlantedBugs{}, false),
        records_(kNodes, static_cast<int>(slots_.size()), pool_.get()),
        participant_(ctx_, records_, outcomes_, rows_.marks_readable()),
        messages_(ctx_),
        own_(ctx_, participant_),
        coordinator_(ctx_, rows_.truncates_by_next_use(), slots_, acks_, gate_, planner_, {messages_, &own_, nullptr}),
        reads_(ctx_, rules, planner_, slots_, keys_, gate_, acks_, coordinator_) {
    here_.replicas[0] = kSelf;
    here_.count = 1;
    here_.in_sync = node_set({0});
    // Messages that this node sends to itself are not answered, unless a test does so.
    for (uint8_t kind = 0; kind < kKindsMax; ++kind)
      port_.set_handler(
          kind, [](void*, std::span<const Message>) {}, this);
    handle<&Coordinator::on_ack>(Kind::kAck, &coordinator_);
    handle<&Coordinator::on_reply>(Kind::kReply, &coordinator_);
    handle<&Coordinator::on_unlocked>(Kind::kUnlocked, &coordinator_);
    handle<&Reads::on_get_reply>(Kind::kGetReply, &reads_);
    at(1000);
  }

  TxnSlot& begin(uint64_t until_ns = 0) {
    TxnSlot* slot = slots_.acquire(until_ns);
    EXPECT_NE(slot, nullptr);
    return *slot;
  }
  void put(TxnSlot& slot, uint64_t key, std::string_view value = "new") {
    EXPECT_EQ(reads_.write(slot, kTable, key, Write::kPut, value), Code::kOk);
  }
  // Starts the commit; the client waits for the outcome.
  void commit(TxnSlot& slot, const Waiter& waiter) {
    waits_.begin(slot, waiter.handle());
    coordinator_.start_commit(slot);
  }
  // Whether the client goes on in the next step.
  bool woken(const Waiter& waiter) {
    at(clock_.now);
    return waiter.woken();
  }

  // A peer's answer to a phase; `versions`: of a lock's keys. It is an ack if it says nothing else.
  void answer(NodeId from, const TxnSlot& slot, Phase phase, Code code = Code::kOk,
              const std::vector<uint64_t>& versions = {}, Owner holder = Owner()) {
    if (code == Code::kOk && versions.empty()) {
      return ack(from, {{slot.index, static_cast<uint8_t>(phase), static_cast<uint16_t>(slot.sequence)}});
    }
    PhaseReply reply{};
    reply.sequence = static_cast<uint32_t>(slot.sequence);
    reply.phase = static_cast<uint8_t>(phase);
    reply.code = static_cast<uint8_t>(code);
    reply.bases = static_cast<uint16_t>(versions.size());
    reply.holder = holder.bits;
    answer_with(from, slot.index, reply, versions);
  }
  void ack(NodeId from, const std::vector<PhaseAck>& acks) {
    const size_t bytes = acks.size() * sizeof(PhaseAck);
    std::byte* to = peer(from).reserve(kSelf, Flow::kCommit, static_cast<uint8_t>(Kind::kAck), bytes);
    if (bytes != 0) std::memcpy(to, acks.data(), bytes);
    deliver();
  }
  void answer_with(NodeId from, uint8_t slot, const PhaseReply& reply, const std::vector<uint64_t>& versions = {}) {
    const size_t bytes = versions.size() * sizeof(uint64_t);
    std::byte* to =
        peer(from).reserve(kSelf, Flow::kCommit, static_cast<uint8_t>(Kind::kReply), sizeof reply + bytes, slot);
    store(to, reply);
    if (bytes != 0) std::memcpy(to + sizeof reply, versions.data(), bytes);
    deliver();
  }

  // What the other nodes have received, one word for each message: "lock@1 unlock@2".
  std::string sent() {
    deliver();
    std::string out;
    for (const Received& one : take_received()) {
      out += (out.empty() ? "" : " ") + kind_text(one.kind) + "@" + std::to_string(one.at.value);
    }
    return out;
  }
  static std::string kind_text(Kind kind) {
    switch (kind) {
      case Kind::kGet:
        return "get";
      case Kind::kLock:
        return "lock";
      case Kind::kValidate:
        return "validate";
      case Kind::kReplicate:
        return "replicate";
      case Kind::kUnlock:
        return "unlock";
      case Kind::kDone:
        return "done";
      default:
        return "other";
    }
  }

  // Whether this much credit with the peer is left. Does not take it.
  bool has_credit(NodeId peer, uint32_t bytes) {
    if (!gate_.take(peer, bytes)) return false;
    gate_.put_back(peer, bytes);
    return true;
  }
  bool has_all_credit(NodeId peer) { return has_credit(peer, ctx_.limits.credit_bytes); }

  Placement here_;  // the placement of a key whose only replica is at this node
  RowSet rows_;
  SlotTable slots_;
  TxnKeys keys_;
  OutcomeLog outcomes_{1 << 20};
  ClientAcks acks_;
  CreditGate gate_;
  Planner planner_;
  PreparedTable records_;
  Participant participant_;
  MessageTransport messages_;
  OwnTransport own_;
  Coordinator coordinator_;
  ClientWaits waits_{ctx_, slots_, acks_, coordinator_};
  InterruptedCommits interrupted_{ctx_, slots_, acks_, coordinator_};
  Reads reads_;

 private:
  template <auto Method, class Part>
  void handle(Kind kind, Part* part) {
    port_.set_handler(
        static_cast<uint8_t>(kind),
        [](void* to, std::span<const Message> run) {
          std::vector<Message> messages(run.begin(), run.end());
          for (Message& message : messages) message.ok = true;
          (static_cast<Part*>(to)->*Method)(Batch(), messages);
        },
        part);
  }
};

}  // namespace weft
