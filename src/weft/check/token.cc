#include "weft/check/token.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace weft {
namespace {

// When the first move of a token to a key was invoked, of the moves that did not fail.
using Arrivals = std::map<TokenAt, uint64_t>;

std::string text(const TokenAt& at) {
  return "token " + std::to_string(at.token) + " on key " + std::to_string(at.key);
}

std::vector<TokenAt> sorted(std::vector<TokenAt> tokens) {
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

// I1, for lists sorted by token.
std::optional<std::string> check_each_once(const std::vector<TokenAt>& start, const std::vector<TokenAt>& found) {
  const std::string count = "found " + std::to_string(found.size()) + " tokens of " + std::to_string(start.size());
  size_t i = 0;
  for (const TokenAt& expected : start) {
    if (i == found.size() || found[i].token > expected.token) {
      return count + ": token " + std::to_string(expected.token) + " is missing";
    }
    if (found[i].token < expected.token) return count + ": " + text(found[i]) + " is none of them";
    if (i + 1 < found.size() && found[i + 1].token == expected.token) {
      return count + ": " + text(found[i]) + " and on key " + std::to_string(found[i + 1].key);
    }
    ++i;
  }
  if (i < found.size()) return count + ": " + text(found[i]) + " is none of them";
  return std::nullopt;
}

// I2.
std::optional<std::string> check_places(const Arrivals& arrivals, const std::vector<TokenAt>& found, uint64_t until) {
  for (const TokenAt& at : found) {
    const auto arrival = arrivals.find(at);
    if (arrival == arrivals.end()) return "found " + text(at) + ", where no move put it that did not fail";
    if (arrival->second > until) {
      return "found " + text(at) + " and completed at " + std::to_string(until) +
             ", but the first move that put it there was invoked at " + std::to_string(arrival->second);
    }
  }
  return std::nullopt;
}

// I3.
std::optional<std::string> check_moves(const TokenRun& run) {
  struct Times {
    int64_t by_moves = 0;
    int64_t at_end = 0;
  };
  std::map<TokenAt, Times> times;
  std::set<uint64_t> unknown;
  for (const TokenAt& at : run.start) ++times[at].by_moves;
  for (const TokenAt& at : run.end) ++times[at].at_end;
  for (const TokenMove& move : run.moves) {
    if (move.type == TxnRecord::Type::kInfo) unknown.insert(move.token);
    if (move.type != TxnRecord::Type::kOk) continue;
    --times[{move.token, move.from}].by_moves;
    ++times[{move.token, move.to}].by_moves;
  }
  for (const auto& [at, count] : times) {
    if (count.by_moves == count.at_end || unknown.contains(at.token)) continue;
    return text(at) + ": the start and the committed moves leave it there " + std::to_string(count.by_moves) +
           " times, the final state says " + std::to_string(count.at_end);
  }
  return std::nullopt;
}

}  // namespace

TokenVerdict check_token(const TokenRun& run) {
  TokenVerdict verdict;
  Arrivals arrivals;
  for (const TokenAt& at : run.start) arrivals[at] = 0;
  for (const TokenMove& move : run.moves) {
    verdict.moves += move.type == TxnRecord::Type::kOk;
    if (move.type == TxnRecord::Type::kFail) continue;
    const auto [it, fresh] = arrivals.try_emplace({move.token, move.to}, move.invoke);
    if (!fresh) it->second = std::min(it->second, move.invoke);
  }
  const std::vector<TokenAt> start = sorted(run.start);
  const auto check = [&](const std::string& who, const std::vector<TokenAt>& tokens, uint64_t until) {
    const std::vector<TokenAt> found = sorted(tokens);
    std::optional<std::string> fault = check_each_once(start, found);
    if (!fault) fault = check_places(arrivals, found, until);
    if (fault) verdict.fault = who + " " + *fault;
    return !fault;
  };
  for (const TokenRead& read : run.reads) {
    const std::string who =
        "the reader of " + std::to_string(read.invoke) + " to " + std::to_string(read.complete) + " ns";
    if (!check(who, read.found, read.complete)) return verdict;
    ++verdict.reads;
  }
  if (!check("the final state", run.end, std::numeric_limits<uint64_t>::max())) return verdict;
  if (const auto fault = check_moves(run)) verdict.fault = *fault;
  return verdict;
}

}  // namespace weft
