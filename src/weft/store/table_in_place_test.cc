// The usual case of an operation does what the operation does, and is refused where it is not the usual case.
#include "weft/store/table_in_place.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "weft/base/random.h"
#include "weft/store/table_testing.h"

namespace weft {
namespace {

using testing::get;
using testing::IntegerKey;
using testing::kAlice;
using testing::kBob;
using testing::TableBox;

TableOptions usual_table() {
  TableOptions options = testing::integer_table(100, 32);
  options.checksums = false;
  return options;
}

class InPlaceTest : public ::testing::Test {
 protected:
  InPlaceTest() : key_(box_->hashed(integer_.bytes())) {
    testing::write(*box_, key_, Write::kPut, "old value");
    box_->prefetch_record(key_);
    (void)get(*box_, key_, &word_);
  }
  bool lock(Version expected, uint32_t bytes) { return box_->lock_in_place(key_, kAlice, expected, bytes, &locked_); }
  bool apply(std::string_view value, Version version) {
    return box_->apply_in_place(key_, as_bytes(value), version, old_.data(), Visibility::kImmediate, &undo_);
  }
  bool read(size_t room) { return box_->read_in_place(key_, old_.data(), room, &word_, &bytes_); }

  TableBox box_{usual_table()};
  const IntegerKey integer_{7};
  HashedKey key_;
  Word word_;
  Locked locked_;
  Undo undo_;
  uint32_t bytes_ = 0;
  std::array<std::byte, 32> old_{};
};

TEST_F(InPlaceTest, LocksAndCommits) {
  ASSERT_TRUE(lock(Version(1), 9));
  EXPECT_EQ(locked_.base, Version(1));
  EXPECT_EQ(locked_.record, key_.hint);
  EXPECT_EQ(box_->lock(key_, kBob, Write::kPut, std::nullopt, 9).code, Code::kLocked);
  ASSERT_TRUE(box_->commit_in_place(key_, kAlice, as_bytes("new value"), locked_));
  EXPECT_EQ(get(*box_, key_, &word_), "new value");
  EXPECT_EQ(word_, Word(Version(2), kReadable));
}

TEST_F(InPlaceTest, AppliesAndCanBeUndone) {
  ASSERT_TRUE(apply("new value", Version(5)));
  EXPECT_EQ(get(*box_, key_, &word_), "new value");
  EXPECT_EQ(word_, Word(Version(5), kReadable));
  EXPECT_TRUE(undo_.existed);
  EXPECT_EQ(undo_.version, Version(1));
  box_->undo(key_, Version(5), undo_, {old_.data(), undo_.value_bytes});
  EXPECT_EQ(get(*box_, key_, &word_), "old value");
  EXPECT_EQ(word_.version(), Version(1));
}

TEST_F(InPlaceTest, HidesWhatIsToBeMarked) {
  ASSERT_TRUE(
      box_->apply_in_place(key_, as_bytes("new value"), Version(2), old_.data(), Visibility::kWhenMarked, &undo_));
  (void)get(*box_, key_, &word_);
  EXPECT_FALSE(word_.readable());
  box_->mark_readable(key_, Version(2));
  (void)get(*box_, key_, &word_);
  EXPECT_TRUE(word_.readable());
}

TEST_F(InPlaceTest, OtherVersionsSizesAndHoldersAreNotUsual) {
  EXPECT_FALSE(lock(Version(2), 9)) << "not what was read";
  EXPECT_FALSE(lock(Version(1), 10)) << "another size";
  EXPECT_FALSE(apply("new value", Version(1))) << "not newer";
  EXPECT_FALSE(apply("new values", Version(2))) << "another size";
  EXPECT_FALSE(read(8)) << "no room";
  EXPECT_TRUE(read(9));
  ASSERT_TRUE(lock(Version(1), 9));
  EXPECT_FALSE(lock(Version(1), 9)) << "it is locked";
  EXPECT_TRUE(read(9)) << "the word says that it is locked";
  EXPECT_EQ(word_.owner(), kAlice);
  EXPECT_FALSE(box_->commit_in_place(key_, kAlice, as_bytes("longer than it"), locked_));
  box_->unlock(key_, kAlice, locked_);
  EXPECT_EQ(get(*box_, key_), "old value");
}

TEST_F(InPlaceTest, WithoutAHintOrWithAStaleOneNothingHappens) {
  HashedKey other = box_->hashed(integer_.bytes());
  EXPECT_FALSE(box_->lock_in_place(other, kAlice, Version(1), 9, &locked_));
  testing::write(*box_, key_, Write::kErase);
  EXPECT_FALSE(lock(Version(1), 9)) << "deleted";
  EXPECT_FALSE(apply("new value", Version(9)));
  EXPECT_FALSE(read(32));
  const IntegerKey reuser(8);
  const HashedKey next = box_->hashed(reuser.bytes());
  testing::write(*box_, next, Write::kPut, "its value");
  box_->prefetch_record(next);
  ASSERT_EQ(next.hint, key_.hint) << "the block went to another key";
  (void)get(*box_, next, &word_);
  EXPECT_FALSE(lock(word_.version(), 9));
  EXPECT_FALSE(apply("new value", Version(99)));
  EXPECT_FALSE(read(32));
  EXPECT_EQ(get(*box_, next), "its value");
}

TEST_F(InPlaceTest, TablesWithChecksumsOrByteStringsHaveNoUsualCase) {
  box_->set_checksums(true);
  EXPECT_FALSE(lock(Version(1), 9));
  EXPECT_FALSE(apply("new value", Version(2)));
  EXPECT_FALSE(read(32));
  box_->set_checksums(false);
  EXPECT_TRUE(read(32));
  TableOptions options = usual_table();
  options.spec.keys = KeyKind::kBytes;
  TableBox bytes(options);
  const HashedKey key = bytes->hashed(as_bytes("8 bytes!"));
  testing::write(*bytes, key, Write::kPut, "old value");
  bytes->prefetch_record(key);
  EXPECT_FALSE(bytes->lock_in_place(key, kAlice, Version(1), 9, &locked_));
}

// Two tables get the same writes, one of them in place where it can.
class InPlaceTwin : public ::testing::TestWithParam<uint64_t> {};

TEST_P(InPlaceTwin, EndsAsTheOperationsDo) {
  TableBox usual(usual_table()), general(usual_table());
  Random random(GetParam());
  std::array<std::byte, 32> old_usual{}, old_general{};
  uint64_t in_place = 0;
  for (int step = 0; step < 5000; ++step) {
    const IntegerKey integer(random.below(12));
    const HashedKey a = usual->hashed(integer.bytes()), b = general->hashed(integer.bytes());
    if (random.below(4) != 0) usual->prefetch_record(a);
    const std::string value(1 + random.below(3) * 8, static_cast<char>('a' + random.below(26)));
    Word word;
    const std::string before = get(*general, b, &word);
    const auto bytes = static_cast<uint32_t>(value.size());
    const Write write = random.below(8) == 0 && before != "-" ? Write::kErase : Write::kPut;
    if (random.below(2) == 0) {
      const Version version = random.below(5) == 0 ? word.version() : Version(word.version().value + 1);
      Undo undo;
      const bool done = write == Write::kPut && usual->apply_in_place(a, as_bytes(value), version, old_usual.data(),
                                                                      Visibility::kImmediate, &undo);
      in_place += done ? 1 : 0;
      if (!done) undo = usual->apply(a, write, as_bytes(value), version, old_usual.data(), Visibility::kImmediate);
      const Undo other = general->apply(b, write, as_bytes(value), version, old_general.data(), Visibility::kImmediate);
      ASSERT_EQ(undo.existed, other.existed);
      ASSERT_EQ(undo.version, other.version);
      ASSERT_EQ(undo.value_bytes, other.value_bytes);
      ASSERT_EQ(as_text(ByteView(old_usual.data(), undo.value_bytes)),
                as_text(ByteView(old_general.data(), other.value_bytes)));
      usual->mark_readable(a, version);
      general->mark_readable(b, version);
    } else {
      const Version expected = random.below(5) == 0 ? Version(word.version().value + 3) : word.version();
      const LockResult other = general->lock(b, kAlice, write, expected, bytes);
      LockResult result;
      if (write == Write::kPut && usual->lock_in_place(a, kAlice, expected, bytes, &result.locked)) {
        ++in_place;
      } else {
        result = usual->lock(a, kAlice, write, expected, bytes);
      }
      ASSERT_EQ(result.code, other.code);
      ASSERT_EQ(result.locked.base, other.locked.base);
      if (result.code == Code::kOk && random.below(3) == 0) {
        usual->unlock(a, kAlice, result.locked);
        general->unlock(b, kAlice, other.locked);
      } else if (result.code == Code::kOk) {
        const ByteView installed = write == Write::kErase ? ByteView() : as_bytes(value);
        if (write == Write::kErase || !usual->commit_in_place(a, kAlice, installed, result.locked)) {
          usual->commit(a, kAlice, write, installed, result.locked);
        }
        general->commit(b, kAlice, write, installed, other.locked);
      }
    }
    Word after_usual, after_general;
    ASSERT_EQ(get(*usual, a, &after_usual), get(*general, b, &after_general));
    ASSERT_EQ(after_usual, after_general);
  }
  EXPECT_GT(in_place, 500U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, InPlaceTwin, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace weft
