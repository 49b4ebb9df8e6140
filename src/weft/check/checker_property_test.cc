// The checker against histories that are right by construction, against the same with one thing broken, and, on
// small ones, against a naive twin that tries every serial order.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/check/checker.h"
#include "weft/check/random_history.h"

namespace weft {
namespace {

using checking::RandomHistory;
using checking::RandomHistoryOptions;
using Op = TxnRecord::Op;
using Type = TxnRecord::Type;

RandomHistoryOptions random_options(Random& random) {
  return {.txns = random.between(2, 120),
          .live_keys = random.between(1, 6),
          .appends_max = random.between(2, 64),
          .ops_max = random.between(1, 8),
          .overlap = random.between(0, 12),
          .fail_percent = static_cast<uint32_t>(random.below(20)),
          .info_percent = static_cast<uint32_t>(random.below(20))};
}

TEST(CheckerProperty, SerialExecutionsAreValid) {
  Random random(1);
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const History history = RandomHistory(seed, random_options(random)).make();
    const Verdict verdict = check(history);
    ASSERT_TRUE(verdict.valid()) << "seed " << seed << "\n" << describe(verdict, history);
  }
}

// All reads of ok transactions but the final one that pass the filter.
std::vector<std::pair<size_t, size_t>> reads_where(const History& history,
                                                   const std::function<bool(const TxnRecord&, const Op&)>& filter) {
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t t = 0; t + 1 < history.txns.size(); ++t) {
    const TxnRecord& txn = history.txns[t];
    if (txn.type != Type::kOk) continue;
    for (size_t o = 0; o < txn.ops.size(); ++o) {
      if (txn.ops[o].kind == Op::Kind::kRead && filter(txn, txn.ops[o])) out.push_back({t, o});
    }
  }
  return out;
}

const TxnRecord& writer(const History& history, const std::string& key, int64_t element) {
  for (const TxnRecord& txn : history.txns) {
    if (std::find(txn.ops.begin(), txn.ops.end(), Op::append(key, element)) != txn.ops.end()) return txn;
  }
  ADD_FAILURE() << "nobody appended " << element;
  return history.txns.front();
}

// Each returns false if the history has nothing that it could break. The final read of all keys proves that each of
// them is an anomaly.
using Mutation = bool (*)(History&, Random&);

bool swap_elements(History& history, Random& random) {
  const auto reads = reads_where(history, [](const TxnRecord&, const Op& op) { return op.list->size() >= 2; });
  if (reads.empty()) return false;
  const auto [t, o] = reads[random.below(reads.size())];
  std::vector<int64_t>& list = *history.txns[t].ops[o].list;
  const size_t i = random.below(list.size() - 1);
  std::swap(list[i], list[i + 1]);
  return true;
}

bool drop_element(History& history, Random& random) {
  const auto reads = reads_where(history, [](const TxnRecord&, const Op& op) { return op.list->size() >= 2; });
  if (reads.empty()) return false;
  const auto [t, o] = reads[random.below(reads.size())];
  std::vector<int64_t>& list = *history.txns[t].ops[o].list;
  list.erase(list.begin() + static_cast<ptrdiff_t>(random.below(list.size() - 1)));
  return true;
}

bool stale_read(History& history, Random& random) {
  const auto reads = reads_where(history, [&history](const TxnRecord& txn, const Op& op) {
    if (op.list->empty()) return false;
    const TxnRecord& by = writer(history, op.key, op.list->back());
    return by.type == Type::kOk && by.complete < txn.invoke;
  });
  if (reads.empty()) return false;
  const auto [t, o] = reads[random.below(reads.size())];
  history.txns[t].ops[o].list->pop_back();
  return true;
}

bool lose_last_append(History& history, Random& random) {
  std::vector<Op>& ops = history.txns.back().ops;
  for (size_t i = 0, at = random.below(ops.size()); i < ops.size(); ++i, at = (at + 1) % ops.size()) {
    std::vector<int64_t>& list = *ops[at].list;
    if (list.empty() || writer(history, ops[at].key, list.back()).type != Type::kOk) continue;
    list.pop_back();
    return true;
  }
  return false;
}

