#include "weft/check/history_index.h"

#include <string_view>

#include "weft/base/check.h"

namespace weft::checking {
namespace {

using Op = TxnRecord::Op;

size_t count_appends(const History& history) {
  size_t appends = 0;
  for (const TxnRecord& txn : history.txns) {
    for (const Op& op : txn.ops) appends += op.kind == Op::Kind::kAppend;
  }
  return appends;
}

}  // namespace

HistoryIndex::HistoryIndex(const History& h) : history(h), append_of(count_appends(h)), seen(h.txns.size()) {
  WEFT_CHECK(h.txns.size() < kNobody / 4, "transactions are numbered with 32 bits");
  std::vector<uint32_t> newest;  // per key: its newest append
  for (uint32_t t = 0; t < h.txns.size(); ++t) {
    WEFT_CHECK(!fault_of(h.txns[t]), "a history recorded in memory follows the rules of history.h");
    op_begin.push_back(op_key.size());
    const std::vector<Op>& ops = h.txns[t].ops;
    for (uint32_t o = 0; o < ops.size(); ++o) {
      const uint32_t key = keys.intern(ops[o].key);
      op_key.push_back(key);
      if (key == longest.size()) {
        longest.emplace_back();
        newest.push_back(kNobody);
      }
      if (ops[o].kind == Op::Kind::kAppend) {
        const auto id = static_cast<uint32_t>(appends.size());
        const auto [first, fresh] = append_of.insert(key, ops[o].element, id);
        if (!fresh && !twice) twice = {appends[*first].txn, t};
        appends.push_back({.element = ops[o].element, .txn = t, .key = key});
        if (newest[key] != kNobody && appends[newest[key]].txn == t) {
          appends[newest[key]].last = false;
          appends[id].previous = newest[key];
        }
        newest[key] = id;
      } else if (h.txns[t].type == TxnRecord::Type::kOk) {
        ++reads;
        ReadAt& best = longest[key];
        if (best.txn == kNobody || list(t, o).size() > list(best).size()) best = {t, o, key};
      }
    }
  }
  op_begin.push_back(op_key.size());
}

const std::vector<int64_t>& HistoryIndex::order(uint32_t key) const {
  static const std::vector<int64_t> kNone;
  return longest[key].txn == kNobody ? kNone : list(longest[key]);
}

std::string HistoryIndex::key_text(uint32_t key) const { return '"' + std::string(keys.name(key)) + '"'; }

}  // namespace weft::checking
