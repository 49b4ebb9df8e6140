// A table against a naive model: random transactions of several keys, interleaved, with a backup that lags.
//
// The model is a few maps and implements only the rules of table.h. Every result of lock() must equal the model's; and
// over the whole run a version names one state of its key (G1, I5), wherever it was read, at the primary or at the
// backup.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/store/owner_testing.h"
#include "weft/store/table_testing.h"

namespace weft {
namespace {

using testing::bytes_table;
using testing::integer_table;
using testing::TableBox;

constexpr uint32_t kKeys = 150;
constexpr uint32_t kTransactions = 4;  // open at a time
constexpr uint32_t kValueMax = 2300;   // in records of both forms

struct TwinKey {
  std::string bytes;
  HashedKey hashed;
  uint32_t group = 0;  // its absence word
  bool present = false;
  uint64_t version = 0;
  std::string value;
  Owner holder;
};

struct TwinGroup {
  uint64_t version = 0;
  Owner holder;
  int holders = 0;
  uint64_t greatest = 0;
};

struct TwinLock {
  uint32_t key;
  Write write;
  std::string value;
  Locked locked;
  uint64_t base;
  bool in_group;
};

struct Step {  // of the backup
  uint32_t key;
  uint64_t version;
};

class Twin {
 public:
  Twin(const TableOptions& options, uint64_t seed) : random_(seed), primary_(options), backup_(options) {
    keys_.resize(kKeys);
    for (uint32_t i = 0; i < kKeys; ++i) {
      TwinKey& key = keys_[i];
      key.bytes = "key" + std::to_string(10000 + i);
      key.hashed = primary_->hashed(as_bytes(key.bytes));
      const LockResult r = primary_->lock(key.hashed, Owner(1), Write::kNone, std::nullopt, 0);
      key.group = r.locked.absence;
      primary_->unlock(key.hashed, Owner(1), r.locked);
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
      const auto t = static_cast<uint32_t>(random_.below(kTransactions));
      if (open_[t].size() < 4 && random_.chance(70)) {
        lock_one(t);
      } else {
        finish(t);
      }
      while (!raises_.empty() && random_.chance(40)) raise_one();
      look();
    }
    for (uint32_t t = 0; t < kTransactions; ++t) finish(t);
    while (!raises_.empty()) raise_one();
  }

  void compare() {
    for (TwinKey& key : keys_) {
      EXPECT_EQ(primary_->absence(key.hashed), backup_->absence(key.hashed));
      EXPECT_EQ(primary_->absence(key.hashed).version().value, groups_[key.group].version);
      std::string value;
      EXPECT_EQ(read(primary_, key, &value), key.present);
      EXPECT_EQ(value, key.value);
      EXPECT_EQ(read(backup_, key, &value), key.present);
      EXPECT_EQ(value, key.value);
    }
    const auto present = std::count_if(keys_.begin(), keys_.end(), [](const TwinKey& key) { return key.present; });
    for (const TableBox* box : {&primary_, &backup_}) {
      EXPECT_EQ((*box)->records(), static_cast<uint64_t>(present));
      const Table::LeakReport residue = (*box)->leak_report();
      EXPECT_EQ(residue.locked + residue.unreadable + residue.tombstones, 0U);
    }
  }

 private:
  static Owner owner(uint32_t t) {
    return make_owner(NodeId(static_cast<uint8_t>(t)), WorkerId(1), static_cast<uint8_t>(t));
  }

  Code expected_code(const TwinKey& key, uint32_t t, Write write, std::optional<Version> expected) {
    const TwinGroup& group = groups_[key.group];
    const bool group_taken = group.holders > 0 && group.holder != owner(t);
    if (key.holder) return Code::kLocked;
    if (key.present) {
      if (expected && expected->value != key.version) return Code::kVersionMoved;
      if (write == Write::kInsert) return Code::kExists;
      return write == Write::kErase && group_taken ? Code::kLocked : Code::kOk;
    }
    if (group_taken) return Code::kLocked;
    if (expected && expected->value != group.version) return Code::kVersionMoved;
    return write == Write::kErase ? Code::kNotFound : Code::kOk;
  }

