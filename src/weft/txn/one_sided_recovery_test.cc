// Locks that verbs have taken and no record names are freed before the next view is active: by the workers of a node
// together, without a pause in which they would sleep, and at a cost that depends on what is in the tables.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/store/owner_testing.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/rows_testing.h"

namespace weft {
namespace {

constexpr uint32_t kValueBytes = 4000;

class FreedLocks : public testing::TestWithParam<const char*>, public HandNodes {
 protected:
  // Nodes 0 and 1; node 2 is dead from the beginning.
  void start(uint64_t capacity, int workers) {
    spec_ = three_nodes();
    spec_.recovers = true;
    spec_.options.protocol = GetParam();
    spec_.options.workers = workers;
    spec_.tables[0].capacity = capacity;
    spec_.tables[0].value_bytes_max = kValueBytes;
    make_network();
    for (const uint8_t n : {uint8_t{0}, uint8_t{1}}) start_node(NodeId(n), view_);
  }

  // Loads keys at node 0, every `nth` of them locked by a verb of the dead node's workers.
  void fill(uint64_t keys, uint64_t nth) {
    Table& table = *nodes_[0]->table(kTable);
    std::byte* const base = regions_[0]->find(NodeTables::region_of(kTable))->base();
    const std::string value(kValueBytes, 'v');
    const Owner alice = make_owner(NodeId(0), WorkerId(0), 1);
    for (uint64_t k = 0; k < keys; ++k) {
      const HashedKey key = table.hashed({reinterpret_cast<const std::byte*>(&k), sizeof k});
      const LockResult lock = table.lock(key, alice, Write::kPut, std::nullopt, kValueBytes);
      ASSERT_EQ(lock.code, Code::kOk);
      table.commit(key, alice, Write::kPut, as_bytes(value), lock.locked);
      if (k % nth != 0) continue;
      std::byte* const word = base + table.locate(key).offset();
      const Owner dead =
          make_owner(NodeId(2), WorkerId(static_cast<uint8_t>(k % workers())), static_cast<uint8_t>(k % 100));
      store_word(word, load_word(word).with_owner(dead));
    }
  }

  uint64_t workers() const { return static_cast<uint64_t>(spec_.options.workers); }
  uint64_t locked() const { return nodes_[0]->table(kTable)->leak_report().locked; }
  bool active_in(Epoch epoch) {
    bool all = true;
    for (const size_t n : {size_t{0}, size_t{1}}) {
      for (uint8_t w = 0; w < workers(); ++w) {
        all = all && txn_worker(n, w)->active() && txn_worker(n, w)->view().epoch == epoch;
      }
    }
    return all;
  }

  struct Steps {
    uint64_t until_active = 0;      // of each worker
    std::vector<uint64_t> freeing;  // by worker of node 0
    uint64_t freeing_idle = 0;      // after which a worker with more to free might have slept
  };
  Steps recover() {
    const auto next = view_without(NodeId(2));
    for (const size_t n : {size_t{0}, size_t{1}}) nodes_[n]->state().views.publish(next);
    Steps out;
    out.freeing.resize(workers());
    std::vector<uint64_t> idle(workers());  // since the last step that has freed something
    for (; !active_in(next->epoch) && out.until_active < 10'000; ++out.until_active) {
      for (uint8_t w = 0; w < workers(); ++w) {
        const uint64_t before = locked();
        const bool busy = nodes_[0]->worker(WorkerId(w))->step();
        const bool freed = locked() < before;
        if (freed && out.freeing[w]++ > 0) out.freeing_idle += idle[w];
        if (freed) idle[w] = 0;
        if (!busy) ++idle[w];
      }
      step(1);
    }
    return out;
  }
};

TEST_P(FreedLocks, AllOfThemAndWithoutAPause) {
  start(100'000, 2);
  fill(2000, 3);
  const uint64_t pieces = nodes_[0]->table(kTable)->lock_chunks();
  EXPECT_GE(pieces, 8U);
  EXPECT_EQ(locked(), 667U);
  const Steps steps = recover();
  EXPECT_LT(steps.until_active, 10'000U);
  EXPECT_EQ(locked(), 0U);
  EXPECT_EQ(steps.freeing_idle, 0U);
  EXPECT_EQ(steps.freeing[0] + steps.freeing[1], pieces) << "each piece once, and one in a step";
  EXPECT_LE(steps.freeing[0], pieces / 2 + 1) << "they share the work";
  EXPECT_LE(steps.freeing[1], pieces / 2 + 1);
  const HashedKey key = nodes_[0]->table(kTable)->hashed(as_bytes(std::string_view("\0\0\0\0\0\0\0\0", 8)));
  std::vector<std::byte> value(kValueBytes);
  const ReadResult read = nodes_[0]->table(kTable)->read(key, value.data(), value.size());
  EXPECT_TRUE(read.found);
  EXPECT_EQ(read.word, Word(Version(1), kReadable));
}

TEST_P(FreedLocks, WhatATableCouldHoldCostsNothing) {
  start(1000, 1);
  const uint64_t small = recover().until_active;
  start(1'000'000, 1);
  EXPECT_EQ(recover().until_active, small);
}

INSTANTIATE_TEST_SUITE_P(Rows, FreedLocks, testing::ValuesIn(rows_that_lock_by_verbs()), row_test_name);

}  // namespace
}  // namespace weft
