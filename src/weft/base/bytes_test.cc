#include "weft/base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

TEST(Bytes, TextAndBytesAreTheSameMemory) {
  const std::string text("a\0b", 3);
  const ByteView bytes = as_bytes(text);
  ASSERT_EQ(bytes.size(), 3U);
  EXPECT_EQ(bytes[1], std::byte{0});
  EXPECT_EQ(as_text(bytes), text);
  EXPECT_EQ(as_text(bytes).data(), text.data());
  EXPECT_TRUE(as_bytes("").empty());
}

TEST(Bytes, AlignUp) {
  EXPECT_EQ(align_up(0, 8), 0U);
  EXPECT_EQ(align_up(1, 8), 8U);
  EXPECT_EQ(align_up(8, 8), 8U);
  EXPECT_EQ(align_up(65, 64), 128U);
  EXPECT_EQ(align_up(7, 3), 9U);
}

TEST(Bytes, LoadAndStoreNeedNoAlignment) {
  std::array<std::byte, 16> memory{};
  store<uint32_t>(memory.data() + 3, 0x01020304);
  EXPECT_EQ(load<uint32_t>(memory.data() + 3), 0x01020304U);
  EXPECT_EQ(memory[2], std::byte{0});
  EXPECT_EQ(memory[7], std::byte{0});
}

TEST(Bytes, SharedCopiesAreExactAndPadWithZero) {
  Random random(1);
  constexpr size_t kMost = 100;
  constexpr std::byte kGuard{0xee};
  for (size_t bytes = 0; bytes <= kMost; ++bytes) {
    std::vector<std::byte> from(bytes);
    for (std::byte& b : from) b = static_cast<std::byte>(random.next());

    alignas(8) std::array<std::byte, kMost + 16> shared;
    shared.fill(kGuard);
    copy_to_shared(shared.data(), from.data(), bytes);
    const size_t padded = align_up(bytes, 8);
    for (size_t i = bytes; i < padded; ++i) EXPECT_EQ(shared[i], std::byte{0}) << bytes;
    EXPECT_EQ(shared[padded], kGuard) << bytes;

    std::vector<std::byte> to(bytes + 1, kGuard);
    copy_from_shared(to.data(), shared.data(), bytes);
    EXPECT_EQ(to.back(), kGuard) << "wrote behind the end at " << bytes;
    to.pop_back();
    EXPECT_EQ(to, from);
  }
}

// A torn copy is allowed; a torn word is not, and TSan must see no race.
TEST(Bytes, WordsAreWholeUnderAWriter) {
  constexpr size_t kBytes = 256;
  alignas(8) std::array<std::byte, kBytes> shared{};
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    std::array<std::byte, kBytes> pattern;
    for (int i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      pattern.fill(static_cast<std::byte>(i));
      copy_to_shared(shared.data(), pattern.data(), kBytes);
    }
  });
  std::array<std::byte, kBytes> copy;
  for (int round = 0; round < 20'000; ++round) {
    copy_from_shared(copy.data(), shared.data(), kBytes);
    for (size_t i = 0; i < kBytes; i += 8) {
      const uint64_t word = load<uint64_t>(copy.data() + i);
      ASSERT_EQ(word, (word & 0xff) * 0x0101010101010101U);
    }
  }
  stop.store(true, std::memory_order_relaxed);
  writer.join();
}

}  // namespace
}  // namespace weft
