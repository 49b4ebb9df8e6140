// ShipServer: executes the stored procedures of other nodes whose keys have their primary here (shipped_txns.h says how
// that goes). All of it happens while one message is handled: it locks, reads, runs the procedure, logs the writes
// here, and sends them to the other replicas, who answer the coordinator. If anything is in the way, nothing has
// happened, and the coordinator is told why (H8).
//
// What it sends to other replicas needs credit of this node with them, as all its messages do. It has it back when the
// coordinator unlocks, because then they have all answered (H7).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "weft/run/service.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/own_transport.h"
#include "weft/txn/participant.h"
#include "weft/txn/plan.h"
#include "weft/txn/pool.h"
#include "weft/txn/procedure.h"
#include "weft/txn/ship_queue.h"
#include "weft/txn/txn_keys.h"

namespace weft {

class ShipServer final : public Service {
 public:
  // Longer values are not read here: that would take too long for one message.
  static constexpr uint32_t kValueMax = 16 << 10;

  // `row`: index of the row that ships.
  ShipServer(WorkerContext& ctx, Pool* pool, const Planner& planner, uint8_t row, TxnKeys& keys, CreditGate& credit,
             Participant& participant, OwnTransport& own, const MessageTransport& messages,
             std::span<const StoredProcedure> procedures, int slots, StepOutput& output);

  bool parse(const Message& message) const;
  void on_ship(const Batch& batch, std::span<const Message> run);

  // A coordinator has released its locks here.
  void on_unlocked(NodeId coordinator, uint8_t slot);

  // Executes those that have waited for a lock.
  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override { return queue_.deadline_ns(); }
  void on_view_ended() override {
    held_.assign(held_.size(), {});
    queue_.clear([this](std::coroutine_handle<> h) { ctx_.worker->ready(h); });
  }
  // A coroutine of this worker waits among them for a lock of the key; resumed when it may try, or after a while.
  struct [[nodiscard]] Turn {
    ShipServer* server;
    ShipQueue::LockedKey key;
    bool await_ready() const { return server->queue_.empty() && key.is_free(); }
    bool await_suspend(std::coroutine_handle<> h) const { return server->queue_.add(h, key, server->ctx_.now_ns()); }
    void await_resume() const noexcept {}
  };
  Turn turn_for(const ShipQueue::LockedKey& key) { return {this, key}; }

 private:
  static constexpr uint16_t kNoKey = UINT16_MAX;
  // Why it is refused, and at which key, if at one.
  struct Refusal {
    Code code = Code::kOk;
    uint16_t index = kNoKey;
    Owner holder;
  };
  struct Held {
    NodeSet nodes;
    uint32_t bytes = 0;  // of each
  };
  Held& held(NodeId coordinator, uint8_t slot) {
    return held_[size_t{coordinator.value} * static_cast<size_t>(slots_) + slot];
  }
  const ShipQueue::LockedKey* handle(const Message& message, bool in_time);
  bool may_wait(const Message& message) const;
  bool waits(const Message& message);
  void begin(const CommitRequest& request);
  void end();
  // Each returns false if the procedure is refused, and notes why; a fault of the peer has no answer.
  bool execute(const Message& message, const CommitRequest& request);
  bool take_values(const Message& message, const std::byte* at, uint16_t values);
  void keep(Entry& entry, ByteView value, uint32_t length);
  bool lock(const CommitRequest& request);
  bool read(const CommitRequest& request);
  bool check_reads(const CommitRequest& request);
  bool run(const StoredProcedure& procedure, std::string_view arguments, const ProcedureKeys& keys);
  bool plan(const CommitRequest& request);
  bool lock_rest(const CommitRequest& request);
  bool take_credit(const CommitRequest& request, NodeSet nodes);
  bool refuse(Code code, uint16_t index = kNoKey, Owner holder = Owner());
  bool refuse_failed();
  bool ask_instead();
  void release(const CommitRequest& request);
  bool lock_refs(const CommitRequest& request);
  void send_logs(const CommitRequest& request, NodeSet nodes);
  void answer(const CommitRequest& request, NodeSet logged, bool holds);
  void answer_refusal(const CommitRequest& request);

  WorkerContext& ctx_;
  Pool* const pool_;
  const Planner& planner_;
  const uint8_t row_;
  TxnKeys& keys_;
  CreditGate& credit_;
  Participant& participant_;
  OwnTransport& own_;
  const MessageTransport& messages_;
  const std::span<const StoredProcedure> procedures_;
  const int slots_;
  StepOutput& output_;
  const std::unique_ptr<TxnSlot> guest_;  // the transaction that is executed, as its coordinator would have it
  KeyBuffer refs_;
  Refusal refusal_;
  bool locked_ = false;       // it holds locks here
  bool writes_ = false;       // it has announced a write before it ran
  bool leaves_kept_ = false;  // it has just come, and takes no key that is kept for a coroutine
  std::vector<Held> held_;    // by coordinator and slot
  ShipQueue queue_;
  ShipQueue::LockedKey locked_key_;  // that the last one waits for
};

}  // namespace weft
