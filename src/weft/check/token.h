// The checker of the token workload: N tokens lie on keys, at most one on each; a transaction moves a token by deleting
// its key and inserting another; readers read all keys in one transaction. What must hold:
//
//   I1  every committed reader, and the final state, finds each of the N tokens exactly once, and no other;
//   I2  it finds a token only where it began or where a move that did not fail put it, and the move was invoked
//       before the reader completed;
//   I3  the committed moves of a token explain its final key: moves into a key, and its start there, less moves out
//       of it are 1 at the final key and 0 elsewhere. (Not asked of tokens with a move of unknown outcome.)
//
// List-append histories never delete keys; this workload does little else. Pure functions: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/check/history.h"

namespace weft {

struct TokenAt {
  uint64_t token = 0;
  uint64_t key = 0;
  friend auto operator<=>(const TokenAt&, const TokenAt&) = default;
};

struct TokenMove {
  uint64_t token = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t invoke = 0;
  uint64_t complete = 0;  // ignored for kInfo
  TxnRecord::Type type = TxnRecord::Type::kOk;
};

// A committed transaction that read all keys.
struct TokenRead {
  uint64_t invoke = 0;
  uint64_t complete = 0;
  std::vector<TokenAt> found;  // in any order
};

struct TokenRun {
  std::vector<TokenAt> start;  // its tokens are the N tokens
  std::vector<TokenMove> moves;
  std::vector<TokenRead> reads;
  std::vector<TokenAt> end;  // after all moves have ended
};

struct TokenVerdict {
  std::string fault;  // empty: the run is right; else which reader, token and key
  size_t reads = 0;
  size_t moves = 0;  // committed
  bool valid() const { return fault.empty(); }
};

TokenVerdict check_token(const TokenRun& run);

}  // namespace weft
