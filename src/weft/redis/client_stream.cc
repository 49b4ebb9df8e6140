#include "weft/redis/client_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>

#include "weft/wires/tcp/tls.h"

namespace weft {

namespace {

bool later() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

void ClientStream::Frees::operator()(ssl_st* ssl) const { SSL_free(ssl); }

ClientStream::ClientStream(Fd socket, TcpTls* tls) : socket_(std::move(socket)), encrypted_(tls != nullptr) {
  if (tls != nullptr) tls_.reset(tls->server(socket_.get()));
}

bool ClientStream::ready() const { return !encrypted_ || (tls_ != nullptr && SSL_is_init_finished(tls_.get()) == 1); }

std::optional<size_t> ClientStream::after_tls(int result, size_t bytes) const {
  if (result == 1) return bytes;
  const int error = SSL_get_error(tls_.get(), result);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
  return {};
}

std::optional<size_t> ClientStream::receive(char* to, size_t bytes) {
  if (encrypted_) {
    if (tls_ == nullptr) return {};  // there was no memory for it
    size_t done = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(tls_.get(), to, bytes, &done);
    return after_tls(result, done);
  }
  ssize_t n = 0;
  do {
    n = recv(socket_.get(), to, bytes, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n > 0) return static_cast<size_t>(n);
  if (n < 0 && later()) return 0;
  return {};
}

bool ClientStream::greeted() const { return tls_ == nullptr || SSL_get_state(tls_.get()) != TLS_ST_BEFORE; }

void ClientStream::end() {
  if (tls_ != nullptr && SSL_in_init(tls_.get()) == 0) {
    ERR_clear_error();
    SSL_shutdown(tls_.get());  // otherwise the peer cannot tell the end from a truncation
    ERR_clear_error();
  }
  shutdown(socket_.get(), SHUT_WR);
}

void ClientStream::cut() { shutdown(socket_.get(), SHUT_RDWR); }

std::optional<size_t> ClientStream::send(const char* from, size_t bytes) {
  if (encrypted_) {
    if (tls_ == nullptr) return {};
    size_t done = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(tls_.get(), from, bytes, &done);
    return after_tls(result, done);
  }
  ssize_t n = 0;
  do {
    n = ::send(socket_.get(), from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n >= 0) return static_cast<size_t>(n);
  if (later()) return 0;
  return {};
}

}  // namespace weft
