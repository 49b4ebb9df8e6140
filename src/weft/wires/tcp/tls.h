// TLS 1.3 with certificates on both sides: a node shows which node of the cluster it is by a certificate that the
// cluster's authority signed and that names it (certificates.h), and lets nobody in who cannot. The handshake checks
// the signature; the name is compared with what the hello says (identity_fault). No older protocol, no session tickets.
//
// Made once at start-up and used by the control thread; the SSL objects it makes belong to their streams.
#pragma once

#include <memory>
#include <string>

#include "weft/status.h"
#include "weft/types.h"
#include "weft/wires/tcp/frame.h"

struct ssl_st;
struct ssl_ctx_st;
struct bio_method_st;

namespace weft {

// PEM files.
struct TcpTlsFiles {
  std::string ca;           // certificates of the authority
  std::string certificate;  // of this node, with what is between it and the authority
  std::string key;          // its private key
  bool any_node = false;    // between nodes: whoever has a certificate may be any of them
};

class TcpTls {
 public:
  // An error names the file.
  static Result<std::unique_ptr<TcpTls>> create(const TcpTlsFiles& files);
  // For a server whose clients need no certificate, unless there is an authority that must have signed one.
  static Result<std::unique_ptr<TcpTls>> create_for_clients(const TcpTlsFiles& files) {
    return create(files, !files.ca.empty());
  }
  ~TcpTls();
  TcpTls(const TcpTls&) = delete;
  TcpTls& operator=(const TcpTls&) = delete;

  // What keeps the other side of a handshake that is over from being that node; empty: nothing.
  std::string identity_fault(const ssl_st* ssl, const std::string& cluster, NodeId node) const;

  // For a connected socket, which must outlive it. nullptr if there is no memory.
  ssl_st* server(int fd) { return make(fd, true); }
  ssl_st* client(int fd) { return make(fd, false); }

 private:
  TcpTls(ssl_ctx_st* context, bio_method_st* method, bool any_node)
      : context_(context), method_(method), any_node_(any_node) {}
  static Result<std::unique_ptr<TcpTls>> create(const TcpTlsFiles& files, bool peers_show_one);
  ssl_st* make(int fd, bool server);

  ssl_ctx_st* const context_;
  bio_method_st* const method_;
  const bool any_node_;
};

// What OpenSSL has to say about an error of SSL_get_error, in `fault`.
void tls_fault(const ssl_st* ssl, int error, const char* doing, TcpFault* fault);

}  // namespace weft