bool fail_a_writer(History& history, Random& random) {
  for (size_t i = 0, t = random.below(history.txns.size()); i < history.txns.size();
       ++i, t = (t + 1) % history.txns.size()) {
    TxnRecord& txn = history.txns[t];
    const auto appends = [](const Op& op) { return op.kind == Op::Kind::kAppend; };
    if (txn.type != Type::kOk || std::none_of(txn.ops.begin(), txn.ops.end(), appends)) continue;
    txn.type = Type::kFail;
    return true;
  }
  return false;
}

bool repeat_element(History& history, Random& random) {
  const auto reads = reads_where(history, [](const TxnRecord&, const Op& op) { return !op.list->empty(); });
  if (reads.empty()) return false;
  const auto [t, o] = reads[random.below(reads.size())];
  std::vector<int64_t>& list = *history.txns[t].ops[o].list;
  list.push_back(list[random.below(list.size())]);
  return true;
}

bool invent_element(History& history, Random& random) {
  const auto reads = reads_where(history, [](const TxnRecord&, const Op&) { return true; });
  if (reads.empty()) return false;
  const auto [t, o] = reads[random.below(reads.size())];
  std::vector<int64_t>& list = *history.txns[t].ops[o].list;
  list.insert(list.begin() + static_cast<ptrdiff_t>(random.below(list.size() + 1)), -1);
  return true;
}

TEST(CheckerProperty, BrokenHistoriesAreCaught) {
  constexpr std::pair<const char*, Mutation> kMutations[] = {
      {"swap", swap_elements},  {"drop", drop_element},     {"stale", stale_read},     {"lose", lose_last_append},
      {"abort", fail_a_writer}, {"repeat", repeat_element}, {"invent", invent_element}};
  Random random(2);
  for (const auto& [what, mutate] : kMutations) {
    int broken = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      History history = RandomHistory(seed, random_options(random)).make();
      if (!mutate(history, random)) continue;
      ++broken;
      ASSERT_FALSE(check(history).valid()) << what << ", seed " << seed;
    }
    EXPECT_GT(broken, 100) << what;
  }
}

TEST(CheckerProperty, SameHistorySameWords) {
  Random random(3);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    History history = RandomHistory(seed, random_options(random)).make();
    if (!stale_read(history, random)) continue;
    EXPECT_EQ(describe(check(history), history), describe(check(history), history));
  }
}

// Tries every order of the transactions that real time allows, with and without each info transaction.
class NaiveTwin {
 public:
  explicit NaiveTwin(const History& history) : history_(history), state_(history.txns.size()) {}

  bool valid() { return extend(); }

 private:
  bool may_be_next(size_t t) const {
    for (size_t u = 0; u < history_.txns.size(); ++u) {
      const bool before = history_.txns[u].type == Type::kOk && history_.txns[u].complete < history_.txns[t].invoke;
      if (before && !state_[u]) return false;
    }
    return true;
  }

  static bool run(const TxnRecord& txn, std::map<std::string, std::vector<int64_t>>& lists) {
    for (const Op& op : txn.ops) {
      std::vector<int64_t>& list = lists[op.key];
      if (op.kind == Op::Kind::kAppend) {
        list.push_back(op.element);
      } else if (txn.type == Type::kOk && *op.list != list) {
        return false;
      }
    }
    return true;
  }

  bool extend() {
    bool all = true;
    for (size_t t = 0; t < history_.txns.size(); ++t) all &= state_[t] || history_.txns[t].type != Type::kOk;
    if (all) return true;
    for (size_t t = 0; t < history_.txns.size(); ++t) {
      if (state_[t] || history_.txns[t].type == Type::kFail || !may_be_next(t)) continue;
      const auto saved = lists_;
      state_[t] = true;
      if (run(history_.txns[t], lists_) && extend()) return true;
      state_[t] = false;
      lists_ = saved;
    }
    return false;
  }

  const History& history_;
  std::vector<bool> state_;  // has run
  std::map<std::string, std::vector<int64_t>> lists_;
};

