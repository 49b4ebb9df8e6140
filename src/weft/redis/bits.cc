// Single bits, counting and searching them, and operations on entire bit strings.
#include "weft/redis/bits.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "weft/redis/command_text.h"

namespace weft {

std::optional<uint64_t> bit_offset(std::string_view text, int64_t unit, RespWriter& reply) {
  constexpr int64_t kBits = int64_t{1} << 32;
  const bool counted = unit > 0 && text.starts_with('#');
  const auto number = parse_integer(text.substr(counted ? 1 : 0));
  int64_t at = 0;
  if (!number || __builtin_mul_overflow(*number, counted ? unit : 1, &at) || at < 0 || at >= kBits) {
    reply.error("ERR bit offset is not an integer or out of range");
    return {};
  }
  return static_cast<uint64_t>(at);
}

namespace {

void setbit(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const auto at = bit_offset(arguments[2], 0, reply);
  if (!at) return;
  constexpr std::string_view kBadBit = "ERR bit is not an integer or out of range";
  const auto bit = integer_argument(arguments[3], reply, kBadBit);
  if (!bit) return;
  if (*bit != 0 && *bit != 1) return reply.error(kBadBit);
  Keyspace::Found old;
  if (!keys.find_string(arguments[1], &old, reply)) return;
  if (!old.exists) old = {};
  if (!keys.fits(*at / 8 + 1, reply)) return;
  std::string bytes(old.bytes);
  bytes.resize(std::max<size_t>(bytes.size(), *at / 8 + 1));
  reply.integer(bit_at(bytes, *at) ? 1 : 0);
  set_bit(bytes, *at, *bit == 1);
  if (!old.exists || bytes != old.bytes) keys.put(arguments[1], bytes, old.deadline_ms, reply);
}

void getbit(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const auto at = bit_offset(arguments[2], 0, reply);
  if (!at) return;
  Keyspace::Found found;
  if (!keys.find_string(arguments[1], &found, reply)) return;
  reply.integer(found.exists && bit_at(found.bytes, *at) ? 1 : 0);
}

constexpr size_t kWordBytes = sizeof(uint64_t);

uint64_t word_at(const char* from) {
  uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

int64_t count_bits(std::string_view bytes) {
  int64_t count = 0;
  size_t at = 0;
  for (; at + kWordBytes <= bytes.size(); at += kWordBytes) count += std::popcount(word_at(bytes.data() + at));
  for (; at < bytes.size(); ++at) count += std::popcount(static_cast<uint8_t>(bytes[at]));
  return count;
}

// A range of bits or bytes, both ends included, negative ones counting from the end; empty if first > last.
struct Range {
  int64_t first, last;
};
Range clamp(int64_t first, int64_t last, int64_t all) {
  if (first < 0) first += all;
  if (last < 0) last += all;
  return {std::max<int64_t>(first, 0), std::min(std::max<int64_t>(last, 0), all - 1)};
}

// BIT or BYTE; false: it is neither, and the reply says so.
bool parse_unit(std::string_view word, bool* bits, RespWriter& reply) {
  *bits = same_word(word, "bit");
  if (*bits || same_word(word, "byte")) return true;
  reply.error(kSyntaxError);
  return false;
}

void bitcount(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found found;
  if (!keys.find_string(arguments[1], &found, reply)) return;
  keys.add_work(Keyspace::bytes_ns(found.bytes.size()));
  if (!found.exists) return reply.integer(0);
  const std::string_view bytes = found.bytes;
  if (arguments.size() == 2) return reply.integer(count_bits(bytes));
  if (arguments.size() > 5 || arguments.size() < 4) return reply.error(kSyntaxError);
  const auto first = integer_argument(arguments[2], reply);
  if (!first) return;
  const auto last = integer_argument(arguments[3], reply);
  if (!last) return;
  if (*first < 0 && *last < 0 && *first > *last) return reply.integer(0);
  bool bits = false;
  if (arguments.size() == 5 && !parse_unit(arguments[4], &bits, reply)) return;
  const Range range = clamp(*first, *last, static_cast<int64_t>(bytes.size()) * (bits ? 8 : 1));
  if (range.first > range.last) return reply.integer(0);
  if (!bits) {
    return reply.integer(
        count_bits(bytes.substr(static_cast<size_t>(range.first), static_cast<size_t>(range.last - range.first + 1))));
  }
  // Entire bytes, without the bits of the first and the last one that are outside the range.
  const auto from = static_cast<size_t>(range.first / 8);
  const auto to = static_cast<size_t>(range.last / 8);
  int64_t count = count_bits(bytes.substr(from, to - from + 1));
  for (int64_t at = range.first / 8 * 8; at < range.first; ++at)
    count -= bit_at(bytes, static_cast<uint64_t>(at)) ? 1 : 0;
  for (int64_t at = range.last + 1; at % 8 != 0; ++at) count -= bit_at(bytes, static_cast<uint64_t>(at)) ? 1 : 0;
  reply.integer(count);
}

// The first bit with the wanted value in the range of bits; -1: there is none.
int64_t find_bit(std::string_view bytes, bool wanted, Range range) {
  const char none = wanted ? '\0' : '\xff';
  for (int64_t at = range.first; at <= range.last;) {
    if (at % 8 == 0 && at + 7 <= range.last && bytes[static_cast<size_t>(at / 8)] == none) {
      at += 8;
    } else if (bit_at(bytes, static_cast<uint64_t>(at)) == wanted) {
      return at;
    } else {
      ++at;
    }
  }
  return -1;
}

void bitpos(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const auto bit = integer_argument(arguments[2], reply);
  if (!bit) return;
  if (*bit != 0 && *bit != 1) return reply.error("ERR The bit argument must be 1 or 0.");
  Keyspace::Found found;
  if (!keys.find_string(arguments[1], &found, reply)) return;
  if (!found.exists) return reply.integer(*bit == 1 ? -1 : 0);
  if (arguments.size() > 6) return reply.error(kSyntaxError);
  int64_t first = 0;
  int64_t last = -1;
  bool bits = false;
  if (arguments.size() > 3) {
    const auto given = integer_argument(arguments[3], reply);
    if (!given) return;
    first = *given;
  }
  if (arguments.size() == 6 && !parse_unit(arguments[5], &bits, reply)) return;
  if (arguments.size() > 4) {
    const auto given = integer_argument(arguments[4], reply);
    if (!given) return;
    last = *given;
  }
  const auto all = static_cast<int64_t>(found.bytes.size());
  keys.add_work(found.bytes.size());
  Range range = clamp(first, last, all * (bits ? 8 : 1));
  if (range.first > range.last) return reply.integer(-1);
  if (!bits) range = {range.first * 8, range.last * 8 + 7};
  const int64_t at = find_bit(found.bytes, *bit == 1, range);
  // Without an explicit end, the string continues with zeros.
  reply.integer(at < 0 && *bit == 0 && arguments.size() <= 4 ? all * 8 : at);
}

// A key that is named again changes nothing (AND, OR), or cancels itself (XOR). So each value is read once, and the
// work is bounded by what a transaction holds.
void add_source(std::vector<std::string_view>& values, std::string_view value, bool toggles) {
  const auto same = [&](std::string_view other) { return other.data() == value.data(); };
  const auto at = std::find_if(values.begin(), values.end(), same);
  if (at == values.end()) {
    values.push_back(value);
  } else if (toggles) {
    values.erase(at);
  }
}

// Only the first bytes of `out`, as many as `value` has.
template <class F>
void combine(std::string& out, std::string_view value, F f) {
  size_t at = 0;
  for (; at + kWordBytes <= value.size(); at += kWordBytes) {
    const uint64_t word = f(word_at(out.data() + at), word_at(value.data() + at));
    std::memcpy(out.data() + at, &word, sizeof word);
  }
  for (; at < value.size(); ++at) {
    out[at] = static_cast<char>(f(static_cast<uint8_t>(out[at]), static_cast<uint8_t>(value[at])));
  }
}

void bitop(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const std::string_view name = arguments[1];
  const bool inverts = same_word(name, "not");
  const bool both = same_word(name, "and");
  const bool either = same_word(name, "or");
  const bool one = same_word(name, "xor");
  if (!inverts && !both && !either && !one) return reply.error(kSyntaxError);
  if (inverts && arguments.size() != 4) {
    return reply.error("ERR BITOP NOT must be called with a single source key.");
  }
  std::vector<std::string_view> values;
  size_t longest = 0;
  bool missing = false;  // a string of zeros
  for (const std::string_view key : arguments.subspan(3)) {
    Keyspace::Found found;
    if (!keys.find_string(key, &found, reply)) return;
    if (found.exists && !found.bytes.empty()) {
      longest = std::max(longest, found.bytes.size());
      add_source(values, found.bytes, one);
    } else {
      missing = true;
    }
  }
  std::string out(longest, both && !missing ? '\xff' : '\0');
  for (const std::string_view value : values) {
    keys.add_work(Keyspace::bytes_ns(value.size()));
    if (both) {
      combine(out, value, [](uint64_t a, uint64_t b) { return a & b; });
      std::fill(out.begin() + static_cast<ptrdiff_t>(value.size()), out.end(), '\0');
    }
    if (either) combine(out, value, [](uint64_t a, uint64_t b) { return a | b; });
    if (one) combine(out, value, [](uint64_t a, uint64_t b) { return a ^ b; });
    if (inverts) combine(out, value, [](uint64_t, uint64_t b) { return ~b; });
  }
  if (longest == 0) {
    if (keys.find(arguments[2]).exists) keys.erase(arguments[2]);
  } else if (!keys.put(arguments[2], out, kNoDeadline, reply)) {
    return;
  }
  reply.integer(static_cast<int64_t>(longest));
}

uint64_t bitop_cost(Keyspace& keys, Arguments arguments) {
  std::vector<std::string_view> seen;
  uint64_t bytes = 0;
  for (const std::string_view key : arguments.subspan(3)) {
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    bytes += keys.bytes_of(key);
  }
  return Keyspace::bytes_ns(bytes);
}

constexpr Command kBitCommands[] = {
    {"bitcount", -2, 0, kOneKey, "bits", "how many bits are set, in a range of bytes or bits", bitcount},
    {"bitop",
     -4,
     kWrites | kMayGrow,
     {2, -1, 1},
     "bits",
     "AND, OR, XOR or NOT of strings, into a key",
     bitop,
     nullptr,
     nullptr,
     nullptr,
     bitop_cost},
    {"bitpos", -3, 0, kOneKey, "bits", "the first bit that is 0 or 1, in a range of bytes or bits", bitpos},
    {"getbit", 3, kFast, kOneKey, "bits", "a bit", getbit},
    {"setbit", 4, kWrites | kMayGrow, kOneKey, "bits", "sets a bit; what it was", setbit},
};

}  // namespace

std::span<const Command> bit_commands() { return kBitCommands; }

}  // namespace weft
