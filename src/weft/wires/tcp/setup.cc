#include "weft/wires/tcp/setup.h"

#include <array>

namespace weft {

TcpSetup::TcpSetup(Descriptor socket, TcpTls* tls, uint64_t deadline_ns)
    : tls_(tls),
      by_us_(false),
      stream_(std::move(socket)),
      address_(tcp_peer_address(stream_.fd())),
      deadline_ns_(deadline_ns),
      stage_(Stage::kHandshake),
      in_(kTcpPrefixBytes, '\0') {
  tcp_no_delay(stream_.fd());
}

TcpSetup::TcpSetup(TcpTls* tls, uint64_t deadline_ns, const InterconnectPeer& to, const TcpHello& hello)
    : peer(to.node),
      incarnation(to.incarnation),
      worker(hello.worker),
      grants_sent(hello.grants),
      tls_(tls),
      by_us_(true),
      stream_(Descriptor()),
      address_(to.address),
      deadline_ns_(deadline_ns),
      stage_(Stage::kResolving),
      out_(tcp_encode_hello(hello)),
      in_(kTcpPrefixBytes, '\0') {}

void TcpSetup::connecting(Descriptor socket) {
  stream_ = TcpStream(std::move(socket));
  tcp_no_delay(stream_.fd());
  stage_ = Stage::kConnecting;
}

bool TcpSetup::begin_tls(TcpFault* fault) {
  if (tls_ == nullptr || stream_.tls()) return true;
  ssl_st* const ssl = by_us_ ? tls_->client(stream_.fd()) : tls_->server(stream_.fd());
  if (ssl == nullptr) {
    fault->set("no memory for TLS");
    return false;
  }
  stream_.start_tls(ssl);
  return true;
}

bool TcpSetup::advance(TcpFault* fault) {
  if (stage_ == Stage::kConnecting) {
    if (const auto connected = tcp_connected(stream_.fd()); !connected) {
      fault->set("%s", connected.error().detail.c_str());
      return false;
    }
    stage_ = Stage::kHandshake;
  }
  if (stage_ == Stage::kHandshake) {
    if (!begin_tls(fault)) return false;
    const TcpIo io = stream_.handshake(fault);
    if (io == TcpIo::kClosed) return false;
    if (io == TcpIo::kAgain) return true;
    stage_ = Stage::kExchanging;
  }
  if (!write(fault)) return false;
  return stage_ != Stage::kExchanging || read(fault);
}

bool TcpSetup::write(TcpFault* fault) {
  while (!all_sent()) {
    const ByteView left = as_bytes(std::string_view(out_).substr(out_done_));
    const TcpStream::Moved moved = stream_.write(left.data(), left.size(), fault);
    if (moved.io == TcpIo::kClosed) return false;
    out_done_ += moved.bytes;
    if (moved.io == TcpIo::kAgain) return true;
  }
  return true;
}

bool TcpSetup::read(TcpFault* fault) {
  for (;;) {
    if (in_done_ == in_.size()) {
      if (in_done_ == kTcpPrefixBytes) {
        const auto prefix = tcp_decode_prefix(as_bytes(in_));
        if (!prefix) {
          fault->set("%s", prefix.error().detail.c_str());
          return false;
        }
        prefix_ = *prefix;
        in_.resize(prefix_.bytes);
      }
      if (in_done_ == in_.size()) {
        stage_ = Stage::kReceived;
        return true;
      }
    }
    auto* const to = reinterpret_cast<std::byte*>(in_.data()) + in_done_;
    const TcpStream::Moved moved = stream_.read(to, in_.size() - in_done_, fault);
    in_done_ += moved.bytes;
    if (moved.io == TcpIo::kClosed) {
      const TcpFault before = *fault;
      const bool maybe_tls = by_us_ && tls_ == nullptr && in_done_ == 0;
      fault->set("%.140s during the hello%s", before.text, maybe_tls ? " (does it expect TLS?)" : "");
      return false;
    }
    // Only a read that returns nothing shows that the end was not reached: its event may have come with the bytes.
    if (moved.io == TcpIo::kAgain && moved.bytes == 0) return true;
  }
}

void TcpSetup::drain() {
  std::array<std::byte, 16 << 10> rest;
  tcp_recv(stream_.fd(), rest.data(), rest.size());
}

}  // namespace weft
