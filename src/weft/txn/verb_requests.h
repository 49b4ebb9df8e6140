// What the parts that post verbs for transactions share.
#pragma once

#include "weft/base/check.h"
#include "weft/txn/context.h"
#include "weft/txn/posts.h"
#include "weft/txn/protocol.h"
#include "weft/txn/slot.h"

namespace weft {

inline void count_verbs(WorkerContext& ctx, Phase phase, const Post& post) {
  const auto p = static_cast<size_t>(phase);
  for (size_t i = 0; i < post.verbs; ++i) {
    const VerbKind kind = post.verb[i].kind;
    ++(kind == VerbKind::kRead    ? ctx.counters.phase_reads
       : kind == VerbKind::kWrite ? ctx.counters.phase_writes
                                  : ctx.counters.phase_swaps)[p];
  }
}

// For a commit: its limits leave room for it.
inline Post* make_post(Posts& posts, Post::What what, const TxnSlot& slot, NodeId peer, uint16_t entry, size_t bytes) {
  Post* post = posts.make(what, peer, slot.index, slot.sequence, entry, bytes);
  WEFT_CHECK(post != nullptr, "there is memory for what limits allow to commit at a time");
  return post;
}

// On the first word of the entry's record.
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
