#include "weft/check/direct_checks.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace weft::checking {
namespace {

using Op = TxnRecord::Op;
using Finding = std::optional<Verdict>;

Verdict finding(Anomaly anomaly, std::vector<size_t> txns, std::string summary) {
  Verdict verdict;
  verdict.anomaly = anomaly;
  if (txns.size() == 2 && txns[0] == txns[1]) txns.pop_back();
  verdict.txns = std::move(txns);
  verdict.summary = std::move(summary);
  return verdict;
}

bool is_prefix(std::span<const int64_t> list, std::span<const int64_t> of) {
  return list.size() <= of.size() && std::equal(list.begin(), list.end(), of.begin());
}

// Looks up every element of a list. `stamps` has a number per append: the last list in which it occurred.
class ElementCheck {
 public:
  explicit ElementCheck(const HistoryIndex& index) : index_(index), stamps_(index.appends.size(), 0) {}

  Finding check(const ReadAt& read, std::vector<uint32_t>* order) {
    ++stamp_;
    for (const int64_t element : index_.list(read)) {
      const uint32_t* found = index_.append_of.find(read.key, element);
      if (found == nullptr) {
        return finding(Anomaly::kNeverAppended, {read.txn}, what(read, element) + ", which nobody appended");
      }
      const uint32_t writer = index_.appends[*found].txn;
      if (index_.txn(writer).type == TxnRecord::Type::kFail) {
        return finding(Anomaly::kAbortedRead, {writer, read.txn},
                       what(read, element) + ", an append of " + txn_name(writer) + ", which failed");
      }
      if (stamps_[*found] == stamp_) {
        return finding(Anomaly::kDuplicateElement, {writer, read.txn},
                       what(read, element) + " twice; " + txn_name(writer) + " appended it once");
      }
      stamps_[*found] = stamp_;
      if (order != nullptr) order->push_back(*found);
    }
    return std::nullopt;
  }

 private:
  std::string what(const ReadAt& read, int64_t element) const {
    return txn_name(read.txn) + " read " + std::to_string(element) + " in " + index_.key_text(read.key);
  }

  const HistoryIndex& index_;
  std::vector<uint32_t> stamps_;
  uint32_t stamp_ = 0;
};

// Fixes the orders from the longest reads. Only a read that is no prefix of its order needs its elements looked up
// again; the first such read is left in `odd` for check_orders.
Finding check_elements(HistoryIndex& index, std::optional<ReadAt>& odd) {
  ElementCheck elements(index);
  for (uint32_t key = 0; key < index.keys.size(); ++key) {
    index.order_begin.push_back(index.order_append.size());
    if (index.longest[key].txn == kNobody) continue;
    if (Finding f = elements.check(index.longest[key], &index.order_append)) return f;
    for (size_t i = index.order_begin[key]; i < index.order_append.size(); ++i) {
      Append& append = index.appends[index.order_append[i]];
      append.position = static_cast<uint32_t>(i - index.order_begin[key]);
      index.seen[append.txn] = true;
    }
  }
  index.order_begin.push_back(index.order_append.size());
  for (uint32_t t = 0; t < index.history.txns.size(); ++t) {
    if (!index.ok(t)) continue;
    for (uint32_t o = 0; o < index.txn(t).ops.size(); ++o) {
      if (index.txn(t).ops[o].kind != Op::Kind::kRead) continue;
      const ReadAt read{t, o, index.key_of(t, o)};
      if (is_prefix(index.list(read), index.order(read.key))) continue;
      if (Finding f = elements.check(read, nullptr)) return f;
      if (!odd) odd = read;
    }
  }
  return std::nullopt;
}

// Goes through a transaction's operations as if no other transaction ran: a read of a key must return what the last
// read found and what was appended since.
class InternalCheck {
 public:
  explicit InternalCheck(HistoryIndex& index) : index_(index), keys_(index.keys.size()) {}

  Finding check() {
    for (uint32_t t = 0; t < index_.history.txns.size(); ++t) {
      if (!index_.ok(t)) continue;
      for (uint32_t o = 0; o < index_.txn(t).ops.size(); ++o) {
        const Op& op = index_.txn(t).ops[o];
        const uint32_t key = index_.key_of(t, o);
        State& state = keys_[key];
        if (state.txn != t) {
          state.txn = t;
          state.known = nullptr;
          state.appended.clear();
        }
        if (op.kind == Op::Kind::kAppend) {
          if (Finding f = check_append({t, o, key}, state)) return f;
        } else if (Finding f = check_read({t, o, key}, state)) {
          return f;
        }
      }
    }
    return std::nullopt;
  }

