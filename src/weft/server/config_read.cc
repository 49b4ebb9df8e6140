#include "weft/server/config_read.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <utility>

#include "weft/server/config_keys.h"
#include "weft/server/toml.h"

namespace weft {
namespace {

ConfigPosition position_of(const toml::source_region& region) {
  return {std::max<uint32_t>(1, region.begin.line), std::max<uint32_t>(1, region.begin.column)};
}

// One line, whatever a file's keys contain.
std::string printable(std::string_view text) {
  std::string out = shown(text);
  return out.front() == '"' && out.back() == '"' ? out.substr(1, out.size() - 2) : out;
}

std::string found(const toml::node& node, bool secret) {
  if (const auto* text = node.as_string()) return secret ? "a string" : shown(text->get());
  if (const auto* number = node.as_integer()) return secret ? "an integer" : std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = node.as_floating_point()) {
    char digits[32];
    const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), number->get());
    return secret || error != std::errc() ? "a float" : "the float " + std::string(digits, end);
  }
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

// The edit distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

constexpr size_t kNameBytesCompared = 40;

// A similar key of another table counts as one letter further away.
std::string nearest_key(std::string_view table, std::string_view name) {
  if (name.size() > kNameBytesCompared) return {};
  const ConfigKey* best = nullptr;
  size_t best_far = 2 + name.size() / 4;
  for (const ConfigKey& key : config_keys()) {
    const size_t far = distance(name, key.name) + (key.table == table ? 0 : 1);
    if (far >= best_far) continue;
    best = &key;
    best_far = far;
  }
  return best == nullptr ? "" : best->full_name();
}

std::string nearest_table(std::string_view name) {
  if (name.size() > kNameBytesCompared) return {};
  std::string_view best;
  size_t best_far = 2 + name.size() / 4;
  for (const ConfigKey& key : config_keys()) {
    const size_t far = distance(name, key.table);
    if (far >= best_far) continue;
    best = key.table;
    best_far = far;
  }
  return std::string(best);
}

std::string names_in(std::string_view table) {
  std::string out;
  for (const ConfigKey& key : config_keys()) {
    if (key.table == table) out.append(out.empty() ? "" : ", ").append(key.name);
  }
  return out;
}

bool is_table(std::string_view name) {
  return std::any_of(config_keys().begin(), config_keys().end(),
                     [&](const ConfigKey& key) { return key.table == name; });
}

// The value of a size or an integer, if it is in the key's range.
bool number(const ConfigKey& key, const toml::node& node, uint64_t& out) {
  if (const auto* integer = node.as_integer()) {
    if (integer->get() < 0) return false;
    out = static_cast<uint64_t>(integer->get());
  } else if (const auto* text = node.as_string();
             text == nullptr || key.type != KeyType::kSize || !parse_size(text->get(), out)) {
    return false;
  }
  return out >= key.low && out <= key.high;
}

// Sets the value and returns true if it is valid for the key.
bool assign(const ConfigKey& key, const toml::node& node, NodeConfig& config) {
  return std::visit(
      [&](auto field) {
        auto& to = field(config);
        using T = std::remove_reference_t<decltype(to)>;
        if constexpr (std::is_same_v<T, bool>) {
          const auto* flag = node.as_boolean();
          if (flag != nullptr) to = flag->get();
          return flag != nullptr;
        } else if constexpr (std::is_same_v<T, std::string> || std::is_enum_v<T>) {
          const auto* text = node.as_string();
          if (text == nullptr) return false;
          const auto choice = std::find(key.choices.begin(), key.choices.end(), text->get());
          if (key.type == KeyType::kChoice && choice == key.choices.end()) return false;
          if constexpr (std::is_enum_v<T>) {
            to = static_cast<T>(choice - key.choices.begin());
          } else {
            to = text->get();
          }
          return true;
        } else {
          uint64_t value = 0;
          if (!number(key, node, value)) return false;
          if constexpr (std::is_same_v<T, NodeId>) {
            to = NodeId(static_cast<uint8_t>(value));
          } else {
            to = static_cast<T>(value);
          }
          return true;
        }
      },
      key.field);
}

class Reader {
 public:
  explicit Reader(ReadConfig& out) : out_(out) {}