  void lock_one(uint32_t t) {
    const auto k = static_cast<uint32_t>(random_.below(kKeys));
    for (const TwinLock& lock : open_[t]) {
      if (lock.key == k) return;  // one key appears once
    }
    TwinKey& key = keys_[k];
    TwinGroup& group = groups_[key.group];
    const auto write = static_cast<Write>(random_.below(4));
    std::optional<Version> expected;
    if (random_.chance(40)) {
      expected = Version((key.present ? key.version : group.version) + (random_.chance(20) ? 1 : 0));
    }
    TwinLock lock{k,        write, std::string(random_.below(kValueMax), static_cast<char>('a' + random_.below(26))),
                  Locked(), 0,     false};
    const bool late = random_.chance(30);  // locked before the write is known
    const Write first = late ? (random_.chance(50) ? Write::kNone : Write::kPut) : write;
    const Code code = expected_code(key, t, first, expected);
    const LockResult r =
        primary_->lock(key.hashed, owner(t), first, expected, late ? 0 : static_cast<uint32_t>(lock.value.size()));
    ASSERT_EQ(r.code, code) << key.bytes;
    if (code != Code::kOk) return;
    key.holder = owner(t);
    lock.locked = r.locked;
    lock.in_group = !key.present || first == Write::kErase;
    if (lock.in_group) join(group, t);
    if (late && !relock(t, &lock)) {
      primary_->unlock(key.hashed, owner(t), lock.locked);
      release(&lock, 0);
      return;
    }
    lock.base = key.present ? key.version : group.version;
    if (write == Write::kErase) lock.base = std::max(lock.base, group.version);
    ASSERT_EQ(lock.locked.base.value, lock.base);
    open_[t].push_back(lock);
  }

  bool relock(uint32_t t, TwinLock* lock) {
    TwinKey& key = keys_[lock->key];
    TwinGroup& group = groups_[key.group];
    Code code = Code::kOk;
    if (lock->write == Write::kInsert && key.present) code = Code::kExists;
    if (lock->write == Write::kErase && !key.present) code = Code::kNotFound;
    if (lock->write == Write::kErase && key.present && group.holders > 0 && group.holder != owner(t)) {
      code = Code::kLocked;
    }
    EXPECT_EQ(
        primary_->relock(key.hashed, owner(t), lock->write, static_cast<uint32_t>(lock->value.size()), &lock->locked),
        code);
    if (code == Code::kOk && lock->write == Write::kErase) {
      lock->in_group = true;
      join(group, t);
    }
    return code == Code::kOk;
  }

  void join(TwinGroup& group, uint32_t t) {
    group.holder = owner(t);
    if (group.holders++ == 0) group.greatest = group.version;
  }

  void release(TwinLock* lock, uint64_t deleted_at) {
    TwinKey& key = keys_[lock->key];
    key.holder = Owner();
    TwinGroup& group = groups_[key.group];
    if (!lock->in_group) return;
    group.greatest = std::max(group.greatest, deleted_at);
    if (--group.holders == 0) group.version = group.greatest;
  }

  void finish(uint32_t t) {
    std::vector<TwinLock>& locks = open_[t];
    for (size_t i = locks.size(); i > 1; --i) std::swap(locks[i - 1], locks[random_.below(i)]);
    const bool commit = random_.chance(75);
    std::vector<Step> raises;
    for (const TwinLock& lock : locks) {
      if (!commit || lock.write == Write::kNone) continue;
      apply(lock);
      raises.push_back({lock.key, lock.base + 1});
      look();
    }
    for (TwinLock& lock : locks) {
      TwinKey& key = keys_[lock.key];
      if (!commit || lock.write == Write::kNone) {
        primary_->unlock(key.hashed, owner(t), lock.locked);
        release(&lock, 0);
        continue;
      }
      primary_->commit(key.hashed, owner(t), lock.write, as_bytes(lock.value), lock.locked);
      const bool erase = lock.write == Write::kErase;
      key.present = !erase;
      key.version = lock.base + 1;
      key.value = erase ? "" : lock.value;
      release(&lock, erase ? key.version : 0);
      look();
    }
    for (const Step& step : raises) raises_.push_back(step);
    locks.clear();
  }

  void apply(const TwinLock& lock) {
    const TwinKey& key = keys_[lock.key];
    std::vector<std::byte> undo(kValueMax);
    const Undo u = backup_->apply(key.hashed, lock.write, as_bytes(lock.value), Version(lock.base + 1), undo.data());
    ASSERT_EQ(u.existed, key.present);
    if (key.present) {
      ASSERT_EQ(u.version.value, key.version);
      ASSERT_EQ(as_text(ByteView(undo.data(), u.value_bytes)), key.value);
    }
  }

