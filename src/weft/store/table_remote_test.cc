// What a peer sees of a table in copies of its bytes, and what its verbs leave for recovery to do.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/random.h"
#include "weft/store/owner_testing.h"
#include "weft/store/table_testing.h"

namespace weft {
namespace {

using testing::bytes_table;
using testing::get;
using testing::integer_table;
using testing::IntegerKey;
using testing::kAlice;
using testing::kBob;
using testing::TableBox;

HashedKey put(Table& table, ByteView key, std::string_view value) {
  const HashedKey hashed = table.hashed(key);
  const LockResult lock = table.lock(hashed, kAlice, Write::kPut, std::nullopt, static_cast<uint32_t>(value.size()));
  EXPECT_EQ(lock.code, Code::kOk);
  table.commit(hashed, kAlice, Write::kPut, as_bytes(value), lock.locked);
  return hashed;
}

void erase(Table& table, const HashedKey& key) {
  const LockResult lock = table.lock(key, kAlice, Write::kErase, std::nullopt, 0);
  EXPECT_EQ(lock.code, Code::kOk);
  table.commit(key, kAlice, Write::kErase, {}, lock.locked);
}

// Reads as a peer does: the bin, its link buckets if the key is not in it, then the record.
std::string read_remotely(const TableBox& box, const HashedKey& key, RecordSlot* where = nullptr) {
  const RemoteIndexAddress index = box->index_address();
  std::array<std::byte, 64> bin;
  std::memcpy(bin.data(), box.region->base() + Table::bin_offset(index, key.hash), bin.size());
  RecordSlot slot = Table::find_in_bin_copy(bin.data(), index, key.hash);
  if (const Dlht::LinkedSlots links = Dlht::linked_slots(bin.data(), index.bins); !slot && links) {
    std::array<std::byte, Dlht::kSingleBytes + Dlht::kPairBytes> buckets{};
    const std::byte* const base = box.region->base();
    if (links.single != 0) {
      std::memcpy(buckets.data(), base + Table::link_offset(index, links.single), Dlht::kSingleBytes);
    }
    if (links.pair != 0) {
      std::memcpy(buckets.data() + Dlht::kSingleBytes, base + Table::link_offset(index, links.pair), Dlht::kPairBytes);
    }
    slot = RecordSlot(
        Dlht::find_in_link_copies(buckets.data(), buckets.data() + Dlht::kSingleBytes, links, key.hash, index.bins));
  }
  if (where != nullptr) *where = slot;
  if (!slot) return "-";
  std::vector<std::byte> copy(slot.bytes());
  std::memcpy(copy.data(), box.region->base() + slot.offset(), copy.size());
  RecordView view;
  if (!parse_record_copy(copy.data(), copy.size(), &view) || as_text(view.key) != as_text(key.bytes)) return "other";
  return view.word.deleted() || view.word.moved() ? "gone" : std::string(as_text(view.value));
}

// Until the index is as full as it gets: then some bins have a pair of link buckets, too.
TEST(TableRemote, ReadsOfTheIndexFindEveryKey) {
  const TableBox box(integer_table(1000));
  for (uint64_t k = 0; k < 1000; ++k) {
    const IntegerKey key(k);
    const std::string value = "v" + std::to_string(k);
    const HashedKey hashed = put(*box, key.bytes(), value);
    RecordSlot slot;
    const std::string read = read_remotely(box, hashed, &slot);
    EXPECT_EQ(read, value);
    EXPECT_EQ(slot, box->locate(hashed));
  }
}

// A peer's bytes are input: what they say of links stays within the index.
TEST(TableRemote, LinksThatCannotBeAreNotFollowed) {
  constexpr uint64_t kBins = 640, kLinks = kBins / 4 + 16;
  const auto linked = [](uint64_t header, uint64_t links) {
    std::array<std::byte, 64> bin{};
    std::memcpy(bin.data(), &header, sizeof header);
    std::memcpy(bin.data() + 8, &links, sizeof links);
    return Dlht::linked_slots(bin.data(), kBins);
  };
  constexpr uint64_t kAllValid = 0x2aaaaaaa;
  const auto links = [](uint64_t pair, uint64_t single) { return pair << 32 | single; };
  EXPECT_FALSE(linked(kAllValid, 0));
  EXPECT_FALSE(linked(0, links(1, 3))) << "no slot has a key";
  EXPECT_EQ(linked(kAllValid, links(1, kLinks)).single, kLinks);
  EXPECT_EQ(linked(kAllValid, links(1, kLinks + 1)).single, 0U);
  EXPECT_EQ(linked(kAllValid, links(kLinks - 1, 1)).pair, kLinks - 1);
  EXPECT_EQ(linked(kAllValid, links(kLinks, 1)).pair, 0U);
  EXPECT_FALSE(linked(kAllValid, links(UINT32_MAX, UINT32_MAX)));
  EXPECT_FALSE(linked(kAllValid | uint64_t{2} << 30, links(1, 3))) << "it was moved";
}

TEST(TableRemote, ByteStringsToo) {
  const TableBox box(bytes_table(100));
  const HashedKey key = put(*box, as_bytes("a key of some length"), "value");
  EXPECT_EQ(read_remotely(box, key), "value");
}

TEST(TableRemote, AnAddressSaysThatItIsStale) {
  const TableBox box(integer_table(100));
  const IntegerKey a(1);
  const IntegerKey b(2);
  const HashedKey first = put(*box, a.bytes(), "first");
  const RecordSlot where = box->locate(first);
  const auto look = [&] {
    RecordView view;
    if (!parse_record_copy(box.region->base() + where.offset(), where.bytes(), &view)) return std::string("torn");
    return view.word.deleted() ? std::string("deleted") : std::string(as_text(view.value));
  };
  const uint64_t meta = record_meta_of(where.form(), a.bytes(), as_bytes("first"), Version(1));
  EXPECT_EQ(load_ordered(box.region->base() + where.offset() + kMetaAt), meta);
  erase(*box, first);
  EXPECT_NE(look(), "first");
  EXPECT_FALSE(box->locate(first));
  put(*box, b.bytes(), "first");  // reuses the block, at the same version and with the same value
  EXPECT_EQ(box->locate(box->hashed(b.bytes())), where);
  EXPECT_EQ(look(), "first");
  EXPECT_NE(load_ordered(box.region->base() + where.offset() + kMetaAt), meta) << "the meta word binds the key";
}

TEST(TableRemote, ALocalReaderDoesNotWaitForAPeersWrites) {
  const TableBox box(integer_table(100));
  const IntegerKey k(7);
  const HashedKey key = put(*box, k.bytes(), "old");
  std::byte* const record = box.region->base() + box->locate(key).offset();
  ASSERT_TRUE(swap_word(record, Word(Version(1), kReadable), Word(Version(1), kReadable, kBob)));
  alignas(8) std::array<std::byte, 64> image{};
  record_write(image.data(), k.bytes(), as_bytes("new"), Word(Version(2), kReadable));
  std::memcpy(record + kMetaAt, image.data() + kMetaAt, record_bytes(8, 3) - kMetaAt);
  std::array<std::byte, 64> value;
  ReadResult read = box->read(key, value.data(), value.size());
  EXPECT_TRUE(read.torn);
  EXPECT_FALSE(read.found);
  EXPECT_EQ(read.word.owner(), kBob);
  std::vector<std::string> walked, filled;
  uint64_t cursor = 0;
  do {
    const auto copy = [&](ByteView found, ByteView v, Version) {
      walked.push_back(std::string(as_text(found)) + std::string(as_text(v)));
    };
    bool tombstones = false;
    cursor = box->export_bin(PartitionId(0), cursor, value.data(), value.size(), copy, &tombstones);
  } while (cursor != 0);
  EXPECT_EQ(walked, std::vector<std::string>{std::string(as_text(k.bytes()))}) << "the key is there all the time";
  EXPECT_EQ(box->export_records(PartitionId(0), 0, 1 << 20, 1 << 20, value.data(),
                                [&](ByteView found, ByteView, Version) { filled.emplace_back(as_text(found)); }),
            0U);
  EXPECT_TRUE(filled.empty()) << "its writer sends it to all replicas that catch up";
  store_word(record, Word(Version(2), kReadable));
  Word word;
  EXPECT_EQ(get(*box, key, &word), "new");
  EXPECT_EQ(word.version(), Version(2));
}

// A peer's fault: the bytes do not match the word, and nobody holds the lock. The read reports it and does not wait.
TEST(TableRemote, ARecordThatStaysTornCostsWhoReadsIt) {
  const TableBox box(bytes_table(100));
  const HashedKey key = put(*box.table, as_bytes(std::string_view("torn")), "value");
  RecordSlot where;
  ASSERT_EQ(read_remotely(box, key, &where), "value");
  std::byte* const record = box.region->base() + where.offset();
  record[sizeof(RecordHeader) + 8] ^= std::byte{1};  // behind the key, which is padded to 8
  std::array<std::byte, 64> value;
  const ReadResult read = box->read(key, value.data(), value.size());
  EXPECT_TRUE(read.torn);
  EXPECT_FALSE(read.found);
  EXPECT_FALSE(read.word.owner());
  // But it is not silently left out when another replica catches up.
  const auto copy = [](ByteView, ByteView, Version) {};
  EXPECT_DEATH(box->export_records(PartitionId(0), 0, 1 << 20, 1 << 20, value.data(), copy),
               "a record that nobody writes is whole");
}

TEST(TableRemote, RecoveryCommitsWhatIsStillLockedOnly) {
  const TableBox box(integer_table(100));
  const IntegerKey k(7);
  const HashedKey key = put(*box, k.bytes(), "old");
  std::byte* const record = box.region->base() + box->locate(key).offset();
  box->recovery_commit(key, kBob, as_bytes("late"), Version(2));
  EXPECT_EQ(get(*box, key), "old") << "nobody holds it";
  swap_word(record, Word(Version(1), kReadable), Word(Version(1), kReadable, kBob));
  store_ordered(record + kMetaAt, 0x1234);  // half-written
  box->recovery_commit(key, kBob, as_bytes("new"), Version(2));
  Word word;
  EXPECT_EQ(get(*box, key, &word), "new");
  EXPECT_EQ(word, Word(Version(2), kReadable));
  erase(*box, key);
  box->recovery_commit(key, kBob, as_bytes("again"), Version(3));
  EXPECT_EQ(get(*box, key), "-");
}

// Wherever a record is: in blocks of any size, at the beginning of a slab, at its end and after it. Only locks change.
TEST(TableRemote, RecoveryFreesLocksAnywhere) {
  constexpr uint32_t kValueMax = 40'000;
  const TableBox box(bytes_table(3000, kValueMax));
  Random random(1);
  std::vector<std::string> names;
  std::vector<uint64_t> words;
  for (int k = 0; k < 3000; ++k) names.push_back("key " + std::to_string(k));
  const auto word_of = [&](const std::string& name) {
    return box.region->base() + box->locate(box->hashed(as_bytes(name))).offset();
  };
  for (const std::string& name : names) {
    const uint64_t bytes = random.chance(5) ? random.below(kValueMax) : random.below(600);
    put(*box, as_bytes(name), std::string(bytes, 'v'));
    std::byte* const word = word_of(name);
    words.push_back(load_ordered(word));
    if (!random.chance(50)) continue;
    const Owner owner =
        make_owner(NodeId(static_cast<uint8_t>(random.below(4))), WorkerId(static_cast<uint8_t>(random.below(3))),
                   static_cast<uint8_t>(random.below(200)));
    ASSERT_TRUE(swap_word(word, Word(words.back()), Word(words.back()).with_owner(owner)));
  }
  EXPECT_GT(box->leak_report().locked, 1000U);
  EXPECT_GT(box->lock_chunks(), 3U);
  for (uint64_t chunk = box->lock_chunks(); chunk > 0; --chunk) box->release_orphaned_locks(chunk - 1);
  EXPECT_EQ(box->leak_report().locked, 0U);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(load_ordered(word_of(names[i])), words[i]) << names[i];
}

// The cost of finding locks depends on the memory that records have used, not on the capacity.
TEST(TableRemote, LookingForLocksCostsWhatIsUsed) {
  const TableBox box(integer_table(1'000'000, 1000));
  EXPECT_EQ(box->lock_chunks(), 0U);
  const std::string value(1000, 'v');
  for (uint64_t k = 0; k < 4000; ++k) {
    const IntegerKey id(k);
    put(*box, id.bytes(), value);
  }
  EXPECT_EQ(box->lock_chunks(), 5U) << "4,000 records of 1,136 bytes";
}

// A device whose CAS is not atomic with the CPU: it reads, and stores later. It executes one at a time.
class Device final : public LocalAtomics {
 public:
  explicit Device(const TableBox& box) : base_(box.region->base()) { box->set_local_atomics(this, RegionId(0)); }
  // The first half of a peer's CAS: the read and the comparison.
  void look(RecordSlot slot, Word expected, Word desired) {
    const std::lock_guard guard(mutex_);
    if (load_word(base_ + slot.offset()) == expected) begun_ = {base_ + slot.offset(), desired};
  }
  void end() {
    const std::lock_guard guard(mutex_);
    store_begun();
  }
  bool swap(RegionId, uint64_t offset, uint64_t expected, uint64_t desired) override {
    const std::lock_guard guard(mutex_);
    store_begun();
    ++swaps_;
    return !failed_ && swap_word(base_ + offset, Word(expected), Word(desired));
  }
  uint64_t swaps() const override { return swaps_; }
  bool failed() const override { return failed_; }
  void fail() { failed_ = true; }