 private:
  struct State {
    uint32_t txn = kNobody;
    const std::vector<int64_t>* known = nullptr;  // the last read
    std::vector<int64_t> appended;                // since then
  };

  Finding check_append(const ReadAt& at, State& state) {
    const int64_t element = index_.txn(at.txn).ops[at.op].element;
    if (state.known != nullptr) {
      const Append& append = index_.appends[*index_.append_of.find(at.key, element)];
      if (append.position < state.known->size() && (*state.known)[append.position] == element) {
        return finding(Anomaly::kInternal, {at.txn},
                       txn_name(at.txn) + " read " + std::to_string(element) + " in " + index_.key_text(at.key) +
                           " before it appended it");
      }
    }
    state.appended.push_back(element);
    return std::nullopt;
  }

  Finding check_read(const ReadAt& at, State& state) {
    const std::vector<int64_t>& list = index_.list(at);
    const std::vector<int64_t>& own = state.appended;
    const bool ends_in_own = list.size() >= own.size() && std::equal(own.rbegin(), own.rend(), list.rbegin());
    if (!ends_in_own) {
      return finding(Anomaly::kInternal, {at.txn},
                     txn_name(at.txn) + " read " + index_.key_text(at.key) + " without its own append at the end");
    }
    const auto length = static_cast<uint32_t>(list.size() - own.size());
    if (state.known == nullptr) {
      index_.first_reads.push_back({at.txn, at.op, at.key, length});
    } else if (length != state.known->size() || !is_prefix(*state.known, list)) {
      return finding(Anomaly::kInternal, {at.txn},
                     txn_name(at.txn) + " read " + index_.key_text(at.key) +
                         " twice and the second list is not the first with its own appends");
    }
    state.known = &list;
    state.appended.clear();
    return std::nullopt;
  }

