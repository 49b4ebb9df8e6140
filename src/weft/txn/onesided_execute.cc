// Reads by one-sided verbs: the record at the place that is remembered; else the bin of the index that leads to it, and
// then the record; else a message, whose answer says where both are. What was read shows whether it is the record that
// was asked for: by its key, its flags and its checksum (rule O2). That a key is absent only its primary can say, so
// whatever does not lead to the record ends in a message.
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

constexpr size_t kBinBytes = 64;
constexpr uint8_t kLooksMax = 3;  // at a record that is half-written, before its primary is asked

}  // namespace

void Engine::note_place(const Entry& e, NodeId from, const GetWhere& where) {
  if (posts_ == nullptr) return;
  indexes_[from.value * node_->tables() + e.table_id.value] = {where.index, where.bins};
  if (where.record != 0 && row_->location_cache) {
    locations_.put(from, e.table_id, e.key.hash, RecordSlot(where.record));
  }
}

// False: not by verbs.
bool Engine::read_by_verb(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const NodeId primary = e.placement->primary();
  if (primary == self_) return false;
  if (row_->location_cache) {
    const RecordSlot where = locations_.find(primary, e.table_id, e.key.hash);
    if (where) {
      ++counters_.places_known;
      return post_record(slot, index, where, true);
    }
  }
  return row_->by.execute == Primitive::kOneSided && post_bin(slot, index);
}

Verb Engine::verb_on(const Entry& e, VerbKind kind, std::byte* local) const {
  Verb verb;
  verb.kind = kind;
  verb.region = node_->table_region(e.table_id);
  verb.offset = e.where.offset();
  verb.bytes = sizeof(uint64_t);
  verb.local = local;
  return verb;
}

bool Engine::post_record(TxnSlot& slot, uint16_t index, RecordSlot where, bool cached) {
  Entry& e = slot.entry(index);
  if (where.block_class() >= kBlockClasses || where.bytes() > kVerbBytesMax) return false;
  Post* post =
      posts_->make(Post::What::kRecord, e.placement->primary(), slot.index, slot.sequence, index, where.bytes());
  if (post == nullptr) return false;
  e.where = where;
  post->where = where;
  post->cached = cached;
  Verb verb = verb_on(e, VerbKind::kRead, post->buffer);
  verb.bytes = static_cast<uint32_t>(where.bytes());
  post->add(verb);
  count_verbs(Phase::kExecute, *post);
  posts_->send(post);
  return true;
}

bool Engine::post_bin(TxnSlot& slot, uint16_t index) {
  const Entry& e = slot.entry(index);
  const NodeId primary = e.placement->primary();
  const IndexPlace& place = indexes_[primary.value * node_->tables() + e.table_id.value];
  if (place.bins == 0) return false;
  Post* post = posts_->make(Post::What::kBin, primary, slot.index, slot.sequence, index, kBinBytes);
  if (post == nullptr) return false;
  Verb verb;
  verb.kind = VerbKind::kRead;
  verb.region = node_->table_region(e.table_id);
  verb.offset = Table::bin_offset(place, e.key.hash);
  verb.bytes = kBinBytes;
  verb.local = post->buffer;
  post->add(verb);
  count_verbs(Phase::kExecute, *post);
  posts_->send(post);
  return true;
}

void Engine::on_bin_read(const Post& post) {
  TxnSlot& slot = *slots_[post.slot];
  const Entry& e = slot.entry(post.entry);
  const IndexPlace& place = indexes_[post.peer.value * node_->tables() + e.table_id.value];
  const RecordSlot where = Table::find_in_copy(post.buffer, place, e.key.hash);
  if (!where || !post_record(slot, post.entry, where, false)) {
    WEFT_MARK("a bin leads nowhere");
    look_elsewhere(slot, post.entry, false);
  }
}

void Engine::look_elsewhere(TxnSlot& slot, uint16_t index, bool into_the_index) {
  Entry& e = slot.entry(index);
  e.where = RecordSlot();
  if (into_the_index && row_->by.execute == Primitive::kOneSided && post_bin(slot, index)) return;
  if ((lost_peers_ >> e.placement->primary().value & 1U) != 0) {
    fail_get(slot, index, Code::kPeerLost);
  } else {
    ask_primary(slot, index);
  }
}

void Engine::on_record_read(Post& post) {
  TxnSlot& slot = *slots_[post.slot];
  Entry& e = slot.entry(post.entry);
  charge(Step::kLookup, 1);
  RecordView view;
  const bool whole = record_whole(post.buffer, post.where.bytes(), &view);
  if (!whole && ++post.looks < kLooksMax) {
    WEFT_MARK("a record is read while it is written");
    ++counters_.reads_torn;
    count_verbs(Phase::kExecute, post);
    posts_->repeat(post);
    return;
  }
  const bool here = whole && !view.word.deleted() && !view.word.moved() &&
                    (as_text(view.key) == as_text(e.key.bytes) || bugs_.has(Bug::kReusedBlock));
  if (!here) {
    if (post.cached) {
      WEFT_MARK("a record is not where it was");
      ++counters_.places_stale;
      locations_.forget(post.peer, e.table_id, e.key.hash);
    }
    look_elsewhere(slot, post.entry, post.cached);
    return;
  }
  ++counters_.remote_gets;
  if (row_->location_cache) locations_.put(post.peer, e.table_id, e.key.hash, post.where);
  if (slot.single && view.word.write_locked()) {
    e.code = Code::kLocked;
    fail(slot, Code::kLocked, &e, view.word.owner());
  }
  e.found = true;
  e.version = view.word.version();
  keep_value(slot, e, view.value);
  got(slot, post.entry);
}

}  // namespace weft
