// Scans beside writers. What stays is found by every scan, exactly once and in order; what does not stay comes and
// goes. For the thread sanitizer, too.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/store/ordered_testing.h"

namespace weft {
namespace {

using testing::TableBox;

constexpr int kChurners = 2;
constexpr uint64_t kRaceNumbers = 3'000;
constexpr int kRaceScans = kSanitized ? 60 : 1'500;

// A key of a third of the numbers stays; the writers insert and erase the others, each its own.
bool stays_in_race(uint64_t number) { return number % 3 == 0; }

class OrderedRace : public ::testing::TestWithParam<KeyKind> {
 protected:
  OrderedRace() : box_(options()) {
    for (uint64_t i = 0; i < kRaceNumbers; i += 3) change(i, Write::kPut, 'a', make_owner(NodeId(0), WorkerId(0), 1));
  }

  static TableOptions options() {
    TableOptions options = GetParam() == KeyKind::kInteger ? testing::ordered_integers(kRaceNumbers)
                                                           : testing::ordered_bytes(kRaceNumbers);
    options.workers = kChurners + 1;
    options.checksums = false;
    return options;
  }

  // Byte strings have a long beginning in common, and differ behind a prefix.
  static std::string name(uint64_t number) {
    if (GetParam() == KeyKind::kBytes) return "race/of/many/keys/" + testing::in_order(number * 7919);
    return {reinterpret_cast<const char*>(&number), sizeof number};
  }
  static uint64_t number_of(ByteView key) {
    if (GetParam() == KeyKind::kInteger) return load<uint64_t>(key.data());
    return __builtin_bswap64(load<uint64_t>(key.data() + key.size() - 8)) / 7919;
  }

  void change(uint64_t number, Write write, char letter, Owner owner) {
    const std::string key = name(number);
    const std::string value(number % 50 + static_cast<size_t>(letter % 2) * 10, letter);
    const HashedKey hashed = box_->hashed(as_bytes(key));
    const LockResult locked = box_->lock(hashed, owner, write, std::nullopt,
                                         write == Write::kErase ? 0 : static_cast<uint32_t>(value.size()));
    if (locked.code != Code::kOk) return;
    if (letter == 'z') return box_->unlock(hashed, owner, locked.locked);
    box_->commit(hashed, owner, write, as_bytes(value), locked.locked);
  }

  void churn(int writer) {
    Random random(static_cast<uint64_t>(writer) + 1);
    const Owner owner = make_owner(NodeId(0), WorkerId(static_cast<uint8_t>(writer)), 1);
    const WorkerId worker(static_cast<uint8_t>(writer));
    for (int step = 0; !done_.load(std::memory_order_relaxed); ++step) {
      const uint64_t number = random.below(kRaceNumbers / 3) * 3;
      const Write write = random.chance(50) ? Write::kPut : Write::kErase;
      if (step % 4 == 0) {
        change(number, Write::kPut, static_cast<char>('a' + random.below(2)), owner);
      } else {
        // Now and then a stretch of neighbours, so that nodes are split and joined.
        const uint64_t stretch = step % 16 == 1 ? 100 : 1;
        for (uint64_t i = 0; i < stretch; ++i) {
          change((number + i * 3) % kRaceNumbers + 1 + static_cast<uint64_t>(writer), write,
                 random.chance(30) ? 'z' : 'c', owner);
        }
      }
      box_->quiesce(worker);
    }
    box_->offline(worker);
  }

  void scan_once(OrderedScan& scan, bool backward) {
    scan.start({.partition = PartitionId(0), .backward = backward});
    ScanItem item;
    uint64_t staying = 0;
    std::optional<uint64_t> last;
    while (scan.next(&item)) {
      const uint64_t number = number_of(item.key);
      ASSERT_TRUE(!last || (backward ? number < *last : number > *last)) << number << " after " << *last;
      last = number;
      staying += stays_in_race(number) ? 1 : 0;
      if (item.state == ScanState::kTorn || item.value.empty()) continue;
      const std::string value(as_text(item.value));
      ASSERT_EQ(value, std::string(value.size(), value[0])) << "a value of one write";
      ASSERT_EQ(value.size(), number % 50 + static_cast<size_t>(value[0] % 2) * 10);
    }
    ASSERT_EQ(staying, kRaceNumbers / 3) << "what stays is found once";
  }

  TableBox box_;
  std::atomic<bool> done_{false};
};

TEST_P(OrderedRace, EveryScanFindsWhatStays) {
  std::vector<std::thread> writers;
  for (int i = 0; i < kChurners; ++i) writers.emplace_back([this, i] { churn(i); });
  OrderedScan scan(*box_);
  for (int i = 0; i < kRaceScans && !HasFatalFailure(); ++i) {
    scan_once(scan, i % 2 == 1);
    box_->quiesce(WorkerId(kChurners));
  }
  done_.store(true);
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(box_->order().check(PartitionId(0)), box_->records());
  EXPECT_EQ(box_->leak_report().locked, 0U);
  EXPECT_LE(box_->order().space().used(), OrderedIndex::nodes_for(box_->records()));
}

// At a backup one worker removes a tombstone while another applies the insert that follows: both may remove the slot,
// and the new one stays.
TEST_P(OrderedRace, ATombstoneIsRemovedBesideTheNextInsert) {
  constexpr uint64_t kRounds = kSanitized ? 1'000 : 10'000;
  const std::string name_of_key = name(1);
  const HashedKey key = box_->hashed(as_bytes(name_of_key));
  std::atomic<uint64_t> round{0};
  std::atomic<uint64_t> marked{0};
  std::thread marker([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      while (round.load(std::memory_order_acquire) < i) std::this_thread::yield();
      box_->mark_readable(key, Version(2 * i));
      box_->quiesce(WorkerId(0));
      marked.store(i, std::memory_order_release);
    }
    box_->offline(WorkerId(0));
  });
  OrderedScan scan(*box_);
  uint64_t found = 0;
  std::vector<std::byte> undo(64);
  box_->apply(key, Write::kInsert, as_bytes("v"), Version(1), undo.data());
  for (uint64_t i = 1; i <= kRounds; ++i) {
    box_->apply(key, Write::kErase, {}, Version(2 * i), undo.data());
    round.store(i, std::memory_order_release);
    box_->apply(key, Write::kInsert, as_bytes("v"), Version(2 * i + 1), undo.data());
    while (marked.load(std::memory_order_acquire) < i) std::this_thread::yield();
    ScanItem item;
    scan.start({.partition = PartitionId(0), .from = key.bytes, .limit = 1});
    found += scan.next(&item) && as_text(item.key) == name_of_key ? 1 : 0;
  }
  marker.join();
  EXPECT_EQ(found, kRounds);
  EXPECT_EQ(box_->order().check(PartitionId(0)), kRaceNumbers / 3 + 1);
}

INSTANTIATE_TEST_SUITE_P(Keys, OrderedRace, ::testing::Values(KeyKind::kInteger, KeyKind::kBytes),
                         [](const auto& param) {
                           return param.param == KeyKind::kInteger ? "Integers" : "ByteStrings";
                         });

}  // namespace
}  // namespace weft
