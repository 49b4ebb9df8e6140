#include "weft/fabric/ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

struct Shared {
  std::atomic<uint64_t> tail{0}, restart{0}, head{0};
  std::vector<uint64_t> words;
  explicit Shared(size_t bytes) : words(bytes / 8) {}
  std::byte* buffer() { return reinterpret_cast<std::byte*>(words.data()); }
  size_t bytes() const { return words.size() * 8; }
  RingEnds ends() { return {&tail, &restart, &head}; }
};

// Frame i: its bytes depend on i only, so that both sides know them.
std::vector<std::byte> frame(uint64_t i, size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (size_t k = 0; k < bytes; ++k) out[k] = static_cast<std::byte>(i * 131 + k);
  return out;
}

TEST(RingTest, EmptyRingRestartsAtItsBeginning) {
  Shared shared(64 << 10);
  RingWriter writer(shared.buffer(), shared.bytes(), shared.ends());
  RingReader reader(shared.buffer(), shared.bytes(), shared.ends());
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(writer.write(frame(i, 900)));
    ASSERT_FALSE(reader.empty_now());
    const ByteView got = reader.front();
    EXPECT_LT(got.data() + got.size(), shared.buffer() + kRestartBytes + 1024) << "the hot part stays small";
    reader.pop(got);
    reader.release();
  }
}

TEST(RingTest, RefusesWhenFullAndTakesMoreAfterRelease) {
  Shared shared(16 << 10);
  RingWriter writer(shared.buffer(), shared.bytes(), shared.ends());
  RingReader reader(shared.buffer(), shared.bytes(), shared.ends());
  size_t written = 0;
  while (writer.write(frame(written, 1000))) ++written;
  EXPECT_EQ(written, (16U << 10) / 1008);
  ASSERT_FALSE(reader.empty_now());
  reader.pop(reader.front());
  EXPECT_FALSE(writer.write(frame(0, 1000))) << "I1: popped is not released";
  reader.release();
  EXPECT_TRUE(writer.write(frame(written, 1000)));
}

TEST(RingTest, AFrameAsLargeAsTheRingFitsWhenItIsEmpty) {
  Shared shared(8 << 10);
  RingWriter writer(shared.buffer(), shared.bytes(), shared.ends());
  RingReader reader(shared.buffer(), shared.bytes(), shared.ends());
  for (uint64_t i = 0; i < 20; ++i) {
    for (const size_t bytes : {size_t{1}, shared.bytes() - 8}) {
      ASSERT_TRUE(writer.write(frame(i, bytes)));
      ASSERT_FALSE(reader.empty_now());
      ASSERT_EQ(reader.front().size(), bytes);
      reader.pop(reader.front());
      reader.release();
    }
  }
}

TEST(RingTest, RandomFramesAgainstATwin) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    FrameQueue queue;
    Shared shared(align_up(random.between(2000, 40000), 8));
    queue.set_up(shared.buffer(), shared.bytes());
    std::deque<std::vector<std::byte>> twin;
    for (uint64_t i = 0; i < 3000; ++i) {
      if (random.chance(55)) {
        const auto bytes = frame(i, random.between(1, 900));
        if (queue.push(bytes)) {
          twin.push_back(bytes);
        } else {
          ASSERT_FALSE(twin.empty()) << "an empty ring takes what is smaller than it";
        }
      } else {
        for (uint64_t n = random.below(8); n > 0 && !twin.empty(); --n) {
          const ByteView got = queue.front();
          ASSERT_TRUE(std::equal(got.begin(), got.end(), twin.front().begin(), twin.front().end()));
          queue.pop(got);
          twin.pop_front();
        }
        queue.release();
      }
      ASSERT_EQ(queue.empty(), twin.empty());
    }
  }
}

TEST(RingTest, TwoThreads) {
  constexpr uint64_t kFrames = 200'000;
  Shared shared(32 << 10);
  std::thread producer([&] {
    RingWriter writer(shared.buffer(), shared.bytes(), shared.ends());
    Random random(7);
    for (uint64_t i = 0; i < kFrames; ++i) {
      const auto bytes = frame(i, 8 + random.below(300));
      while (!writer.write(bytes, (i & 1) != 0)) std::this_thread::yield();
    }
  });
  RingReader reader(shared.buffer(), shared.bytes(), shared.ends());
  Random random(7);
  Random pace(8);
  for (uint64_t i = 0; i < kFrames;) {
    for (uint64_t burst = pace.between(1, 20); burst > 0 && i < kFrames && !reader.empty_now(); --burst, ++i) {
      const ByteView got = reader.front();
      const auto want = frame(i, 8 + random.below(300));
      if (!std::equal(got.begin(), got.end(), want.begin(), want.end())) {
        ADD_FAILURE() << "frame " << i;
        std::abort();
      }
      reader.pop(got);
    }
    reader.release();
    if (reader.empty_now()) std::this_thread::yield();
  }
  producer.join();
}

TEST(RingTest, TheCheckedFrontReadsWhatAnHonestProducerWrote) {
  Shared shared(8 << 10);
  RingWriter writer(shared.buffer(), shared.bytes(), shared.ends());
  RingReader reader(shared.buffer(), shared.bytes(), shared.ends());
  Random random(11);
  uint64_t written = 0, read = 0;
  std::deque<size_t> sizes;
  while (read < 20'000) {
    for (uint64_t burst = random.below(12); burst > 0; --burst) {
      const size_t bytes = random.between(1, random.below(10) == 0 ? 4000 : 200);
      if (!writer.write(frame(written, bytes))) break;
      sizes.push_back(bytes);
      ++written;
    }
    for (uint64_t burst = random.below(12); burst > 0 && !reader.empty_now(); --burst) {
      const ByteView got = reader.front_checked();
      ASSERT_NE(got.data(), nullptr);
      const auto want = frame(read, sizes.front());
      ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << "frame " << read;
      reader.pop(got);
      sizes.pop_front();
      ++read;
    }
    reader.release();
  }
}

// Whatever a producer writes into the shared words, the reader refuses or returns bytes of the buffer.
TEST(RingTest, TheCheckedFrontStaysInsideTheRingWhateverTheProducerWrote) {
  Random random(12);
  uint64_t refused = 0, taken = 0;
  for (int round = 0; round < 3000; ++round) {
    Shared shared(4 << 10);
    const std::byte* const begin = shared.buffer();
    const std::byte* const end = begin + shared.bytes();
    RingReader reader(begin, shared.bytes(), shared.ends());
    uint64_t tail = 0;
    for (int step = 0; step < 50; ++step) {
      for (int k = 0; k < 20; ++k) {
        const uint64_t kinds[] = {random.below(64), kSkipFrame, random.next(), random.below(5000), ~random.below(64)};
        shared.words[random.below(shared.words.size())] = kinds[random.below(5)];
      }
      tail += random.below(20) == 0 ? random.next() : 8 * random.below(100);
      shared.tail.store(tail);
      if (random.below(3) == 0) shared.restart.store(random.below(2) == 0 ? reader.cursor() : random.next());
      if (reader.empty_now()) continue;
      const ByteView got = reader.front_checked();
      if (got.data() == nullptr) {
        ++refused;
        break;
      }
      ASSERT_GE(got.data(), begin + 8);
      ASSERT_LE(got.data() + got.size(), end);
      ASSERT_LE(got.size(), shared.bytes());
      reader.pop(got);
      ++taken;
    }
  }
  EXPECT_GT(refused, 1000U);
  EXPECT_GT(taken, 1000U);
}

}  // namespace
}  // namespace weft
