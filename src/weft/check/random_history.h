// Random valid histories for tests and benchmarks: a serial executor decides what every transaction sees, and each
// transaction's interval is then stretched around the moment it took effect, so that many overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/check/history.h"

namespace weft::checking {

struct RandomHistoryOptions {
  size_t txns = 100;     // without the final read of all keys
  size_t live_keys = 8;  // a key is retired for a new one after `appends_max` appends
  size_t appends_max = 64;
  size_t ops_max = 6;
  uint64_t overlap = 10;  // about how many transactions run at a time
  uint32_t fail_percent = 5;
  uint32_t info_percent = 5;
};

class RandomHistory {
 public:
  RandomHistory(uint64_t seed, const RandomHistoryOptions& options) : random_(seed), options_(options) {}

  // In order of completion, but for the last transaction, which reads all keys after all others ended.
  History make() {
    for (size_t i = 0; i < options_.live_keys; ++i) live_.push_back(new_key());
    History history;
    for (size_t i = 0; i < options_.txns; ++i) history.txns.push_back(transaction((i + 1) * kGap));
    std::stable_sort(history.txns.begin(), history.txns.end(),
                     [](const TxnRecord& a, const TxnRecord& b) { return a.complete < b.complete; });
    TxnRecord& last = history.txns.emplace_back();
    last.invoke = (options_.txns + options_.overlap + 2) * kGap;
    last.complete = last.invoke + kGap;
    for (size_t k = 0; k < lists_.size(); ++k) last.ops.push_back(TxnRecord::Op::read(key_name(k), lists_[k]));
    return history;
  }

 private:
  static constexpr uint64_t kGap = 1000;

  static std::string key_name(size_t key) { return "k" + std::to_string(key); }

  size_t new_key() {
    lists_.emplace_back();
    return lists_.size() - 1;
  }

  TxnRecord transaction(uint64_t moment) {
    TxnRecord txn;
    const uint64_t stretch = options_.overlap * kGap;
    txn.process = random_.below(options_.overlap + 1);
    txn.invoke = moment - std::min(moment, random_.below(stretch + 1));
    txn.complete = moment + random_.below(stretch + 1);
    const uint64_t draw = random_.below(100);
    if (draw < options_.fail_percent) {
      txn.type = TxnRecord::Type::kFail;
    } else if (draw < options_.fail_percent + options_.info_percent) {
      txn.type = TxnRecord::Type::kInfo;
    }
    const bool happens = txn.type == TxnRecord::Type::kOk || (txn.type == TxnRecord::Type::kInfo && random_.chance(50));
    std::vector<std::pair<size_t, size_t>> undo;  // keys and their old lengths, newest last
    for (uint64_t n = random_.between(1, options_.ops_max); n > 0; --n) {
      size_t& slot = live_[random_.below(live_.size())];
      if (lists_[slot].size() >= options_.appends_max) slot = new_key();
      std::vector<int64_t>& list = lists_[slot];
      if (random_.chance(50)) {
        undo.push_back({slot, list.size()});
        txn.ops.push_back(TxnRecord::Op::append(key_name(slot), next_element_));
        list.push_back(next_element_++);
      } else if (txn.type == TxnRecord::Type::kInfo) {
        txn.ops.push_back(TxnRecord::Op::read(key_name(slot), std::nullopt));
      } else {
        txn.ops.push_back(TxnRecord::Op::read(key_name(slot), list));
      }
    }
    if (!happens) {
      for (size_t i = undo.size(); i > 0; --i) lists_[undo[i - 1].first].resize(undo[i - 1].second);
    }
    return txn;
  }

  Random random_;
  const RandomHistoryOptions options_;
  std::vector<std::vector<int64_t>> lists_;
  std::vector<size_t> live_;
  int64_t next_element_ = 1;
};

}  // namespace weft::checking
