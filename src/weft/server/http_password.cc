#include "weft/server/http_password.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

namespace weft {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest digest_of(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

// Nothing if it is not base64.
std::optional<std::string> decoded(std::string_view base64) {
  while (base64.ends_with(' ')) base64.remove_suffix(1);
  if (base64.empty() || base64.size() % 4 != 0) return {};
  const size_t padding = base64.size() - std::min(base64.find_last_not_of('=') + 1, base64.size());
  std::string out(base64.size() / 4 * 3, '\0');
  const int bytes =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(base64.data()), static_cast<int>(base64.size()));
  if (bytes < 0 || padding > 2) return {};
  out.resize(static_cast<size_t>(bytes) - padding);
  return out;
}

// What follows `scheme` and spaces, if the header begins with it; the scheme ignores case.
std::optional<std::string_view> after(std::string_view header, std::string_view scheme) {
  if (header.size() <= scheme.size() || header[scheme.size()] != ' ') return {};
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (!std::equal(scheme.begin(), scheme.end(), header.begin(), [&](char s, char h) { return same(h, s); })) return {};
  header.remove_prefix(std::min(header.find_first_not_of(' ', scheme.size()), header.size()));
  return header;
}

}  // namespace

PasswordGiven password_given(std::string_view header, std::string_view wanted) {
  if (header.empty()) return PasswordGiven::kNone;
  std::string given;
  if (const auto token = after(header, "bearer")) {
    given = *token;
  } else if (const auto coded = after(header, "basic")) {
    const std::optional<std::string> pair = decoded(*coded);
    const size_t colon = pair ? pair->find(':') : std::string::npos;
    if (colon == std::string::npos) return PasswordGiven::kWrong;
    given = pair->substr(colon + 1);
  } else {
    return PasswordGiven::kWrong;
  }
  const Digest a = digest_of(given), b = digest_of(wanted);
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0 ? PasswordGiven::kRight : PasswordGiven::kWrong;
}

}  // namespace weft
