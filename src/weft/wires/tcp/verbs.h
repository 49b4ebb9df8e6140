// One-sided verbs over tcp: the initiator's queue of one access domain on one connection, and the target's end of it.
// The domains of a connection share its stream and nothing else.
//
// The initiator numbers its requests; the target replies in order, with the number. An unsignalled WRITE gets no reply
// unless it fails: the reply to a later request shows that it is complete.
//
// I1: verbs of a queue take effect in the order they were posted.
// I2: a verb lands only under the grant it was posted under. The target sends the initiator the number of its grant,
//     each request carries the last number that the initiator knew, and the target compares it inside a
//     Regions::Section. So a request that is still in a socket when the grant is revoked does not land under a later
//     one. A verb posted after a new grant was given but before the initiator learned of it is refused: the initiator
//     resets the queue and retries.
// I3: a refused verb breaks the queue: the target flushes later verbs of the same generation, the initiator those
//     posted until reset(), which begins the next generation.
// I4: the replies of a queue's outstanding verbs fit into kTcpVerbWindowBytes. A peer that goes over it is closed when
//     the room for the replies of all domains is used up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "weft/fabric/region.h"
#include "weft/fabric/wire.h"
#include "weft/wires/completions.h"
#include "weft/wires/tcp/buffer.h"
#include "weft/wires/tcp/frame.h"

namespace weft {

// The initiator's side.
class TcpVerbQueue {
 public:
  TcpVerbQueue(NodeId peer, Domain domain, Completions* completions);

  // Adds all verbs to `output`, or none. The peer's grant must have been announced before. A broken queue takes none
  // while replies are on their way: verbs complete in the order they were posted, and the completion of one tells that
  // unsignalled ones before it are complete.
  bool post(std::span<const Verb> verbs, TcpOutput& output);
  // False if the reply is invalid; `fault` says why.
  bool take_reply(const TcpFrame& frame, TcpFault* fault);
  void set_grant(uint32_t grant) { grant_ = grant; }
  void reset();
  // Reports all outstanding verbs as flushed; later replies are ignored, and nothing is written through Verb::local any
  // more.
  void flush();

 private:
  struct Pending {
    std::byte* local;
    uint64_t tag;
    uint32_t bytes;  // of its reply on success
    uint32_t generation;
    VerbKind kind;
    bool signalled;
    bool replies;
    bool reported;  // flushed already
  };
  static size_t returned_bytes(const Verb& verb);
  bool awaits_replies();
  Pending& at(uint32_t sequence) { return pending_[sequence % kTcpVerbsMax]; }
  void put(const Verb& verb, TcpOutput& output);
  void retire(Pending& pending, VerbStatus status);

  const NodeId peer_;
  const Domain domain_;
  Completions* const completions_;
  std::unique_ptr<Pending[]> pending_;  // [retired_, posted_)
  uint32_t posted_ = 0;
  uint32_t retired_ = 0;
  uint32_t silent_ = 0;      // posted since the last one with a reply
  size_t window_bytes_ = 0;  // that the replies of the outstanding verbs may take
  uint32_t grant_ = 0;
  uint32_t generation_ = 1;
  bool broken_ = false;
};

// The target's side.
class TcpVerbServer {
 public:
  // regions may be nullptr
  TcpVerbServer(NodeId peer, Domain domain, Regions* regions) : peer_(peer), domain_(domain), regions_(regions) {}

  // Executes a request and adds its reply, if there is one, to `output`. False if the peer exceeded its window.
  bool serve(const TcpFrame& frame, TcpOutput& output, TcpFault* fault);
  // Announces the grant to the peer if it changed. False if there is no room now.
  bool announce(TcpOutput& output);
  void set_announced(uint32_t grant) { announced_ = grant; }  // announced in the hello

 private:
  bool land(const TcpFrame& frame, std::byte* returned);

  const NodeId peer_;
  const Domain domain_;
  Regions* const regions_;
  uint32_t sequence_ = 0;           // of the next request
  uint32_t broken_generation_ = 0;  // this one and earlier ones are flushed
  uint32_t announced_ = 0;
};

}  // namespace weft
