// Threads on one table: small transactions that move tokens between keys, and backups where writes are applied, marked
// readable and read concurrently. Also run under TSan.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/store/owner_testing.h"
#include "weft/store/table_testing.h"

namespace weft {
namespace {

using testing::bytes_table;
using testing::integer_table;
using testing::TableBox;

constexpr int kRaceRounds = kSanitized ? 4000 : 60000;

constexpr uint32_t kRaceKeys = 12;
constexpr uint32_t kRaceValueMax = 3000;

// A value holds a number, and bytes that are derived from it and from the length.
std::vector<std::byte> make_value(uint64_t number, size_t bytes) {
  std::vector<std::byte> value(std::max<size_t>(bytes, 8));
  store<uint64_t>(value.data(), number);
  for (size_t i = 8; i < value.size(); ++i) {
    value[i] = static_cast<std::byte>(number * 31 + value.size() * 7 + i);
  }
  return value;
}

bool good_value(ByteView value) {
  const std::vector<std::byte> expected = make_value(load<uint64_t>(value.data()), value.size());
  return std::equal(value.begin(), value.end(), expected.begin(), expected.end());
}

struct Keys {
  explicit Keys(const Table& table) {
    for (uint32_t i = 0; i < kRaceKeys; ++i) {
      names[i] = "key" + std::to_string(10000 + i);
      hashed[i] = table.hashed(as_bytes(names[i]));
    }
  }
  std::array<std::string, kRaceKeys> names;
  std::array<HashedKey, kRaceKeys> hashed;
};

// The kind of keys, and whether records have checksums.
class TableRace : public ::testing::TestWithParam<std::pair<KeyKind, bool>> {
 protected:
  static TableOptions options(int workers) {
    const auto [kind, checksums] = GetParam();
    TableOptions out = kind == KeyKind::kInteger ? integer_table(64, kRaceValueMax) : bytes_table(64, kRaceValueMax);
    out.workers = workers;
    out.checksums = checksums;
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Keys, TableRace,
                         ::testing::Values(std::pair(KeyKind::kInteger, true), std::pair(KeyKind::kBytes, true),
                                           std::pair(KeyKind::kInteger, false), std::pair(KeyKind::kBytes, false)),
                         [](const auto& of) {
                           return std::string(of.param.first == KeyKind::kInteger ? "Integer" : "Bytes") +
                                  (of.param.second ? "" : "Plain");
                         });

struct Held {
  const HashedKey* key;
  Locked locked;
  uint64_t tokens = 0;
};

// Locks the key as fasst does (before the write is known) and reads its tokens.
bool hold(Table& table, const HashedKey& key, Owner owner, Held* held) {
  const LockResult r = table.lock(key, owner, Write::kPut, std::nullopt, 0);
  if (r.code != Code::kOk) return false;
  std::vector<std::byte> value(kRaceValueMax);
  const ReadResult read = table.read(key, value.data(), value.size());
  *held = Held{&key, r.locked, read.found ? load<uint64_t>(value.data()) : 0};
  return true;
}

// Releases a lock with a new number of tokens; zero tokens means absent.
bool settle(Table& table, Owner owner, Random* random, Held* held) {
  if (held->tokens == 0) {
    if (held->locked.fresh) {
      table.unlock(*held->key, owner, held->locked);
      return true;
    }
    if (table.relock(*held->key, owner, Write::kErase, 0, &held->locked) != Code::kOk) return false;
    return true;
  }
  const auto bytes = static_cast<uint32_t>(8 + random->below(kRaceValueMax - 8));
  return table.relock(*held->key, owner, Write::kPut, bytes, &held->locked) == Code::kOk;
}

void install(Table& table, Owner owner, Random* random, const Held& held) {
  if (held.tokens == 0) {
    if (!held.locked.fresh) table.commit(*held.key, owner, Write::kErase, ByteView(), held.locked);
    return;
  }
  const size_t room = held.locked.larger_block ? held.locked.larger_block.bytes() : held.locked.record.bytes();
  const size_t most =
      std::min<size_t>(kRaceValueMax, room - record_bytes(form_of_block(room), held.key->bytes.size(), 0));
  table.commit(*held.key, owner, Write::kPut, make_value(held.tokens, 8 + random->below(most - 7)), held.locked);
}

void move_tokens(Table& table, const Keys& keys, int thread, std::atomic<uint64_t>* moves) {
  Random random(static_cast<uint64_t>(thread) + 100);
  const Owner owner = make_owner(NodeId(0), WorkerId(static_cast<uint8_t>(thread)), 1);
  for (int i = 0; i < kRaceRounds; ++i) {
    if (i % 64 == 0) table.quiesce(WorkerId(static_cast<uint8_t>(thread)));
    const auto a = static_cast<uint32_t>(random.below(kRaceKeys));
    const auto b = static_cast<uint32_t>((a + 1 + random.below(kRaceKeys - 1)) % kRaceKeys);
    Held from;
    Held to;
    if (!hold(table, keys.hashed[a], owner, &from)) continue;
    if (!hold(table, keys.hashed[b], owner, &to)) {
      table.unlock(*from.key, owner, from.locked);
      continue;
    }
    if (from.tokens == 0) {
      table.unlock(*from.key, owner, from.locked);
      table.unlock(*to.key, owner, to.locked);
      continue;
    }
    const uint64_t count = random.chance(50) ? from.tokens : 1;
    from.tokens -= count;
    to.tokens += count;
    if (!settle(table, owner, &random, &from) || !settle(table, owner, &random, &to)) {
      table.unlock(*from.key, owner, from.locked);
      table.unlock(*to.key, owner, to.locked);
      continue;
    }
    install(table, owner, &random, from);
    install(table, owner, &random, to);
    moves->fetch_add(1, std::memory_order_relaxed);
  }
  table.offline(WorkerId(static_cast<uint8_t>(thread)));
}

// A key's version never decreases, across delete and insert too, and one version names one state.
void watch(Table& table, const Keys& keys, int thread, const std::atomic<bool>* stop, std::atomic<int>* wrong) {
  Random random(7);
  struct Seen {
    uint64_t version = 0;
    bool found = false;
    uint64_t number = 0;
  };
  std::array<Seen, kRaceKeys> seen;
  std::vector<std::byte> value(kRaceValueMax);
  for (int i = 0; !stop->load(std::memory_order_relaxed); ++i) {
    if (i % 64 == 0) table.quiesce(WorkerId(static_cast<uint8_t>(thread)));
    const auto k = static_cast<uint32_t>(random.below(kRaceKeys));
    const ReadResult r = table.read(keys.hashed[k], value.data(), value.size());
    if (r.found && !good_value(ByteView(value.data(), r.value_bytes))) wrong->fetch_add(1);
    if (!r.found && r.word.owner()) continue;  // a delete that is just being installed, see table_apply.cc
    const Seen now{r.word.version().value, r.found, r.found ? load<uint64_t>(value.data()) : 0};
    Seen& last = seen[k];
    if (now.version < last.version) wrong->fetch_add(1);
    if (now.version == last.version && last.version != 0 && (now.found != last.found || now.number != last.number)) {
      wrong->fetch_add(1);
    }
    last = now;
  }
  table.offline(WorkerId(static_cast<uint8_t>(thread)));
}

TEST_P(TableRace, TokensAreConserved) {
  constexpr int kMovers = 3;
  constexpr int kWatchers = 2;
  TableBox box(options(kMovers + kWatchers));
  const Keys keys(*box);
  for (const HashedKey& key : keys.hashed) {
    const LockResult r = box->lock(key, testing::kAlice, Write::kInsert, std::nullopt, 8);
    ASSERT_EQ(r.code, Code::kOk);
    box->commit(key, testing::kAlice, Write::kInsert, make_value(3, 8), r.locked);
  }
  std::atomic<uint64_t> moves{0};
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> movers;
  std::vector<std::thread> watchers;
  for (int t = 0; t < kMovers; ++t) movers.emplace_back([&, t] { move_tokens(*box, keys, t, &moves); });
  for (int t = 0; t < kWatchers; ++t) {
    watchers.emplace_back([&, t] { watch(*box, keys, kMovers + t, &stop, &wrong); });
  }
  for (std::thread& t : movers) t.join();
  stop = true;
  for (std::thread& t : watchers) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(moves.load(), 0U);
  uint64_t sum = 0;
  box->visit(
      [](void* context, ByteView, ByteView value, Word) {
        EXPECT_TRUE(good_value(value));
        *static_cast<uint64_t*>(context) += load<uint64_t>(value.data());
      },
      &sum);
  EXPECT_EQ(sum, 3 * kRaceKeys);
  const Table::LeakReport residue = box->leak_report();
  EXPECT_EQ(residue.locked + residue.unreadable + residue.tombstones, 0U);
}

// One thread inserts and deletes a key at a backup as fast as it can. Returns how often another sees its version
// decrease.
int times_it_falls(const TableOptions& options) {
  TableBox box(options);
  const Keys keys(*box);
  const HashedKey& key = keys.hashed[0];
  std::atomic<bool> stop{false};
  std::atomic<int> falls{0};
  std::thread reader([&] {
    std::vector<std::byte> value(kRaceValueMax);
    uint64_t last = 0;
    for (int i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      if (i % 64 == 0) box->quiesce(WorkerId(1));
      const ReadResult r = box->read(key, value.data(), value.size());
      // An unreadable version may be seen early: in a block that was this key's before and is not in the index yet.
      if (!r.word.readable()) continue;
      if (r.word.version().value < last) falls.fetch_add(1);
      last = r.word.version().value;
    }
    box->offline(WorkerId(1));
  });
  std::vector<std::byte> undo(kRaceValueMax);
  const std::vector<std::byte> value = make_value(1, 8);
  for (uint64_t version = 1; version <= 60 * kRaceRounds; ++version) {
    if (version % 64 == 0) box->quiesce(WorkerId(0));
    box->apply(key, version % 2 == 0 ? Write::kErase : Write::kPut, value, Version(version), undo.data());
    box->mark_readable(key, Version(version));
  }
  box->offline(WorkerId(0));
  stop = true;
  reader.join();
  return falls.load();
}

// A reader sees a tombstone and reads the absence word; then the word is bumped and the tombstone removed; then the
// reader searches. An absence from before the insert would be older than what the same reader has seen of the key.
TEST_P(TableRace, AKeyThatComesAndGoes) { EXPECT_EQ(times_it_falls(options(2)), 0); }

// The same without a second thread: its steps are executed during the read. Returns the version that the reader gets.
uint64_t told_while_it_goes(TableOptions options) {
  struct Other {
    Table* table;
    const HashedKey* key;
    bool done = false;
  } other{nullptr, nullptr};
  options.looking = [](void* context) {
    auto* const self = static_cast<Other*>(context);
    if (self->table == nullptr || std::exchange(self->done, true)) return;
    self->table->mark_readable(*self->key, Version(2));
  };
  options.looking_context = &other;
  TableBox box(options);
  const Keys keys(*box);
  const HashedKey& key = keys.hashed[0];
  std::vector<std::byte> buffer(kRaceValueMax);
  const std::vector<std::byte> value = make_value(1, 8);
  box->apply(key, Write::kPut, value, Version(1), buffer.data());
  box->mark_readable(key, Version(1));
  box->apply(key, Write::kErase, {}, Version(2), buffer.data());
  other.table = &*box;
  other.key = &key;
  const ReadResult r = box->read(key, buffer.data(), buffer.size());
  EXPECT_TRUE(other.done);
  EXPECT_TRUE(r.word.readable());
  return r.word.version().value;
}

TEST_P(TableRace, AKeyThatGoesWhileItIsLookedFor) { EXPECT_EQ(told_while_it_goes(options(1)), 2U); }

TEST_P(TableRace, AnAbsenceWordThatIsLookedAtOnce) {
  TableOptions broken = options(1);
  broken.bugs.mask = static_cast<uint64_t>(PlantedBug::kAbsenceOnce);
  EXPECT_LT(told_while_it_goes(broken), 2U) << "the planted bug is seen";
}

// A backup as others see it: versions up to `applied` were applied, in order; those up to `raising` were marked
// readable, or are just being marked.
struct Backup {
  std::array<std::atomic<uint64_t>, kRaceKeys> applied{};
  std::array<std::atomic<uint64_t>, kRaceKeys> raising{};
  std::array<bool, kRaceKeys> present{};  // of the thread that applies
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
};

using Apply = Undo (*)(Table&, const HashedKey&, Write, ByteView, Version, std::byte*);

// In the order of the primary's locks.
void apply_writes(Table& table, const Keys& keys, WorkerId worker, Apply apply, Backup* backup) {
  Random random(1);
  std::vector<std::byte> undo(kRaceValueMax);
  for (int i = 0; i < kRaceRounds; ++i) {
    if (i % 64 == 0) table.quiesce(worker);
    const auto k = static_cast<uint32_t>(random.below(kRaceKeys));
    const uint64_t version = backup->applied[k].load() + 1;
    bool& present = backup->present[k];
    const bool erase = present && random.chance(50);
    const std::vector<std::byte> value = make_value(version, 8 + random.below(kRaceValueMax - 8));
    const Undo u =
        apply(table, keys.hashed[k], erase ? Write::kErase : Write::kPut, value, Version(version), undo.data());
    if (u.existed != present) backup->wrong.fetch_add(1);
    if (u.existed && load<uint64_t>(undo.data()) != version - 1) backup->wrong.fetch_add(1);
    present = !erase;
    backup->applied[k].store(version);
  }
  backup->done = true;
  table.offline(worker);
}

void raise_behind(Table& table, const Keys& keys, WorkerId worker, Backup* backup) {
  std::array<uint64_t, kRaceKeys> next{};
  for (bool more = true; more;) {
    more = !backup->done.load();
    for (uint32_t k = 0; k < kRaceKeys; ++k) {
      table.quiesce(worker);
      for (const uint64_t end = backup->applied[k].load(); next[k] < end;) {
        more = true;
        backup->raising[k].store(++next[k]);
        table.mark_readable(keys.hashed[k], Version(next[k]));
      }
    }
  }
  table.offline(worker);
}

void bring_late(Table& table, const Keys& keys, WorkerId worker, const Backup& backup) {
  Random random(worker.value);
  std::vector<std::byte> scratch(kRaceValueMax);
  while (!backup.done.load()) {
    table.quiesce(worker);
    const auto k = static_cast<uint32_t>(random.below(kRaceKeys));
    const uint64_t newest = backup.applied[k].load();
    if (newest < 2) continue;
    const uint64_t version = newest - 1 - random.below(std::min<uint64_t>(newest - 1, 3));
    const std::vector<std::byte> value = make_value(version, 8 + random.below(kRaceValueMax - 8));
    table.apply_late_put(keys.hashed[k], value, Version(version), scratch.data());
  }
  table.offline(worker);
}

// G4: one thread applies (in the order of the primary's locks), another marks readable later, a third reads. Only
//     marked versions are readable, and marking an old version changes nothing.
TEST_P(TableRace, ABackupIsReadableOnlyWhenRaised) {
  TableBox box(options(3));
  const Keys keys(*box);
  Backup backup;
  const auto apply = [](Table& table, const HashedKey& key, Write write, ByteView value, Version version,
                        std::byte* undo) { return table.apply(key, write, value, version, undo); };
  std::thread applier([&] { apply_writes(*box, keys, WorkerId(0), apply, &backup); });
  std::thread raiser([&] { raise_behind(*box, keys, WorkerId(1), &backup); });
  std::thread reader([&] {
    Random random(3);
    std::vector<std::byte> value(kRaceValueMax);
    std::array<uint64_t, kRaceKeys> last{};
    while (!backup.done.load()) {
      box->quiesce(WorkerId(2));
      const auto k = static_cast<uint32_t>(random.below(kRaceKeys));
      const ReadResult r = box->read(keys.hashed[k], value.data(), value.size());
      if (r.found && (load<uint64_t>(value.data()) != r.word.version().value ||
                      !good_value(ByteView(value.data(), r.value_bytes)))) {
        backup.wrong.fetch_add(1);
      }
      if (!r.found) continue;  // absence words are shared between keys here
      if (r.word.readable() && r.word.version().value > backup.raising[k].load()) backup.wrong.fetch_add(1);
      if (r.word.version().value < last[k]) backup.wrong.fetch_add(1);
      last[k] = r.word.version().value;
    }
    box->offline(WorkerId(2));
  });
  applier.join();
  raiser.join();
  reader.join();
  EXPECT_EQ(backup.wrong.load(), 0);
  const Table::LeakReport residue = box->leak_report();
  EXPECT_EQ(residue.locked + residue.unreadable + residue.tombstones, 0U);
}

// A backup that lags: one thread applies writes in order, another marks them readable, and two apply older late puts.
// These change nothing, whatever they find.
TEST_P(TableRace, LatePutsChangeNothing) {
  TableBox box(options(4));
  const Keys keys(*box);
  Backup backup;
  const auto apply = [](Table& table, const HashedKey& key, Write write, ByteView value, Version version,
                        std::byte* undo) { return table.apply_unordered(key, write, value, version, undo); };
  std::thread applier([&] { apply_writes(*box, keys, WorkerId(0), apply, &backup); });
  std::thread raiser([&] { raise_behind(*box, keys, WorkerId(1), &backup); });
  std::thread late([&] { bring_late(*box, keys, WorkerId(2), backup); });
  std::thread late_too([&] { bring_late(*box, keys, WorkerId(3), backup); });
  for (std::thread* t : {&applier, &raiser, &late, &late_too}) t->join();
  EXPECT_EQ(backup.wrong.load(), 0);
  std::vector<std::byte> value(kRaceValueMax);
  for (uint32_t k = 0; k < kRaceKeys; ++k) {
    const ReadResult r = box->read(keys.hashed[k], value.data(), value.size());
    EXPECT_EQ(r.found, backup.present[k]);
    if (!r.found) continue;
    EXPECT_EQ(load<uint64_t>(value.data()), backup.applied[k].load());
  }
  const Table::LeakReport residue = box->leak_report();
  EXPECT_EQ(residue.locked + residue.unreadable + residue.tombstones, 0U);
}

}  // namespace
}  // namespace weft
