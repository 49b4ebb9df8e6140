// What the checker needs to know of a history, found in one pass: keys as numbers, who appended what, the longest
// read of each key and so the order of its appends. For one check on one thread; the history must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/check/history.h"
#include "weft/check/key_table.h"

namespace weft::checking {

inline constexpr uint32_t kNobody = ~0U;

struct Append {
  int64_t element = 0;
  uint32_t txn = 0;
  uint32_t key = 0;
  uint32_t position = kNobody;  // in the key's order; kNobody if no read has it
  uint32_t previous = kNobody;  // its transaction's append to the key before this one
  bool last = true;             // its transaction appends nothing more to the key
};

struct ReadAt {
  uint32_t txn = kNobody;
  uint32_t op = 0;
  uint32_t key = 0;
};

// The first read of a key in an ok transaction, without what the transaction itself appended before: a prefix of the
// key's order that the transaction found. Its later reads of the key say nothing new.
struct FirstRead {
  uint32_t txn = 0;
  uint32_t op = 0;
  uint32_t key = 0;
  uint32_t length = 0;
};

struct HistoryIndex {
  explicit HistoryIndex(const History& history);

  const TxnRecord& txn(size_t t) const { return history.txns[t]; }
  bool ok(size_t t) const { return txn(t).type == TxnRecord::Type::kOk; }
  bool committed(size_t t) const { return ok(t) || seen[t]; }
  uint32_t key_of(size_t t, size_t op) const { return op_key[op_begin[t] + op]; }
  const std::vector<int64_t>& list(size_t t, size_t op) const { return *txn(t).ops[op].list; }
  const std::vector<int64_t>& list(const ReadAt& read) const { return list(read.txn, read.op); }
  const std::vector<int64_t>& order(uint32_t key) const;
  uint32_t order_size(uint32_t key) const { return static_cast<uint32_t>(order_begin[key + 1] - order_begin[key]); }
  Append& at(uint32_t key, uint32_t position) { return appends[order_append[order_begin[key] + position]]; }
  const Append& at(uint32_t key, uint32_t position) const { return appends[order_append[order_begin[key] + position]]; }
  std::string key_text(uint32_t key) const;  // quoted

  const History& history;
  KeyTable keys;
  std::vector<size_t> op_begin;  // per transaction: its first in op_key
  std::vector<uint32_t> op_key;  // per operation of the history
  std::vector<Append> appends;   // in the order of the history
  ElementMap<uint32_t> append_of;
  std::optional<std::pair<uint32_t, uint32_t>> twice;  // transactions that append the same element
  std::vector<ReadAt> longest;                         // per key: the first of its longest reads
  size_t reads = 0;                                    // of ok transactions

  // Filled by the direct checks.
  std::vector<size_t> order_begin;     // per key: its first in order_append
  std::vector<uint32_t> order_append;  // the key's order, as appends
  std::vector<bool> seen;              // per transaction: a read has one of its appends
  std::vector<FirstRead> first_reads;  // in the order of the history
};

}  // namespace weft::checking
