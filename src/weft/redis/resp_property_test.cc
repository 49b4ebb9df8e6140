// The reader against a naive implementation, over any division of any bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/redis/resp.h"
#include "weft/redis/resp_testing.h"

namespace weft {
namespace {

using Heard = RespHeard;
using Conversation = RespConversation;

// A second implementation, which sees all bytes at once and copies them.

bool naive_space(char c) { return std::string_view(" \t\n\v\f\r").find(c) != std::string_view::npos; }

// The text between two quotes, unescaped; `at` is after the first, then after the second.
std::optional<std::string> naive_quoted(const std::string& line, size_t& at, char quote) {
  std::string text;
  for (; at < line.size(); ++at) {
    const std::string rest = line.substr(at, 4);
    if (line[at] == quote) {
      ++at;
      return text;
    }
    if (quote == '\'' && rest.starts_with("\\'")) {
      text += '\'';
      ++at;
    } else if (quote == '"' && rest.size() == 4 && rest.starts_with("\\x") &&
               rest.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string::npos) {
      text += static_cast<char>(std::stoi(rest.substr(2, 2), nullptr, 16));
      at += 3;
    } else if (quote == '"' && rest.size() > 1 && rest[0] == '\\') {
      const char c = rest[1];
      text += c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c == 'b' ? '\b' : c == 'a' ? '\a' : c;
      ++at;
    } else {
      text += line[at];
    }
  }
  return std::nullopt;
}

std::optional<RespCommand> naive_line(const std::string& line) {
  RespCommand words;
  for (size_t at = 0;;) {
    while (at < line.size() && naive_space(line[at])) ++at;
    if (at == line.size()) return words;
    const size_t bare = std::min(line.find_first_of(" \t\r\"'", at), line.size());
    words.push_back(line.substr(at, bare - at));
    at = bare;
    if (at == line.size() || naive_space(line[at])) continue;
    const auto quoted_part = naive_quoted(line, ++at, line[bare]);
    if (!quoted_part || (at < line.size() && !naive_space(line[at]))) return std::nullopt;
    words.back() += *quoted_part;
  }
}

// The number of a line "*3\r\n" at `at`; an error text, or nothing if the line is incomplete.
struct NaiveNumber {
  std::optional<int64_t> value;
  std::string error;
};
NaiveNumber naive_number(const std::string& bytes, size_t& at, size_t line_max, const std::string& too_long,
                         const std::string& invalid) {
  const size_t cr = bytes.find('\r', at);
  if (std::min(cr, bytes.size()) - at > line_max) return {{}, too_long};
  if (cr == std::string::npos || cr + 1 == bytes.size()) return {};
  const std::string digits = bytes.substr(at + 1, cr - at - 1);
  const std::string unsigned_digits = digits.starts_with('-') ? digits.substr(1) : digits;
  const bool plain = unsigned_digits.find_first_not_of("0123456789") == std::string::npos;
  const bool short_enough = !unsigned_digits.empty() && unsigned_digits.size() <= 18;
  const bool padded = unsigned_digits.starts_with('0') && digits != "0";
  if (bytes[cr + 1] != '\n' || !plain || !short_enough || padded) return {{}, invalid};
  at = cr + 2;
  return {std::stoll(digits), ""};
}

Heard naive(const std::string& all, const RespLimits& limits) {
  Heard out;
  const auto fail = [&](const std::string& text) {
    out.error = "Protocol error: " + text;
    return out;
  };
  const std::string line_max = ": the limit is " + std::to_string(limits.line_bytes_max) + " bytes";
  const auto over = [](size_t limit, int64_t value) {
    return ": the limit is " + std::to_string(limit) + ", this is " + std::to_string(value);
  };
  const std::string too_long =
      "the command is too long: client.query_bytes_max is " + std::to_string(limits.buffer_bytes_max);
  for (size_t at = 0; at < all.size();) {
    const size_t begin = at;
    const std::string bytes = all.substr(0, begin + limits.buffer_bytes_max);  // the most that a command can occupy
    const auto wait = [&] { return bytes.size() - begin >= limits.buffer_bytes_max ? fail(too_long) : out; };
    if (bytes[at] != '*') {
      const size_t end = bytes.find('\n', at);
      if (std::min(end, bytes.size()) - at > limits.line_bytes_max) return fail("too big inline request" + line_max);
      if (end == std::string::npos) return wait();
      std::string line = bytes.substr(at, end - at);
      if (line.ends_with('\r')) line.pop_back();
      const auto words = naive_line(line);
      if (!words) return fail("unbalanced quotes in request");
      if (words->size() > limits.arguments_max) {
        return fail("too big inline request: the limit is " + std::to_string(limits.arguments_max) +
                    " arguments, these are " + std::to_string(words->size()));
      }
      if (!words->empty()) out.commands.push_back(*words);
      at = end + 1;
      continue;
    }
    const NaiveNumber count = naive_number(bytes, at, limits.line_bytes_max, "too big mbulk count string" + line_max,
                                           "invalid multibulk length");
    if (!count.error.empty()) return fail(count.error);
    if (!count.value) return wait();
    if (*count.value > static_cast<int64_t>(limits.arguments_max)) {
      return fail("invalid multibulk length" + over(limits.arguments_max, *count.value));
    }
    RespCommand command;
    for (int64_t i = 0; i < *count.value; ++i) {
      if (at == bytes.size()) return wait();
      if (bytes[at] != '$') {
        const bool printable = bytes[at] >= ' ' && bytes[at] <= '~';
        return fail("expected '$', got '" + std::string(1, printable ? bytes[at] : '?') + "'");
      }
      const NaiveNumber size =
          naive_number(bytes, at, limits.line_bytes_max, "too big bulk count string" + line_max, "invalid bulk length");
      if (!size.error.empty()) return fail(size.error);
      if (!size.value) return wait();
      if (*size.value < 0) return fail("invalid bulk length");
      if (*size.value > static_cast<int64_t>(limits.bulk_bytes_max)) {
        return fail("invalid bulk length" + over(limits.bulk_bytes_max, *size.value));
      }
      const auto n = static_cast<size_t>(*size.value);
      if (at - begin + n + 2 > limits.buffer_bytes_max) return fail(too_long);
      if (bytes.size() - at < n + 2) return wait();
      if (bytes.substr(at + n, 2) != "\r\n") return fail("a bulk string does not end with \\r\\n");
      command.push_back(bytes.substr(at, n));
      at += n + 2;
    }
    if (!command.empty()) out.commands.push_back(command);
  }
  return out;
}

std::string random_text(Random& random, size_t bytes_max) {
  std::string out(random.below(bytes_max + 1), ' ');
  for (char& c : out) c = static_cast<char>(random.chance(70) ? random.between('a', 'z') : random.below(256));
  return out;
}

// As redis-cli prints a string.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c));
    out += c == '"' || c == '\\' ? std::string("\\") + c : c >= ' ' && c <= '~' ? std::string(1, c) : hex;
  }
  return out + '"';
}

