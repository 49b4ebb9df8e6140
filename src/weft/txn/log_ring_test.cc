// An entry of a log ring is complete or absent, in whatever order its bytes land, and never one of an earlier lap or
// view.
#include "weft/txn/log_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

constexpr size_t kRingBytes = 4096;

struct Ring {
  alignas(64) std::vector<std::byte> memory = std::vector<std::byte>(kRingBytes);
  std::vector<std::byte> scratch = std::vector<std::byte>(kRingBytes);
  LogRingWriter writer{kRingBytes};
  LogRingReader reader{memory.data(), kRingBytes};

  struct Piece {
    uint64_t at;
    std::vector<std::byte> bytes;
  };
  // What is to be written where.
  std::vector<Piece> write(std::string_view body, uint32_t epoch = 1, uint32_t tag = 3) {
    std::vector<Piece> out;
    const size_t entry = ring_entry_bytes(body.size());
    const LogRingWriter::Place place = writer.place(entry);
    if (place.skip != 0) {
      out.push_back({place.skip_at, std::vector<std::byte>(sizeof(RingHeader))});
      RingHeader skip{};
      skip.position = place.skip_position;
      skip.epoch = epoch;
      skip.bytes = place.skip;
      skip.skip = 1;
      ring_seal(out.back().bytes.data(), skip);
    }
    out.push_back({place.at, std::vector<std::byte>(entry)});
    std::memcpy(out.back().bytes.data() + sizeof(RingHeader), body.data(), body.size());
    RingHeader header{};
    header.position = place.position;
    header.epoch = epoch;
    header.bytes = static_cast<uint32_t>(body.size());
    header.tag = tag;
    ring_seal(out.back().bytes.data(), header);
    return out;
  }
  void land(const Piece& piece) { std::memcpy(memory.data() + piece.at, piece.bytes.data(), piece.bytes.size()); }
  std::string read(uint32_t epoch = 1) {
    LogRingReader::Entry entry;
    return reader.next(epoch, scratch.data(), &entry) ? std::string(as_text(entry.body)) : "-";
  }
};

TEST(LogRing, EntriesComeInOrderLapAfterLap) {
  Ring ring;
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string body(random.between(1, kRingBytes / 4 - 64), static_cast<char>('a' + i % 26));
    ASSERT_TRUE(ring.writer.reserve(ring_entry_bytes(body.size())));
    EXPECT_EQ(ring.read(), "-");
    for (const Ring::Piece& piece : ring.write(body)) ring.land(piece);
    EXPECT_EQ(ring.read(), body);
    ASSERT_TRUE(ring.writer.read_up_to(ring.reader.position()));
  }
}

TEST(LogRing, AnEntryIsThereWhenAllOfItHasLanded) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    Ring ring;
    for (std::byte& b : ring.memory) b = static_cast<std::byte>(random.next());
    const std::string body(random.between(1, 900), 'x');
    ASSERT_TRUE(ring.writer.reserve(ring_entry_bytes(body.size())));
    const std::vector<Ring::Piece> pieces = ring.write(body);
    std::vector<size_t> lines;
    for (size_t at = 0; at < pieces[0].bytes.size(); at += 64) lines.push_back(at);
    for (size_t i = lines.size(); i > 1; --i) std::swap(lines[i - 1], lines[random.below(i)]);
    for (const size_t at : lines) {
      EXPECT_EQ(ring.read(), "-");
      const size_t bytes = std::min<size_t>(64, pieces[0].bytes.size() - at);
      std::memcpy(ring.memory.data() + at, pieces[0].bytes.data() + at, bytes);
    }
    EXPECT_EQ(ring.read(), body);
  }
}

TEST(LogRing, AnEntryHasItsWholeTag) {
  Ring ring;
  for (const uint32_t tag : {0U, 1U, 0x1234'5678U, UINT32_MAX}) {
    ASSERT_TRUE(ring.writer.reserve(ring_entry_bytes(3)));
    const std::vector<Ring::Piece> pieces = ring.write("one", 1, tag);
    ASSERT_EQ(pieces.size(), 1U);
    LogRingReader::Entry entry{};
    for (int bit = 0; bit < 32; ++bit) {  // one that is not as it was written is not complete
      Ring::Piece other = pieces[0];
      std::byte* const at = other.bytes.data() + offsetof(RingHeader, tag);
      store(at, load<uint32_t>(at) ^ 1U << bit);
      ring.land(other);
      EXPECT_FALSE(ring.reader.next(1, ring.scratch.data(), &entry)) << tag << " " << bit;
    }
    ring.land(pieces[0]);
    ASSERT_TRUE(ring.reader.next(1, ring.scratch.data(), &entry));
    EXPECT_EQ(entry.tag, tag);
  }
}

TEST(LogRing, WhatAnotherViewLeftIsNoEntry) {
  Ring ring;
  ASSERT_TRUE(ring.writer.reserve(ring_entry_bytes(3)));
  for (const Ring::Piece& piece : ring.write("old", 1)) ring.land(piece);
  ring.writer.begin();
  ring.reader.begin();
  EXPECT_EQ(ring.read(2), "-");
  ASSERT_TRUE(ring.writer.reserve(ring_entry_bytes(3)));
  for (const Ring::Piece& piece : ring.write("new", 2)) ring.land(piece);
  EXPECT_EQ(ring.read(2), "new");
}

// K3: what was reserved always has its place, however much is skipped at the end.
TEST(LogRing, WhatIsReservedFits) {
  Random random(3);
  Ring ring;
  std::vector<size_t> reserved;
  for (int i = 0; i < 20'000; ++i) {
    const size_t entry = ring_entry_bytes(random.between(1, kRingBytes / 4 - 64));
    if (ring.writer.reserve(entry)) {
      reserved.push_back(entry);
    } else if (!reserved.empty()) {
      if (random.chance(20)) {
        ring.writer.give_back(reserved.back());
      } else {
        const LogRingWriter::Place place = ring.writer.place(reserved.back());
        EXPECT_LE(place.at + reserved.back(), kRingBytes);
        EXPECT_LE(ring.writer.under_way(), kRingBytes);
      }
      reserved.pop_back();
    } else {
      ASSERT_TRUE(ring.writer.read_up_to(ring.writer.under_way() + 0));  // all of it
    }
    if (reserved.empty()) ring.writer.begin();
  }
  EXPECT_FALSE(ring.writer.reserve(ring.writer.entry_max() + 1));
}

TEST(LogRing, AReaderCannotHaveReadWhatWasNotWritten) {
  LogRingWriter writer(kRingBytes);
  EXPECT_TRUE(writer.read_up_to(0));
  EXPECT_FALSE(writer.read_up_to(32));
  ASSERT_TRUE(writer.reserve(64));
  writer.place(64);
  EXPECT_TRUE(writer.read_up_to(64));
  EXPECT_FALSE(writer.read_up_to(32));
}

}  // namespace
}  // namespace weft
