// ShmHandshake: the message exchange with one peer over its unix socket. First the set-up (messages.h), at the end of
// which both sides have mapped what the other shares. After that nothing is sent except regions that are added later;
// when the socket closes, the peer has died.
//
// It only handles its socket and does not decide who may connect: an accepted handshake stops at kHeld when the peer's
// hello was found valid, and the interconnect lets it continue.
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

// What a node tells and shares, the same with every peer. Owned by the interconnect.
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
    kHello,    // the peer has not sent its hello
    kHeld,     // accepted, and its hello is valid; go_on() lets it in
    kSharing,  // memory is exchanged
    kUp,
    kOver,  // ended: see why() and refused()
  };

  // The first waits for a hello, the second sends one to the peer it connected to.
  ShmHandshake(const ShmSelf& self, Fd socket, uint64_t deadline_ns);
  ShmHandshake(const ShmSelf& self, Fd socket, uint64_t deadline_ns, const InterconnectPeer& to);

  void read();
  void go_on();
  // Both end it; refuse() tells the peer first.
  void refuse(const std::string& why);
  void end(const std::string& why);
  // Shares the regions that were added since the last call.
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