std::string random_pipeline(Random& random, std::vector<RespCommand>& all) {
  std::string out;
  for (uint64_t n = random.between(1, 12); n != 0; --n) {
    RespCommand command(random.between(1, 6));
    for (std::string& argument : command) argument = random_text(random, random.chance(10) ? 3000 : 20);
    if (random.chance(10)) out += random.chance(50) ? "*0\r\n" : "\r\n";
    if (random.chance(30)) {
      std::string line;
      for (const std::string& argument : command) line += in_quotes(argument) + (random.chance(20) ? "\t " : " ");
      out += line + (random.chance(50) ? "\r\n" : "\n");
    } else {
      out += array_of(command);
    }
    all.push_back(std::move(command));
  }
  return out;
}

void hear_in_pieces(Conversation& conversation, const std::string& bytes, Random& random) {
  const uint64_t longest = random.chance(30) ? 1 : random.chance(50) ? 20 : bytes.size();
  for (size_t at = 0; at < bytes.size();) {
    const size_t part = std::min<size_t>(random.between(1, longest), bytes.size() - at);
    // In its own buffer of exactly its length, so that reading past its end is detected.
    const std::vector<char> piece(bytes.begin() + static_cast<ptrdiff_t>(at),
                                  bytes.begin() + static_cast<ptrdiff_t>(at + part));
    ASSERT_NO_FATAL_FAILURE(conversation.hear({piece.data(), piece.size()}, random.between(1, 64)));
    if (random.chance(5)) conversation.reader().shrink();
    at += part;
  }
}

TEST(RespReader, AnySplitGivesTheSameCommands) {
  Random random(1);
  for (int i = 0; i < (kSanitized ? 400 : 2000); ++i) {
    std::vector<RespCommand> all;
    const std::string bytes = random_pipeline(random, all);
    Conversation conversation;
    ASSERT_NO_FATAL_FAILURE(hear_in_pieces(conversation, bytes, random));
    ASSERT_EQ(conversation.heard(), commands(all)) << ::testing::PrintToString(bytes);
  }
}

TEST(RespReader, WhateverComesIsAnsweredAsByTheNaiveTwin) {
  Random random(2);
  size_t errors = 0;
  for (int i = 0; i < (kSanitized ? 1000 : 6000); ++i) {
    RespLimits limits;
    if (random.chance(50)) {
      limits.arguments_max = random.between(1, 6);
      limits.bulk_bytes_max = random.between(1, 100);
      limits.line_bytes_max = random.between(1, 100);
      limits.buffer_bytes_max = random.between(1, 300);
    }
    std::vector<RespCommand> all;
    std::string bytes = random_pipeline(random, all);
    constexpr std::string_view kLikely = "*$\r\n\"'\\x 0123456789-+\t\v";
    for (uint64_t changes = random.below(4); changes != 0; --changes) {
      const size_t at = random.below(bytes.size());
      const char byte =
          random.chance(70) ? kLikely[random.below(kLikely.size())] : static_cast<char>(random.below(256));
      const uint64_t kind = random.below(3);
      if (kind == 0) bytes[at] = byte;
      if (kind == 1) bytes.insert(at, 1, byte);
      if (kind == 2 && bytes.size() > 10) bytes.erase(at, random.between(1, 3));
    }
    if (random.chance(10)) bytes = random_text(random, 300) + "\n";
    Conversation conversation(limits);
    ASSERT_NO_FATAL_FAILURE(hear_in_pieces(conversation, bytes, random));
    ASSERT_EQ(conversation.heard(), naive(bytes, limits)) << ::testing::PrintToString(bytes);
    errors += conversation.heard().error.empty() ? 0 : 1;
  }
  EXPECT_GT(errors, kSanitized ? 150U : 1000U);
}

TEST(RespReader, GarbageEndsInAnErrorOrWantsMore) {
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random.below(2000), '*');
    for (char& c : bytes) c = static_cast<char>(random.below(random.chance(50) ? 256 : 64));
    Conversation conversation;
    ASSERT_NO_FATAL_FAILURE(hear_in_pieces(conversation, bytes, random));
  }
}

}  // namespace
}  // namespace weft
