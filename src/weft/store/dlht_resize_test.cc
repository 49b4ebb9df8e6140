// A Dlht under load from several threads while it is resized again and again: nothing is lost, nothing is seen twice,
// no get fails; and an old index is freed as soon as it may be, not before.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "weft/base/hash.h"
#include "weft/store/dlht.h"
#include "weft/store/dlht_testing.h"

namespace weft {
namespace {

// Every thread has its own keys and knows their values, so that any loss shows at once, at scale, through many resizes
// that all of them help with.
TEST(DlhtResizeTest, NothingIsLostThroughManyResizes) {
  constexpr int kThreads = 3;
  constexpr uint64_t kKeys = 20000;
  TestMemory memory;
  auto table = std::move(*Dlht::create({.capacity = 96, .readers = kThreads}, &memory));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto hash = [t](uint64_t i) { return mix64(static_cast<uint64_t>(t) << 40 | i); };
      uint64_t value;
      for (uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_EQ(table->insert(hash(i), MatchAny(), i).code, InsertCode::kInserted);
        if (i % 3 == 0) {
          ASSERT_TRUE(table->put(hash(i / 2), MatchAny(), i / 2, &value) || i / 2 % 5 == 0);
        }
        ASSERT_TRUE(table->get(hash(i), MatchAny(), &value));
        ASSERT_EQ(value, i);
        if (i % 5 == 0) {
          ASSERT_TRUE(table->erase(hash(i), MatchAny(), &value));
        }
        if (i % 32 == 0) table->quiesce(t);
      }
      for (uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_EQ(table->get(hash(i), MatchAny(), &value), i % 5 != 0);
        if (i % 5 != 0) {
          ASSERT_EQ(value, i);
        }
      }
      table->offline(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table->size(), kThreads * kKeys * 4 / 5);
  EXPECT_GE(table->stats().resizes, 2U);
}

// Every get finds the keys that nobody changes, whatever is being moved.
TEST(DlhtResizeTest, StableKeysAreSeenThroughResizes) {
  constexpr uint64_t kStable = 48;
  for (uint64_t round = 0; round < 40 && !::testing::Test::HasFatalFailure(); ++round) {
    TestMemory memory;
    auto table = std::move(*Dlht::create({.capacity = 96, .readers = 3}, &memory));
    const auto hash = [round](uint64_t i) { return mix64(round << 32 | i); };
    for (uint64_t i = 0; i < kStable; ++i) {
      ASSERT_EQ(table->insert(hash(i), MatchAny(), i).code, InsertCode::kInserted);
    }
    std::atomic<bool> done{false};
    std::atomic<int> started{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 2; ++t) {
      readers.emplace_back([&, t] {
        started.fetch_add(1);
        std::vector<DlhtRequest> requests;
        while (!done.load(std::memory_order_relaxed)) {
          for (uint64_t i = 0; i < kStable; ++i) {
            uint64_t value;
            ASSERT_TRUE(table->get(hash(i), MatchAny(), &value));
            ASSERT_EQ(value, i);
          }
          requests.clear();
          for (uint64_t i = 0; i < kStable; ++i) {
            requests.push_back({.op = DlhtOp::kGet, .key = i, .hash = hash(i), .value = 0});
          }
          table->run(requests);
          for (const DlhtRequest& request : requests) ASSERT_TRUE(request.ok && request.value == request.key);
          table->quiesce(t);
        }
        table->offline(t);
      });
    }
    while (started.load() < 2) std::this_thread::yield();
    for (uint64_t i = kStable; i < 8000; ++i) {
      ASSERT_EQ(table->insert(hash(i), MatchAny(), i).code, InsertCode::kInserted);
      if (i % 64 == 0) table->quiesce(2);
    }
    table->offline(2);
    done.store(true);
    for (std::thread& reader : readers) reader.join();
  }
}

// Threads increment two keys while their bins are moved again and again: an increment in a slot whose key has already
// been copied would be lost.
TEST(DlhtResizeTest, NoIncrementIsLostWhileBinsAreMoved) {
  constexpr int kThreads = 2;
  for (uint64_t round = 0; round < 40; ++round) {
    TestMemory memory;
    auto table = std::move(*Dlht::create({.capacity = 96, .readers = kThreads + 1}, &memory));
    const std::array<uint64_t, 2> keys = {mix64(round << 32), mix64(round << 32 | 1)};
    for (const uint64_t key : keys) ASSERT_EQ(table->insert(key, MatchAny(), 0).code, InsertCode::kInserted);
    std::atomic<bool> done{false};
    std::array<std::atomic<uint64_t>, 2> counted{};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; !done.load(std::memory_order_relaxed); ++i) {
          const size_t which = i % 2;
          uint64_t value = 0;
          ASSERT_TRUE(table->get(keys[which], MatchAny(), &value));
          if (table->compare_put(keys[which], value, value + 1)) counted[which].fetch_add(1, std::memory_order_relaxed);
          if (i % 64 == 0) table->quiesce(t);
        }
        table->offline(t);
      });
    }
    while (counted[0].load() < 100) std::this_thread::yield();
    for (uint64_t i = 2; i < 8000; ++i) {
      ASSERT_EQ(table->insert(mix64(round << 32 | i), MatchAny(), i).code, InsertCode::kInserted);
      if (i % 64 == 0) table->quiesce(kThreads);
    }
    done.store(true);
    for (std::thread& thread : threads) thread.join();
    for (size_t which = 0; which < 2; ++which) {
      uint64_t value = 0;
      ASSERT_TRUE(table->get(keys[which], MatchAny(), &value));
      ASSERT_EQ(value, counted[which].load()) << "round " << round;
    }
  }
}

