#include "weft/fabric/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <vector>

namespace weft {
namespace {

struct FreesX509 {
  void operator()(X509* p) const { X509_free(p); }
};
using Certificate = std::unique_ptr<X509, FreesX509>;

std::vector<Certificate> certificates_in(const std::string& file) {
  std::vector<Certificate> out;
  BIO* const from = BIO_new_file(file.c_str(), "r");
  if (from != nullptr) {
    while (X509* one = PEM_read_bio_X509(from, nullptr, nullptr, nullptr)) out.emplace_back(one);
  }
  BIO_free(from);
  ERR_clear_error();  // of the end of the file
  return out;
}

}  // namespace

bool has_root(const std::string& file) {
  for (const Certificate& one : certificates_in(file)) {
    if (X509_self_signed(one.get(), 0) == 1) return true;
  }
  return false;
}

}  // namespace weft
