// The first step of reading a configuration: from TOML to values, key by key. Types, ranges, names; nothing that needs
// two keys.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/server/config.h"

namespace weft {

struct ConfigPosition {
  uint32_t line = 1;
  uint32_t column = 1;
};

class ConfigErrors {
 public:
  void add(ConfigPosition at, std::string text) { found_.push_back({at, std::move(text)}); }
  bool empty() const { return found_.empty(); }
  // In the order of the file, `path:line:column: text`.
  std::vector<std::string> said(const std::string& path);

 private:
  struct One {
    ConfigPosition at;
    std::string text;
  };
  std::vector<One> found_;
};

// The values in a text, and their positions.
struct ReadConfig {
  struct Given {
    ConfigPosition at;
    bool sound = true;  // no error was found with it yet
  };

  NodeConfig config;                                // what is not given, or wrong, has its default
  std::map<std::string, Given, std::less<>> given;  // keys and tables, by their full names
  ConfigErrors errors;
  std::vector<std::string> warnings;
  bool syntax = true;  // false: it is not TOML, and nothing else is known

  // The position of the first of these that is given; the start of the file if none is.
  ConfigPosition position(std::initializer_list<std::string_view> names) const;
  bool is_given(std::string_view name) const { return given.contains(name); }
  bool is_sound(std::string_view name) const;  // true if not given
  // Reports an error about a key; if it is not given, at the position of its table.
  void fault(std::string_view key, const std::string& text);
};

ReadConfig read_config(std::string_view text);

}  // namespace weft
