#include "weft/txn/posts.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

namespace {

constexpr size_t kPostsMax = size_t{1} << 24;
// The first post of a doorbell goes whatever its size; those behind it add at most kVerbBytesMax. Half of what a wire
// takes: headers are beside it.
static_assert((Post::kVerbsMax + 1) * kVerbBytesMax <= kPostBytesMax / 2);

uint64_t tag_of(uint32_t generation, uint32_t index, size_t verb) {
  return uint64_t{generation} << 32 | uint64_t{index} << 8 | verb;
}

}  // namespace

Posts::Posts(const PostOptions& options, Wire* wire, Charges* charges, std::byte* memory, size_t bytes)
    : options_(options),
      wire_(wire),
      charges_(charges),
      memory_(memory),
      memory_bytes_(bytes),
      peers_(static_cast<size_t>(options.nodes)) {}

std::byte* Posts::allocate(size_t bytes) {
  const size_t c = class_of(bytes);
  WEFT_CHECK(c < kClasses, "limits bound what a post carries");
  if (std::byte* const block = free_blocks_[c]) {
    free_blocks_[c] = load<std::byte*>(block);
    return block;
  }
  const size_t size = kSmallest << c;
  if (used_ + size > memory_bytes_) return nullptr;
  used_ += size;
  return memory_ + used_ - size;
}

void Posts::free(std::byte* block, size_t bytes) {
  const size_t c = class_of(bytes);
  store(block, free_blocks_[c]);
  free_blocks_[c] = block;
}

Post* Posts::make(Post::What what, NodeId peer, uint8_t slot, uint64_t sequence, uint16_t entry, size_t bytes) {
  std::byte* const buffer = allocate(bytes);
  if (buffer == nullptr) return nullptr;
  if (free_ == kNone) {
    WEFT_CHECK(posts_.size() < kPostsMax, "limits bound the posts under way");
    posts_.emplace_back();
    free_ = posts_.back().index = static_cast<uint32_t>(posts_.size() - 1);
    posts_.back().next = kNone;
  }
  Post& post = posts_[free_];
  const uint32_t generation = post.generation + 1;
  const uint32_t index = free_;
  free_ = post.next;
  post = Post();
  post.index = index;
  post.what = what;
  post.peer = peer;
  post.slot = slot;
  post.sequence = sequence;
  post.entry = entry;
  post.generation = generation;
  post.buffer = buffer;
  post.bytes = static_cast<uint32_t>(bytes);
  ++live_;
  return &post;
}

void Posts::push(List& list, uint32_t index) {
  posts_[index].next = kNone;
  (list.last != kNone ? posts_[list.last].next : list.first) = index;
  list.last = index;
}

uint32_t Posts::pop(List& list) {
  const uint32_t index = list.first;
  list.first = posts_[index].next;
  if (list.first == kNone) list.last = kNone;
  return index;
}

void Posts::release(uint32_t index) {
  Post& post = posts_[index];
  free(post.buffer, post.bytes);
  post.what = Post::What::kNothing;
  post.next = free_;
  free_ = index;
  --live_;
}

void Posts::send(Post* post) {
  WEFT_CHECK(post->verbs > 0, "a post is filled, then sent");
  for (size_t i = 0; i < post->verbs; ++i) {
    // On every wire, so that what only some refuse shows on all.
    WEFT_CHECK(post->verb[i].bytes <= kVerbBytesMax, "what is longer goes by message");
    post->verb[i].signalled = i + 1 == post->verbs && !post->passive;
    post->verb[i].follows = i != 0;
    post->verb[i].tag = tag_of(post->generation, post->index, i);
  }
  push(peers_[post->peer.value].queued, post->index);
  ++unsent_;
}

void Posts::repeat(Post& post) {
  post.again = true;
  push(peers_[post.peer.value].queued, post.index);
  ++unsent_;
}

bool Posts::flush(uint64_t now_ns) {
  const uint64_t before = doorbells_;
  for (size_t n = 0; n < peers_.size(); ++n) {
    Peer& peer = peers_[n];
    const NodeId id(static_cast<uint8_t>(n));
    if (peer.broken) {
      if (peer.in_flight.first != kNone || now_ns < peer.retry_ns) continue;
      WEFT_MARK("refused verbs are posted again");
      wire_->reset(id);
      peer.broken = false;
      // What failed was posted before whatever waits.
      if (peer.failed.first != kNone) {
        posts_[peer.failed.last].next = peer.queued.first;
        if (peer.queued.first == kNone) peer.queued.last = peer.failed.last;
        for (uint32_t i = peer.failed.first; i != peer.queued.first; i = posts_[i].next) {
          posts_[i].failed = false;
          posts_[i].retried = true;
          ++unsent_;
        }
        peer.queued.first = peer.failed.first;
        peer.failed = List();
      }
    }
    if (peer.queued.first != kNone) flush_peer(id, now_ns);
    nudge(id, now_ns);
  }
  hurry_ = false;
  return doorbells_ != before;
}