// Two keys alternate in the slots of one bin: no key ever shows the other's value.
TEST(DlhtResizeTest, ASlotThatIsReusedShowsNoOtherKeysValue) {
  TestMemory memory;
  auto table = std::move(*Dlht::create({.capacity = 96, .readers = 2}, &memory));
  for (const uint64_t others : {0U, 3U}) {  // in the bin itself, and in a link bucket
    for (uint64_t i = 0; i < others; ++i) (void)table->insert(i, MatchAny(), i);
    std::atomic<bool> done{false};
    std::thread reader([&] {
      while (!done.load(std::memory_order_relaxed)) {
        for (const uint64_t key : {100U, 101U}) {
          uint64_t value;
          if (!table->get(key, MatchAny(), &value)) continue;
          ASSERT_EQ(value / 1'000'000, key);
        }
        table->quiesce(0);
      }
    });
    for (uint64_t i = 0; i < 300'000; ++i) {
      uint64_t old;
      const uint64_t key = 100 + i % 2;
      const uint64_t value = key * 1'000'000 + i;
      ASSERT_EQ(table->insert(key, MatchAny(), value).code, InsertCode::kInserted);
      ASSERT_TRUE(table->put(key, MatchAny(), value, &old));
      ASSERT_TRUE(table->erase(key, MatchAny(), &old));
      ASSERT_EQ(old, value);
    }
    done.store(true);
    reader.join();
  }
}

// A walk continues through resizes and visits every key that is present throughout exactly once.
TEST(DlhtResizeTest, WalkThroughResizes) {
  TestMemory memory;
  auto table = std::move(*Dlht::create({.capacity = 96, .readers = 2}, &memory));
  constexpr uint64_t kStay = 60;
  for (uint64_t i = 0; i < kStay; ++i) {
    ASSERT_EQ(table->insert(mix64(i), MatchAny(), i).code, InsertCode::kInserted);
  }
  std::atomic<bool> done{false};
  std::thread grower([&] {
    uint64_t old;
    for (uint64_t i = 0; i < 30000; ++i) {
      ASSERT_EQ(table->insert(mix64(1000 + i), MatchAny(), 1000 + i).code, InsertCode::kInserted);
      if (i % 2 == 0) {
        ASSERT_TRUE(table->erase(mix64(1000 + i / 2), MatchAny(), &old) || i % 4 != 0);
      }
      if (i % 32 == 0) table->quiesce(0);
    }
    table->offline(0);
    done.store(true);
  });
  uint64_t walks = 0;
  do {
    std::map<uint64_t, int> seen;
    uint64_t cursor = 0;
    do {
      cursor = table->scan(cursor, [&](uint64_t hash, uint64_t value) {
        ASSERT_EQ(hash, mix64(value));
        ++seen[value];
      });
      table->quiesce(1);
    } while (cursor != 0);
    for (uint64_t i = 0; i < kStay; ++i) ASSERT_EQ(seen[i], 1) << "walk " << walks;
    ++walks;
  } while (!done.load());
  grower.join();
  EXPECT_GE(table->stats().resizes, 2U);
}

// ---- Reclamation.

// Fills the table until a resize has begun, then moves everything.
void grow_once(Dlht& table, uint64_t* next_key) {
  const uint64_t before = table.stats().resizes;
  while (table.stats().resizes == before) {
    ASSERT_EQ(table.insert(mix64((*next_key)++), MatchAny(), 1).code, InsertCode::kInserted);
  }
  while (table.help_resize(1000)) {
  }
}

TEST(DlhtReclaimTest, AnOldIndexIsFreedWhenEveryOnlineReaderHasQuiesced) {
  TestMemory memory;
  auto table = std::move(*Dlht::create({.capacity = 96, .readers = 3}, &memory));
  uint64_t key = 0;
  table->offline(2);
  grow_once(*table, &key);
  EXPECT_EQ(memory.freed(), 0);
  table->quiesce(0);
  EXPECT_EQ(memory.freed(), 0) << "reader 1 may still hold on to it";
  table->quiesce(1);
  EXPECT_EQ(memory.freed(), 1);
  EXPECT_EQ(table->stats().bytes, memory.used());

  table->quiesce(2);  // online again
  grow_once(*table, &key);
  table->quiesce(0);
  table->quiesce(1);
  EXPECT_EQ(memory.freed(), 1);
  table->quiesce(2);
  EXPECT_EQ(memory.freed(), 2);
}

TEST(DlhtReclaimTest, NothingLeaksWhenATableGoesInTheMiddleOfAResize) {
  TestMemory memory;
  {
    auto table = std::move(*Dlht::create({.capacity = 96}, &memory));
    uint64_t key = 0;
    grow_once(*table, &key);
    while (table->stats().resizes < 2) (void)table->insert(mix64(key++), MatchAny(), 1);
    EXPECT_TRUE(table->stats().resizing);
  }
  EXPECT_EQ(memory.used(), 0U);
}

}  // namespace
}  // namespace weft
