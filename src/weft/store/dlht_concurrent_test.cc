// Concurrent histories of a Dlht on few keys are recorded and checked for linearizability: in one crowded bin, on link
// buckets that are attached and detached, and while the table is being resized.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <ostream>
#include <thread>
#include <vector>

#include "weft/base/hash.h"
#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/store/dlht.h"
#include "weft/store/dlht_history_testing.h"
#include "weft/store/dlht_testing.h"

namespace weft {
namespace {

// ---- The checker itself.

KeyOp op(KeyOp::Kind kind, int thread, uint64_t invoked, uint64_t responded, bool ok, uint64_t got = 0,
         uint64_t value = 0, uint64_t expected = 0) {
  return {kind, ok, expected, value, got, invoked, responded, thread};
}

TEST(LinearizableTest, GoodHistories) {
  EXPECT_EQ(check_linearizable({op(KeyOp::kInsert, 0, 1, 2, true, 0, 5), op(KeyOp::kGet, 1, 3, 4, true, 5),
                                op(KeyOp::kErase, 0, 5, 6, true, 5), op(KeyOp::kGet, 1, 7, 8, false)}),
            "");
  // The get may come before or after the put that it overlaps.
  for (const uint64_t got : {5U, 6U}) {
    EXPECT_EQ(check_linearizable({op(KeyOp::kPut, 0, 1, 4, true, 5, 6), op(KeyOp::kGet, 1, 2, 3, true, got)}, 5), "");
  }
  // Take effect in another order than invoked.
  EXPECT_EQ(check_linearizable({op(KeyOp::kErase, 0, 1, 6, true, 7), op(KeyOp::kInsert, 1, 2, 3, true, 0, 7)}), "");
}

TEST(LinearizableTest, BadHistories) {
  // A value from before the last put.
  EXPECT_NE(check_linearizable({op(KeyOp::kPut, 0, 1, 2, true, 5, 6), op(KeyOp::kGet, 1, 3, 4, true, 5)}, 5), "");
  // Two inserts that both succeed.
  EXPECT_NE(check_linearizable({op(KeyOp::kInsert, 0, 1, 3, true, 0, 1), op(KeyOp::kInsert, 1, 2, 4, true, 0, 2)}), "");
  // A key that is gone while nobody erases it.
  EXPECT_NE(check_linearizable({op(KeyOp::kGet, 0, 1, 2, false)}, 5), "");
  // Present, then absent, during a single insert.
  EXPECT_NE(check_linearizable({op(KeyOp::kInsert, 0, 1, 9, true, 0, 1), op(KeyOp::kGet, 1, 2, 3, true, 1),
                                op(KeyOp::kGet, 1, 4, 5, false)}),
            "");
  // The erase returns a value that a put had replaced.
  EXPECT_NE(check_linearizable({op(KeyOp::kPut, 0, 1, 2, true, 5, 6), op(KeyOp::kErase, 1, 3, 4, true, 5)}, 5), "");
  // Two compare-puts from the same value.
  EXPECT_NE(check_linearizable(
                {op(KeyOp::kComparePut, 0, 1, 4, true, 0, 6, 5), op(KeyOp::kComparePut, 1, 2, 3, true, 0, 7, 5)}, 5),
            "");
}

// ---- The table.

struct Shape {
  const char* name;
  int threads;
  int rounds;
  int ops;           // of one thread in a round
  uint64_t keys;     // recorded ones
  uint64_t fillers;  // keys in the same bins that are inserted and erased, not recorded
  bool one_bin;      // all in one bin
  bool few_values;   // so that a slot often gets the same key and value again
  uint64_t grow;     // keys that one more thread inserts meanwhile
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

void run_one(Dlht& table, uint64_t hash, KeyOp* op, Tickets& tickets) {
  op->invoked = tickets.next();
  switch (op->kind) {
    case KeyOp::kGet:
      op->ok = table.get(hash, MatchAny(), &op->got);
      break;
    case KeyOp::kPut:
      op->ok = table.put(hash, MatchAny(), op->value, &op->got);
      break;
    case KeyOp::kComparePut:
      op->ok = table.compare_put(hash, op->expected, op->value);
      break;
    case KeyOp::kInsert: {
      const InsertResult result = table.insert(hash, MatchAny(), op->value);
      op->ok = result.code == InsertCode::kInserted;
      op->got = result.value;
      ASSERT_TRUE(op->ok || result.code == InsertCode::kExists);
      break;
    }
    case KeyOp::kErase:
      op->ok = table.erase(hash, MatchAny(), &op->got);
      break;
  }
  op->responded = tickets.next();
}

class Round {
 public:
  Round(const Shape& shape, uint64_t seed) : shape_(shape), seed_(seed) {
    auto table = Dlht::create({.capacity = 96, .readers = shape.threads + 1, .resizable = true}, &memory_);
    table_ = std::move(*table);
    histories_.resize(static_cast<size_t>(shape.threads));
    for (uint64_t i = 0; i < shape.keys + shape.fillers; ++i) {
      hashes_.push_back(shape.one_bin ? uint64_t{5} << 58 | i : mix64(seed * 1000 + i));
    }
  }