  HistoryIndex& index_;
  std::vector<State> keys_;
};

// Of two reads that disagree, checks whether the later one misses an info append that the earlier one has.
Finding check_gone(const HistoryIndex& index, const ReadAt& earlier, const ReadAt& later) {
  if (index.txn(earlier.txn).complete >= index.txn(later.txn).invoke) return std::nullopt;
  const std::vector<int64_t>& before = index.list(earlier);
  const std::vector<int64_t>& after = index.list(later);
  const auto at = std::mismatch(before.begin(), before.end(), after.begin(), after.end()).first;
  if (at == before.end() || std::find(after.begin(), after.end(), *at) != after.end()) return std::nullopt;
  const uint32_t writer = index.appends[*index.append_of.find(earlier.key, *at)].txn;
  if (index.txn(writer).type != TxnRecord::Type::kInfo) return std::nullopt;
  return finding(Anomaly::kInfoGone, {writer, earlier.txn, later.txn},
                 txn_name(earlier.txn) + " read " + std::to_string(*at) + " in " + index.key_text(earlier.key) +
                     ", an append of " + txn_name(writer) + " (info); " + txn_name(later.txn) +
                     ", invoked after that, does not have it");
}

Finding check_orders(const HistoryIndex& index, const ReadAt& odd) {
  const ReadAt& longest = index.longest[odd.key];
  if (Finding f = check_gone(index, odd, longest)) return f;
  if (Finding f = check_gone(index, longest, odd)) return f;
  const std::vector<int64_t>& a = index.list(longest);
  const std::vector<int64_t>& b = index.list(odd);
  const auto at = std::mismatch(b.begin(), b.end(), a.begin());
  return finding(Anomaly::kIncompatibleOrders, {longest.txn, odd.txn},
                 "at position " + std::to_string(at.first - b.begin()) + " of " + index.key_text(odd.key) + " " +
                     txn_name(longest.txn) + " read " + std::to_string(*at.second) + " and " + txn_name(odd.txn) +
                     " read " + std::to_string(*at.first));
}

// Finds a read that stops just before an info append and was invoked after another read that has the append completed.
Finding check_info_gone(const HistoryIndex& index) {
  // Per key and position: the read that was first to complete among those that have the position.
  std::vector<uint32_t> first(index.order_append.size(), kNobody);
  const auto sooner = [&index](uint32_t a, uint32_t b) {
    if (a == kNobody || b == kNobody) return a == kNobody ? b : a;
    return index.txn(b).complete < index.txn(a).complete ? b : a;
  };
  for (const FirstRead& read : index.first_reads) {
    if (read.length == 0) continue;
    uint32_t& slot = first[index.order_begin[read.key] + read.length - 1];
    slot = sooner(slot, read.txn);
  }
  for (uint32_t key = 0; key < index.keys.size(); ++key) {
    for (size_t i = index.order_begin[key + 1]; i > index.order_begin[key] + 1; --i) {
      first[i - 2] = sooner(first[i - 2], first[i - 1]);
    }
  }
  for (const FirstRead& read : index.first_reads) {
    if (read.length == index.order_size(read.key)) continue;
    const uint32_t writer = index.at(read.key, read.length).txn;
    const uint32_t witness = first[index.order_begin[read.key] + read.length];
    if (index.txn(writer).type != TxnRecord::Type::kInfo || witness == kNobody) continue;
    if (index.txn(witness).complete >= index.txn(read.txn).invoke) continue;
    return finding(Anomaly::kInfoGone, {writer, witness, read.txn},
                   txn_name(witness) + " read " + std::to_string(index.order(read.key)[read.length]) + " in " +
                       index.key_text(read.key) + ", an append of " + txn_name(writer) + " (info); " +
                       txn_name(read.txn) + ", invoked after that, does not have it");
  }
  return std::nullopt;
}

Finding check_intermediate(const HistoryIndex& index) {
  for (const FirstRead& read : index.first_reads) {
    if (read.length == 0) continue;
    const Append& append = index.at(read.key, read.length - 1);
    if (append.last || append.txn == read.txn) continue;
    return finding(Anomaly::kIntermediateRead, {append.txn, read.txn},
                   txn_name(read.txn) + " read " + index.key_text(read.key) + " up to " +
                       std::to_string(append.element) + ", but " + txn_name(append.txn) +
                       " appended more to it after that");
  }
  return std::nullopt;
}

// A transaction's appends to one key must be seen in the order in which it made them.
Finding check_program_order(const HistoryIndex& index) {
  for (const Append& append : index.appends) {
    if (append.previous == kNobody || append.position == kNobody) continue;
    const Append& before = index.appends[append.previous];
    if (before.position == kNobody || before.position < append.position) continue;
    return finding(Anomaly::kInternal, {append.txn, index.longest[append.key].txn},
                   txn_name(append.txn) + " appended " + std::to_string(before.element) + " to " +
                       index.key_text(append.key) + " before " + std::to_string(append.element) + ", but " +
                       txn_name(index.longest[append.key].txn) + " read them the other way round");
  }
  return std::nullopt;
}

Finding check_lost(const HistoryIndex& index) {
  for (const Append& append : index.appends) {
    if (append.previous == kNobody || append.position == kNobody) continue;
    const Append& before = index.appends[append.previous];
    if (before.position != kNobody) continue;
    const uint32_t reader = index.longest[append.key].txn;
    return finding(Anomaly::kLostAppend, {append.txn, reader},
                   txn_name(append.txn) + " appended " + std::to_string(before.element) + " to " +
                       index.key_text(append.key) + " and then " + std::to_string(append.element) + "; " +
                       txn_name(reader) + " read the second without the first");
  }
  std::vector<uint32_t> newest(index.keys.size(), kNobody);  // per key: the read that was last to be invoked
  for (const FirstRead& read : index.first_reads) {
    uint32_t& best = newest[read.key];
    if (best == kNobody || index.txn(read.txn).invoke > index.txn(best).invoke) best = read.txn;
  }
  for (const Append& append : index.appends) {
    const uint32_t reader = newest[append.key];
    if (append.position != kNobody || !index.ok(append.txn) || reader == kNobody) continue;
    if (index.txn(append.txn).complete >= index.txn(reader).invoke) continue;
    return finding(Anomaly::kLostAppend, {append.txn, reader},
                   txn_name(append.txn) + " appended " + std::to_string(append.element) + " to " +
                       index.key_text(append.key) + " and completed at " +
                       std::to_string(index.txn(append.txn).complete) + "; " + txn_name(reader) + ", invoked at " +
                       std::to_string(index.txn(reader).invoke) + ", and every other read of the key miss it");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Verdict> check_directly(HistoryIndex& index) {
  if (index.twice) {
    const auto [first, second] = *index.twice;
    return finding(Anomaly::kDuplicateElement, {first, second},
                   txn_name(first) + " and " + txn_name(second) + " append the same element to the same key");
  }
  std::optional<ReadAt> odd;
  if (Finding f = check_elements(index, odd)) return f;
  if (Finding f = InternalCheck(index).check()) return f;
  if (Finding f = check_program_order(index)) return f;
  if (odd) return check_orders(index, *odd);
  if (Finding f = check_info_gone(index)) return f;
  if (Finding f = check_intermediate(index)) return f;
  return check_lost(index);
}

}  // namespace weft::checking
