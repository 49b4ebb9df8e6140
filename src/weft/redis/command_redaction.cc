#include "weft/redis/command_redaction.h"

#include <algorithm>

#include "weft/redis/command_text.h"

namespace weft {

namespace {

// AUTH user password, anywhere in HELLO, even if the command is malformed.
void redact_hello(std::vector<std::string_view>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (!same_word(words[i], "auth")) continue;
    const size_t end = std::min(i + 3, words.size());
    for (size_t secret = i + 1; secret < end; ++secret) words[secret] = kRedacted;
    i = end - 1;
  }
}

bool names_secret(std::string_view setting) {
  const std::string name = lower_case(setting);
  return name.find("pass") != std::string::npos || name.find("auth") != std::string::npos;
}

}  // namespace

std::vector<std::string_view> without_secrets(const Command& command, Arguments arguments) {
  std::vector<std::string_view> words(arguments.begin(), arguments.end());
  const std::string_view name = command.name;
  if (name == "auth") {
    std::fill(words.begin() + 1, words.end(), kRedacted);
  } else if (name == "hello") {
    redact_hello(words);
  } else if (name == "config|set") {
    for (size_t i = 2; i + 1 < words.size(); i += 2) {
      if (names_secret(words[i])) words[i + 1] = kRedacted;
    }
  }
  return words;
}

void append_quoted(std::string* out, std::string_view text, size_t bytes_max) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kEscaped = "\n\r\t\a\b";
  constexpr std::string_view kLetters = "nrtab";
  out->push_back('"');
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    const size_t at = kEscaped.find(c);
    if (c == '"' || c == '\\') {
      out->append({'\\', c});
    } else if (at != std::string_view::npos) {
      out->append({'\\', kLetters[at]});
    } else if (c >= ' ' && c <= '~') {
      out->push_back(c);
    } else {
      out->append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  if (text.size() > bytes_max) out->append("... (" + std::to_string(text.size() - bytes_max) + " more bytes)");
  out->push_back('"');
}

}  // namespace weft
