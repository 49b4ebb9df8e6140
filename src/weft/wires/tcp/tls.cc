#include "weft/wires/tcp/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "weft/wires/tcp/certificates.h"
#include "weft/wires/tcp/stream.h"

namespace weft {
namespace {

constexpr size_t kReadAheadBytes = 64 << 10;

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL: a peer that went away would end the process with SIGPIPE.
int fd_of(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int bio_write(BIO* bio, const char* from, size_t bytes, size_t* done) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = tcp_send(fd_of(bio), from, bytes);
  if (sent > 0) {
    *done = static_cast<size_t>(sent);
    return 1;
  }
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
  return 0;
}

int bio_read(BIO* bio, char* to, size_t bytes, size_t* done) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = tcp_recv(fd_of(bio), to, bytes);
  if (got > 0) {
    *done = static_cast<size_t>(got);
    return 1;
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(bio);
  if (got == 0) {
    BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    errno = 0;
  }
  return 0;
}

long bio_control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* make_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
  if (method == nullptr) return nullptr;
  BIO_meth_set_write_ex(method, bio_write);
  BIO_meth_set_read_ex(method, bio_read);
  BIO_meth_set_ctrl(method, bio_control);
  return method;
}

std::string last_reason() {
  // If a system call failed, the first error has its reason; else the last one is the most informative.
  const unsigned long first = ERR_peek_error();
  if (ERR_SYSTEM_ERROR(first)) return tcp_error_text(ERR_GET_REASON(first));
  const unsigned long code = ERR_peek_last_error();
  if (code == 0) return "unknown error";
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

Error file_error(const char* what, const std::string& file) {
  return {Code::kBadFile, std::string(what) + " " + file + ": " + last_reason()};
}

}  // namespace

Result<std::unique_ptr<TcpTls>> TcpTls::create(const TcpTlsFiles& files) { return create(files, true); }

Result<std::unique_ptr<TcpTls>> TcpTls::create(const TcpTlsFiles& files, bool peers_show_one) {
  ERR_clear_error();
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  BIO_METHOD* method = make_method();
  if (context == nullptr || method == nullptr) {
    SSL_CTX_free(context);
    BIO_meth_free(method);
    return Error{Code::kNoMemory, "TLS context: " + last_reason()};
  }
  std::unique_ptr<TcpTls> tls(new TcpTls(context, method, files.any_node));
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_verify(context, peers_show_one ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE,
                     nullptr);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  // A key that needs a passphrase is an error, not a prompt on the terminal.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  if (peers_show_one && SSL_CTX_load_verify_file(context, files.ca.c_str()) != 1) {
    return file_error("CA file", files.ca);
  }
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return file_error("certificate file", files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return file_error("key file", files.key);
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return Error{Code::kBadFile, "key file " + files.key + " does not belong to certificate file " + files.certificate};
  }
  return tls;
}

TcpTls::~TcpTls() {
  SSL_CTX_free(context_);
  BIO_meth_free(method_);
}

std::string TcpTls::identity_fault(const ssl_st* ssl, const std::string& cluster, NodeId node) const {
  if (any_node_) return {};
  const std::string why = naming_fault(SSL_get0_peer_certificate(ssl), cluster, node);
  return why.empty() ? "" : "it says that it is node " + std::to_string(node.value) + ", and its certificate " + why;
}

ssl_st* TcpTls::make(int fd, bool server) {
  SSL* ssl = SSL_new(context_);
  BIO* bio = BIO_new(method_);
  if (ssl == nullptr || bio == nullptr) {
    SSL_free(ssl);
    BIO_free(bio);
    return nullptr;
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  server ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
  return ssl;
}

void tls_fault(const ssl_st* ssl, int error, const char* doing, TcpFault* fault) {
  const int saved_errno = errno;
  const long verified = SSL_get_verify_result(ssl);
  if (error == SSL_ERROR_SYSCALL && ERR_peek_error() == 0) {
    fault->set("%s: %s", doing,
               saved_errno == 0 ? "the other side closed the connection" : tcp_error_text(saved_errno));
  } else if (verified != X509_V_OK) {
    fault->set("%s: %s: %s", doing, last_reason().c_str(), X509_verify_cert_error_string(verified));
  } else {
    fault->set("%s: %s", doing, last_reason().c_str());
  }
  ERR_clear_error();
}

}  // namespace weft
