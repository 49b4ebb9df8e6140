// Locking, validating and committing by one-sided verbs, at primaries.
//
//   lock      CAS of the word from (version as read, unlocked) to (the same, owner), and a READ of word and meta word
//             behind it: the meta word binds key and value, so a block that went to another key meanwhile shows
//   validate  READ of word and meta word
//   commit    WRITE of the record but for its word, then WRITE of the word, which unlocks
//   abort     CAS of the word back: if the lock was another key's by mistake, it may have gone on
//
// The primary keeps nothing of such a lock but the word, which names the owner (rule O1). What it needs to finish the
// transaction without its coordinator it has from the log, which goes there too (protocol.h); locks of transactions
// that never came to log are found by looking at all words (Table::free_locks).
#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

constexpr size_t kHeadBytes = sizeof(RecordHeader);  // word, then meta word (record_meta_of)

// What a record's first 16 bytes are if it is as the transaction has read it, but for owner and flags.
bool same_record(const Entry& e, Word word, uint64_t meta) {
  return word.version() == e.version && !word.deleted() && !word.moved() &&
         meta == record_meta_of(e.key.bytes, {e.value, e.value_bytes}, e.version);
}

Word unlocked(const Entry& e) { return {e.version, kReadable}; }

}  // namespace

void Engine::count_verbs(Phase phase, const Post& post) {
  const auto p = static_cast<size_t>(phase);
  for (size_t i = 0; i < post.verbs; ++i) {
    const VerbKind kind = post.verb[i].kind;
    ++(kind == VerbKind::kRead    ? counters_.phase_reads
       : kind == VerbKind::kWrite ? counters_.phase_writes
                                  : counters_.phase_swaps)[p];
  }
}

Post* Engine::make_post(Post::What what, const TxnSlot& slot, NodeId peer, uint16_t entry, size_t bytes) {
  Post* post = posts_->make(what, peer, slot.index, slot.sequence, entry, bytes);
  WEFT_CHECK(post != nullptr, "there is memory for what limits allow to commit at a time");
  return post;
}

// Posts what goes by verbs in this phase, and leaves in slot.waiting the nodes that get a message.
void Engine::post_phase(TxnSlot& slot, Phase phase) {
  slot.posts_waiting = 0;
  const unsigned bit = 1U << static_cast<int>(phase);
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if ((e.by_verb & bit) == 0) continue;
    if (phase == Phase::kLock) {
      post_lock(slot, i);
    } else if (phase == Phase::kValidate) {
      post_check(slot, i);
    } else if (e.verb_locked && slot.committing) {
      post_install(slot, i);
    } else if (e.verb_locked) {
      post_release(slot, i);
    }
  }
  if (phase == Phase::kReplicate && slot.ring_nodes != 0) {
    slot.waiting &= ~slot.ring_nodes;
    for_each_node(slot.ring_nodes, [&](NodeId node) { post_log(slot, node); });
    slot.ring_bytes = 0;
  }
}

void Engine::post_lock(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const NodeId primary = e.placement->primary();
  Post* post = make_post(Post::What::kLock, slot, primary, index, sizeof(uint64_t) + kHeadBytes);
  Verb swap = verb_on(e, VerbKind::kCompareSwap, post->buffer);
  swap.compare = unlocked(e).bits;
  swap.operand = unlocked(e).with_owner(Owner(self_, id_, slot.index)).bits;
  post->add(swap);
  Verb read = verb_on(e, VerbKind::kRead, post->buffer + sizeof(uint64_t));
  read.bytes = kHeadBytes;
  post->add(read);
  count_verbs(Phase::kLock, *post);
  ++slot.posts_waiting;
  posts_->send(post);
}

void Engine::post_check(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  Post* post = make_post(Post::What::kValidate, slot, e.placement->primary(), index, kHeadBytes);
  Verb read = verb_on(e, VerbKind::kRead, post->buffer);
  read.bytes = kHeadBytes;
  post->add(read);
  count_verbs(Phase::kValidate, *post);
  ++slot.posts_waiting;
  posts_->send(post);
}

