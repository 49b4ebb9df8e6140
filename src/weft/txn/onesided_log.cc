// The log by one-sided WRITEs into rings (log_ring.h). An entry is what a Replicate message would say, and is handled
// as one when the target's worker takes it out: before it handles any message, in every poll, and when it stops for
// another view. Nobody answers: that the WRITE is done is the acknowledgement.
//
// Rows that log so redo: a backup keeps the writes in its record and installs them when the transaction is finished.
// These installs come in any order, so a put only ever replaces an older version of what is there, and brings back
// nothing that is gone. What is not a put of something that was there (an insert, a delete, a blind put) is logged by
// message and applied before it is acknowledged, with an undo log as in other rows, and after what it replaces has been
// installed here.
//
// A ring entry of a slot's next transaction may overtake the notice that its last one is finished. It says the same: a
// slot is used again only when that notice has left.
#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

void Engine::start_verbs() {
  const Options& options = node_->spec().options;
  if (!row_->verbs()) return;
  posts_ = std::make_unique<Posts>(PostOptions{nodes_, options.doorbells, options.outstanding}, wire_, charges_,
                                   node_->post_memory(id_), node_->post_bytes());
  indexes_.resize(static_cast<size_t>(nodes_) * node_->tables());
  if (row_->by.log != Primitive::kOneSided) return;
  rings_ = std::make_unique<Rings>();
  for (int n = 0; n < nodes_; ++n) {
    rings_->to.emplace_back(node_->ring_bytes());
    rings_->from.emplace_back(node_->ring_memory(id_, NodeId(static_cast<uint8_t>(n))), node_->ring_bytes());
  }
  rings_->scratch.resize(node_->ring_bytes() / 4 + 64);
}

// The writer's side.

void Engine::plan_rings(TxnSlot& slot) {
  uint64_t by_message = uint64_t{1} << self_.value;
  size_t bytes = sizeof(CommitRequest);
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    const uint64_t to = e.at[static_cast<size_t>(Phase::kReplicate)];
    if (to == 0) continue;
    if (in_order(e)) by_message |= to;
    bytes += sizeof(KeyPart) + padded(e.key.bytes.size()) + padded(e.new_bytes);
  }
  slot.ring_nodes = slot.targets[static_cast<size_t>(Phase::kReplicate)] & ~by_message;
  slot.ring_bytes = 0;  // until it is reserved
  const uint64_t others = slot.targets[static_cast<size_t>(Phase::kReplicate)] & ~(uint64_t{1} << self_.value);
  counters_.logs_by_message += static_cast<uint64_t>(std::popcount(others & ~slot.ring_nodes));
  if (slot.ring_nodes != 0) slot.need_ring = static_cast<uint32_t>(ring_entry_bytes(bytes));
}

void Engine::reserve_rings(TxnSlot& slot) {
  for_each_node(slot.ring_nodes, [&](NodeId node) {
    if (rings_->to[node.value].reserve(slot.need_ring)) return;
    WEFT_MARK("no room in a ring");
    slot.ring_nodes &= ~(uint64_t{1} << node.value);
    ++counters_.logs_by_message;
  });
  slot.ring_bytes = slot.need_ring;
}

void Engine::give_back_rings(TxnSlot& slot) {
  for_each_node(slot.ring_nodes, [&](NodeId node) { rings_->to[node.value].give_back(slot.ring_bytes); });
  slot.ring_bytes = 0;
}

