#include "weft/wires/tcp/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "weft/wires/interconnect.h"

namespace weft {
namespace {

constexpr size_t kNamesShown = 4;
constexpr size_t kNameBytesShown = 100;

struct FreesX509 {
  void operator()(X509* p) const { X509_free(p); }
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
  void operator()(GENERAL_NAMES* p) const { GENERAL_NAMES_free(p); }
};
template <class T>
using Held = std::unique_ptr<T, FreesX509>;

std::vector<Held<X509>> certificates_in(const std::string& file) {
  std::vector<Held<X509>> out;
  BIO* const from = BIO_new_file(file.c_str(), "r");
  if (from != nullptr) {
    while (X509* one = PEM_read_bio_X509(from, nullptr, nullptr, nullptr)) out.emplace_back(one);
  }
  BIO_free(from);
  ERR_clear_error();  // set at the end of the file
  return out;
}

std::vector<std::string> uris_of(const X509* certificate) {
  std::vector<std::string> out;
  const Held<GENERAL_NAMES> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    out.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                     static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  ERR_clear_error();
  return out;
}

bool same_authority(const X509* a, const X509* b) {
  return X509_NAME_cmp(X509_get_subject_name(a), X509_get_subject_name(b)) == 0 &&
         EVP_PKEY_eq(X509_get0_pubkey(a), X509_get0_pubkey(b)) == 1;
}

}  // namespace

std::string node_name(const std::string& cluster, NodeId node) {
  return "weft://" + cluster + "/node/" + std::to_string(node.value);
}

std::string naming_fault(const x509_st* certificate, const std::string& cluster, NodeId node) {
  const std::string wanted = node_name(cluster, node);
  const std::vector<std::string> uris = certificate == nullptr ? std::vector<std::string>() : uris_of(certificate);
  if (std::find(uris.begin(), uris.end(), wanted) != uris.end()) return {};
  std::string names;  // another process may have written them
  for (size_t i = 0; i < std::min(uris.size(), kNamesShown); ++i) {
    names += (i == 0 ? "" : ", ") + printable(uris[i].substr(0, kNameBytesShown));
  }
  if (uris.size() > kNamesShown) names += " and others";
  return "names " + (names.empty() ? "no node" : names) + ", expected " + wanted;
}

std::string naming_fault(const std::string& file, const std::string& cluster, NodeId node) {
  const std::vector<Held<X509>> found = certificates_in(file);
  return naming_fault(found.empty() ? nullptr : found.front().get(), cluster, node);
}

bool has_root(const std::string& file) {
  const std::vector<Held<X509>> found = certificates_in(file);
  return std::any_of(found.begin(), found.end(), [](const auto& one) { return X509_self_signed(one.get(), 0) == 1; });
}

bool trusts_authority(const std::string& file, const std::string& other) {
  const std::vector<Held<X509>> trusted = certificates_in(file), asked = certificates_in(other);
  const Held<X509_STORE> store(X509_STORE_new());
  for (const auto& one : trusted) X509_STORE_add_cert(store.get(), one.get());
  const auto is_trusted = [&](const Held<X509>& one) {
    for (const auto& root : trusted) {
      if (same_authority(root.get(), one.get())) return true;
    }
    const Held<X509_STORE_CTX> check(X509_STORE_CTX_new());
    if (X509_STORE_CTX_init(check.get(), store.get(), one.get(), nullptr) != 1) return false;
    X509_STORE_CTX_set_flags(check.get(), X509_V_FLAG_NO_CHECK_TIME);
    return X509_verify_cert(check.get()) == 1;
  };
  const bool any = std::any_of(asked.begin(), asked.end(), is_trusted);
  ERR_clear_error();
  return any;
}

}  // namespace weft
