// Interconnect: one node's end of a fabric between processes. It connects to the peers given to join(), checks in a
// handshake that both sides belong to the same cluster, and owns one Wire per worker that uses the connections.
//
// A peer is a node in one incarnation. The members of a view know each other's address and incarnation; of two of them,
// the one with the smaller id connects and the other accepts. join() may be called before the peer is running:
// connecting is retried until it succeeds or leave() is called.
//
// Threads: the control thread calls join, leave, probe, control_step and take_events; a worker calls its own Wire and
// set_sleeping. The control thread makes a connection and then hands it to the workers' wires.
//
// The wires carry nothing from or to a peer until the worker has called Wire::accept_incarnation(peer, incarnation). So
// early packets of a new incarnation wait, and leftover packets of an old one are thrown away.
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

inline constexpr int kAcceptsPerStep = 64;  // so that strangers cannot monopolize the control thread

// What both ends of a connection must agree on, by name: a mismatch is refused with the name and both values.
struct HandshakeParams {
  std::string cluster;                                   // its id
  std::vector<std::pair<std::string, uint64_t>> fields;  // wire version, workers, limits, hash seed
};
// Empty if both agree; else the name of what differs and both values.
std::string mismatch(NodeId a, const HandshakeParams& of_a, NodeId b, const HandshakeParams& of_b);
// Keeps only printable ASCII of another process's text, for our events.
std::string printable(std::string text);

struct InterconnectPeer {
  NodeId node;
  uint32_t incarnation = 0;
  std::string address;  // what its interconnect listens on: host:port, or the path of a socket
};

// What a node that is not a member yet sends with a probe, so that the receiver can call it back.
struct JoinProbe {
  uint64_t token = 0;   // drawn at random by the process: whoever answers a call must know it
  std::string address;  // where it expects to be reached
  std::string trouble;  // what has kept it from joining so far, for the others' logs; empty: nothing known
};

struct InterconnectEvent {
  enum class Kind : uint8_t {
    kUp,          // all workers are connected to this peer
    kDown,        // a connection that was up is lost; only another join() makes it again
    kRefused,     // we refused somebody, or were refused: `why` names what differs. For a peer we connect to,
                  // retries continue.
    kProbeReply,  // a probe() is over: without `why` the peer is running, agrees, and has reached this node in turn;
                  // else `why` says what is wrong
    kUnreached,   // somebody probed us and cannot be reached at its `address`: `why`
    kDoorbellsShared,  // said once: workers of this node share doorbell registers of the RDMA device: `why`
    kProbed,           // somebody at `address` probed us and says what keeps it from joining: `why`
  };
  Kind kind;
  NodeId peer;  // as it claims; kNodesMax if it did not get that far
  uint32_t incarnation = 0;
  std::string why;
  std::string address{};  // of kUnreached and kProbed
};

class Interconnect {
 public:
  virtual ~Interconnect() = default;

  virtual std::string_view name() const = 0;       // tcp, tcp+tls, shm: what is actually in use
  virtual const std::string& address() const = 0;  // what it actually listens on
  virtual Wire* wire(WorkerId worker) = 0;
  // Not nullptr where the wires' atomics are not atomic with the CPU's and all locks must go through the device.
  virtual LocalAtomics* local_atomics() { return nullptr; }

  // Workers that ring a doorbell register of their own on an RDMA device.
  virtual int own_doorbells() const { return 0; }

  // Readable when this worker's wire may have something to poll; a sleeping thread waits for it. Call
  // set_sleeping(true) before the last check of Wire::pending() and the sleep.
  virtual int wait_fd(WorkerId worker) const = 0;
  virtual void set_sleeping(WorkerId worker, bool sleeping) = 0;

  // The incarnation that the view gave this node; call it before the first join() if it was created without one. Peers
  // that connect earlier wait.
  virtual void set_incarnation(uint32_t incarnation) = 0;
  virtual void join(const InterconnectPeer& peer) = 0;
  // Ends the connections to a peer, whatever its incarnation. After it returns no wire delivers anything that peer
  // sent, and none of its verbs lands (on shm its process must have ended before).
  virtual void leave(NodeId peer) = 0;

  // Asks a peer whether it is running in this incarnation, agrees with this node, and can reach it at its address,
  // whichever of the two has the smaller id. This connects nothing. For a node that has no incarnation yet. Results in
  // one event kProbeReply.
  virtual void probe(const InterconnectPeer& peer, const JoinProbe& as) = 0;

  // Readable when control_step() has something to do. control_step() never blocks; call it at least every 20 ms, or
  // every 100 ms when idle.
  virtual int control_fd() const = 0;
  virtual void control_step() = 0;
  virtual std::vector<InterconnectEvent> take_events() = 0;
};

}  // namespace weft
