// Http: an HTTP server for the control thread of a node. I/O does not block and is bounded in bytes and time.
// cpp-httplib interprets a request once its head is complete, and answers into memory. So there are no threads for it,
// and a slow or silent client costs a descriptor until its deadline.
//
// It is read-only: GET and HEAD, one request per connection. Over the limits: connections beyond connections_max are
// answered 503, a head longer than request_bytes_max 431, one that is not complete in time 408. With a password, a
// client that does not give it gets 401 and learns nothing else. With a certificate, TLS is used (client_stream.h),
// with only a few handshakes per step, since one can cost milliseconds.
//
// A library of its own, weft_http: applications that embed Weft need no HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/fd.h"
#include "weft/redis/client_stream.h"
#include "weft/server/http_routes.h"
#include "weft/status.h"
#include "weft/wires/tcp/tls.h"

namespace weft {

struct HttpOptions {
  std::string listen;         // host:port; port 0: the kernel chooses
  std::string password = {};  // empty: none
  TcpTlsFiles tls = {};       // certificate and key, or none; with `ca` clients must present a certificate, too
  uint32_t connections_max = 64;
  size_t request_bytes_max = 8192;
  uint32_t deadline_ms = 5000;  // from accepting a connection until it is closed
};

class Http final : public HttpRoutes {
 public:
  static Result<std::unique_ptr<Http>> create(const HttpOptions& options, Clock* clock);
  ~Http() override;

  void route(const std::string& path, std::string_view type, Text text) override;
  int fd() const override { return epoll_.get(); }
  void step() override;
  uint64_t requests() const override { return requests_; }
  uint64_t wrong_passwords() const override;
  uint16_t port() const;

 private:
  class Pages;
  struct Connection {
    explicit Connection(ClientStream s) : stream(std::move(s)) {}
    ClientStream stream;
    uint64_t until_ns = 0;
    std::string input;
    std::string output;
    size_t sent = 0;
    bool answered = false;  // further input is ignored
    bool dead = false;
  };

  Http(const HttpOptions& options, Fd listener, std::unique_ptr<TcpTls> tls, Clock* clock);
  void accept_some(uint64_t now_ns);
  bool make_room();
  void read_some(Connection& connection);
  void answer(Connection& connection);
  static void refuse(Connection& connection, std::string_view status, std::string_view why);
  static void write_some(Connection& connection);

  const HttpOptions options_;
  Clock* const clock_;
  const std::unique_ptr<TcpTls> tls_;
  Fd listener_;
  Fd epoll_;
  bool accepting_ = true;
  uint64_t accepts_again_ns_ = 0;
  std::list<Connection> connections_;
  std::unique_ptr<Pages> pages_;
  uint64_t requests_ = 0;
};

}  // namespace weft
