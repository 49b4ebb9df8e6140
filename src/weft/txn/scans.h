// Scans: the first look of transactions at ranges of ordered tables, and its result: what a replica has, with what the
// transaction had written itself when the scan began. It is read at this node's replica where the row lets backups
// answer scans, else in pages by message from the partition's primary, a little at a time either way. Nothing here is a
// snapshot: scan_checks.h sees to that when the transaction commits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/run/service.h"
#include "weft/txn/batch.h"
#include "weft/txn/client_acks.h"
#include "weft/txn/context.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/reads.h"
#include "weft/txn/scan_page.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/txn_keys.h"
#include "weft/txn/txn_scan.h"

namespace weft {

class Scans final : public Service {
 public:
  struct Parts {
    SlotTable& slots;
    TxnKeys& keys;
    CreditGate& credit;
    ClientAcks& acks;
    Coordinator& coordinator;
    Reads& reads;
    TableScans& tables;
  };
  // `at_backups`: a backup here answers scans.
  Scans(WorkerContext& ctx, bool at_backups, const Parts& parts)
      : ctx_(ctx),
        at_backups_(at_backups),
        slots_(parts.slots),
        keys_(parts.keys),
        credit_(parts.credit),
        acks_(parts.acks),
        coordinator_(parts.coordinator),
        reads_(parts.reads),
        tables_(parts.tables) {
    for (std::vector<Queued>* queue : {&local_, &batch_, &without_credit_}) queue->reserve(slots_.size());
  }

  // Called by the application's handle.
  ScanHandle start(TxnSlot& slot, TableId table, const Key& from, const Key& to, uint32_t limit, Direction direction);
  static Scan result(const TxnSlot& slot, ScanHandle handle);
  static bool is_ready(const TxnSlot& slot, ScanHandle handle);

  // Steps of the worker's loop. Each returns true if it did something.
  bool run_batch();
  bool retry();  // credit came back
  bool pending() const { return !local_.empty(); }
  bool idle() const { return local_.empty() && without_credit_.empty(); }
  void on_view_ended() override {
    local_.clear();
    without_credit_.clear();
  }
  bool step(uint64_t) override { return false; }
  uint64_t deadline_ns() const override { return UINT64_MAX; }

  bool parse(const Message& message) const;
  void on_scanned(const Batch& batch, std::span<const Message> run);
  // The channel to this peer is closed: scans that wait for its answer fail.
  void on_peer_lost(TxnSlot& slot, NodeId peer);

 private:
  struct Queued {
    TxnSlot* slot;
    TxnScan* scan;
  };
  Code why_not(TxnSlot& slot, TableId table, const Key& from, const Key& to, uint32_t limit);
  TxnScan* add(TxnSlot& slot, TableId table, const Key& from, const Key& to, uint32_t limit, Direction direction);
  ByteView copy(TxnSlot& slot, ByteView bytes, size_t more = 0);
  bool note_own_writes(TxnSlot& slot, TxnScan& scan);
  void dispatch(TxnSlot& slot, TxnScan& scan);
  void ask(TxnSlot& slot, TxnScan& scan);
  bool goes_by_turn(const TxnScan& scan) const;
  bool send(TxnSlot& slot, TxnScan& scan);
  void give_credit(NodeId from, TxnScan& scan);
  bool makes_sense(const TxnScan& scan, const ScanReply& reply, ByteView items) const;
  void take_page(TxnSlot& slot, TxnScan& scan, const PageEnd& end, ByteView items);
  bool narrow(TxnSlot& slot, TxnScan& scan, ByteView last);
  void finish(TxnSlot& slot, TxnScan& scan);
  size_t merge(TxnScan& scan, std::span<Scan::Item> out, size_t* seen) const;
  bool note_check(TxnSlot& slot, TxnScan& scan, size_t seen);
  void fail(TxnSlot& slot, TxnScan& scan, Code code, Owner holder = Owner());
  void complete(TxnSlot& slot, TxnScan& scan);

  WorkerContext& ctx_;
  const bool at_backups_;
  SlotTable& slots_;
  TxnKeys& keys_;
  CreditGate& credit_;
  ClientAcks& acks_;
  Coordinator& coordinator_;
  Reads& reads_;
  TableScans& tables_;
  std::vector<Queued> local_;
  std::vector<Queued> batch_;
  std::vector<Queued> without_credit_;
  std::vector<std::byte> page_;  // that is read here
  std::vector<PageItem> items_;  // of the scan that ends
};

}  // namespace weft