void Engine::post_log(TxnSlot& slot, NodeId node) {
  LogRingWriter& ring = rings_->to[node.value];
  const size_t body = phase_bytes(slot, Phase::kReplicate, node);
  const size_t bytes = ring_entry_bytes(body);
  ring.give_back(slot.ring_bytes);
  WEFT_CHECK(ring.reserve(bytes), "what is written is at most what was reserved");
  const LogRingWriter::Place place = ring.place(bytes);
  Post* post = make_post(Post::What::kLog, slot, node, 0, bytes + sizeof(RingHeader));
  Verb verb;
  verb.kind = VerbKind::kWrite;
  verb.region = node_->verb_region();
  RingHeader header{};
  header.epoch = view_->epoch.value;
  const uint64_t base = node_->ring_offset(id_, self_);
  if (place.skip != 0) {
    header.position = place.skip_position;
    header.bytes = place.skip;
    header.skip = 1;
    ring_seal(post->buffer + bytes, header);
    verb.offset = base + place.skip_at;
    verb.bytes = sizeof header;
    verb.local = post->buffer + bytes;
    post->add(verb);
  }
  std::memset(post->buffer + bytes - kRingAlign, 0, kRingAlign);  // padding: never what was there before
  encode_phase(post->buffer + sizeof header, slot, Phase::kReplicate, node);
  header.position = place.position;
  header.bytes = static_cast<uint32_t>(body);
  header.skip = 0;
  header.slot = slot.index;
  ring_seal(post->buffer, header);
  verb.offset = base + place.at;
  verb.bytes = static_cast<uint32_t>(bytes);
  verb.local = post->buffer;
  post->add(verb);
  count_verbs(Phase::kReplicate, *post);
  ++slot.posts_waiting;
  posts_->send(post);
}

void Engine::on_ring_read(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    if (!rings_->to[m.source.value].read_up_to(load<RingRead>(m.body.data()).position)) {
      bad_message(m.source, "more of a ring is read than was written");
    }
  }
}

// The reader's side.

void Engine::drain_rings() {
  if (rings_ == nullptr || !active_) return;
  for (int n = 0; n < nodes_; ++n) {
    const NodeId source(static_cast<uint8_t>(n));
    LogRingReader::Entry entry;
    while (rings_->from[source.value].next(view_->epoch.value, rings_->scratch.data(), &entry)) {
      handle_alone({source, static_cast<uint8_t>(Kind::kReplicate), entry.slot, entry.body}, true);
    }
  }
}

bool Engine::rings_have_entries() const {
  return std::any_of(rings_->from.begin(), rings_->from.end(), [&](const LogRingReader& ring) {
    LogRingReader look = ring;
    LogRingReader::Entry entry;
    return look.next(view_->epoch.value, rings_->scratch.data(), &entry);
  });
}

// Not part of a burst: taken apart and handled here, whatever burst is under way.
void Engine::handle_alone(const Message& m, bool from_ring) {
  const Message* const base = burst_base_;
  const uint32_t logged = logged_;
  std::swap(parsed_, alone_parsed_);
  std::swap(keys_, alone_keys_);
  keys_.clear();
  parsed_.resize(1);
  burst_base_ = &m;
  parsed_[0] = parse(m);
  from_ring_ = from_ring;
  on_replicate({&m, 1});
  from_ring_ = false;
  burst_base_ = base;
  logged_ = logged;
  std::swap(parsed_, alone_parsed_);
  std::swap(keys_, alone_keys_);
}

// Whether all that these writes follow is installed at this backup.
bool Engine::follows_in_order(std::span<const KeyRef> keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const KeyRef& ref) {
    const Placement& placement = view_->placement(ref.key.partition);
    if (ref.follows == 0 || placement.primary() == self_ || placement.filled_at(self_)) return true;
    const ReadResult read = ref.table->read(ref.key, nullptr, 0);
    return !read.found || read.word.version().value + ref.follows >= ref.version.value;
  });
}

void Engine::park(const Message& m) {
  WEFT_MARK("a write waits for what it follows");
  parked_.push_back({m.source, m.spare, {m.body.begin(), m.body.end()}});
}

// Tells writers how far their rings are read, and looks again at what waits.
bool Engine::ring_step() {
  bool busy = false;
  for (int n = 0; n < nodes_; ++n) {
    LogRingReader& ring = rings_->from[static_cast<size_t>(n)];
    if (!ring.should_tell()) continue;
    ring.tell();
    std::byte* at = port_.reserve(NodeId(static_cast<uint8_t>(n)), Flow::kCommit, static_cast<uint8_t>(Kind::kRingRead),
                                  sizeof(RingRead));
    store(at, RingRead{ring.position()});
    busy = true;
  }
  if (parked_.empty()) return busy;
  std::vector<Parked> waiting;
  waiting.swap(parked_);
  for (const Parked& parked : waiting) {
    handle_alone({parked.source, static_cast<uint8_t>(Kind::kReplicate), parked.slot, parked.body}, false);
  }
  return busy || parked_.size() != waiting.size();
}

}  // namespace weft
