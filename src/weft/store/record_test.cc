#include "weft/store/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/random.h"
#include "weft/store/blocks.h"
#include "weft/store/owner_testing.h"

namespace weft {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

TEST(Word, PartsAreWhatWasPutIn) {
  const Owner owner = make_owner(NodeId(62), WorkerId(63), 255);
  const Word word(Version(kVersionMax), kReadable | kReadLocked, owner);
  EXPECT_EQ(word.version(), Version(kVersionMax));
  EXPECT_EQ(word.owner(), owner);
  EXPECT_EQ(kOwners.node(word.owner()), NodeId(62));
  EXPECT_EQ(kOwners.worker(word.owner()), WorkerId(63));
  EXPECT_TRUE(word.readable() && word.read_locked() && !word.write_locked() && !word.deleted() && !word.moved());
  EXPECT_EQ(word.with_owner(Owner()).without(kReadLocked), Word(Version(kVersionMax), kReadable));
}

TEST(Owner, ItsPartsTakeWhatTheClusterNeeds) {
  struct Cluster {
    int nodes, workers, slots;
  };
  for (const Cluster& c : {Cluster{63, 64, 256}, Cluster{31, 128, 256}, Cluster{63, 128, 128}, Cluster{1, 1, 1},
                           Cluster{3, 1, 88}, Cluster{7, 3, 200}}) {
    ASSERT_LE(OwnerFormat::bits_for(c.nodes, c.workers, c.slots), OwnerFormat::kBits);
    const OwnerFormat format(c.workers, c.slots);
    std::set<uint32_t> seen;
    for (int node : {0, c.nodes - 1}) {
      for (int worker : {0, c.workers - 1}) {
        for (int slot : {0, c.slots - 1}) {
          const Owner owner = format.make(NodeId(static_cast<uint8_t>(node)), WorkerId(static_cast<uint8_t>(worker)),
                                          static_cast<uint8_t>(slot));
          EXPECT_TRUE(owner) << "0 is nobody";
          EXPECT_EQ(Word(Version(kVersionMax), 0, owner).owner(), owner) << "it has room in a word";
          EXPECT_EQ(format.node(owner), NodeId(static_cast<uint8_t>(node)));
          EXPECT_EQ(format.worker(owner), WorkerId(static_cast<uint8_t>(worker)));
          seen.insert(owner.bits);
        }
      }
    }
    EXPECT_EQ(seen.size(), size_t{1} << ((c.nodes > 1) + (c.workers > 1) + (c.slots > 1)));
  }
  EXPECT_GT(OwnerFormat::bits_for(63, 128, 256), OwnerFormat::kBits);
  EXPECT_GT(OwnerFormat::bits_for(32, 128, 256), OwnerFormat::kBits);
}

TEST(Record, EveryLengthComesBack) {
  std::vector<Line> memory(kBlockBytesMax / sizeof(Line) + 1);
  std::byte* const record = memory[0].bytes;
  for (const size_t key_bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{13}, size_t{1960}, size_t{kKeyBytesMax}}) {
    for (const size_t value_bytes :
         {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{1968}, size_t{65536}, kTableValueBytesMax}) {
      const std::string key(key_bytes, 'k');
      const std::string value(value_bytes, 'v');
      const Word written(Version(7), kReadable);
      const size_t block = block_bytes(block_class_of(record_bytes(key_bytes, value_bytes)));
      const RecordForm form = form_of_block(block);
      ASSERT_LE(record_bytes(form, key_bytes, value_bytes), block);
      record_write(record, as_bytes(key), as_bytes(value), written, form);
      EXPECT_TRUE(record_key_is(form, record, as_bytes(key)));
      EXPECT_FALSE(record_key_is(form, record, as_bytes(key + "x")));
      std::string copy(value_bytes + 1, '.');
      Word word;
      uint32_t length = 0;
      ASSERT_EQ(record_read(record, block, as_bytes(key), reinterpret_cast<std::byte*>(copy.data()), value_bytes, &word,
                            &length),
                RecordStatus::kConsistent);
      EXPECT_EQ(copy, value + ".");
      EXPECT_EQ(word, written);
      EXPECT_EQ(length, value_bytes);
      RecordView view;
      ASSERT_TRUE(parse_record_copy(record, record_bytes(key_bytes, value_bytes), form, &view));
      EXPECT_EQ(load_ordered(record + kMetaAt),
                record_meta_of(form, as_bytes(key), as_bytes(value), written.version()));
      EXPECT_EQ(as_text(view.key), key);
      EXPECT_EQ(as_text(view.value), value);
    }
  }
}

