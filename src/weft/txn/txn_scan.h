// TxnScan: one scan of a transaction, from its beginning until the slot is freed. It lies in the slot's memory, and so
// does everything it names.
#pragma once

#include <cstdint>
#include <span>

#include "weft/base/bytes.h"
#include "weft/member/view.h"
#include "weft/txn.h"
#include "weft/txn/scan_page.h"
#include "weft/txn/slot.h"

namespace weft {

// What the transaction had written in the range when the scan began, in the order of the scan.
struct OwnWrite {
  ByteView key;
  ByteView value;
  bool erases;
};

struct TxnScan {
  static constexpr uint16_t kScansMax = 64;  // of a transaction
  // Items of all scans of a transaction, in limits.txn_keys_max: their primaries look at all of them in one step when
  // it commits.
  static constexpr uint32_t kItemsFactor = 4;
  // PhaseReply::index of a scan that was refused: this and its own index.
  static constexpr uint16_t kIndexBase = TxnSlot::kKeysMax;

  TxnScan* next = nullptr;
  Table* table = nullptr;
  const Placement* placement = nullptr;
  TableId table_id;
  PartitionId partition;
  uint16_t index = 0;
  bool backward = false;
  ByteView from, to;
  uint32_t limit = 0;   // of what the application gets
  uint32_t wanted = 0;  // of what the store has: so many are enough, whatever the transaction has erased itself
  std::span<const OwnWrite> own;

  // The first look.
  bool at_replica = false;  // at this node's replica
  bool done = false;
  bool more = true;             // the replica may have more than was read
  Code code = Code::kOk;        // why it failed
  uint32_t received = 0;        // items
  ByteView rest_from, rest_to;  // what is left of the range
  uint32_t credit = 0;          // held for the page in flight
  uint32_t room = 0;            // bytes that it may bring
  struct Page {
    Page* next;
    ByteView items;
  };
  Page* pages = nullptr;
  Page* last_page = nullptr;

  std::span<const Scan::Item> items;  // the result
  bool limited = false;

  // What is checked when it commits: `check.from` to `check.to` are what it has seen. The erases are those at its
  // primary (check.has_erases), or at the backup here that answered.
  ScanCheck check;
  bool backup_erases_count = false;
  uint64_t backup_erases = 0;
};

// Gives up all that have no result yet, with this code. For slots whose answers will not come.
inline void end_scans(TxnSlot& slot, Code code) {
  for (TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) {
    if (!scan->done) scan->code = code;
    scan->done = true;
    scan->credit = 0;
  }
}
// Nodes, other than `self`, that have not answered.
inline NodeSet silent_scans(const TxnSlot& slot) {
  NodeSet nodes;
  for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) {
    if (!scan->done && !scan->at_replica) nodes.add(scan->placement->primary());
  }
  return nodes;
}
inline TxnScan* find_scan(const TxnSlot& slot, uint16_t index) {
  TxnScan* scan = slot.scans;
  while (scan != nullptr && scan->index != index) scan = scan->next;
  return scan;
}
// The transaction will not commit, because of this scan.
void fail_scan(TxnSlot& slot, const TxnScan* scan, Code code, Owner holder);

}  // namespace weft
