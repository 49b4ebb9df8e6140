#include "weft/server/http_client.h"

#include <httplib.h>

#include "weft/redis/address.h"

namespace weft {
namespace {

constexpr size_t kBodyBytesMax = 16 << 20;
constexpr time_t kPatienceS = 5;

Error failed(std::string why) { return {Code::kOs, std::move(why)}; }

std::string text_of(httplib::Error error, bool tls) {
  if (error == httplib::Error::Connection) return "nobody answers there";
  if (error == httplib::Error::SSLServerVerification) return "its certificate is not signed by who is trusted (--ca)";
  if (error == httplib::Error::SSLLoadingCerts) return "the file of --ca cannot be read";
  if (error == httplib::Error::Read && !tls) return "no HTTP is spoken there; if it is TLS, begin with https://";
  return httplib::to_string(error);
}

}  // namespace

Result<std::string> http_get(const HttpTarget& target, const std::string& path) {
  const size_t scheme = target.node.find("://");
  const bool tls = target.node.starts_with("https://");
  if (scheme != std::string::npos && !tls && !target.node.starts_with("http://")) {
    return failed("expected host:port, http://host:port or https://host:port");
  }
  const std::string address = scheme == std::string::npos ? target.node : target.node.substr(scheme + 3);
  if (const Result<HostPort> at = parse_host_port(address); !at) return at.error();
  httplib::Client client((tls ? "https://" : "http://") + address);
  client.set_connection_timeout(kPatienceS);
  client.set_read_timeout(kPatienceS);
  client.set_write_timeout(kPatienceS);
  client.set_keep_alive(false);
  if (tls && !target.ca.empty()) client.set_ca_cert_path(target.ca);
  if (!target.password.empty()) client.set_basic_auth("weft", target.password);
  std::string body;
  const httplib::Result answer = client.Get(path, [&](const char* bytes, size_t count) {
    body.append(bytes, count);
    return body.size() <= kBodyBytesMax;
  });
  if (!answer) return failed(text_of(answer.error(), tls));
  if (answer->status == 401) {
    return failed(target.password.empty() ? "it wants a password (--password-file)" : "the password is wrong");
  }
  if (answer->status != 200) return failed("it answers " + std::to_string(answer->status));
  return body;
}

}  // namespace weft