  void walk(const toml::table& from, const std::string& name) {
    for (const auto& [key, node] : from) {
      const std::string full = name.empty() ? std::string(key.str()) : name + "." + std::string(key.str());
      const bool dotted = key.str().find('.') != std::string_view::npos;  // a quoted key; ours have none
      const ConfigKey* const known = dotted ? nullptr : find_key(full);
      if (known != nullptr) {
        read(*known, full, node);
      } else if (!dotted && is_table(full)) {
        enter(key, full, node);
      } else {
        unknown(name, key, node);
      }
    }
  }

 private:
  void read(const ConfigKey& key, const std::string& full, const toml::node& node) {
    const bool sound = assign(key, node, out_.config);
    out_.given[full] = {position_of(node.source()), sound};
    if (sound) return;
    out_.errors.add(position_of(node.source()),
                    full + " is " + found(node, key.secret) + ", expected " + key.expected());
  }

  void enter(const toml::key& key, const std::string& full, const toml::node& node) {
    const auto* const table = node.as_table();
    out_.given[full] = {position_of(node.source()), table != nullptr};
    if (table != nullptr) {
      walk(*table, full);
    } else {
      out_.errors.add(position_of(key.source()), full + " is " + found(node, false) + ", expected a table");
    }
  }

  void unknown(const std::string& table, const toml::key& key, const toml::node& node) {
    const bool is_table = node.is_table();
    const std::string full = printable(table.empty() ? key.str() : table + "." + std::string(key.str()));
    std::string text = is_table ? "[" + full + "] is not a table of this file" : full + " is not a key";
    const std::string_view renamed = renamed_key(full);
    const std::string near = is_table ? nearest_table(full) : nearest_key(table, key.str());
    if (!renamed.empty()) {
      text += ": it is called " + std::string(renamed) + " now";
    } else if (!near.empty()) {
      text += "; did you mean " + (is_table ? "[" + near + "]" : near) + "?";
    } else if (!is_table && !table.empty()) {
      text += "; [" + table + "] has " + names_in(table);
    } else {
      text +=
          "; there are [cluster], [node], [fabric], [fabric.tls], [membership], [client], [client.tls], [http], "
          "[http.tls], [store] and [limits]";
    }
    out_.errors.add(position_of(is_table ? node.source() : key.source()), std::move(text));
  }

  ReadConfig& out_;
};

// toml++ nests a table for each dot of a key, and frees them by recursion.
bool lines_fit(std::string_view text, ConfigErrors& errors) {
  uint32_t line = 1;
  bool fit = true;
  for (size_t at = 0; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end - at > kConfigLineBytesMax) {
      errors.add({line, 1}, "the line has " + std::to_string(end - at) + " bytes, expected at most " +
                                std::to_string(kConfigLineBytesMax));
      fit = false;
    }
    at = end + 1;
  }
  return fit;
}

}  // namespace

std::vector<std::string> ConfigErrors::said(const std::string& path) {
  std::stable_sort(found_.begin(), found_.end(), [](const One& a, const One& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
  std::vector<std::string> out;
  for (const One& one : found_) {
    if (out.size() == kConfigErrorsMax) {
      out.push_back(path + ": there are " + std::to_string(found_.size() - kConfigErrorsMax) + " more errors");
      break;
    }
    out.push_back(path + ":" + std::to_string(one.at.line) + ":" + std::to_string(one.at.column) + ": " + one.text);
  }
  return out;
}

ConfigPosition ReadConfig::position(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (const auto found = given.find(name); found != given.end()) return found->second.at;
  }
  return {};
}

bool ReadConfig::is_sound(std::string_view name) const {
  const auto found = given.find(name);
  return found == given.end() || found->second.sound;
}

void ReadConfig::fault(std::string_view key, const std::string& text) {
  const std::string_view table = key.substr(0, key.rfind('.'));
  const std::string_view above = table.substr(0, std::min(table.rfind('.'), table.size()));
  errors.add(position({key, table, above}), text);
  if (const auto found = given.find(key); found != given.end()) found->second.sound = false;
}

ReadConfig read_config(std::string_view text) {
  ReadConfig out;
  out.syntax = lines_fit(text, out.errors);
  if (!out.syntax) return out;
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    out.syntax = false;
    out.errors.add(position_of(parsed.error().source()), printable(parsed.error().description()));
    return out;
  }
  Reader(out).walk(parsed.table(), "");
  return out;
}

}  // namespace weft