  void run() {
    std::vector<std::thread> threads;
    for (int t = 0; t < shape_.threads; ++t) threads.emplace_back([this, t] { work(t); });
    threads.emplace_back([this] { grow(); });
    for (std::thread& thread : threads) thread.join();
    check();
  }

  uint64_t resizes() const { return table_->stats().resizes; }

 private:
  void work(int t) {
    Random random(seed_ * 100 + static_cast<uint64_t>(t));
    auto& history = histories_[static_cast<size_t>(t)];
    history.reserve(static_cast<size_t>(shape_.ops));
    started_.fetch_add(1);
    while (started_.load() <= shape_.threads) std::this_thread::yield();
    for (int i = 0; i < shape_.ops; ++i) {
      const uint64_t key = random.below(hashes_.size());
      KeyOp op{};
      op.kind = static_cast<KeyOp::Kind>(random.below(5));
      op.thread = t;
      op.expected = random.below(2);
      op.value = shape_.few_values ? random.below(2) : static_cast<uint64_t>(t * shape_.ops + i);
      run_one(*table_, hashes_[key], &op, tickets_);
      if (key < shape_.keys) history.emplace_back(key, op);
      if (random.below(8) == 0) table_->quiesce(t);
    }
    table_->offline(t);
  }

  void grow() {
    started_.fetch_add(1);
    while (started_.load() <= shape_.threads) std::this_thread::yield();
    for (uint64_t i = 0; i < shape_.grow; ++i) {
      const uint64_t hash = mix64(~(seed_ << 20 | i));
      ASSERT_EQ(table_->insert(hash, MatchAny(), i).code, InsertCode::kInserted);
      if (i % 16 == 0) table_->quiesce(shape_.threads);
    }
    table_->offline(shape_.threads);
  }

  void check() {
    std::vector<std::vector<KeyOp>> by_key(shape_.keys);
    uint64_t last = 0;
    for (const auto& history : histories_) {
      for (const auto& [key, op] : history) {
        by_key[key].push_back(op);
        last = std::max(last, op.responded);
      }
    }
    for (uint64_t key = 0; key < shape_.keys; ++key) {
      KeyOp op{};
      op.kind = KeyOp::kGet;
      op.ok = table_->get(hashes_[key], MatchAny(), &op.got);
      op.invoked = last + 1;
      op.responded = last + 2;
      by_key[key].push_back(op);
      ASSERT_EQ(check_linearizable(by_key[key]), "") << shape_.name << " seed " << seed_ << " key " << key;
    }
    std::map<uint64_t, int> seen;
    uint64_t cursor = 0;
    do {
      cursor = table_->scan(cursor, [&](uint64_t hash, uint64_t) { ++seen[hash]; });
    } while (cursor != 0);
    for (const auto& [hash, times] : seen) ASSERT_EQ(times, 1) << "a key is in the table twice";
    ASSERT_EQ(seen.size(), table_->size());
    for (uint64_t i = 0; i < shape_.grow; ++i) ASSERT_EQ(seen.count(mix64(~(seed_ << 20 | i))), 1U);
  }

  const Shape shape_;
  const uint64_t seed_;
  TestMemory memory_;
  std::unique_ptr<Dlht> table_;
  std::vector<uint64_t> hashes_;
  Tickets tickets_;
  std::atomic<int> started_{0};
  std::vector<std::vector<std::pair<uint64_t, KeyOp>>> histories_;
};

class DlhtConcurrentTest : public ::testing::TestWithParam<Shape> {};

TEST_P(DlhtConcurrentTest, HistoriesAreLinearizable) {
  const Shape& shape = GetParam();
  uint64_t resizes = 0;
  for (int round = 0; round < (kSanitized ? shape.rounds / 3 : shape.rounds) && !HasFatalFailure(); ++round) {
    Round one(shape, static_cast<uint64_t>(round) + 1);
    one.run();
    resizes += one.resizes();
  }
  if (shape.grow > 0) {
    EXPECT_GT(resizes, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DlhtConcurrentTest,
                         ::testing::Values(Shape{"one_key", 4, 30, 4000, 1, 0, true, false, 0},
                                           Shape{"one_key_few_values", 4, 30, 4000, 1, 0, true, true, 0},
                                           Shape{"crowded_bin", 4, 30, 4000, 4, 9, true, false, 0},
                                           Shape{"crowded_bin_few_values", 3, 30, 4000, 4, 9, true, true, 0},
                                           Shape{"links_come_and_go", 3, 30, 4000, 2, 4, true, true, 0},
                                           Shape{"resize", 3, 60, 2000, 3, 0, false, false, 3000},
                                           Shape{"resize_few_values", 3, 60, 2000, 2, 0, true, true, 3000},
                                           Shape{"resize_crowded_bin", 3, 60, 2000, 3, 9, true, true, 3000}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace weft