// A few transactions with plausible reads: prefixes of one random order per key, with the reader's own appends where
// they belong, sometimes damaged.
History small_history(Random& random) {
  History history;
  const std::string keys[] = {"x", "y"};
  std::vector<int64_t> order[2];
  int64_t element = 0;
  history.txns.resize(random.between(2, 5));
  for (TxnRecord& txn : history.txns) {
    txn.invoke = random.below(12);
    txn.complete = txn.invoke + random.below(12);
    txn.type = random.chance(80) ? Type::kOk : random.chance(70) ? Type::kInfo : Type::kFail;
    for (uint64_t n = random.between(1, 4); n > 0; --n) {
      const size_t k = random.below(2);
      if (random.chance(50)) {
        txn.ops.push_back(Op::append(keys[k], ++element));
        const size_t late =
            order[k].size() - std::min<size_t>(order[k].size(), random.chance(70) ? 0 : random.below(3));
        if (txn.type != Type::kFail || random.chance(5)) {
          order[k].insert(order[k].begin() + static_cast<ptrdiff_t>(late), element);
        }
      } else {
        txn.ops.push_back(Op::read(keys[k], std::nullopt));
      }
    }
  }
  for (TxnRecord& txn : history.txns) {
    if (txn.type != Type::kOk) continue;
    size_t length[2] = {random.below(order[0].size() + 1), random.below(order[1].size() + 1)};
    std::vector<int64_t> own[2];
    for (Op& op : txn.ops) {
      const size_t k = op.key == keys[0] ? 0 : 1;
      if (op.kind == Op::Kind::kAppend) {
        own[k].push_back(op.element);
        continue;
      }
      if (!own[k].empty()) {
        const auto at = std::find(order[k].begin(), order[k].end(), own[k].front());
        length[k] = std::min(length[k], static_cast<size_t>(at - order[k].begin()));
      }
      op.list.emplace(order[k].begin(), order[k].begin() + static_cast<ptrdiff_t>(length[k]));
      op.list->insert(op.list->end(), own[k].begin(), own[k].end());
      if (random.chance(2) && !op.list->empty()) op.list->erase(op.list->begin());
    }
  }
  return history;
}

TEST(CheckerProperty, AgreesWithTheNaiveTwin) {
  Random random(4);
  int valid = 0;
  std::map<Anomaly, int> anomalies;
  for (int round = 0; round < (kSanitized ? 8000 : 40000); ++round) {
    const History history = small_history(random);
    const Verdict verdict = check(history);
    std::string text;
    for (const TxnRecord& txn : history.txns) append_json(txn, text);
    ASSERT_EQ(verdict.valid(), NaiveTwin(history).valid()) << text << describe(verdict, history);
    valid += verdict.valid();
    ++anomalies[verdict.anomaly];
  }
  EXPECT_GT(valid, kSanitized ? 800 : 4000);
  for (int a = static_cast<int>(Anomaly::kNeverAppended) + 1; a <= static_cast<int>(Anomaly::kRealTime); ++a) {
    EXPECT_GT(anomalies[static_cast<Anomaly>(a)], 0) << anomaly_name(static_cast<Anomaly>(a));
  }
}

// A history of lost updates only: one component of thousands of transactions, and the checker still answers.
TEST(CheckerProperty, AHistoryThatIsOneBigCycle) {
  History history;
  for (int64_t i = 0; i < 5000; ++i) {
    TxnRecord& txn = history.txns.emplace_back();
    txn.complete = 10;
    txn.ops = {Op::read("x", std::vector<int64_t>{}), Op::append("x", i)};
  }
  EXPECT_EQ(check(history).anomaly, Anomaly::kG2);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 5000; ++i) all.push_back(i);
  TxnRecord& last = history.txns.emplace_back();
  last.invoke = 20;
  last.complete = 30;
  last.ops = {Op::read("x", all)};
  EXPECT_EQ(check(history).anomaly, Anomaly::kGSingle);
}

// A chain so long that a recursive search would overflow the stack.
TEST(CheckerProperty, ALongChain) {
  History history;
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 300000; ++i) {
    TxnRecord& txn = history.txns.emplace_back();
    txn.complete = 10;
    txn.ops = {Op::append("x", i)};
    all.push_back(i);
  }
  TxnRecord& last = history.txns.emplace_back();
  last.complete = 10;
  last.ops = {Op::read("x", all)};
  EXPECT_TRUE(check(history).valid());
}

}  // namespace
}  // namespace weft
