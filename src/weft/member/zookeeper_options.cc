// What can be checked of the options without asking ZooKeeper.
#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "weft/member/zookeeper.h"

namespace weft {
namespace {

constexpr int kSessionMsMin = 100, kSessionMsMax = 600'000;

Error bad(const std::string& option, const std::string& value, const std::string& why) {
  return {Code::kBadOption, "zookeeper " + option + " is \"" + value + "\": " + why};
}

bool good_host(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view digits = host.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc() && end == digits.data() + digits.size() && port >= 1 && port <= 65535 &&
         std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c <= '~' && c != '/'; });
}

Result<void> check_hosts(const std::string& hosts) {
  for (size_t from = 0; from <= hosts.size();) {
    const size_t comma = std::min(hosts.find(',', from), hosts.size());
    if (!good_host(std::string_view(hosts).substr(from, comma - from))) {
      return bad("hosts", hosts, "expected host:port, with commas between several");
    }
    from = comma + 1;
  }
  return {};
}

Result<void> check_path(const std::string& path) {
  const std::string expected = "expected names with a '/' before each";
  if (path.empty() || path.front() != '/') return bad("path", path, expected);
  for (size_t from = 1; from <= path.size();) {
    const size_t slash = std::min(path.find('/', from), path.size());
    const std::string name = path.substr(from, slash - from);
    if (name.empty()) return bad("path", path, expected);
    if (name == "." || name == "..") return bad("path", path, "\"" + name + "\" is no name");
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; })) {
      return bad("path", path, "names have printable characters without spaces");
    }
    from = slash + 1;
  }
  return {};
}

}  // namespace

Result<void> check_options(const ZookeeperOptions& options) {
  if (auto r = check_hosts(options.hosts); !r) return r;
  if (auto r = check_path(options.path); !r) return r;
  if (options.session_timeout_ms < kSessionMsMin || options.session_timeout_ms > kSessionMsMax) {
    return bad("session_timeout_ms", std::to_string(options.session_timeout_ms),
               "expected " + std::to_string(kSessionMsMin) + " to " + std::to_string(kSessionMsMax));
  }
  const size_t colon = options.auth.find(':');
  if (!options.auth.empty() && (colon == std::string::npos || colon == 0)) {
    return Error{Code::kBadOption, "zookeeper auth: expected user:password"};  // without showing it
  }
  return {};
}

}  // namespace weft
