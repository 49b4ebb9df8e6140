// ClientStream: a client's socket, with or without TLS. It does not block: 0 bytes means would block.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "weft/base/fd.h"

struct ssl_st;

namespace weft {

class TcpTls;

class ClientStream {
 public:
  // `tls` may be nullptr: none.
  ClientStream(Fd socket, TcpTls* tls);

  int fd() const { return socket_.get(); }
  bool encrypted() const { return encrypted_; }
  bool ready() const;  // the TLS handshake, if any, is complete
  // The cost of a handshake has been spent: the peer has sent its hello, and the answer was signed.
  bool greeted() const;
  // Nothing: the connection has ended.
  std::optional<size_t> receive(char* to, size_t bytes);
  std::optional<size_t> send(const char* from, size_t bytes);
  // Shuts down sending; the peer sees the end of the stream.
  void end();
  // Shuts down receiving, too.
  void cut();

 private:
  struct Frees {
    void operator()(ssl_st* ssl) const;
  };
  std::optional<size_t> after_tls(int result, size_t bytes) const;

  Fd socket_;
  bool encrypted_;
  std::unique_ptr<ssl_st, Frees> tls_;
};

}  // namespace weft
