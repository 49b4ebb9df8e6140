// ConfigChecker: the implementation of check_config(), in its own class so that it can be split into two files:
// constraints between keys (config_check.cc), and the files that they name (config_check_files.cc).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "weft/redis/address.h"
#include "weft/server/config_check.h"
#include "weft/server/config_keys.h"

namespace weft {

inline constexpr std::string_view kOnlyNotShm = "fabric.kind = \"tcp\" or \"verbs\"";
inline constexpr std::string_view kPeerAddress = "host:port, port 1 to 65535";

class ConfigChecker {
 public:
  ConfigChecker(ReadConfig& read, const std::string& folder) : read_(read), c_(read.config), folder_(folder) {}

  void run() {
    cluster();
    fabric();
    if (read_.is_sound("fabric.kind")) tls();
    membership();
    client();
    addresses();
    http();
    authorities();
    spec();
  }

 private:
  bool given(std::string_view key) const { return read_.is_given(key); }
  bool sound(std::string_view key) const { return read_.is_sound(key); }
  void fault(std::string_view key, const std::string& text) { read_.fault(key, std::string(key) + text); }

  // True if the key has a value that can be checked further; reports an error if it is missing.
  bool required(std::string_view key, std::string_view expected) {
    if (!sound(key) || !sound(key.substr(0, key.rfind('.')))) return false;
    if (given(key)) return true;
    fault(key, " is missing, expected " + std::string(expected));
    return false;
  }

  // For a key whose value is a string.
  std::string& text_of(std::string_view key) { return std::get<Field<std::string>>(find_key(key)->field)(c_); }

  void wrong(std::string_view key, const std::string& why, std::string_view expected) {
    const std::string found = find_key(key)->secret ? "a string" : shown(text_of(key));
    fault(key, " is " + found + " (" + why + "), expected " + std::string(expected));
  }

  // Reports an error if a key is given that does not apply.
  void only_for(std::string_view key, bool applies, std::string_view with) {
    if (applies || !given(key) || !sound(key)) return;
    fault(key, " is given, expected only with " + std::string(with));
  }

  void make_absolute(std::string& path) {
    if (path.empty() || path.starts_with('/')) return;
    path = (std::filesystem::path(folder_) / path).lexically_normal().string();
  }

  bool host_port(std::string_view key, std::string_view expected, HostPort& out);
  void socket_address(std::string_view key);

  void cluster();
  void fabric();
  void tls();
  void client();
  void password_file(const std::string& table, std::string& password, std::string& path);
  void http();
  void authorities();
  void served_tls(const std::string& table, const TcpTlsFiles& files);
  bool pem_files(const std::vector<std::string_view>& keys);
  void tls_fault(const std::string& table, const std::string& detail);
  void membership();
  void answer_limit();
  void hosts();
  void addresses();
  void spec();

  ReadConfig& read_;
  NodeConfig& c_;
  const std::string& folder_;
};

}  // namespace weft
