// Locking one record's word by the CPU and by CAS verbs, on wires whose atomics are atomic with the CPU's.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/sanitized.h"
#include "weft/fabric/local.h"
#include "weft/store/owner_testing.h"
#include "weft/store/record.h"
#include "weft/wires/shm/shm_testing.h"

namespace weft {
namespace {

constexpr NodeId kPeer(0), kHome(1);
constexpr uint64_t kOffset = 4096;
constexpr uint64_t kLocksEach = kSanitized ? 2'000 : 200'000;

// What the lock protects. Each access alone is atomic; an update is lost if two threads are inside.
struct Guarded {
  std::atomic<uint64_t> updates{0};
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};

  void update() {
    if (inside.fetch_add(1) != 0) together = true;
    updates.store(updates.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    inside.fetch_sub(1);
  }
};

Word next(Word word) { return {Version(word.version().value + 1), kReadable}; }

void lock_by_processor(std::byte* record, Owner owner, Guarded& guarded) {
  for (uint64_t done = 0; done < kLocksEach;) {
    const Word word = load_word(record);
    if (word.owner() || !swap_word(record, word, word.with_owner(owner))) {
      std::this_thread::yield();
      continue;
    }
    guarded.update();
    store_word(record, next(word));
    ++done;
  }
}

// On these wires a verb is complete when post() returns.
void post_one(Wire* wire, VerbKind kind, uint64_t* local, uint64_t compare = 0, uint64_t operand = 0) {
  Verb verb;
  verb.kind = kind;
  verb.offset = kOffset;
  verb.bytes = sizeof *local;
  verb.local = reinterpret_cast<std::byte*>(local);
  verb.compare = compare;
  verb.operand = operand;
  ASSERT_TRUE(wire->post(kHome, Domain::kEngine, {&verb, 1}));
  std::vector<Completion> done(1);
  ASSERT_EQ(wire->poll_completions(Domain::kEngine, done), 1U);
  ASSERT_EQ(done[0].status, VerbStatus::kDone);
}

void lock_by_verbs(Wire* wire, Owner owner, Guarded& guarded) {
  for (uint64_t done = 0; done < kLocksEach && !::testing::Test::HasFatalFailure();) {
    uint64_t bits = 0;
    post_one(wire, VerbKind::kRead, &bits);
    const Word word(bits);
    uint64_t old = 0;
    if (!word.owner()) post_one(wire, VerbKind::kCompareSwap, &old, word.bits, word.with_owner(owner).bits);
    if (word.owner() || old != word.bits) {
      std::this_thread::yield();
      continue;
    }
    guarded.update();
    uint64_t unlocked = next(word).bits;
    post_one(wire, VerbKind::kWrite, &unlocked);
    ++done;
  }
}

// Two threads of each kind. `record` is its address in the home node.
void expect_exclusion(std::byte* record, const std::vector<Wire*>& wires) {
  ASSERT_EQ(wires.size(), 2U);
  store_word(record, Word(Version(1), kReadable));
  Guarded guarded;
  std::vector<std::thread> threads;
  for (uint8_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(wires[i]->atomic_with_cpu());
    threads.emplace_back([&, i] { lock_by_processor(record, make_owner(kHome, WorkerId(i), 1), guarded); });
    threads.emplace_back([&, i] { lock_by_verbs(wires[i], make_owner(kPeer, WorkerId(i), 1), guarded); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(guarded.together) << "two held the lock";
  EXPECT_EQ(guarded.updates, 4 * kLocksEach);
  EXPECT_EQ(load_word(record), Word(Version(1 + 4 * kLocksEach), kReadable));
}

TEST(RecordLock, IsOneLockForProcessorAndVerbsOverLocal) {
  auto region = std::move(*Region::create(2 << 20));
  Regions regions;
  regions.add(region.get());
  regions.grant(kPeer, Domain::kEngine);
  LocalOptions options;
  options.nodes = options.workers = 2;
  LocalFabric fabric(options);
  fabric.set_regions(kHome, &regions);
  expect_exclusion(region->base() + kOffset, {fabric.wire(kPeer, WorkerId(0)), fabric.wire(kPeer, WorkerId(1))});
}

// The peer maps the memory at another address.
TEST(RecordLock, IsOneLockForProcessorAndVerbsOverShm) {
  ShmOptions peer_options = shm_test_options(0);
  ShmOptions home_options = shm_test_options(1);
  peer_options.workers = home_options.workers = 2;
  ShmNode peer(peer_options);
  ShmNode home(home_options);
  shm_connect_all({&peer, &home}, 2);
  home.regions.grant(kPeer, Domain::kEngine);
  expect_exclusion(home.region->base() + kOffset, {peer.wire(0), peer.wire(1)});
}

}  // namespace
}  // namespace weft
