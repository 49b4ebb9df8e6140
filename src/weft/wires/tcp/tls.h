// TLS 1.3 with certificates on both sides: a node proves which node of the cluster it is by a certificate that the
// cluster's authority signed and that names it (certificates.h), and refuses peers that cannot. The handshake checks
// the signature; identity_fault compares the name with the hello. No older protocol, no session tickets.
//
// Created once at start-up and used by the control thread; the SSL objects it makes belong to their streams.
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
  std::string certificate;  // of this node, with the chain up to the authority
  std::string key;          // its private key
  bool any_node = false;    // between nodes: any certificate is good for any node
};

class TcpTls {
 public:
  // An error names the file.
  static Result<std::unique_ptr<TcpTls>> create(const TcpTlsFiles& files);
  // For a server. Its clients need a certificate only if `files` names an authority, which must have signed it.
  static Result<std::unique_ptr<TcpTls>> create_for_clients(const TcpTlsFiles& files) {
    return create(files, !files.ca.empty());
  }
  ~TcpTls();
  TcpTls(const TcpTls&) = delete;
  TcpTls& operator=(const TcpTls&) = delete;

  // After the handshake: why the other side cannot be that node; empty: it can.
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

// Sets `fault` to OpenSSL's text for an error of SSL_get_error.
void tls_fault(const ssl_st* ssl, int error, const char* doing, TcpFault* fault);

}  // namespace weft
