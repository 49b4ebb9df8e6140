// TcpInterconnect: the fabric between processes over tcp, with or without TLS. mesh.h says what a mesh is, tcp_wire.h
// how a worker's end works, tcp_hello.h what is said before anything is trusted.
//
// Set-up. Of two members the one with the smaller id connects, first for worker 0 and, when that was accepted, for the
// others; it tries again, less and less often, until it works or leave(). A connection that comes in must say hello in
// hello_ms, and is accepted if its node and incarnation were joined. One that says a sound hello too early waits, up to
// wait_ms. At most strangers_max connections are in these states: one more closes the oldest, so that those who know
// what to say, which takes them a round trip, get through a crowd of those who do not.
// A knock is answered when the one that knocked was called back and has answered; that has half of hello_ms, so that
// the knock is still there to be told what went wrong. A node that knocks again is called once at a time.
// When the connections of all workers are there they go to the wires, and the peer is up.
//
// Events. kRefused comes at both ends with the same words; repeated words for one member come once. Of the rest at most
// kEventsMax wait for take_events(), then they are dropped: strangers can cause any number.
// A bad frame or verb of a peer, and a lost connection, are kDown, with what was wrong.
//
// leave(): waits for no peer, and for a worker only as long as it is inside a poll(); TcpWire says what holds after it.
// A worker that never polls again is no obstacle, except that its end of the socket stays open until the mesh goes.
//
// The mesh outlives no worker that uses its wires: stop the workers, then destroy it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/wires/interconnect.h"
#include "weft/wires/tcp/host_lookup.h"
#include "weft/wires/tcp/link.h"
#include "weft/wires/tcp/setup.h"
#include "weft/wires/tcp/stream.h"
#include "weft/wires/tcp/tls.h"
#include "weft/wires/tcp/wire.h"

namespace weft {

struct TcpOptions {
  NodeId self;
  uint32_t incarnation = 0;  // 0: set_incarnation() says it later
  int workers = 1;
  std::string listen = "127.0.0.1:0";  // host:port; port 0: the kernel chooses, address() tells
  std::optional<TcpTlsFiles> tls;
  HandshakeParams params;
  size_t output_bytes_max = 1 << 20;  // per connection: packets and verbs that wait to be written
  size_t completions_max = 4096;      // per worker: verbs posted whose completions were not polled yet
  uint32_t hello_ms = 5000;
  uint32_t wait_ms = 5000;
  uint32_t retry_ms_max = 500;
  size_t strangers_max = 256;
  HostLookup::Resolve resolve = tcp_resolve;  // may block
};

class TcpInterconnect final : public Interconnect {
 public:
  static constexpr size_t kEventsMax = 256;

  // An error names the address or the file. `regions` may be nullptr: then all verbs of peers are refused. Both outlive
  // the mesh.
  static Result<std::unique_ptr<TcpInterconnect>> create(const TcpOptions& options, Regions* regions, Clock* clock);
  ~TcpInterconnect() override;

  std::string_view name() const override { return tls_ != nullptr ? "tcp+tls" : "tcp"; }
  const std::string& address() const override { return address_; }
  TcpWire* wire(WorkerId worker) override { return wires_[worker.value].get(); }
  int wait_fd(WorkerId worker) const override { return wires_[worker.value]->wait_fd(); }
  // Nothing to do: the kernel says when a sleeper's descriptor is readable.
  void set_sleeping(WorkerId, bool) override {}

  void set_incarnation(uint32_t incarnation) override;
  void join(const InterconnectPeer& peer) override;
  void leave(NodeId peer) override;
  void probe(const InterconnectPeer& peer, const JoinProbe& as) override;
  int control_fd() const override { return epoll_.get(); }
  void control_step() override;
  std::vector<InterconnectEvent> take_events() override;

  size_t strangers() const { return strangers_; }  // connections that came in and are not accepted yet
  size_t links() const { return links_.size(); }   // that are not freed yet

 private:
  enum class State : uint8_t { kConnecting, kUp, kDown };
  struct Member {
    InterconnectPeer peer;
    State state = State::kConnecting;
    std::vector<uint64_t> setups;  // by worker: the serial of its connection that is being set up; 0: none
    std::vector<TcpLink*> links;   // by worker, while up
    uint64_t retry_at_ns = 0;
    uint64_t retry_ns = 0;
    std::string refused;  // what was reported last
    uint32_t grant = 0;   // when last looked at
  };
  using Setups = std::map<uint64_t, std::unique_ptr<TcpSetup>>;  // by serial: the oldest first

  TcpInterconnect(const TcpOptions& options, Regions* regions, Clock* clock, Descriptor listener,
                  std::unique_ptr<TcpTls> tls);

  // Set-up, in tcp_accept.cc.
  void accept_some();
  void evict_stranger();
  void connect(Member& member, WorkerId worker);
  void add_setup(std::unique_ptr<TcpSetup> setup, uint64_t serial);
  void resolve(uint64_t serial, TcpSetup& setup);
  void resolve_setups();
  void watch_setup(uint64_t serial);
  void on_setup(uint64_t serial, uint32_t events);
  void step_setup(uint64_t serial, TcpSetup& setup);
  void judge(uint64_t serial, TcpSetup& setup);
  void judge_answer(uint64_t serial, TcpSetup& setup);
  void on_probe(uint64_t serial, TcpSetup& setup, const TcpHello& hello);
  void call_back(uint64_t serial, const TcpHello& hello);
  void end_call(uint64_t serial, const std::string& why);
  std::string objection(const TcpSetup& setup, const TcpHello& hello) const;
  void consider(uint64_t serial, TcpSetup& setup);
  void refuse(uint64_t serial, TcpSetup& setup, const std::string& why);
  void fail_setup(uint64_t serial, const std::string& why, bool refused);
  void close_setup(uint64_t serial);
  void expire_setups();
  TcpHello hello_to(NodeId node, uint32_t incarnation, WorkerId worker) const;

  // Members, in tcp.cc.
  void retry_connections();
  void back_off(Member& member);
  void bring_up_if_complete(Member& member);
  void take_down(Member& member, const std::string& why);
  void kill_links(Member& member);
  void watch_links();
  void watch_grants();
  void event(InterconnectEvent::Kind kind, NodeId peer, uint32_t incarnation, std::string why,
             std::string address = {});
  Member* member_of(NodeId node) { return node.value < kNodesMax ? members_[node.value].get() : nullptr; }

  const TcpOptions options_;
  uint32_t incarnation_;
  uint64_t token_ = 0;  // of the last knock
  Regions* const regions_;
  Clock* const clock_;
  std::unique_ptr<TcpTls> tls_;  // outlives all streams
  Descriptor listener_;
  Descriptor epoll_;
  Descriptor reports_;  // an eventfd that the wires ring
  std::string address_;
  std::vector<std::unique_ptr<TcpWire>> wires_;
  std::array<std::unique_ptr<Member>, kNodesMax> members_;
  Setups setups_;
  HostLookup hosts_;          // of members
  HostLookup callers_;        // of those who knock
  uint64_t next_serial_ = 2;  // 0: none, 1: the listener
  size_t strangers_ = 0;
  std::vector<std::unique_ptr<TcpLink>> links_;
  std::vector<InterconnectEvent> events_;
};

}  // namespace weft
