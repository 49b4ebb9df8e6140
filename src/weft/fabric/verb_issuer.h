// VerbIssuer: the one-sided requests of one access domain that a worker has in flight. Each is a few verbs to one peer
// that belong together, with the bytes they read or write. A request keeps its bytes until its verbs are complete or
// never will be, whatever becomes of its issuer meanwhile: a verb never uses an application's memory.
//
// Verbs of one step to one peer share a doorbell. The verbs of a request take effect in order. Two requests to a peer
// may take effect in any order until the first is complete: a NIC may execute a WRITE or a CAS before a READ that was
// posted earlier. They complete in order, though. So only the last verb of a request is signalled, and an *unsignalled*
// request (DrTM+H's passive acknowledgement) signals none: it is known to be complete when a later one to the same peer
// is. If none follows within a millisecond, the issuer sends a READ of one word.
//
// A verb is refused while the peer does not grant access, because it has changed its view or is about to. The requests
// to that peer are retried in order until the view changes here too (drop); executing one of them twice has the same
// effect as once.
//
// With a VerbCredit, requests wait until there is credit for their verbs: urgent ones first, which may go before others
// to the same peer that were sent earlier; each kind peer by peer in turn, and in order to one peer. Refused requests
// gave their credit back, and are urgent when they are retried. A probe needs no credit, and is sent at once when
// credit is what is missing: unsignalled requests may have all of it. A peer that is silent for 20 ms gives up what it
// has, and while credit is short gets no more: the others do not wait for it.
//
// It knows nothing about transactions. Only the owning worker uses it.
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
#include "weft/fabric/verb_credit.h"
#include "weft/fabric/wire.h"
#include "weft/run/conflict_avoidance.h"
#include "weft/types.h"

namespace weft {

// A few verbs to one peer that belong together. The issuer's caller keeps its state for it in `user`.
struct VerbRequest {
  static constexpr size_t kVerbsMax = 3;
  static constexpr size_t kUserBytes = 40;

  NodeId peer;
  uint8_t verbs = 0;
  bool live = false;         // made, and not complete
  bool unsignalled = false;  // known to be complete when a later one to the same peer is
  bool urgent = false;       // others wait for what it does: it goes first where credit is short
  bool probe = false;        // made by the issuer itself, to learn whether those before it are complete
  bool failed = false;
  bool abandoned = false;   // nobody waits for it any more
  bool reposted = false;    // repeat() posted it once more
  bool retried = false;     // posted before and refused: some of its verbs may have been executed then
  bool has_credit = false;  // its verbs count as in flight
  uint16_t group = 0;
  uint32_t index = 0;
  uint32_t generation = 0;
  uint32_t bytes = 0;  // of the buffer
  uint32_t next = UINT32_MAX;
  uint64_t posted_ns = 0;
  uint64_t shortages = 0;  // of the credit before it was sent
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
  Domain domain = Domain::kEngine;
  int groups = 1;                          // a request's group is below this
  bool doorbell_batching = true;           // off: every request has its own doorbell
  bool pipelined_verbs = true;             // off: a group has one request in flight at a time
  VerbCredit* credit = nullptr;            // of the worker; nullptr: any number of verbs is in flight
  ConflictAvoidance* conflicts = nullptr;  // is told how long requests take
};

class VerbIssuer {
 public:
  static constexpr size_t kSmallest = 64;
  static constexpr uint64_t kUnsignalledNs = 1'000'000;
  static constexpr uint64_t kRetryNs = 20'000;
  static constexpr uint64_t kSilentNs = 20'000'000;

  // `memory` (of `bytes`) holds the requests' bytes. A wire copies from and to it; no peer can access it.
  VerbIssuer(const VerbIssuerOptions& options, Wire* wire, CostModel* cost_model, std::byte* memory, size_t bytes);