TEST(Record, AShortBufferGetsTheBeginning) {
  Line memory[2];
  record_write(memory[0].bytes, as_bytes("key"), as_bytes("0123456789abcdef"), Word(Version(1), 0));
  for (size_t room = 0; room <= 16; ++room) {
    std::string copy(17, '.');
    Word word;
    uint32_t length = 0;
    ASSERT_EQ(record_read(memory[0].bytes, 128, as_bytes("key"), reinterpret_cast<std::byte*>(copy.data()), room, &word,
                          &length),
              RecordStatus::kConsistent);
    EXPECT_EQ(copy, std::string("0123456789abcdef").substr(0, room) + std::string(17 - room, '.'));
    EXPECT_EQ(length, 16U);
  }
}

// I1: whatever part of an older version is mixed in, the check does not match.
TEST(Record, AnyMixOfTwoVersionsIsTorn) {
  alignas(16) std::byte before[64] = {};
  alignas(16) std::byte after[64] = {};
  for (const int variant : {0, 1, 2, 3}) {
    const bool same_value = variant % 2 != 0;
    const RecordForm form = variant < 2 ? RecordForm::kNarrow : RecordForm::kWide;
    record_write(before, as_bytes("12345678"), as_bytes("old old old old "), Word(Version(5), kReadable), form);
    record_write(after, as_bytes("12345678"), as_bytes(same_value ? "old old old old " : "new new new new "),
                 Word(Version(6), kReadable), form);
    const uint32_t words = static_cast<uint32_t>(record_bytes(form, 8, 16) / 8);
    for (uint32_t mask = 1; mask + 1 < 1U << words; ++mask) {
      alignas(16) std::byte mixed[64];
      bool is_before = true;
      bool is_after = true;
      for (uint32_t i = 0; i < words; ++i) {
        std::memcpy(mixed + i * 8, ((mask >> i & 1) != 0 ? after : before) + i * 8, 8);
        is_before = is_before && std::memcmp(mixed + i * 8, before + i * 8, 8) == 0;
        is_after = is_after && std::memcmp(mixed + i * 8, after + i * 8, 8) == 0;
      }
      RecordView view;
      EXPECT_EQ(parse_record_copy(mixed, words * 8, form, &view), is_before || is_after) << mask;
    }
  }
}

TEST(Record, BadLengthsAreNotWhole) {
  alignas(16) std::byte copy[32] = {};
  RecordView view;
  EXPECT_FALSE(parse_record_copy(copy, 8, &view));
  store<uint64_t>(copy + kMetaAt, kMetaTorn);
  EXPECT_FALSE(parse_record_copy(copy, 32, &view));
  record_write(copy, as_bytes("12345678"), as_bytes("v"), Word(Version(1), 0));
  EXPECT_TRUE(parse_record_copy(copy, 32, &view));
  EXPECT_FALSE(parse_record_copy(copy, 24, &view));

  alignas(16) std::byte wide[kNarrowBlockBytes + 16] = {};
  EXPECT_FALSE(parse_record_copy(wide, 16, RecordForm::kWide, &view));
  record_write(wide, as_bytes("12345678"), as_bytes("v"), Word(Version(1), 0), RecordForm::kWide);
  EXPECT_TRUE(parse_record_copy(wide, sizeof wide, &view));
  for (const uint64_t length : {uint64_t{9}, uint64_t{sizeof wide}, uint64_t{0xffffffff}, ~uint64_t{0}}) {
    store(wide + kKeyLengthAt, length);
    EXPECT_FALSE(parse_record_copy(wide, sizeof wide, &view)) << length;
  }
}

