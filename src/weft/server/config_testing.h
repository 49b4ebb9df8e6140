// Shared by the tests of the configuration.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/server/config.h"

namespace weft {

// The smallest valid configuration. Ten lines; errors in what is appended begin at line 11.
inline constexpr std::string_view kMinimalConfig = R"([cluster]
name = "orders"
[node]
id = 0
[fabric]
listen = "127.0.0.1:7400"
[membership]
socket = "/run/weft.sock"
[client]

)";

// The test's own folder, removed with it.
class ConfigFolder {
 public:
  ConfigFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("weft_config_" + std::string(test->name()) + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
  }
  ~ConfigFolder() { std::filesystem::remove_all(path_); }
  ConfigFolder(const ConfigFolder&) = delete;
  ConfigFolder& operator=(const ConfigFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string file_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

using Texts = std::vector<std::string>;
// What is written, and what the error says of it.
using Cases = std::vector<std::pair<std::string, std::string>>;

inline Texts errors_of(const std::string& text) { return parse_config(text, "n.toml").errors; }
// Of the smallest file and an addition, which begins at line 11.
inline Texts errors_with(const std::string& more) { return errors_of(std::string(kMinimalConfig) + more); }
// The smallest file without its [fabric] and [membership], and an addition, which begins at line 5.
inline Texts errors_between(const std::string& more) {
  return errors_of("[cluster]\nname = \"orders\"\n[node]\nid = 0\n" + more);
}
// What then is missing.
inline const std::string kTcp = "[fabric]\nlisten = \"h:1\"\n";
inline const std::string kSupervised = "[membership]\nsocket = \"@s\"\n";

}  // namespace weft
