// LCS: the longest common subsequence of two strings.
//
// The textbook algorithm has a table at(i, j): the length for the first i bytes of a and the first j of b. Neighbours
// in a row differ by 0 or 1, so a row is stored as these differences, a bit each, and is computed from the previous
// row by an addition over machine words (Hyyro, "Bit-parallel LCS-length computation revisited"): 64 cells in a few
// instructions.
#include "weft/redis/strings_lcs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "weft/redis/command_text.h"

namespace weft {

namespace {

constexpr size_t kWordBits = 64;

size_t words_for(std::string_view b) { return (b.size() + kWordBits - 1) / kWordBits; }

// For each byte that occurs in `a`, its positions in `b`: a bit for each.
class Places {
 public:
  Places(std::string_view a, std::string_view b) : words_(words_for(b)) {
    size_t kinds = 0;
    for (const char c : a) {
      if (size_t& kind = kind_[static_cast<uint8_t>(c)]; kind == 0) kind = ++kinds;
    }
    bits_.resize(kinds * words_);
    for (size_t j = 0; j < b.size(); ++j) {
      if (const size_t kind = kind_[static_cast<uint8_t>(b[j])]; kind != 0) {
        bits_[(kind - 1) * words_ + j / kWordBits] |= uint64_t{1} << j % kWordBits;
      }
    }
  }
  const uint64_t* of(char c) const { return bits_.data() + (kind_[static_cast<uint8_t>(c)] - 1) * words_; }