  void raise_one() {
    const size_t i = random_.below(raises_.size());
    backup_->mark_readable(keys_[raises_[i].key].hashed, Version(raises_[i].version));
    raises_.erase(raises_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  bool read(const TableBox& box, const TwinKey& key, std::string* value) {
    std::vector<std::byte> buffer(kValueMax);
    const ReadResult r = box->read(key.hashed, buffer.data(), buffer.size());
    *value = std::string(as_text(ByteView(buffer.data(), r.value_bytes)));
    const std::string state = r.found ? "+" + *value : "-";
    const auto k = static_cast<uint32_t>(&key - keys_.data());
    // Absence that is locked for a change may be read at the version that the record just had: it cannot be validated,
    // and has changed when it is unlocked.
    if (r.found || !r.word.owner()) {
      const auto known = states_.emplace(std::pair(k, r.word.version().value), state);
      EXPECT_EQ(known.first->second, state) << key.bytes << " at version " << r.word.version().value;
    }
    return r.found;
  }

  // G1 at both, and G2: a version validates at the primary only if it is the current one.
  void look() {
    const TwinKey& key = keys_[random_.below(kKeys)];
    std::string value;
    read(primary_, key, &value);
    const bool found = read(backup_, key, &value);
    std::vector<std::byte> buffer(kValueMax);
    const ReadResult r = backup_->read(key.hashed, buffer.data(), buffer.size());
    if (primary_->validate(key.hashed, r.word.version(), Owner(), nullptr) == Code::kOk) {
      EXPECT_EQ(found, key.present);
      if (found) {
        EXPECT_EQ(value, key.value);
      }
    }
  }

  Random random_;
  TableBox primary_;
  TableBox backup_;
  std::vector<TwinKey> keys_;
  std::map<uint32_t, TwinGroup> groups_;
  std::map<std::pair<uint32_t, uint64_t>, std::string> states_;
  std::vector<TwinLock> open_[kTransactions];
  std::deque<Step> raises_;
};

class TableTwin : public ::testing::TestWithParam<int> {};

TEST_P(TableTwin, AgreesAndReplicasEndEqual) {
  const auto seed = static_cast<uint64_t>(GetParam());
  // Few absence words and many keys, so that they are often shared.
  TableOptions options = seed % 2 == 0 ? integer_table(200, kValueMax) : bytes_table(200, kValueMax);
  options.partitions = seed % 3 == 0 ? 2 : 1;
  options.partitions_held = options.partitions;
  Twin twin(options, seed);
  twin.run(4000);
  twin.compare();
}

INSTANTIATE_TEST_SUITE_P(Seeds, TableTwin, ::testing::Range(1, 17));

// The difficult case: one transaction deletes K1 and inserts K2, and both share an absence word.
TEST(TableAbsence, OneTransactionsKeysMayShareAWord) {
  TableBox box(integer_table(100));
  std::map<uint32_t, uint64_t> by_word;
  uint64_t first = 0;
  uint64_t second = 0;
  for (uint64_t i = 1; second == 0; ++i) {
    const testing::IntegerKey k(i);
    const HashedKey key = box->hashed(k.bytes());
    const LockResult r = box->lock(key, testing::kAlice, Write::kNone, std::nullopt, 0);
    box->unlock(key, testing::kAlice, r.locked);
    const auto known = by_word.emplace(r.locked.absence, i);
    if (!known.second) {
      first = known.first->second;
      second = i;
    }
  }
  const testing::IntegerKey a(first);
  const testing::IntegerKey b(second);
  const HashedKey k1 = box->hashed(a.bytes());
  const HashedKey k2 = box->hashed(b.bytes());
  for (int i = 0; i < 9; ++i) testing::write(*box, k1, Write::kPut, "v");  // to version 9

  const LockResult erase = box->lock(k1, testing::kAlice, Write::kErase, std::nullopt, 0);
  const LockResult insert = box->lock(k2, testing::kAlice, Write::kInsert, std::nullopt, 1);
  ASSERT_EQ(erase.code, Code::kOk);
  ASSERT_EQ(insert.code, Code::kOk);
  EXPECT_EQ(erase.locked.base, Version(9));
  EXPECT_EQ(insert.locked.base, Version(0));
  EXPECT_EQ(box->lock(k2, testing::kBob, Write::kNone, std::nullopt, 0).code, Code::kLocked);

  box->commit(k1, testing::kAlice, Write::kErase, ByteView(), erase.locked);
  Word word;
  EXPECT_EQ(testing::get(*box, k2, &word), "-");
  EXPECT_EQ(word.version(), Version(0)) << "K2 must not be seen absent at a version that it will have";
  EXPECT_EQ(word.owner(), testing::kAlice);
  box->commit(k2, testing::kAlice, Write::kInsert, as_bytes("w"), insert.locked);
  EXPECT_EQ(box->absence(k1), Word(Version(10), 0));
  EXPECT_EQ(testing::get(*box, k2), "w");
  EXPECT_EQ(testing::get(*box, k1), "-");
}

}  // namespace
}  // namespace weft
