// Single bits, counting and searching them, and operations on whole strings of them.
#include "weft/server/bits.h"

#include <algorithm>
#include <bit>

#include "weft/server/command_text.h"

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

int64_t count_bits(std::string_view bytes) {
  int64_t count = 0;
  for (const char c : bytes) count += std::popcount(static_cast<uint8_t>(c));
  return count;
}

// A range with both ends, of bits or of bytes, negative ones from the end; empty if first > last.
struct Range {
  int64_t first, last;
};
Range clamp(int64_t first, int64_t last, int64_t all) {
  if (first < 0) first += all;
  if (last < 0) last += all;
  return {std::max<int64_t>(first, 0), std::min(std::max<int64_t>(last, 0), all - 1)};
}

// BIT or BYTE; false: the reply says that it is neither.
bool parse_unit(std::string_view word, bool* bits, RespWriter& reply) {
  *bits = same_word(word, "bit");
  if (*bits || same_word(word, "byte")) return true;
  reply.error(kSyntaxError);
  return false;
}

void bitcount(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  Keyspace::Found found;
  if (!keys.find_string(arguments[1], &found, reply)) return;
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
  // Whole bytes, without the bits of the first and the last one that are outside.
  const auto from = static_cast<size_t>(range.first / 8);
  const auto to = static_cast<size_t>(range.last / 8);
  int64_t count = count_bits(bytes.substr(from, to - from + 1));
  for (int64_t at = range.first / 8 * 8; at < range.first; ++at)
    count -= bit_at(bytes, static_cast<uint64_t>(at)) ? 1 : 0;
  for (int64_t at = range.last + 1; at % 8 != 0; ++at) count -= bit_at(bytes, static_cast<uint64_t>(at)) ? 1 : 0;
  reply.integer(count);
}

// The first bit that is so in the range of bits; -1: there is none.
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
  Range range = clamp(first, last, all * (bits ? 8 : 1));
  if (range.first > range.last) return reply.integer(-1);
  if (!bits) range = {range.first * 8, range.last * 8 + 7};
  const int64_t at = find_bit(found.bytes, *bit == 1, range);
  // Without an end, the string goes on with zeros.
  reply.integer(at < 0 && *bit == 0 && arguments.size() <= 4 ? all * 8 : at);
}

void bitop(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const std::string_view name = arguments[1];
  const bool inverts = same_word(name, "not");
  if (!inverts && !same_word(name, "and") && !same_word(name, "or") && !same_word(name, "xor")) {
    return reply.error(kSyntaxError);
  }
  if (inverts && arguments.size() != 4) {
    return reply.error("ERR BITOP NOT must be called with a single source key.");
  }
  std::string out;
  bool first = true;
  size_t longest = 0;
  const Arguments sources = arguments.subspan(3);
  for (const std::string_view key : sources) {
    Keyspace::Found found;
    if (!keys.find_string(key, &found, reply)) return;
    longest = std::max(longest, found.exists ? found.bytes.size() : 0);
  }
  for (const std::string_view key : sources) {
    const Keyspace::Found found = keys.find(key);
    std::string bytes(found.exists ? found.bytes : std::string_view());
    bytes.resize(longest);
    for (size_t i = 0; i < longest && !first; ++i) {
      const char c = bytes[i];
      out[i] = static_cast<char>(same_word(name, "and") ? out[i] & c : same_word(name, "or") ? out[i] | c : out[i] ^ c);
    }
    if (first) out = bytes;
    first = false;
  }
  if (inverts) {
    for (char& c : out) c = static_cast<char>(~c);
  }
  if (longest == 0) {
    if (keys.find(arguments[2]).exists) keys.erase(arguments[2]);
  } else if (!keys.put(arguments[2], out, kNoDeadline, reply)) {
    return;
  }
  reply.integer(static_cast<int64_t>(longest));
}

constexpr KeyRange kOne{1, 1, 1};
constexpr const char* kGroup = "bits";

constexpr Command kCommands[] = {
    {"bitcount", -2, 0, kOne, kGroup, "how many bits are set, in a range of bytes or bits", bitcount},
    {"bitop", -4, kWrites | kMayGrow, {2, -1, 1}, kGroup, "AND, OR, XOR or NOT of strings, into a key", bitop},
    {"bitpos", -3, 0, kOne, kGroup, "the first bit that is 0 or 1, in a range of bytes or bits", bitpos},
    {"getbit", 3, kFast, kOne, kGroup, "a bit", getbit},
    {"setbit", 4, kWrites | kMayGrow, kOne, kGroup, "sets a bit; what it was", setbit},
};

}  // namespace

std::span<const Command> bit_commands() { return kCommands; }

}  // namespace weft
