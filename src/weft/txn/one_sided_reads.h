// OneSidedReads: reads by one-sided verbs: the record at its remembered location; else the index bin that leads to it,
// its link buckets if the key is not in the bin, and then the record; else a message, whose answer says where both are.
// What was read shows by its key, its flags and its checksum whether it is the requested record (rule O2). Only the
// primary can say that a key is absent, so whatever does not lead to the record ends in a message.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/fabric/verb_issuer.h"
#include "weft/txn/context.h"
#include "weft/txn/locations.h"
#include "weft/txn/messages.h"
#include "weft/txn/plan.h"
#include "weft/txn/reads.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/txn_keys.h"

namespace weft {

class OneSidedReads {
 public:
  OneSidedReads(WorkerContext& ctx, VerbIssuer& verb_issuer, LocationCache& locations, const Planner& planner,
                SlotTable& slots, TxnKeys& keys, Reads& reads);

  // Returns false if the entry cannot be read by verbs.
  bool read(TxnSlot& slot, uint16_t entry);
  // The answer to a message says where the record and the index are.
  void remember_location(const Entry& entry, NodeId from, const GetWhere& where);
  // A verb request of this class has completed.
  void on_posted(VerbRequest& request);
  // The view ends: peers may have other indexes.
  void forget_indexes();

 private:
  bool post_record(TxnSlot& slot, uint16_t entry, RecordSlot where, bool cached);
  bool post_bin(TxnSlot& slot, uint16_t entry);
  bool post_links(TxnSlot& slot, uint16_t entry, const Dlht::LinkedSlots& links);
  void on_record_read(TxnSlot& slot, VerbRequest& request);
  void on_bin_read(TxnSlot& slot, const VerbRequest& request);
  void on_links_read(TxnSlot& slot, const VerbRequest& request);
  void read_via_fallback(TxnSlot& slot, uint16_t entry, bool into_the_index);
  RemoteIndexAddress& index_of(NodeId node, const Entry& entry);

  WorkerContext& ctx_;
  VerbIssuer& verb_issuer_;
  LocationCache& locations_;
  const Planner& planner_;
  SlotTable& slots_;
  TxnKeys& keys_;
  Reads& reads_;
  std::vector<RemoteIndexAddress> indexes_;  // by node and table
};

}  // namespace weft
