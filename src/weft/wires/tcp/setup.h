// TcpSetup: a connection that is being set up: connect, TLS handshake, hello and reply. It moves bytes and keeps the
// stage of the handshake; TcpInterconnect decides about a hello. Only the control thread uses it.
//
// It reads not one byte beyond the other side's hello, uses at most kTcpHelloBytesMax of memory whatever arrives, and
// has a deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "weft/types.h"
#include "weft/wires/tcp/hello.h"
#include "weft/wires/tcp/stream.h"
#include "weft/wires/tcp/tls.h"

namespace weft {

class TcpSetup {
 public:
  enum class Stage : uint8_t {
    kResolving,   // until the address of its peer is known
    kConnecting,  // until the socket is writable
    kHandshake,   // of TLS
    kExchanging,  // sends our hello (if we connected), receives theirs
    kReceived,    // received theirs, which the interconnect checks
    kWaiting,     // it is valid, but its sender is not a member here, or not yet
    kCalling,     // it is a probe, and its sender is called back before the reply
    kAnswering,   // accepted: sends our hello
    kRefusing,    // sends the refusal, or the reply to a probe, and ends
    kReady,       // waits for the connections of the other workers
  };

  // An accepted connection.
  TcpSetup(Descriptor socket, TcpTls* tls, uint64_t deadline_ns);
  // One that we make, to send `hello`.
  TcpSetup(TcpTls* tls, uint64_t deadline_ns, const InterconnectPeer& peer, const TcpHello& hello);
  void connecting(Descriptor socket);  // from kResolving

  // Continues as far as possible; false if the connection has ended, `fault` says why. Called when the socket has
  // events, and after send().
  bool advance(TcpFault* fault);
  // Sends this text next, in this stage.
  void send(std::string text, Stage stage) {
    out_ = std::move(text);
    out_done_ = 0;
    stage_ = stage;
  }
  void set_stage(Stage stage) { stage_ = stage; }
  // Discards unread input, so that closing does not reset the connection before the refusal was read.
  void drain();

  Stage stage() const { return stage_; }
  bool all_sent() const { return out_done_ == out_.size(); }
  bool connected_by_us() const { return by_us_; }
  int fd() const { return stream_.fd(); }
  TcpStream take_stream() { return std::move(stream_); }
  uint64_t deadline_ns() const { return deadline_ns_; }
  void set_deadline_ns(uint64_t deadline_ns) { deadline_ns_ = deadline_ns; }
  const std::string& address() const { return address_; }
  // Why the other end cannot be that node; empty: it can. Call it after the TLS handshake.
  std::string identity_fault(const std::string& cluster, NodeId node) const {
    return tls_ == nullptr ? "" : tls_->identity_fault(stream_.ssl(), cluster, node);
  }

  // From kReceived on.
  const TcpPrefix& prefix() const { return prefix_; }
  ByteView body() const { return as_bytes(std::string_view(in_).substr(kTcpPrefixBytes)); }

  // The other end: known from the start if we connected, else when the interconnect has checked the hello.
  NodeId peer{kNodesMax};
  uint32_t incarnation = 0;
  WorkerId worker;
  bool probes = false;             // we connected only to probe
  uint64_t calls_for = 0;          // we connected to call back the sender of a probe; the serial of the probe's set-up
  uint64_t token = 0;              // of that probe
  DomainGrants grants_sent{};      // in our hello
  DomainGrants grants_received{};  // in theirs

 private:
  bool begin_tls(TcpFault* fault);
  bool write(TcpFault* fault);
  bool read(TcpFault* fault);

  TcpTls* const tls_;
  const bool by_us_;
  TcpStream stream_;
  std::string address_;  // of the other side
  uint64_t deadline_ns_;
  Stage stage_;
  std::string out_;
  size_t out_done_ = 0;
  std::string in_;  // prefix and body; has the expected size
  size_t in_done_ = 0;
  TcpPrefix prefix_{};
};

}  // namespace weft
