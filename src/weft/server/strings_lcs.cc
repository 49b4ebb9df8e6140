// LCS: the longest common subsequence of two strings, by the table that every textbook has.
#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "weft/server/command_text.h"

namespace weft {
namespace {

// Of the table. A worker does nothing else meanwhile: at some 0.5 ns a cell this is below 10 ms.
constexpr uint64_t kCellsMax = 16 << 20;

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

struct Match {
  size_t a_first, a_last, b_first, b_last;
};

// at(i, j): the length for the first i bytes of a and the first j of b.
class Lengths {
 public:
  Lengths(std::string_view a, std::string_view b) : row_(b.size() + 1), cells_((a.size() + 1) * row_) {
    for (size_t i = 1; i <= a.size(); ++i) {
      for (size_t j = 1; j <= b.size(); ++j) {
        at(i, j) = a[i - 1] == b[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
      }
    }
  }
  uint32_t& at(size_t i, size_t j) { return cells_[i * row_ + j]; }

 private:
  const size_t row_;
  std::vector<uint32_t> cells_;
};

// From the end, as Redis walks it: the subsequence, and its runs of neighbours, the last one first.
std::string walk(std::string_view a, std::string_view b, Lengths& lengths, std::vector<Match>* matches) {
  std::string common(lengths.at(a.size(), b.size()), '\0');
  size_t left = common.size();
  size_t i = a.size();
  size_t j = b.size();
  bool open = false;
  while (i > 0 && j > 0 && left > 0) {
    if (a[i - 1] == b[j - 1]) {
      common[--left] = a[i - 1];
      if (open && matches->back().a_first == i && matches->back().b_first == j) {
        --matches->back().a_first;
        --matches->back().b_first;
      } else {
        matches->push_back({i - 1, i - 1, j - 1, j - 1});
        open = true;
      }
      --i;
      --j;
    } else {
      lengths.at(i - 1, j) > lengths.at(i, j - 1) ? --i : --j;
    }
  }
  return common;
}

void reply_matches(const std::vector<Match>& matches, const Options& options, size_t length, RespWriter& reply) {
  const auto shown = [&](const Match& m) {
    return options.match_least == 0 || static_cast<int64_t>(m.a_last - m.a_first + 1) >= options.match_least;
  };
  reply.map(2);
  reply.bulk("matches");
  reply.array(static_cast<size_t>(std::count_if(matches.begin(), matches.end(), shown)));
  for (const Match& m : matches) {
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
  const uint64_t cells = (a_bytes.size() + 1) * (b_bytes.size() + 1);
  if (cells > kCellsMax) {
    return reply.error("ERR String too long for LCS: the product of the lengths is at most " +
                       std::to_string(kCellsMax) + ", asked for " + std::to_string(cells));
  }
  Lengths lengths(a_bytes, b_bytes);
  const size_t length = lengths.at(a_bytes.size(), b_bytes.size());
  if (options.length) return reply.integer(static_cast<int64_t>(length));
  std::vector<Match> matches;
  const std::string common = walk(a_bytes, b_bytes, lengths, &matches);
  options.index ? reply_matches(matches, options, length, reply) : reply.bulk(common);
}

constexpr Command kCommands[] = {
    {"lcs",
     -3,
     0,
     {1, 2, 1},
     "strings",
     "the longest common subsequence of two strings (LEN IDX MINMATCHLEN WITHMATCHLEN)",
     lcs},
};

}  // namespace

std::span<const Command> lcs_commands() { return kCommands; }

}  // namespace weft
