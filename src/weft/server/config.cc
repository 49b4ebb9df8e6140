#include "weft/server/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "weft/base/fd.h"
#include "weft/redis/shipped_commands.h"
#include "weft/redis/value.h"
#include "weft/server/config_check.h"
#include "weft/server/config_keys.h"
#include "weft/server/config_read.h"

namespace weft {
namespace {

// At most kConfigBytesMax of it. Refuses pipes: reading one that nobody writes to would block for ever.
Result<std::string> read_file(const std::string& path) {
  const auto os_error = [] { return Error{Code::kOs, std::string("cannot be read: ") + strerrordesc_np(errno)}; };
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return os_error();
  const auto too_long = [](const std::string& bytes) {
    return Error{Code::kBadFile,
                 "the file has " + bytes + " bytes, expected at most " + std::to_string(kConfigBytesMax) + " (1 MiB)"};
  };
  if (!S_ISREG(status.st_mode)) {
    const char* const what = S_ISDIR(status.st_mode)    ? "a directory"
                             : S_ISFIFO(status.st_mode) ? "a pipe"
                             : S_ISSOCK(status.st_mode) ? "a socket"
                                                        : "a device";
    return Error{Code::kBadFile, std::string("it is ") + what + ", expected a regular file"};
  }
  if (status.st_size > off_t{kConfigBytesMax}) {
    return too_long(std::to_string(status.st_size));
  }
  std::string text(kConfigBytesMax + 1, '\0');
  size_t size = 0;
  for (ssize_t got = 1; got != 0 && size < text.size(); size += static_cast<size_t>(got)) {
    do {
      got = read(fd.get(), text.data() + size, text.size() - size);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return os_error();
  }
  if (size > kConfigBytesMax) return too_long("more than " + std::to_string(kConfigBytesMax));
  text.resize(size);
  return text;
}

// A path in the file `file`, or typed instead of it.
void make_absolute(std::string& path, const std::string& file) {
  if (path.empty() || path.starts_with('/')) return;
  std::error_code ignored;
  path = (std::filesystem::absolute(file, ignored).parent_path() / path).lexically_normal().string();
}

}  // namespace

Result<PasswordFile> read_password_file(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  std::array<char, kPasswordBytesMax + 2> bytes;  // including the line end, at least one byte of it
  const auto os_error = [] { return Error{Code::kOs, strerrordesc_np(errno)}; };
  if (!fd || fstat(fd.get(), &status) != 0) return os_error();
  if (!S_ISREG(status.st_mode)) return Error{Code::kBadFile, "it is no regular file"};
  ssize_t got = 0;
  size_t size = 0;
  do {
    got = read(fd.get(), bytes.data() + size, bytes.size() - size);
    if (got > 0) size += static_cast<size_t>(got);
  } while ((got > 0 && size < bytes.size()) || (got < 0 && errno == EINTR));
  if (got < 0) return os_error();
  PasswordFile out;
  const std::string_view text(bytes.data(), size);
  out.password = text.substr(0, text.find('\n'));
  if (out.password.ends_with('\r')) out.password.pop_back();
  if (out.password.empty()) return Error{Code::kBadFile, "its first line is empty"};
  if (out.password.size() > kPasswordBytesMax) {
    return Error{Code::kBadFile, "its first line has more than " + std::to_string(kPasswordBytesMax) + " bytes"};
  }
  // With an access control list, as systemd uses for credentials, the group's bits are the list's mask.
  const bool listed = fgetxattr(fd.get(), "system.posix_acl_access", nullptr, 0) > 0;
  const unsigned others = status.st_mode & (listed ? S_IRWXO : S_IRWXG | S_IRWXO);
  if (others != 0) {
    constexpr std::string_view kDigits = "01234567";
    std::string mode = "0";
    for (const int shift : {6, 3, 0}) mode += kDigits[status.st_mode >> shift & 7];
    out.warning = "others than its owner may use it (its mode is " + mode + "); chmod 600 keeps them out";
  }
  return out;
}

LoadedConfig load_config(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return {{}, {path + ": " + text.error().detail}, {}};
  return parse_config(*text, path);
}

LoadedConfig parse_config(std::string_view text, const std::string& path) {
  std::error_code ignored;  // if the working directory is gone the path stays as it is
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  ReadConfig read = read_config(text);
  if (read.syntax) check_config(read, absolute.parent_path().string());
  std::vector<std::string> warnings;
  for (const std::string& warning : read.warnings) warnings.push_back(std::string(path).append(": ").append(warning));
  return {std::move(read.config), read.errors.said(path), std::move(warnings)};
}

std::vector<std::string> change_config(NodeConfig& config, std::string_view text, const std::string& path) {
  ReadConfig read = read_config(text);
  std::vector<std::string> errors = read.errors.said(path);
  for (const ConfigKey& key : config_keys()) {
    if (!errors.empty() || !read.is_given(key.full_name())) continue;
    std::visit([&](auto field) { field(config) = field(read.config); }, key.field);
    if (key.path) make_absolute(std::get<Field<std::string>>(key.field)(config), path);
  }
  return errors;
}

std::vector<std::string> change_config_by_file(NodeConfig& config, const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return {path + ": " + text.error().detail};
  return change_config(config, *text, path);
}

std::vector<std::string> set_key(NodeConfig& config, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, std::min(equals, assignment.size()));
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_' || c == '.';
  });
  if (equals == std::string::npos || !plain) {
    return {shown(assignment) + ": expected key=value, as in cluster.lease_ms=500"};
  }
  const std::string value = assignment.substr(equals + 1);
  const ConfigKey* const key = find_key(name);
  const bool digits = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  const bool bare = key != nullptr && ((digits && (key->type == KeyType::kInteger || key->type == KeyType::kSize)) ||
                                       (key->type == KeyType::kBoolean && (value == "true" || value == "false")));
  return change_config(config, name + " = " + (bare ? value : toml_string(value)), name);
}

std::string_view fabric_name(FabricKind kind) { return find_key("fabric.kind")->choices[static_cast<size_t>(kind)]; }

// Where every node has every key, reads commit at any of them without a message, and a write takes one round trip. With
// more nodes than replicas, most keys are at other nodes than their client's: commands are executed there.
std::string founding_protocol(const NodeConfig& config) {
  const Options& options = config.options;
  if (options.protocol != kProtocolAuto) return options.protocol;
  if (options.nodes == 1) return "dnl4";
  return options.replicas == options.nodes ? "dnl1" : "hop";
}

ClusterSpec spec_of(const NodeConfig& config) {
  ClusterSpec spec;
  spec.options = config.options;
  spec.options.protocol = founding_protocol(config);
  TableSpec table;
  table.name = kStoreTable;
  table.keys = KeyKind::kBytes;
  table.value_bytes_max = config.store.value_bytes_max + static_cast<uint32_t>(kValueHeaderBytesMax);
  table.partition = PartitionBy::kRedisSlot;
  table.capacity = config.store.capacity;
  table.ordered = config.store.ordered;
  table.memory_bytes_max = config.store.memory_bytes_max;
  uint32_t& longest = spec.options.limits.value_bytes_max;
  longest = std::max(longest, table.value_bytes_max);
  spec.tables.push_back(std::move(table));
  spec.procedures.push_back(redis_procedure());
  spec.recovers = true;
  return spec;
}

}  // namespace weft
