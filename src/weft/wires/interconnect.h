// Interconnect: one node's end of a fabric between processes. It makes the connections to the peers it is told of,
// checks in a set-up exchange that both sides mean the same cluster, and owns one Wire per worker that works over them.
//
// A peer is a node in one incarnation. The members of a view know each other's address and incarnation; of two of
// them, the one with the smaller id connects and the other accepts. join() may be called before the peer is there:
// connecting is tried again until it works or leave() is called.
//
// Who calls what: the control thread calls join, leave, control_step, take_events and stop; a worker calls its own
// Wire and set_sleeping. A connection is made on the control thread and then handed to the workers' wires.
//
// Wires of a mesh carry nothing from or to a peer until the worker said Wire::accept_incarnation(peer, incarnation), so
// that what a new incarnation sends early waits, and what an old one left behind is thrown away.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/fabric/local_atomics.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

inline constexpr int kAcceptsPerStep = 64;  // no stranger keeps the control thread to itself

// What both ends of a connection must agree on, by name: a difference is refused with the name and both values.
struct HandshakeParams {
  std::string cluster;                                   // its id
  std::vector<std::pair<std::string, uint64_t>> fields;  // wire version, workers, limits, hash seed
};
// Empty if both mean the same; else what differs, by name and with both values.
std::string mismatch(NodeId a, const HandshakeParams& of_a, NodeId b, const HandshakeParams& of_b);
// Text of another process goes into our events: nothing but printable ASCII of it.
std::string printable(std::string text);

struct InterconnectPeer {
  NodeId node;
  uint32_t incarnation = 0;
  std::string address;  // what its mesh listens on: host:port, or the path of a socket
};

// What a node that is no member yet says of itself when it knocks, so that who hears it can call back.
struct JoinProbe {
  uint64_t token = 0;   // drawn by the process: who answers a call has it
  std::string address;  // where it means to be reached
  std::string trouble;  // what keeps it outside so far, for the logs of the others; empty: nothing that it knows of
};

struct InterconnectEvent {
  enum class Kind : uint8_t {
    kUp,          // all workers are connected to this peer
    kDown,        // a connection that was up is lost; it is made again only by another join()
    kRefused,     // somebody was turned away, or turned us away: `why` names what differs. For a peer we connect to,
                  // trying goes on.
    kProbeReply,  // a knock() is over: without `why` the peer is there, agrees, and has reached this node in turn; else
                  // that says what is in the way
    kUnreached,   // somebody knocked, and is not reached at `address`, where it means to be: `why`
    kProbed,      // somebody knocked, means to be reached at `address`, and says what keeps it outside: `why`
  };
  Kind kind;
  NodeId peer;  // what it says of itself; kNodesMax if it did not get that far
  uint32_t incarnation = 0;
  std::string why;
  std::string address{};  // of kUnreached and kProbed
};

class Interconnect {
 public:
  virtual ~Interconnect() = default;

  virtual std::string_view name() const = 0;       // tcp, tcp+tls, shm: what is really in use
  virtual const std::string& address() const = 0;  // what it really listens on
  virtual Wire* wire(WorkerId worker) = 0;
  // Where the wires' atomics do not go with the processor's, and all locks are to go through the device; else nullptr.
  virtual LocalAtomics* local_atomics() { return nullptr; }

  // Readable when this worker's wire may have something to poll; a thread that sleeps waits for it. set_sleeping(true)
  // comes before the last look at Wire::pending() and the sleep.
  virtual int wait_fd(WorkerId worker) const = 0;
  virtual void set_sleeping(WorkerId worker, bool sleeping) = 0;

  // Before the first join(), if the mesh was made without one: the incarnation that the view gave this node. Who
  // connects earlier waits.
  virtual void set_incarnation(uint32_t incarnation) = 0;
  virtual void join(const InterconnectPeer& peer) = 0;
  // Ends the connections to a peer, whatever incarnation. After it returns nothing that peer sent is delivered by any
  // wire, and none of its verbs lands (on shm: its process has ended before).
  virtual void leave(NodeId peer) = 0;

  // Asks a peer whether it is there, in this incarnation, agrees with this node, and reaches it where that means to be
  // reached, whoever of the two has the smaller id; nothing is connected by that. For a node that has no incarnation
  // yet. One event kProbeReply comes of it.
  virtual void probe(const InterconnectPeer& peer, const JoinProbe& as) = 0;

  // Readable when control_step() has something to do; it never blocks. Call it every 20 ms anyway, or every
  // 100 ms where nothing happens.
  virtual int control_fd() const = 0;
  virtual void control_step() = 0;
  virtual std::vector<InterconnectEvent> take_events() = 0;
};

}  // namespace weft
