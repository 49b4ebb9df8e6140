// What the parts that issue verbs for transactions share.
#pragma once

#include "weft/base/check.h"
#include "weft/fabric/verb_issuer.h"
#include "weft/store/dlht.h"
#include "weft/txn/context.h"
#include "weft/txn/protocol.h"
#include "weft/txn/slot.h"

namespace weft {

inline void count_verbs(WorkerContext& ctx, Phase phase, const VerbRequest& request) {
  const auto p = static_cast<size_t>(phase);
  for (size_t i = 0; i < request.verbs; ++i) {
    const VerbKind kind = request.verb[i].kind;
    ++(kind == VerbKind::kRead    ? ctx.counters.phase_reads
       : kind == VerbKind::kWrite ? ctx.counters.phase_writes
                                  : ctx.counters.phase_swaps)[p];
  }
}

// What a transaction's verb request is for, and which entry it concerns.
struct TxnRequest {
  enum class Purpose : uint8_t { kRecord, kBin, kLinks, kLock, kValidate, kLog, kInstall, kRelease };

  uint64_t sequence;  // of the transaction
  RecordSlot where;   // kRecord: what is read
  uint16_t entry;     // of the transaction
  uint8_t slot;       // of the transaction
  Purpose purpose;
  bool cached;              // kRecord: its location was remembered
  uint8_t torn_reads;       // kRecord: how often it was torn
  Dlht::LinkedSlots links;  // kLinks: what is read
};

inline VerbRequest* make_request(VerbIssuer& issuer, TxnRequest::Purpose purpose, const TxnSlot& slot, NodeId peer,
                                 uint16_t entry, size_t bytes) {
  VerbRequest* request = issuer.make(peer, slot.index, bytes);
  if (request == nullptr) return nullptr;
  request->user_as<TxnRequest>() = {slot.sequence, RecordSlot(), entry, slot.index, purpose, false, 0, {}};
  return request;
}

// The same for a commit, which always gets one: the limits leave room for it.
inline VerbRequest* make_commit_request(VerbIssuer& issuer, TxnRequest::Purpose purpose, const TxnSlot& slot,
                                        NodeId peer, uint16_t entry, size_t bytes) {
  VerbRequest* request = make_request(issuer, purpose, slot, peer, entry, bytes);
  WEFT_CHECK(request != nullptr, "there is memory for what limits allow to commit at a time");
  return request;
}

// A verb on the first word of the entry's record.
inline Verb verb_on(const Entry& e, VerbKind kind, std::byte* local) {
  Verb verb;
  verb.kind = kind;
  verb.region = NodeTables::region_of(e.table_id);
  verb.offset = e.where.offset();
  verb.bytes = sizeof(uint64_t);
  verb.local = local;
  return verb;
}

}  // namespace weft