void Posts::flush_peer(NodeId id, uint64_t now_ns) {
  Peer& peer = peers_[id.value];
  std::array<Verb, kBatchMax> batch;
  while (peer.queued.first != kNone) {
    size_t verbs = 0;
    size_t bytes = 0;
    const size_t first = posts_[peer.queued.first].verbs;
    const uint32_t second = posts_[peer.queued.first].next;
    uint32_t end = peer.queued.first;  // the first that is not in the batch
    for (; end != kNone; end = posts_[end].next) {
      const Post& post = posts_[end];
      if (verbs + post.verbs > kBatchMax || (verbs != 0 && !options_.doorbells)) break;
      if (!options_.outstanding && (busy_[post.slot] != 0 || verbs != 0)) break;
      if (verbs != 0 && bytes + post.bytes > kBatchBytesMax) break;
      bytes += post.bytes;
      for (size_t i = 0; i < post.verbs; ++i) batch[verbs++] = post.verb[i];
    }
    if (verbs == 0) return;
    if (!wire_->post(id, {batch.data(), verbs})) {
      WEFT_MARK("no room for verbs");
      if (verbs == first || !wire_->post(id, {batch.data(), first})) return;
      verbs = first;
      end = second;
    }
    peer.used = true;
    ++doorbells_;
    if (charges_ != nullptr) charges_->charge(Step::kVerb, verbs);
    while (peer.queued.first != end) {
      const uint32_t index = pop(peer.queued);
      Post& post = posts_[index];
      post.posted_ns = now_ns;
      if (!post.passive) ++busy_[post.slot];
      push(peer.in_flight, index);
      --unsent_;
    }
  }
}

bool Posts::all_passive(const Peer& peer) const {
  for (uint32_t i = peer.in_flight.first; i != kNone; i = posts_[i].next) {
    if (!posts_[i].passive) return false;
  }
  return peer.in_flight.first != kNone;
}

void Posts::nudge(NodeId id, uint64_t now_ns) {
  Peer& peer = peers_[id.value];
  if (peer.in_flight.first == kNone || !posts_[peer.in_flight.first].passive) return;
  if (!hurry_ && now_ns < posts_[peer.in_flight.first].posted_ns + kPassiveNs) return;
  if (peer.broken || !all_passive(peer)) return;
  const Post first = posts_[peer.in_flight.first];
  Verb word;
  word.kind = VerbKind::kRead;
  word.region = first.verb[0].region;
  word.offset = first.verb[0].offset / 8 * 8;
  word.bytes = 8;
  Post* post = make(Post::What::kNudge, id, first.slot, 0, 0, kSmallest);
  if (post == nullptr) return;
  WEFT_MARK("passive posts are asked for");
  word.local = post->buffer;
  word.tag = tag_of(post->generation, post->index, 0);
  post->add(word);
  // At once: what is queued may wait for just those that it asks for.
  if (!wire_->post(id, {&word, 1})) {
    release(post->index);
    return;
  }
  ++doorbells_;
  push(peer.in_flight, post->index);
}

void Posts::answer(Peer& peer, uint32_t index, void (*answered)(void*, Post&), void* context) {
  if (!posts_[index].passive && posts_[index].what != Post::What::kNudge) --busy_[posts_[index].slot];
  if (posts_[index].orphan) {
    release(index);
  } else if (posts_[index].what == Post::What::kNudge) {
    release(index);
  } else if (posts_[index].failed) {
    push(peer.failed, index);
  } else {
    Post& post = posts_[index];
    post.again = false;
    answered(context, post);
    if (!post.again) release(index);
  }
}

bool Posts::poll(uint64_t now_ns, void (*answered)(void*, Post&), void* context) {
  std::array<Completion, 64> completions;
  bool any = false;
  for (;;) {
    const size_t count = wire_->poll_completions(completions);
    for (size_t i = 0; i < count; ++i) {
      const Completion& done = completions[i];
      const auto index = static_cast<uint32_t>(done.tag >> 8 & 0xffffff);
      const auto verb = static_cast<size_t>(done.tag & 0xff);
      any = true;
      if (index >= posts_.size() || posts_[index].generation != static_cast<uint32_t>(done.tag >> 32)) continue;
      if (posts_[index].what == Post::What::kNothing) continue;  // answered already
      Peer& peer = peers_[done.peer.value];
      if (done.status != VerbStatus::kDone) {
        ++refused_;
        posts_[index].failed = true;
        if (!posts_[index].orphan) peer.broken = true;
        peer.retry_ns = now_ns + kRetryNs;
      }
      if (verb + 1 != posts_[index].verbs) continue;
      // Whatever was posted to this peer before it is done as well.
      while (peer.in_flight.first != kNone) {
        const uint32_t first = pop(peer.in_flight);
        answer(peer, first, answered, context);
        if (first == index) break;
      }
    }
    if (count < completions.size()) return any;
  }
}

void Posts::drop() {
  for (size_t n = 0; n < peers_.size(); ++n) {
    Peer& peer = peers_[n];
    while (peer.queued.first != kNone) {
      release(pop(peer.queued));
      --unsent_;
    }
    while (peer.failed.first != kNone) release(pop(peer.failed));
    for (uint32_t i = peer.in_flight.first; i != kNone; i = posts_[i].next) posts_[i].orphan = true;
    peer.broken = false;
    if (peer.used) wire_->reset(NodeId(static_cast<uint8_t>(n)));
  }
}

uint64_t Posts::deadline_ns() const {
  uint64_t deadline = UINT64_MAX;
  for (const Peer& peer : peers_) {
    if (peer.broken) deadline = std::min(deadline, peer.retry_ns);
    if (peer.in_flight.first != kNone && posts_[peer.in_flight.first].passive) {
      deadline = std::min(deadline, posts_[peer.in_flight.first].posted_ns + kPassiveNs);
    }
  }
  return deadline;
}

}  // namespace weft
