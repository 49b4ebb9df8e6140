// Files that a configuration names: certificates, keys, passwords; and where they are required.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "weft/base/fd.h"
#include "weft/server/config_checker.h"
#include "weft/server/exposed.h"
#include "weft/wires/tcp/certificates.h"

namespace weft {
namespace {

constexpr std::string_view kPassword = "a password, or no such key";
constexpr std::string_view kPasswordFile = "the path of a file whose first line is a password";
constexpr std::string_view kHttpOpen = "that, or http.open = true: whoever reaches the address may look";
constexpr std::string_view kNamed = "that among its alternative names, or fabric.tls.any_node = true";
constexpr std::string_view kPem = "the path of a PEM file";

// Why the file cannot be read; empty if it can.
std::string unreadable(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return strerrordesc_np(errno);
  return S_ISDIR(status.st_mode) ? strerrordesc_np(EISDIR) : "";
}

}  // namespace

void ConfigChecker::tls() {
  if (!given("fabric.tls")) return;
  if (c_.fabric.kind == FabricKind::kShm) {
    read_.fault("fabric.tls", "[fabric.tls] is given, expected only with " + std::string(kOnlyNotShm));
    return;
  }
  if (!pem_files({"fabric.tls.ca", "fabric.tls.certificate", "fabric.tls.key"})) return;
  if (const auto made = TcpTls::create(c_.fabric.tls); !made) return tls_fault("fabric.tls", made.error().detail);
  if (!sound("cluster.name") || !sound("node.id") || c_.fabric.tls.any_node) return;
  const std::string why = naming_fault(c_.fabric.tls.certificate, c_.cluster, c_.node);
  if (!why.empty()) wrong("fabric.tls.certificate", "it " + why, kNamed);
}

void ConfigChecker::client() {
  HostPort advertise;
  if (given("client.advertise") && sound("client.advertise") && !c_.client.advertise.empty()) {
    host_port("client.advertise", kPeerAddress, advertise);
  }
  if (given("client.password") && sound("client.password") && c_.client.password.empty()) {
    wrong("client.password", "it is empty", kPassword);
  }
  password_file("client", c_.client.password, c_.client.password_file);
  served_tls("client.tls", c_.client.tls);
}

void ConfigChecker::http() {
  if (given("http.password") && sound("http.password") && c_.http.password.empty()) {
    wrong("http.password", "it is empty", kPassword);
  }
  password_file("http", c_.http.password, c_.http.password_file);
  served_tls("http.tls", c_.http.tls);
  if (!given("http.listen") || !sound("http.listen")) return;
  if (const std::string why = http_fault(c_.http); !why.empty()) wrong("http.listen", why, kHttpOpen);
}

// An authority that admits clients, or HTTP clients, must not admit nodes.
void ConfigChecker::authorities() {
  if (!c_.fabric.tls.any_node || !sound("fabric.tls.any_node") || !sound("fabric.tls.ca")) return;
  if (const std::string key = shared_authority(c_); !key.empty()) {
    fault("fabric.tls.any_node", " is true, expected false with " + key +
                                     " of the same authority as fabric.tls.ca: who " +
                                     "has a certificate for that could be any node");
  }
}

// Certificate and key, and perhaps an authority, of a server whose clients need no certificate.
void ConfigChecker::served_tls(const std::string& table, const TcpTlsFiles& files) {
  if (!given(table)) return;
  const std::string certificate = table + ".certificate", key = table + ".key", ca = table + ".ca";
  std::vector<std::string_view> keys = {certificate, key};
  if (given(ca)) keys.push_back(ca);
  if (!pem_files(keys)) return;
  if (const auto made = TcpTls::create_for_clients(files); !made) tls_fault(table, made.error().detail);
}

void ConfigChecker::password_file(const std::string& table, std::string& password, std::string& path) {
  const std::string key = table + ".password_file", other = table + ".password";
  if (!given(key) || !sound(key)) return;
  only_for(key, !given(other), "no " + other);
  if (!sound(key)) return;
  make_absolute(path);
  const Result<PasswordFile> file = read_password_file(path);
  if (!file) return wrong(key, path.empty() ? "it is empty" : file.error().detail, kPasswordFile);
  if (!file->warning.empty()) read_.warnings.push_back(key + ", " + path + ": " + file->warning);
  password = file->password;
  path.clear();
}

bool ConfigChecker::pem_files(const std::vector<std::string_view>& keys) {
  bool readable = true;
  for (const std::string_view key : keys) {
    if (!required(key, kPem)) {
      readable = false;
      continue;
    }
    std::string& path = text_of(key);
    make_absolute(path);
    const std::string why = path.empty() ? "it is empty" : unreadable(path);
    if (why.empty()) continue;
    wrong(key, why, kPem);
    readable = false;
  }
  return readable;
}

void ConfigChecker::tls_fault(const std::string& table, const std::string& detail) {
  const std::string key = detail.starts_with("CA file")            ? ".ca"
                          : detail.starts_with("certificate file") ? ".certificate"
                                                                   : ".key";
  fault(table + key, ": " + detail);
}

}  // namespace weft
