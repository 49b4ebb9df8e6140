// One-sided verbs over tcp: the poster's queue on one connection, and the target's end of it.
//
// The poster numbers its requests; the target answers in order, with the number. A WRITE that nobody wants to hear of
// (unsignalled) gets no reply unless it fails: the reply of a later request says that it is done.
//
// I1: verbs of a connection take effect in the order they were posted.
// I2: a verb lands only under the grant it was posted under. The target tells its poster the number of the grant it
//     gives, each request carries what the poster knew then, and the target compares inside a Regions::Section. So what
//     is still in a socket when the grant is revoked does not land under a later one. A verb posted before the news of
//     a new grant has come is refused, though it was posted later: the poster resets the queue and tries again.
// I3: a refused verb breaks the queue: the target flushes what comes behind it with the same generation, the poster
//     what is posted until reset(), which begins the next generation.
// I4: the replies of what is outstanding fit into kTcpVerbWindowBytes.
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

// The poster's side.
class TcpVerbQueue {
 public:
  TcpVerbQueue(NodeId peer, Completions* completions);

  // Takes all verbs, into `output`, or none. What the peer's grant is must have been announced before.
  bool post(std::span<const Verb> verbs, TcpOutput& output);
  // False if the reply makes no sense; `fault` says why.
  bool take_reply(const TcpFrame& frame, TcpFault* fault);
  void set_grant(uint32_t grant) { grant_ = grant; }
  void reset();
  // Reports everything outstanding as flushed; replies that still come are ignored, and nothing is written through
  // Verb::local any more.
  void flush();

 private:
  struct Pending {
    std::byte* local;
    uint64_t tag;
    uint32_t bytes;  // that its reply brings if it is done
    uint32_t generation;
    VerbKind kind;
    bool signalled;
    bool replies;
    bool reported;  // flushed already
  };
  static size_t returned_bytes(const Verb& verb);
  Pending& at(uint32_t sequence) { return pending_[sequence % kTcpVerbsMax]; }
  void put(const Verb& verb, TcpOutput& output);
  void retire(Pending& pending, VerbStatus status);

  const NodeId peer_;
  Completions* const completions_;
  std::unique_ptr<Pending[]> pending_;  // [retired_, posted_)
  uint32_t posted_ = 0;
  uint32_t retired_ = 0;
  uint32_t silent_ = 0;      // posted since the last one that gets a reply
  size_t window_bytes_ = 0;  // that the replies of what is outstanding may take
  uint32_t grant_ = 0;
  uint32_t generation_ = 1;
  bool broken_ = false;
};

// The target's side.
class TcpVerbServer {
 public:
  TcpVerbServer(NodeId peer, Regions* regions) : peer_(peer), regions_(regions) {}  // regions may be nullptr

  // Carries a request out and puts its reply, if there is one, into `output`. False if the peer overran its window.
  bool serve(const TcpFrame& frame, TcpOutput& output, TcpFault* fault);
  // Tells the peer its grant if that changed. False if there is no room now.
  bool announce(TcpOutput& output);
  void set_announced(uint32_t grant) { announced_ = grant; }  // in the hello

 private:
  bool land(const TcpFrame& frame, std::byte* returned);

  const NodeId peer_;
  Regions* const regions_;
  uint32_t sequence_ = 0;           // of the next request
  uint32_t broken_generation_ = 0;  // this one and earlier ones are flushed
  uint32_t announced_ = 0;
};

}  // namespace weft
