// Posts: the one-sided operations that a worker has under way, each a few verbs to one peer that belong together, with
// the bytes they read or write. A post keeps its bytes until its verbs are done or never will be, whatever becomes of
// the transaction meanwhile: an application's memory is never a verb's.
//
// Verbs of one step to one peer share a doorbell. Those of a post take effect in order. Of posts to a peer no order may
// be relied on before the first is answered: a NIC may carry out a WRITE or a CAS before a READ that was posted
// earlier. They are done in order, though. So only the last verb of a post is signalled, and a *passive* post (DrTM+H's
// passive acknowledgement) signals none: that it is done is known when a later one to the same peer is; if none comes
// within a millisecond, a READ of a word is sent.
//
// A verb is refused while the peer does not grant access: it has come to another view, or is about to. The posts to
// that peer are tried again, in their order, until the view changes here too (drop); what was done twice then has no
// other effect than once.
//
// Only the owning worker uses it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "weft/base/clock.h"
#include "weft/fabric/wire.h"
#include "weft/store/table.h"
#include "weft/types.h"

namespace weft {

struct Post {
  enum class What : uint8_t { kNothing, kRecord, kBin, kLock, kValidate, kLog, kInstall, kRelease, kNudge };
  static constexpr size_t kVerbsMax = 3;

  What what = What::kNothing;
  NodeId peer;
  uint8_t slot = 0;  // of the transaction
  uint8_t verbs = 0;
  bool passive = false;
  bool failed = false;
  bool orphan = false;   // nobody waits for it any more
  bool again = false;    // repeated
  bool retried = false;  // posted before, and refused: some of it may have been done then
  bool cached = false;   // kRecord: its place was remembered
  uint8_t looks = 0;     // kRecord: how often it was torn
  uint16_t entry = 0;    // of the transaction
  uint32_t index = 0;
  uint32_t generation = 0;
  uint32_t bytes = 0;  // of the buffer
  uint32_t next = UINT32_MAX;
  uint64_t sequence = 0;  // of the transaction
  uint64_t posted_ns = 0;
  std::byte* buffer = nullptr;
  RecordSlot where;
  std::array<Verb, kVerbsMax> verb;

  void add(const Verb& v) { verb[verbs++] = v; }
};

struct PostOptions {
  int nodes = 1;
  bool doorbells = true;    // off: every post has its own
  bool outstanding = true;  // off: a transaction has one post under way at a time
};

class Posts {
 public:
  static constexpr size_t kSmallest = 64;
  static constexpr uint64_t kPassiveNs = 1'000'000;
  static constexpr uint64_t kRetryNs = 20'000;

  // `memory`: for the bytes, `bytes` of it. A wire copies from and to it; no peer reaches it.
  Posts(const PostOptions& options, Wire* wire, Charges* charges, std::byte* memory, size_t bytes);

  // A post with room for `bytes`; nullptr if there is none now. Fill it, then send it, before the next is made.
  Post* make(Post::What what, NodeId peer, uint8_t slot, uint64_t sequence, uint16_t entry, size_t bytes);
  void send(Post* post);
  // The same once more, for one that was just answered.
  void repeat(Post& post);

  // Hands what was sent to the wire; true if there was something.
  bool flush(uint64_t now_ns);
  // Calls answered(context, Post&) for each that is done and has somebody who waits.
  bool poll(uint64_t now_ns, void (*answered)(void*, Post&), void* context);
  // Nobody waits any more; what has not left does not leave.
  void drop();

  bool pending() const { return unsent_ != 0; }
  uint64_t deadline_ns() const;
  size_t under_way() const { return live_; }
  // Passive ones that nothing behind them confirms yet are confirmed now, not in a millisecond.
  void hurry() { hurry_ = true; }
  uint64_t doorbells() const { return doorbells_; }
  uint64_t refused() const { return refused_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kBatchMax = 32;                  // verbs of one doorbell
  static constexpr size_t kBatchBytesMax = kVerbBytesMax;  // and what they read and write
  static constexpr int kClasses = 18;                      // up to 8 MiB

  struct List {
    uint32_t first = kNone, last = kNone;
  };
  struct Peer {
    List queued, in_flight, failed;
    bool broken = false;
    bool used = false;  // so that its queue may need a reset
    uint64_t retry_ns = 0;
  };

  void push(List& list, uint32_t index);
  uint32_t pop(List& list);
  void release(uint32_t index);
  void flush_peer(NodeId peer, uint64_t now_ns);
  void nudge(NodeId peer, uint64_t now_ns);
  bool all_passive(const Peer& peer) const;
  void answer(Peer& peer, uint32_t index, void (*answered)(void*, Post&), void* context);
  std::byte* allocate(size_t bytes);
  void free(std::byte* block, size_t bytes);
  static size_t class_of(size_t bytes) {
    return static_cast<size_t>(std::countr_zero(std::bit_ceil(bytes < kSmallest ? kSmallest : bytes)) -
                               std::countr_zero(kSmallest));
  }

  const PostOptions options_;
  Wire* const wire_;
  Charges* const charges_;
  std::byte* const memory_;
  const size_t memory_bytes_;
  size_t used_ = 0;
  std::array<std::byte*, kClasses> free_blocks_{};
  std::deque<Post> posts_;  // grows to the most that were ever under way
  uint32_t free_ = kNone;
  size_t live_ = 0;
  size_t unsent_ = 0;
  std::vector<Peer> peers_;
  std::array<uint16_t, kSlotsMax> busy_{};  // by slot: posts in flight that somebody waits for
  bool hurry_ = false;
  uint64_t doorbells_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace weft
