// VerbIssuer: the one-sided operations that a worker has in flight, each a few verbs to one peer that belong together,
// with the bytes they read or write. A request keeps its bytes until its verbs are done or never will be, whatever
// becomes of who made it meanwhile: an application's memory is never a verb's.
//
// Verbs of one step to one peer share a doorbell. Those of a request take effect in order. Of requests to a peer no
// order may be relied on before the first is answered: a NIC may carry out a WRITE or a CAS before a READ that was
// posted earlier. They are done in order, though. So only the last verb of a request is signalled, and an *unsignalled*
// request (DrTM+H's passive acknowledgement) signals none: that it is done is known when a later one to the same peer
// is; if none comes within a millisecond, a READ of a word is sent.
//
// A verb is refused while the peer does not grant access: it has come to another view, or is about to. The requests to
// that peer are tried again, in their order, until the view changes here too (drop); what was done twice then has no
// other effect than once.
//
// It knows nothing of transactions. Only the owning worker uses it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

#include "weft/base/clock.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

// A few verbs to one peer that belong together. Who makes it keeps what it needs to know of it in `user`.
struct VerbRequest {
  static constexpr size_t kVerbsMax = 3;
  static constexpr size_t kUserBytes = 32;

  NodeId peer;
  uint8_t verbs = 0;
  bool live = false;         // made, and not answered
  bool unsignalled = false;  // known to be done when a later one to the same peer is
  bool probe = false;        // the issuer's own: asks whether those before it are done
  bool failed = false;
  bool abandoned = false;  // nobody waits for it any more
  bool reposted = false;   // the same once more
  bool retried = false;    // posted before, and refused: some of it may have been done then
  uint16_t group = 0;
  uint32_t index = 0;
  uint32_t generation = 0;
  uint32_t bytes = 0;  // of the buffer
  uint32_t next = UINT32_MAX;
  uint64_t posted_ns = 0;
  std::byte* buffer = nullptr;
  std::array<Verb, kVerbsMax> verb;
  alignas(8) std::array<std::byte, kUserBytes> user{};

  void add(const Verb& v) { verb[verbs++] = v; }
  template <class T>
  T& user_as() {
    static_assert(sizeof(T) <= kUserBytes && std::is_trivially_copyable_v<T>);
    return *reinterpret_cast<T*>(user.data());
  }
  template <class T>
  const T& user_as() const {
    static_assert(sizeof(T) <= kUserBytes && std::is_trivially_copyable_v<T>);
    return *reinterpret_cast<const T*>(user.data());
  }
};

struct VerbIssuerOptions {
  int nodes = 1;
  int groups = 1;                 // requests name one, below this
  bool doorbell_batching = true;  // off: every request has its own
  bool pipelined_verbs = true;    // off: a group has one request in flight at a time
};

class VerbIssuer {
 public:
  static constexpr size_t kSmallest = 64;
  static constexpr uint64_t kUnsignalledNs = 1'000'000;
  static constexpr uint64_t kRetryNs = 20'000;

  // `memory`: for the bytes, `bytes` of it. A wire copies from and to it; no peer reaches it.
  VerbIssuer(const VerbIssuerOptions& options, Wire* wire, CostModel* cost_model, std::byte* memory, size_t bytes);

  // One with room for `bytes`; nullptr if there is none now. Fill it, then send it, before the next is made.
  VerbRequest* make(NodeId peer, uint16_t group, size_t bytes);
  void send(VerbRequest* request);
  // The same once more, for one that was just answered.
  void repeat(VerbRequest& request);

  // Hands what was sent to the wire; true if there was something.
  bool flush(uint64_t now_ns);
  // Calls answered(context, VerbRequest&) for each that is done and has somebody who waits.
  bool poll(uint64_t now_ns, void (*answered)(void*, VerbRequest&), void* context);
  // Nobody waits any more; what has not left does not leave.
  void drop();

  bool pending() const { return unsent_ != 0; }
  uint64_t deadline_ns() const;
  size_t in_flight_count() const { return live_; }
  // Unsignalled ones that nothing behind them confirms yet are confirmed now, not in a millisecond.
  void flush_unsignalled_now() { probe_now_ = true; }
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
  void flush_unsignalled(NodeId peer, uint64_t now_ns);
  bool all_unsignalled(const Peer& peer) const;
  void answer(Peer& peer, uint32_t index, void (*answered)(void*, VerbRequest&), void* context);
  std::byte* allocate(size_t bytes);
  void free(std::byte* block, size_t bytes);
  static size_t class_of(size_t bytes) {
    return static_cast<size_t>(std::countr_zero(std::bit_ceil(bytes < kSmallest ? kSmallest : bytes)) -
                               std::countr_zero(kSmallest));
  }

  const VerbIssuerOptions options_;
  Wire* const wire_;
  CostModel* const cost_model_;
  std::byte* const memory_;
  const size_t memory_bytes_;
  size_t used_ = 0;
  std::array<std::byte*, kClasses> free_blocks_{};
  std::deque<VerbRequest> requests_;  // grows to the most that were ever in flight
  uint32_t free_ = kNone;
  size_t live_ = 0;
  size_t unsent_ = 0;
  std::vector<Peer> peers_;
  std::vector<uint16_t> busy_;  // by group: requests in flight that somebody waits for
  bool probe_now_ = false;
  uint64_t doorbells_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace weft
