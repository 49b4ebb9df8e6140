#include "weft/store/quiesce.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace weft {
namespace {

TEST(QuiescenceTest, ATicketPassesWhenEveryOnlineReaderHasQuiesced) {
  Quiescence quiescence(3);
  const uint64_t ticket = quiescence.mark();
  EXPECT_FALSE(quiescence.passed(ticket));
  quiescence.quiesce(0);
  quiescence.quiesce(1);
  EXPECT_FALSE(quiescence.passed(ticket));
  quiescence.quiesce(2);
  EXPECT_TRUE(quiescence.passed(ticket));
  const uint64_t later = quiescence.mark();
  EXPECT_TRUE(quiescence.passed(ticket));
  EXPECT_FALSE(quiescence.passed(later));
}

TEST(QuiescenceTest, OfflineReadersAreNotWaitedFor) {
  Quiescence quiescence(2);
  quiescence.offline(1);
  const uint64_t ticket = quiescence.mark();
  quiescence.quiesce(0);
  EXPECT_TRUE(quiescence.passed(ticket));
  quiescence.quiesce(1);  // back
  const uint64_t later = quiescence.mark();
  quiescence.quiesce(0);
  EXPECT_FALSE(quiescence.passed(later));
  quiescence.quiesce(1);
  EXPECT_TRUE(quiescence.passed(later));
}

// Readers follow a pointer that a writer keeps replacing; a replaced object is freed when its ticket has passed. If a
// reader were missed it would read freed memory, which AddressSanitizer and ThreadSanitizer report.
TEST(QuiescenceTest, NoReaderSeesFreedMemory) {
  constexpr int kReaders = 3;
  struct Node {
    std::atomic<uint64_t> a;
    uint64_t b;
  };
  Quiescence quiescence(kReaders);
  std::atomic<Node*> shared{new Node{{0}, 0}};
  std::atomic<bool> done{false};
  std::atomic<int> started{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&, r] {
      started.fetch_add(1);
      for (uint64_t turn = 0; !done.load(std::memory_order_relaxed); ++turn) {
        const Node* const node = shared.load(std::memory_order_acquire);
        ASSERT_EQ(node->a.load(std::memory_order_relaxed), node->b);
        if (turn % 100 == 99) {
          quiescence.offline(r);
          std::this_thread::yield();
        }
        quiescence.quiesce(r);
      }
      quiescence.offline(r);
    });
  }
  struct Old {
    Node* node;
    uint64_t ticket;
  };
  std::vector<Old> old;
  while (started.load() < kReaders) std::this_thread::yield();
  for (uint64_t i = 1; i < 100000; ++i) {
    Node* const replaced = shared.exchange(new Node{{i}, i}, std::memory_order_seq_cst);
    old.push_back({replaced, quiescence.mark()});
    std::erase_if(old, [&](const Old& o) {
      if (!quiescence.passed(o.ticket)) return false;
      delete o.node;
      return true;
    });
    if (old.size() > 100) std::this_thread::yield();
  }
  done.store(true);
  for (std::thread& reader : readers) reader.join();
  for (const Old& o : old) {
    EXPECT_TRUE(quiescence.passed(o.ticket));
    delete o.node;
  }
  delete shared.load();
}

}  // namespace
}  // namespace weft
