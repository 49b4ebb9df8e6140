// Reads: executes the reads of one worker's transactions, and notes their writes. A key with a replica at this node
// that may answer joins the table batch; any other key is read by verbs, or by a message to its primary.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "weft/txn/batch.h"
#include "weft/txn/client_acks.h"
#include "weft/txn/context.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/txn_keys.h"

namespace weft {

class OneSidedReads;

// What a cluster's rows and switches mean for reads.
struct ReadRules {
  bool at_backups = false;         // a backup here answers reads that are validated
  bool single_at_backups = false;  // and single-key reads, which nobody validates
};

class Reads {
 public:
  Reads(WorkerContext& ctx, const ReadRules& rules, const Planner& planner, SlotTable& slots, TxnKeys& keys,
        CreditGate& credit, ClientAcks& acks, Coordinator& coordinator);
  void set_verbs(OneSidedReads* verbs) { verbs_ = verbs; }  // not set if the row reads by message only

  // Called by the application's handle.
  ReadHandle get_async(TxnSlot& slot, TableId table, const Key& key, Intent intent);
  void start_single(TxnSlot& slot, TableId table, const Key& key);
  Code write(TxnSlot& slot, TableId table, const Key& key, Write write, std::string_view value);
  // For stored procedures (execute_at_once.h): begins a read that was announced.
  void begin_announced(TxnSlot& slot, uint16_t entry, Intent intent);
  // Whether this node may answer it.
  bool is_here(const Entry& entry) const;

  // Steps of the worker's loop. Each returns true if it did something.
  bool run_batch();
  bool retry();
  bool pending() const { return !local_.empty(); }
  // The view ends.
  void drop_queues() {
    local_.clear();
    without_credit_.clear();
    large_gets_ = {};
  }

  void on_get_reply(const Batch& batch, std::span<const Message> run);
  // The channel to this peer is closed: reads that wait for its answer fail.
  void on_peer_lost(TxnSlot& slot, NodeId peer);

  // The turn for a large answer of this peer, which needs no credit (K3). False: somebody has it.
  bool take_turn(NodeId peer) {
    if (large_gets_.contains(peer)) return false;
    large_gets_.add(peer);
    return true;
  }
  void give_turn(NodeId peer) { large_gets_.remove(peer); }

  // For reads by verbs: asks the primary what they cannot find out.
  void ask_primary(TxnSlot& slot, uint16_t entry);
  // The primary has said how long the value is.
  void ask_again(TxnSlot& slot, uint16_t entry);
  void fail_read(TxnSlot& slot, uint16_t entry, Code code);
  // A key whose head was read before is the same as then, or the transaction fails.
  static void check_again(TxnSlot& slot, Entry& e, bool found, Version version);
  // The entry has its answer.
  void complete_read(TxnSlot& slot, uint16_t entry);

 private:
  struct Queued {
    TxnSlot* slot;
    uint16_t entry;
  };
  void begin_read(TxnSlot& slot, uint16_t entry, Intent intent);
  void dispatch(TxnSlot& slot, uint16_t entry);
  void read_again(TxnSlot& slot, uint16_t entry);
  void start(TxnSlot& slot, uint16_t entry);
  bool send_get(TxnSlot& slot, uint16_t entry);
  bool take_credit(const Entry& e, uint32_t answer, uint32_t later, uint32_t* credit);
  void give_credit(NodeId from, Entry& e);
  uint32_t room_for(const Entry& e) const;
  bool goes_by_turn(const Entry& e) const;
  void read_local(TxnSlot& slot, uint16_t entry);

  WorkerContext& ctx_;
  const ReadRules rules_;
  const Planner& planner_;
  SlotTable& slots_;
  TxnKeys& keys_;
  CreditGate& credit_;
  ClientAcks& acks_;
  Coordinator& coordinator_;
  OneSidedReads* verbs_ = nullptr;
  std::vector<Queued> local_;
  std::vector<Queued> batch_;
  std::vector<Queued> without_credit_;
  NodeSet large_gets_;  // nodes of which a large answer is awaited
};

}  // namespace weft
