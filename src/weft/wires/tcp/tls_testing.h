// Certificates for tests.
#pragma once

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

namespace weft {

struct Frees {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
  void operator()(SSL* p) const { SSL_free(p); }
  void operator()(FILE* p) const { fclose(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Frees>;

// A key and its certificate, signed by `authority` or self-signed; for any usage, or the one named.
struct Credential {
  Owned<EVP_PKEY> key;
  Owned<X509> certificate;

  // `names`: the subject's alternative names; `usage`: the extended key usage; in openssl's syntax.
  explicit Credential(const char* name, const Credential* authority = nullptr, const char* names = nullptr,
                      const char* usage = nullptr)
      : key(EVP_EC_gen("P-256")), certificate(X509_new()) {
    X509* const c = certificate.get();
    X509_set_version(c, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(c), authority == nullptr ? 1 : 2);
    X509_gmtime_adj(X509_getm_notBefore(c), -3600);
    X509_gmtime_adj(X509_getm_notAfter(c), 3600);
    X509_set_pubkey(c, key.get());
    X509_NAME* const subject = X509_get_subject_name(c);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(c, authority == nullptr ? subject : X509_get_subject_name(authority->certificate.get()));
    if (authority == nullptr) extend(NID_basic_constraints, "critical,CA:TRUE");
    if (names != nullptr) extend(NID_subject_alt_name, names);
    if (usage != nullptr) extend(NID_ext_key_usage, usage);
    X509_sign(c, (authority == nullptr ? *this : *authority).key.get(), EVP_sha256());
  }

  void extend(int kind, const char* value) const {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    X509_add_ext(certificate.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  // PEM files.
  bool write_certificate(const std::string& path) const {
    const Owned<FILE> out(fopen(path.c_str(), "w"));
    return out != nullptr && PEM_write_X509(out.get(), certificate.get()) == 1;
  }
  bool write_key(const std::string& path) const {
    const Owned<FILE> out(fopen(path.c_str(), "w"));
    return out != nullptr && PEM_write_PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  }
};

}  // namespace weft
