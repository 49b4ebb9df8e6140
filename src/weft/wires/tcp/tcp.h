// TcpInterconnect: the fabric between processes over tcp, with or without TLS. interconnect.h has the contract, wire.h
// is a worker's end, hello.h the handshake before anything is trusted.
//
// Set-up. Of two members the one with the smaller id connects, first for worker 0 and, when that was accepted, for the
// others; it retries with back-off until it succeeds or leave() is called. An incoming connection must send a hello
// within hello_ms, and is accepted if its node and incarnation were joined. One with a valid hello that comes too early
// waits, up to wait_ms. At most strangers_max connections are in these states: one more closes the oldest, so that
// those who can send a hello, which takes them a round trip, get through a crowd of those who cannot. A probe gets its
// reply when its sender was called back and has answered; the call has half of hello_ms, so that the probe's connection
// still exists to report what went wrong. There is one call at a time to a node that probes again. When the connections
// of all workers are accepted they go to the wires, and the peer is up.
//
// Events. kRefused is reported at both ends with the same text; a repeated text for one member only once. Of the rest
// at most kEventsMax wait for take_events(); more are dropped, because strangers can cause any number. A bad frame or
// verb of a peer, and a lost connection, are kDown, with what was wrong.
//
// leave(): waits for no peer, and for a worker only while it is inside a poll(); TcpWire says what holds afterwards. A
// worker that never polls again does not block it, but its end of the socket stays open until the interconnect is
// destroyed.
//
// Stop the workers that use its wires before destroying it.
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
  uint32_t incarnation = 0;  // 0: set_incarnation() sets it later
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

  // An error names the address or the file. `regions` may be nullptr: then all verbs of peers are refused. `regions`
  // and `clock` outlive the interconnect.
  static Result<std::unique_ptr<TcpInterconnect>> create(const TcpOptions& options, Regions* regions, Clock* clock);
  ~TcpInterconnect() override;

  std::string_view name() const override { return tls_ != nullptr ? "tcp+tls" : "tcp"; }
  const std::string& address() const override { return address_; }
  TcpWire* wire(WorkerId worker) override { return wires_[worker.value].get(); }
  int wait_fd(WorkerId worker) const override { return wires_[worker.value]->wait_fd(); }
  // Nothing to do: the kernel wakes a sleeper when its descriptor is readable.
  void set_sleeping(WorkerId, bool) override {}

  void set_incarnation(uint32_t incarnation) override;
  void join(const InterconnectPeer& peer) override;
  void leave(NodeId peer) override;
  void probe(const InterconnectPeer& peer, const JoinProbe& as) override;
  int control_fd() const override { return epoll_.get(); }
  void control_step() override;
  std::vector<InterconnectEvent> take_events() override;

  size_t strangers() const { return strangers_; }  // incoming connections that are not accepted yet
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
    std::string refused;    // what was reported last
    DomainGrants grants{};  // when last checked
  };
  using Setups = std::map<uint64_t, std::unique_ptr<TcpSetup>>;  // by serial: the oldest first

  TcpInterconnect(const TcpOptions& options, Regions* regions, Clock* clock, Descriptor listener,
                  std::unique_ptr<TcpTls> tls);

  // Set-up, in accept.cc and join_probe.cc.
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
  uint64_t token_ = 0;  // of our last probe
  Regions* const regions_;
  Clock* const clock_;
  std::unique_ptr<TcpTls> tls_;  // outlives all streams
  Descriptor listener_;
  Descriptor epoll_;
  Descriptor reports_;  // an eventfd that the wires write
  std::string address_;
  std::vector<std::unique_ptr<TcpWire>> wires_;
  std::array<std::unique_ptr<Member>, kNodesMax> members_;
  Setups setups_;
  HostLookup hosts_;          // of members
  HostLookup callers_;        // of nodes that probe
  uint64_t next_serial_ = 2;  // 0: none, 1: the listener
  size_t strangers_ = 0;
  std::vector<std::unique_ptr<TcpLink>> links_;
  std::vector<InterconnectEvent> events_;
};

}  // namespace weft
