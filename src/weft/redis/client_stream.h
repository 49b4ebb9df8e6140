// ClientStream: a client's socket, with or without TLS. It does not block: 0 bytes mean that there are none now.
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
  bool ready() const;  // TLS, if there is any, has got to know the other end
  // What a handshake costs has been spent: the other side has said hello, and the answer was signed.
  bool greeted() const;
  // Nothing: the connection is at its end.
  std::optional<size_t> receive(char* to, size_t bytes);
  std::optional<size_t> send(const char* from, size_t bytes);
  // Nothing is sent any more; the other end hears so.
  void end();
  // Nor is anything heard.
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