void Engine::post_install(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const size_t bytes = record_bytes(e.key.bytes.size(), e.new_bytes);
  Post* post = make_post(Post::What::kInstall, slot, e.placement->primary(), index, bytes);
  record_write(post->buffer, e.key.bytes, {e.new_value, e.new_bytes}, Word(Version(e.base.value + 1), kReadable));
  Verb body = verb_on(e, VerbKind::kWrite, post->buffer + kMetaAt);
  body.offset += kMetaAt;
  body.bytes = static_cast<uint32_t>(bytes - kMetaAt);
  post->add(body);
  post->add(verb_on(e, VerbKind::kWrite, post->buffer));
  post->passive = row_->passive_ack && passive_acks_ && slot.told;
  count_verbs(Phase::kUnlock, *post);
  ++slot.posts_waiting;
  posts_->send(post);
}

void Engine::post_release(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  Post* post = make_post(Post::What::kRelease, slot, e.placement->primary(), index, sizeof(uint64_t));
  Verb swap = verb_on(e, VerbKind::kCompareSwap, post->buffer);
  swap.compare = unlocked(e).with_owner(Owner(self_, id_, slot.index)).bits;
  swap.operand = unlocked(e).bits;
  post->add(swap);
  count_verbs(Phase::kUnlock, *post);
  ++slot.posts_waiting;
  posts_->send(post);
}

void Engine::on_posted(Post& post) {
  TxnSlot& slot = *slots_[post.slot];
  if (slot.state == SlotState::kFree || slot.sequence != post.sequence) return;
  if (post.what == Post::What::kRecord || post.what == Post::What::kBin) {
    if (post.entry >= slot.count || slot.entry(post.entry).done) return;
    if (post.what == Post::What::kRecord) {
      on_record_read(post);
    } else {
      on_bin_read(post);
    }
    return;
  }
  Phase phase = Phase::kUnlock;
  if (post.what == Post::What::kLock) phase = Phase::kLock;
  if (post.what == Post::What::kValidate) phase = Phase::kValidate;
  if (post.what == Post::What::kLog) phase = Phase::kReplicate;
  if (slot.state != SlotState::kCommitting || slot.phase != phase || slot.posts_waiting == 0) return;
  --slot.posts_waiting;
  if (phase == Phase::kLock) on_lock_posted(slot, post);
  if (phase == Phase::kValidate) on_check_posted(slot, post);
  if (phase == Phase::kUnlock) slot.entry(post.entry).verb_locked = false;
  if (phase_over(slot)) advance(slot);
}

void Engine::on_lock_posted(TxnSlot& slot, const Post& post) {
  Entry& e = slot.entry(post.entry);
  const Word old(load<uint64_t>(post.buffer));
  const Word mine = unlocked(e).with_owner(Owner(self_, id_, slot.index));
  if (old == unlocked(e) || (old == mine && post.retried)) {
    e.verb_locked = true;
    e.base = e.version;
    const Word now(load<uint64_t>(post.buffer + sizeof(uint64_t)));
    const auto meta = load<uint64_t>(post.buffer + sizeof(uint64_t) + kMetaAt);
    if ((now == mine && same_record(e, now, meta)) || bugs_.has(Bug::kReusedBlock)) return;
    WEFT_MARK("a verb has locked a block that went to another key");
    ++counters_.places_stale;
    locations_.forget(post.peer, e.table_id, e.key.hash);
    fail(slot, Code::kVersionMoved, &e, Owner());
    return;
  }
  // The own lock, and not by this post: by message, of another key of this transaction that has the block now. It
  // stays.
  if (old.deleted() || old.moved() || old == mine) locations_.forget(post.peer, e.table_id, e.key.hash);
  if (old.owner()) {
    fail(slot, Code::kLocked, &e, old.owner());
  } else {
    fail(slot, Code::kVersionMoved, &e, Owner());
  }
}

void Engine::on_check_posted(TxnSlot& slot, const Post& post) {
  const Entry& e = slot.entry(post.entry);
  const Word word(load<uint64_t>(post.buffer));
  const auto meta = load<uint64_t>(post.buffer + kMetaAt);
  const Owner self(self_, id_, slot.index);
  if (word.owner() && word.owner() != self) {
    fail(slot, Code::kLocked, &e, word.owner());
  } else if (!same_record(e, word, meta) && !(bugs_.has(Bug::kReusedBlock) && word.version() == e.version)) {
    fail(slot, Code::kVersionMoved, &e, Owner());
  }
}

}  // namespace weft
