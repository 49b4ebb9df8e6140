#include "weft/redis/command_text.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace weft {

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return {};
  const char first = text[text[0] == '-' ? 1 : 0];
  if (first == '0' && text != "0") return {};
  return value;
}

std::optional<long double> parse_real(std::string_view text) {
  constexpr size_t kCharactersMax = 5 * 1024;
  if (text.empty() || text.size() >= kCharactersMax || text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))
    return {};
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const long double value = std::strtold(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size() || std::isnan(value)) return {};
  if (errno == ERANGE && (std::isinf(value) || std::fpclassify(value) == FP_ZERO)) return {};
  return value;
}

std::string real_text(long double value) {
  char text[5 * 1024];
  std::string out(text, static_cast<size_t>(std::snprintf(text, sizeof text, "%.17Lf", value)));
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out == "-0" ? "0" : out;
}

std::optional<int64_t> integer_argument(std::string_view text, RespWriter& reply, std::string_view error) {
  const std::optional<int64_t> value = parse_integer(text);
  if (!value) reply.error(error);
  return value;
}

std::optional<int64_t> deadline_of(int64_t amount, int64_t unit_ms, bool absolute, int64_t now_ms,
                                   std::string_view command, RespWriter& reply) {
  int64_t ms = 0;
  bool fits = !__builtin_mul_overflow(amount, unit_ms, &ms);
  if (fits && !absolute) fits = !__builtin_add_overflow(ms, now_ms, &ms);
  if (fits) return ms;
  reply.error("ERR invalid expire time in '" + std::string(command) + "' command");
  return {};
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace weft