 private:
  const size_t words_;
  std::array<size_t, 256> kind_{};  // from 1
  std::vector<uint64_t> bits_;
};

// A bit that is 0 in a row: at(i, j) is one more than at(i, j - 1).
void next_row(const uint64_t* before, const uint64_t* places, size_t words, uint64_t* row) {
  uint64_t carry = 0;
  for (size_t w = 0; w < words; ++w) {
    const uint64_t old = before[w];
    const uint64_t met = old & places[w];
    uint64_t sum = 0;
    const bool first = __builtin_add_overflow(old, met, &sum);
    const bool second = __builtin_add_overflow(sum, carry, &sum);
    carry = first || second ? 1 : 0;
    row[w] = sum | (old & ~places[w]);
  }
}

size_t zeros(const uint64_t* row, size_t bits) {
  size_t count = 0;
  for (size_t at = 0; at < bits; at += kWordBits) {
    const uint64_t mask = bits - at >= kWordBits ? ~uint64_t{0} : (uint64_t{1} << (bits - at)) - 1;
    count += static_cast<size_t>(std::popcount(~row[at / kWordBits] & mask));
  }
  return count;
}

// From the end, as Redis walks: a match, otherwise up if the cell above has more than the one to the left. Since the
// larger of the two is the cell itself, that is so exactly if the one to the left has less.
void walk(std::string_view a, std::string_view b, const std::vector<uint64_t>& rows, Lcs* out) {
  const size_t words = words_for(b);
  size_t i = a.size();
  size_t j = b.size();
  for (size_t left = out->common.size(); left > 0;) {
    if (a[i - 1] == b[j - 1]) {
      out->common[--left] = a[i - 1];
      if (!out->matches.empty() && out->matches.back().a_first == i && out->matches.back().b_first == j) {
        --out->matches.back().a_first;
        --out->matches.back().b_first;
      } else {
        out->matches.push_back({i - 1, i - 1, j - 1, j - 1});
      }
      --i;
      --j;
    } else {
      const bool left_has_less = (rows[i * words + (j - 1) / kWordBits] >> (j - 1) % kWordBits & 1) == 0;
      left_has_less ? --i : --j;
    }
  }
}

}  // namespace

Lcs longest_common_subsequence(std::string_view a, std::string_view b, bool with_matches) {
  Lcs out;
  const size_t words = words_for(b);
  const Places places(a, b);
  std::vector<uint64_t> rows((with_matches ? a.size() + 1 : 2) * words, ~uint64_t{0});
  const auto row = [&](size_t i) { return rows.data() + (with_matches ? i : i % 2) * words; };
  for (size_t i = 0; i < a.size(); ++i) next_row(row(i), places.of(a[i]), words, row(i + 1));
  out.length = zeros(row(a.size()), b.size());
  if (!with_matches) return out;
  out.common.resize(out.length);
  walk(a, b, rows, &out);
  return out;
}

namespace {

// Cells of the table: at most a quarter of a million words, well below a millisecond.
constexpr uint64_t kCellsMax = 16 << 20;
constexpr uint64_t kWordNs = 2;

struct Options {
  bool length = false, index = false, match_lengths = false;
  int64_t match_least = 0;
};

bool parse(Arguments options, Options* out, RespWriter& reply) {
  for (size_t i = 0; i < options.size(); ++i) {
    if (same_word(options[i], "idx")) {
      out->index = true;
    } else if (same_word(options[i], "len")) {
      out->length = true;
    } else if (same_word(options[i], "withmatchlen")) {
      out->match_lengths = true;
    } else if (same_word(options[i], "minmatchlen") && i + 1 < options.size()) {
      const auto least = integer_argument(options[++i], reply);
      if (!least) return false;
      out->match_least = std::max<int64_t>(*least, 0);
    } else {
      reply.error(kSyntaxError);
      return false;
    }
  }
  if (!out->index || !out->length) return true;
  reply.error("ERR If you want both the length and indexes, please just use IDX.");
  return false;
}

void reply_matches(const std::vector<LcsMatch>& matches, const Options& options, size_t length, RespWriter& reply) {
  const auto shown = [&](const LcsMatch& m) {
    return options.match_least == 0 || static_cast<int64_t>(m.a_last - m.a_first + 1) >= options.match_least;
  };
  reply.map(2);
  reply.bulk("matches");
  reply.array(static_cast<size_t>(std::count_if(matches.begin(), matches.end(), shown)));
  for (const LcsMatch& m : matches) {
    if (!shown(m)) continue;
    reply.array(options.match_lengths ? 3 : 2);
    for (const auto& [first, last] : {std::pair(m.a_first, m.a_last), std::pair(m.b_first, m.b_last)}) {
      reply.array(2);
      reply.integer(static_cast<int64_t>(first));
      reply.integer(static_cast<int64_t>(last));
    }
    if (options.match_lengths) reply.integer(static_cast<int64_t>(m.a_last - m.a_first + 1));
  }
  reply.bulk("len");
  reply.integer(static_cast<int64_t>(length));
}

uint64_t work_ns(size_t a_bytes, size_t b_bytes) {
  return (uint64_t{a_bytes} + 1) * (b_bytes / kWordBits + 1) * kWordNs;
}

void lcs(Keyspace& keys, Arguments arguments, RespWriter& reply) {
  const Keyspace::Found a = keys.find(arguments[1]);
  const Keyspace::Found b = keys.find(arguments[2]);
  if ((a.exists && a.type != ValueType::kString) || (b.exists && b.type != ValueType::kString)) {
    return reply.error("ERR The specified keys must contain string values");
  }
  Options options;
  if (!parse(arguments.subspan(3), &options, reply)) return;
  const std::string_view a_bytes = a.exists ? a.bytes : std::string_view();
  const std::string_view b_bytes = b.exists ? b.bytes : std::string_view();
  const uint64_t cells = uint64_t{a_bytes.size()} * b_bytes.size();
  if (cells > kCellsMax) {
    return reply.error("ERR String too long for LCS: the product of the lengths is at most " +
                       std::to_string(kCellsMax) + ", asked for " + std::to_string(cells));
  }
  keys.add_work(work_ns(a_bytes.size(), b_bytes.size()));
  const Lcs found = longest_common_subsequence(a_bytes, b_bytes, !options.length);
  if (options.length) return reply.integer(static_cast<int64_t>(found.length));
  options.index ? reply_matches(found.matches, options, found.length, reply) : reply.bulk(found.common);
}

uint64_t lcs_cost(Keyspace& keys, Arguments arguments) {
  const size_t a = keys.bytes_of(arguments[1]);
  const size_t b = keys.bytes_of(arguments[2]);
  return uint64_t{a} * b > kCellsMax ? 0 : work_ns(a, b);
}

constexpr Command kLcsCommands[] = {
    {"lcs",
     -3,
     0,
     {1, 2, 1},
     "strings",
     "the longest common subsequence of two strings (LEN IDX MINMATCHLEN WITHMATCHLEN)",
     lcs,
     nullptr,
     nullptr,
     nullptr,
     lcs_cost},
};

}  // namespace

std::span<const Command> lcs_commands() { return kLcsCommands; }

}  // namespace weft