 private:
  void store_begun() {
    if (begun_.word != nullptr) store_word(begun_.word, begun_.desired);
    begun_ = {};
  }
  struct Begun {
    std::byte* word = nullptr;
    Word desired;
  };
  std::byte* const base_;
  std::mutex mutex_;
  Begun begun_;
  uint64_t swaps_ = 0;
  bool failed_ = false;
};

class TableDevice : public ::testing::Test {
 protected:
  TableDevice() : box_(integer_table(100)), device_(box_), key_(put(*box_, id_.bytes(), "old")) {
    where_ = box_->locate(key_);
    EXPECT_EQ(device_.swaps(), 0U) << "nobody expects the word of a record that was not there";
  }
  Word word() const { return load_word(box_.region->base() + where_.offset()); }
  void apply(Version version) {
    std::array<std::byte, 64> undo;
    box_->apply(key_, Write::kPut, as_bytes("new"), version, undo.data());
  }

  static constexpr Word kFree{Version(1), kReadable};
  static constexpr Word kBobs{Version(1), kReadable, kBob};
  const IntegerKey id_{7};
  const TableBox box_;
  Device device_;
  const HashedKey key_;
  RecordSlot where_;
};

// W1
TEST_F(TableDevice, ALockComesBeforeOrAfterAPeers) {
  device_.look(where_, kFree, kBobs);
  const LockResult late = box_->lock(key_, kAlice, Write::kPut, std::nullopt, 3);
  EXPECT_EQ(late.code, Code::kLocked);
  EXPECT_EQ(word(), kBobs);
  store_word(box_.region->base() + where_.offset(), kFree);  // W3
  const LockResult lock = box_->lock(key_, kAlice, Write::kPut, std::nullopt, 3);
  ASSERT_EQ(lock.code, Code::kOk);
  device_.look(where_, kFree, kBobs);
  box_->commit(key_, kAlice, Write::kPut, as_bytes("new"), lock.locked);
  device_.end();
  EXPECT_EQ(get(*box_, key_), "new");
  EXPECT_EQ(device_.swaps(), 2U);
}

TEST_F(TableDevice, WhatIsNotRaisedYetIsNotLocked) {
  apply(Version(2));
  const uint64_t swaps = device_.swaps();
  EXPECT_EQ(box_->lock(key_, kAlice, Write::kPut, std::nullopt, 3).code, Code::kLocked);
  EXPECT_EQ(device_.swaps(), swaps);
  box_->mark_readable(key_, Version(2));
  EXPECT_EQ(box_->lock(key_, kAlice, Write::kPut, std::nullopt, 3).code, Code::kOk);
}

// W2
TEST_F(TableDevice, ABackupsInstallOutlivesALockByMistake) {
  device_.look(where_, kFree, kBobs);
  apply(Version(2));
  device_.end();
  EXPECT_EQ(word(), Word(Version(2), 0));
  EXPECT_EQ(get(*box_, key_), "new");
  const uint64_t swaps = device_.swaps();
  apply(Version(3));
  EXPECT_EQ(device_.swaps(), swaps) << "not readable: no peer expects it";
}

TEST_F(TableDevice, ABackupsInstallOutlivesTheEndOfALockByMistake) {
  store_word(box_.region->base() + where_.offset(), kBobs);
  device_.look(where_, kBobs, kFree);
  apply(Version(2));
  device_.end();
  EXPECT_EQ(word(), Word(Version(2), 0));
}

// Nothing can be locked any more, and nobody waits for it.
TEST_F(TableDevice, WithoutTheDeviceNothingIsLocked) {
  device_.fail();
  const LockResult lock = box_->lock(key_, kAlice, Write::kPut, std::nullopt, 3);
  EXPECT_EQ(lock.code, Code::kLocked);
  EXPECT_FALSE(lock.holder);
  EXPECT_EQ(word(), kFree);
  apply(Version(2));
  EXPECT_EQ(get(*box_, key_), "new");
  box_->mark_readable(key_, Version(2));
  EXPECT_EQ(box_->drop_partitions({true}, 0, 1 << 20), 0U);
  EXPECT_TRUE(word().deleted());
}

// Another worker marks a record readable that a backup's install found unreadable, and a peer's CAS reads it at that
// moment. The value is long, so that copying it for the undo gives them time, if there is a CPU for them.
TEST(TableRemote, ABackupsInstallOutlivesALockAfterARaise) {
  constexpr uint32_t kBytes = 1 << 20;
  const TableBox box(integer_table(4, kBytes));
  Device device(box);
  const IntegerKey id(7);
  const HashedKey key = box->hashed(id.bytes());
  const std::string value(kBytes, 'v');
  std::vector<std::byte> undo(kBytes);
  constexpr uint64_t kRounds = 50;
  std::atomic<uint64_t> applying{0};  // the next one is just being installed
  std::atomic<uint64_t> raised{0};
  std::thread other([&] {
    for (uint64_t v = 1; v <= kRounds; ++v) {
      while (applying.load() < v) std::this_thread::yield();
      for (uint64_t i = 0; i < v % 10 * 10; ++i) __builtin_ia32_pause();
      box->mark_readable(key, Version(v));
      const RecordSlot slot = box->locate(key);
      if (slot) device.look(slot, Word(Version(v), kReadable), Word(Version(v), kReadable, kBob));
      raised.store(v);
    }
  });
  box->apply(key, Write::kPut, as_bytes(value), Version(1), undo.data());
  for (uint64_t v = 1; v <= kRounds; ++v) {
    applying.store(v);
    box->apply(key, Write::kPut, as_bytes(value), Version(v + 1), undo.data());
    while (raised.load() < v) std::this_thread::yield();
    device.end();
    EXPECT_EQ(load_word(box.region->base() + box->locate(key).offset()), Word(Version(v + 1), 0)) << v;
  }
  other.join();
}

TEST_F(TableDevice, WhatIsDiscardedStaysDeleted) {
  device_.look(where_, kFree, kBobs);
  EXPECT_EQ(box_->drop_partitions({true}, 0, 1 << 20), 0U);
  device_.end();
  EXPECT_TRUE(word().deleted());
}

// A table that peers reach by verbs needs checksums, and one that they no longer reach keeps its records.
TEST(TableRemote, ChecksumsCanBeSwitched) {
  for (const bool bytes : {false, true}) {
    const testing::TableBox box(bytes ? testing::bytes_table(1000) : testing::integer_table(1000));
    const auto key_of = [&](uint64_t i) {
      return bytes ? "key " + std::to_string(i) : std::string(8, static_cast<char>(i));
    };
    const auto put = [&](uint64_t i, const std::string& value) {
      const std::string key = key_of(i);
      const HashedKey hashed = box->hashed(as_bytes(key));
      const Owner owner = make_owner(NodeId(0), WorkerId(0), 1);
      const LockResult lock = box->lock(hashed, owner, Write::kPut, std::nullopt, static_cast<uint32_t>(value.size()));
      ASSERT_EQ(lock.code, Code::kOk);
      box->commit(hashed, owner, Write::kPut, as_bytes(value), lock.locked);
    };
    const auto expect_all = [&](uint64_t count) {
      for (uint64_t i = 1; i <= count; ++i) {
        const std::string key = key_of(i);
        std::vector<std::byte> room(64);
        const ReadResult read = box->read(box->hashed(as_bytes(key)), room.data(), room.size());
        ASSERT_TRUE(read.found) << i;
        EXPECT_EQ(as_text({room.data(), read.value_bytes}), "value " + std::to_string(i));
      }
    };
    uint64_t count = 0;
    for (const bool on : {false, true, false, false, true}) {
      box->set_checksums(on);
      expect_all(count);
      for (int i = 0; i < 20; ++i) {
        ++count;
        put(count, "value " + std::to_string(count));
      }
      expect_all(count);
      const std::string key = key_of(count);
      const RecordSlot slot = box->locate(box->hashed(as_bytes(key)));
      RecordView view;
      EXPECT_EQ(parse_record_copy(box.region->base() + slot.offset(), slot.bytes(), &view), on)
          << "what a peer reads is whole";
    }
  }
}

}  // namespace
}  // namespace weft