TEST(Record, SwapWithMetaFailsForAnotherKey) {
  alignas(16) std::byte block[32] = {};
  const Word word(Version(1), 0);
  record_write(block, as_bytes("key one "), as_bytes("v"), word);
  const uint64_t meta = load_ordered(block + kMetaAt);
  record_write(block, as_bytes("key two "), as_bytes("v"), word);
  EXPECT_FALSE(swap_word_with_meta(block, word, meta, word.with(kReadable)));
  EXPECT_TRUE(swap_word_with_meta(block, word, load_ordered(block + kMetaAt), word.with(kReadable)));
  EXPECT_EQ(load_word(block), word.with(kReadable));
}

// A value that says which version it belongs to, in every word.
void fill(std::vector<std::byte>* value, uint64_t version) {
  for (size_t i = 0; i + 8 <= value->size(); i += 8) store<uint64_t>(value->data() + i, version * 1000003 + i);
}

bool filled(ByteView value, uint64_t version) {
  for (size_t i = 0; i + 8 <= value.size(); i += 8) {
    if (load<uint64_t>(value.data() + i) != version * 1000003 + i) return false;
  }
  return true;
}

class WholeOrTorn : public ::testing::TestWithParam<size_t> {};

// I1, with a concurrent writer: a local reader, and one that copies cache lines in any order as a NIC may.
TEST_P(WholeOrTorn, ReadersNeverAcceptAMix) {
  const size_t size = GetParam();
  const size_t block = align_up(record_bytes(8, size), 64);
  std::vector<Line> memory(block / 64);
  std::byte* const record = memory[0].bytes;
  const ByteView key = as_bytes("the key.");
  std::vector<std::byte> first(size);
  fill(&first, 1);
  record_write(record, key, first, Word(Version(1), kReadable), form_of_block(block));
  std::atomic<bool> stop{false};

  std::thread writer([&] {
    std::vector<std::byte> value(size);
    for (uint64_t version = 2; !stop.load(); ++version) {
      // Lengths change too, so that the bytes beyond the end are of an older version.
      value.resize(version % 3 == 0 ? align_up(size / 2, 8) : size);
      fill(&value, version);
      record_write(record, key, value, Word(Version(version), kReadable), form_of_block(block));
    }
  });

  Random random(size);
  std::vector<std::byte> value(size);
  std::vector<Line> copy(block / 64);
  std::vector<size_t> order(block / 64);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const size_t bytes_to_read = 64 << 20;
  const size_t rounds = std::clamp<size_t>(bytes_to_read / block, 1000, 100000);
  uint64_t whole_local = 0;
  uint64_t whole_remote = 0;
  for (size_t round = 0; round < rounds || whole_local == 0; ++round) {
    Word word;
    uint32_t length = 0;
    if (record_read(record, block, key, value.data(), size, &word, &length) == RecordStatus::kConsistent) {
      ++whole_local;
      ASSERT_TRUE(filled(ByteView(value.data(), length), word.version().value));
    }
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (const size_t i : order) copy_from_shared(copy[i].bytes, record + i * 64, 64);
    RecordView view;
    if (parse_record_copy(copy[0].bytes, block, &view)) {
      ++whole_remote;
      ASSERT_EQ(as_text(view.key), "the key.");
      ASSERT_TRUE(filled(view.value, view.word.version().value));
    }
  }
  stop = true;
  writer.join();
  RecordProperty("whole_local", static_cast<int>(whole_local));
  RecordProperty("whole_remote", static_cast<int>(whole_remote));
}

INSTANTIATE_TEST_SUITE_P(Sizes, WholeOrTorn, ::testing::Values(8, 24, 64, 200, 1024, 4096, 16384, 65536));

}  // namespace
}  // namespace weft
