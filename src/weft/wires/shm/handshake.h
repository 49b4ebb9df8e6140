// ShmHandshake: the conversation with one peer over its unix socket. First the set-up (shm_messages.h), which ends with
// both sides having mapped what the other shares; then silence, but for regions that are added later, until the socket
// closes: that is how a peer's death is noticed.
//
// It does what it is told by its own socket and decides nothing about who may come: an accepted conversation stops at
// kHeld when the peer's hello was found right, and the mesh lets it go on.
//
// Used by the control thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/fd.h"
#include "weft/fabric/region.h"
#include "weft/types.h"
#include "weft/wires/interconnect.h"
#include "weft/wires/shm/link.h"
#include "weft/wires/shm/messages.h"
#include "weft/wires/shm/socket.h"

namespace weft {

// What a node says of itself and shares, the same with every peer. Belongs to the mesh.
struct ShmSelf {
  NodeId node;
  uint32_t incarnation = 0;
  size_t workers = 1;
  size_t ring_bytes = 0;
  HandshakeParams params;
  Regions* regions = nullptr;
  Fd control;                // memory file of its ShmControlBlock
  std::vector<Fd> eventfds;  // an eventfd per worker
};

class ShmHandshake {
 public:
  enum class Stage : uint8_t {
    kHello,    // the peer has not said who it is
    kHeld,     // accepted, it said who it is and agrees; go_on() lets it in
    kSharing,  // memory is exchanged
    kUp,
    kOver,  // why() and refused() say how it ended
  };

  // The first waits for a hello, the second says it to the peer it connected to.
  ShmHandshake(const ShmSelf& self, Fd socket, uint64_t deadline_ns);
  ShmHandshake(const ShmSelf& self, Fd socket, uint64_t deadline_ns, const InterconnectPeer& to);

  void read();
  void go_on();
  // Ends it; refuse() tells the peer first.
  void refuse(const std::string& why);
  void end(const std::string& why);
  // Regions that were added since the last look.
  void share_regions();

  int socket() const { return socket_.get(); }
  Stage stage() const { return stage_; }
  bool connecting() const { return connecting_; }  // this side connected
  uint64_t deadline_ns() const { return deadline_ns_; }
  NodeId peer() const { return peer_; }  // kNodesMax while unknown
  uint32_t incarnation() const { return incarnation_; }
  const std::shared_ptr<ShmLink>& link() const { return link_; }
  bool refused() const { return refused_; }  // by either side
  const std::string& why() const { return why_; }

 private:
  void take(ShmMessage& message);
  void take_hello(ByteView message);
  void take_base(ShmMessage& message);
  void take_regions(ShmMessage& message);
  void share();
  void send(ByteView message, std::span<const int> fds = {});
  ShmHello hello() const;

  const ShmSelf& self_;
  Fd socket_;
  const bool connecting_;
  const uint64_t deadline_ns_;  // of the set-up
  Stage stage_ = Stage::kHello;
  NodeId peer_{static_cast<uint8_t>(kNodesMax)};
  uint32_t incarnation_ = 0;
  std::shared_ptr<ShmLink> link_;
  size_t regions_shared_ = 0;
  bool peer_done_ = false;
  bool refused_ = false;
  std::string why_;
};

}  // namespace weft