  // A request with room for `bytes`; nullptr if there is no memory now. Fill it and send it before making the next.
  VerbRequest* make(NodeId peer, uint16_t group, size_t bytes);
  void send(VerbRequest* request);
  // Sends a request that has just completed once more.
  void repeat(VerbRequest& request);

  // Hands the sent requests to the wire; true if there were any.
  bool flush(uint64_t now_ns);
  // Calls answered(context, VerbRequest&) for each completed request that is not abandoned.
  bool poll(uint64_t now_ns, void (*answered)(void*, VerbRequest&), void* context);
  // Abandons all requests; those not posted yet are not posted.
  void drop();

  bool pending() const { return unsent_verbs_ != 0 && !waits_for_credit_; }
  uint64_t deadline_ns() const;
  size_t in_flight_count() const { return live_; }
  // Probes now, not in a millisecond, for unsignalled requests that no later request confirms.
  void flush_unsignalled_now() { probe_now_ = true; }
  uint64_t doorbells() const { return doorbells_; }
  uint64_t refused() const { return refused_; }
  uint64_t limits_sum() const { return limits_sum_; }  // of the credit's limit, over all doorbells

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kBatchMax = 32;                  // verbs of one doorbell
  static constexpr size_t kBatchBytesMax = kVerbBytesMax;  // and what they read and write
  static constexpr int kClasses = 18;                      // up to 8 MiB

  struct List {
    uint32_t first = kNone, last = kNone;
  };
  struct Peer {
    List urgent, queued, in_flight, failed;  // urgent: only with credit
    bool broken = false;
    bool used = false;  // its queue may need a reset
    uint64_t retry_ns = 0;
  };

  enum class Kinds : uint8_t { kUrgent, kOther, kBoth };
  enum class Flushed : uint8_t { kAll, kSome, kNone };  // some and none: for lack of credit
  // What one doorbell takes.
  struct Batch {
    std::array<Verb, kBatchMax> verb;
    size_t verbs = 0, bytes = 0;
    bool lacks_credit = false;  // for what comes next
  };

  VerbRequest& make_on(std::byte* buffer, size_t bytes, NodeId peer, uint16_t group);
  void push(List& list, uint32_t index);
  uint32_t pop(List& list);
  void release(uint32_t index);
  void queue(VerbRequest& request);
  bool ready(NodeId peer, uint64_t now_ns);
  bool all_have_credit(uint64_t now_ns);
  void requeue_failed(Peer& peer);
  Flushed flush_peer(NodeId peer, Kinds kinds, uint64_t now_ns);
  void flush_in_turns(uint64_t now_ns);
  size_t gather(const List& list, Kinds kinds, Batch& batch) const;
  bool post(NodeId peer, std::span<const Verb> verbs);
  void move_to_flight(Peer& peer, List& list, size_t requests, uint64_t now_ns);
  void give_back(VerbRequest& request, bool complete);
  bool silent(const Peer& peer, uint64_t now_ns) const;
  void take_all_credit(Peer& peer);
  void count_doorbell();
  void flush_unsignalled(NodeId peer, uint64_t now_ns, bool at_once);
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
  size_t used_;
  std::array<std::byte*, kClasses> free_blocks_{};
  std::deque<VerbRequest> requests_;  // grows to the most that were ever in flight
  uint32_t free_ = kNone;
  size_t live_ = 0;
  size_t unsent_verbs_ = 0;
  std::vector<Peer> peers_;
  std::vector<uint16_t> busy_;  // by group: requests in flight that somebody waits for
  Batch batch_;                 // of flush_peer, which need not clear its verbs
  bool probe_now_ = false;
  std::array<size_t, 2> turns_{};  // by kind: the peer that uses credit first
  bool waits_for_credit_ = false;  // what was sent; completions alone bring it forward
  bool no_room_ = false;           // the wire did not take all of the last flush
  uint64_t doorbells_ = 0;
  uint64_t refused_ = 0;
  uint64_t limits_sum_ = 0;
};

}  // namespace weft
