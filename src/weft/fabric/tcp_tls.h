// TLS 1.3 with certificates on both sides: a node shows that it belongs to the cluster by a certificate that the
// cluster's authority signed, and lets nobody in who cannot. No older protocol, no session tickets, no names: which
// node it is, the hello says.
//
// Made once at start-up and used by the control thread; the SSL objects it makes belong to their streams.
#pragma once

#include <memory>
#include <string>

#include "weft/fabric/tcp_frame.h"
#include "weft/status.h"

struct ssl_st;
struct ssl_ctx_st;
struct bio_method_st;

namespace weft {

// PEM files.
struct TcpTlsFiles {
  std::string ca;           // certificates of the authority
  std::string certificate;  // of this node, with what is between it and the authority
  std::string key;          // its private key
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

  // For a connected socket, which must outlive it. nullptr if there is no memory.
  ssl_st* server(int fd) { return make(fd, true); }
  ssl_st* client(int fd) { return make(fd, false); }

 private:
  TcpTls(ssl_ctx_st* context, bio_method_st* method) : context_(context), method_(method) {}
  static Result<std::unique_ptr<TcpTls>> create(const TcpTlsFiles& files, bool peers_show_one);
  ssl_st* make(int fd, bool server);

  ssl_ctx_st* const context_;
  bio_method_st* const method_;
};

// What OpenSSL has to say about an error of SSL_get_error, in `fault`.
void tls_fault(const ssl_st* ssl, int error, const char* doing, TcpFault* fault);

}  // namespace weft
