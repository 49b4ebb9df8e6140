// A Dlht and a std::map execute the same random operations, one by one and in batches: on few keys, on crowded bins, on
// full ones, and through resizes.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/store/dlht.h"
#include "weft/store/dlht_testing.h"

namespace weft {
namespace {

struct Mix {
  uint64_t seed;
  uint64_t capacity;
  uint64_t keys;     // different hashes
  uint64_t per_bin;  // of them, in one bin of 64; 0: spread at random
  int steps;
};

class DlhtTwinTest : public ::testing::TestWithParam<Mix> {};

class Twins {
 public:
  explicit Twins(const Mix& mix) : random_(mix.seed), table_(make_dlht(&memory_, mix.capacity)) {
    for (uint64_t i = 0; i < mix.keys; ++i) {
      hashes_.push_back(mix.per_bin == 0 ? random_.next() : colliding(i / mix.per_bin, i % mix.per_bin));
    }
  }

  void step() {
    const uint64_t hash = hashes_[random_.below(hashes_.size())];
    const uint64_t value = random_.below(4);
    const auto it = twin_.find(hash);
    uint64_t got = 99;
    switch (random_.below(6)) {
      case 0:
        ASSERT_EQ(table_->get(hash, MatchAny(), &got), it != twin_.end());
        if (it != twin_.end()) {
          ASSERT_EQ(got, it->second);
        }
        break;
      case 1:
        ASSERT_EQ(table_->put(hash, MatchAny(), value, &got), it != twin_.end());
        if (it == twin_.end()) break;
        ASSERT_EQ(got, it->second);
        it->second = value;
        break;
      case 2:
        ASSERT_EQ(table_->erase(hash, MatchAny(), &got), it != twin_.end());
        if (it == twin_.end()) break;
        ASSERT_EQ(got, it->second);
        twin_.erase(it);
        break;
      case 3: {
        const bool fits = it != twin_.end() && it->second == value;
        ASSERT_EQ(table_->compare_put(hash, value, value + 1), fits);
        if (fits) it->second = value + 1;
        break;
      }
      default:
        insert(hash, value);
    }
    if (random_.below(50) == 0) table_->quiesce(0);
  }

  void compare() {
    ASSERT_EQ(contents(*table_), twin_);
    ASSERT_EQ(table_->size(), twin_.size());
  }

  Random& random() { return random_; }
  Dlht& table() { return *table_; }
  uint64_t refused() const { return refused_; }

  void batch() {
    std::vector<DlhtRequest> requests;
    std::vector<std::pair<bool, uint64_t>> expected;
    const bool gets_only = random_.chance(30);
    for (uint64_t n = random_.between(1, 100); n > 0; --n) {
      const DlhtOp op = gets_only ? DlhtOp::kGet : static_cast<DlhtOp>(random_.below(4));
      const uint64_t hash = hashes_[random_.below(hashes_.size())];
      const auto it = twin_.find(hash);
      const bool there = it != twin_.end();
      // Inserts that may be refused are left to insert().
      if (op == DlhtOp::kInsert && !there) continue;
      const uint64_t value = random_.below(4);
      requests.push_back({.op = op, .key = 0, .hash = hash, .value = value});
      expected.emplace_back(there != (op == DlhtOp::kInsert),
                            there && op != DlhtOp::kPut && op != DlhtOp::kInsert ? it->second : value);
      if (there && op == DlhtOp::kPut) it->second = value;
      if (there && op == DlhtOp::kErase) twin_.erase(it);
    }
    table_->run(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_EQ(requests[i].ok, expected[i].first);
      ASSERT_EQ(requests[i].value, expected[i].second);
    }
  }

 private:
  void insert(uint64_t hash, uint64_t value) {
    const auto it = twin_.find(hash);
    const InsertResult result = table_->insert(hash, MatchAny(), value);
    if (it != twin_.end()) {
      ASSERT_EQ(result.code, InsertCode::kExists);
      ASSERT_EQ(result.value, it->second);
    } else if (result.code == InsertCode::kInserted) {
      twin_.emplace(hash, value);
    } else {
      ASSERT_EQ(result.code, InsertCode::kBinFull);
      ++refused_;
    }
  }

  TestMemory memory_;
  Random random_;
  std::unique_ptr<Dlht> table_;
  std::vector<uint64_t> hashes_;
  std::map<uint64_t, uint64_t> twin_;
  uint64_t refused_ = 0;
};

TEST_P(DlhtTwinTest, BehavesLikeAMap) {
  Twins twins(GetParam());
  for (int i = 0; i < GetParam().steps && !HasFatalFailure(); ++i) {
    twins.step();
    if (i % 100 == 0) twins.batch();
    if (i % 1000 == 0) twins.compare();
  }
  twins.compare();
  if (GetParam().per_bin > 15) {
    EXPECT_GT(twins.refused(), 0U);
  }
  if (GetParam().keys > 4 * GetParam().capacity) {
    EXPECT_GT(twins.table().stats().resizes, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Mixes, DlhtTwinTest,
                         ::testing::Values(Mix{1, 96, 10, 0, 20000},        // a few keys
                                           Mix{2, 96, 7, 7, 30000},         // one bin with a single link
                                           Mix{3, 96, 40, 20, 60000},       // two bins, often full
                                           Mix{4, 96, 64 * 12, 12, 60000},  // every bin chained, then resized
                                           Mix{5, 96, 5000, 0, 60000},      // several resizes
                                           Mix{6, 96, 64 * 40, 40, 60000},  // full bins and resizes
                                           Mix{7, 10000, 15000, 0, 60000}));

}  // namespace
}  // namespace weft
