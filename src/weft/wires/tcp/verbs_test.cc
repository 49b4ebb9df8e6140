#include "weft/wires/tcp/verbs.h"
#include "weft/fabric/names_testing.h"

#include <gtest/gtest.h>

#include <vector>

#include "weft/wires/tcp/tcp_testing.h"

namespace weft {
namespace {

// Node 0 posts to node 1's region.
class TcpVerbsTest : public ::testing::Test {
 protected:
  TcpVerbsTest() { net_.connect(0, 1); }

  Verb verb(VerbKind kind, uint64_t offset, void* local, uint32_t bytes, uint64_t tag) {
    Verb v;
    v.kind = kind;
    v.region = net_.node(1).region_id;
    v.offset = offset;
    v.bytes = bytes;
    v.local = static_cast<std::byte*>(local);
    v.tag = tag;
    return v;
  }
  void take_completions() {
    std::vector<Completion> out(100);
    const size_t count = net_.wire(0).poll_completions(Domain::kEngine, out);
    done_.insert(done_.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
  }
  // Waits for the completions of everything posted so far.
  std::vector<Completion> completions(size_t count) {
    EXPECT_TRUE(net_.until_polling([&] {
      take_completions();
      return done_.size() >= count;
    })) << done_.size()
        << " of " << count;
    return std::exchange(done_, {});
  }
  VerbStatus one(const Verb& v) {
    EXPECT_TRUE(net_.wire(0).post(kB, Domain::kEngine, {&v, 1}));
    return completions(1).at(0).status;
  }
  std::byte* memory() { return net_.node(1).region->base(); }

  TcpTestNet net_{2, 1, [](size_t, TcpOptions& options) { options.completions_max = 2048; }};
  std::vector<Completion> done_;
};

// A reset while refusals of the previous generation are still on their way.
TEST_F(TcpVerbsTest, AResetQueueIsNotBrokenByLateReplies) {
  uint64_t word = 1;
  const Verb good = verb(VerbKind::kWrite, 0, &word, 8, 1);
  const Verb bad = verb(VerbKind::kRead, 1 << 30, &word, 8, 2);
  ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, {&bad, 1}));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, {&good, 1}));
  ASSERT_TRUE(net_.until_polling([&] {
    std::vector<Completion> out(1);  // only the first
    return net_.wire(0).poll_completions(Domain::kEngine, out) == 1;
  }));
  net_.wire(0).reset(kB, Domain::kEngine);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, {&good, 1}));
  const auto done = completions(10);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(done[i].status, i < 5 ? VerbStatus::kFlushed : VerbStatus::kDone) << i;
}

// Unsignalled writes behind a refused verb are known to have failed before anything that is posted later completes.
TEST_F(TcpVerbsTest, ABrokenQueueCompletesInOrder) {
  uint64_t word = 1;
  const Verb bad = verb(VerbKind::kRead, 1 << 30, &word, 8, 1);
  Verb quiet = verb(VerbKind::kWrite, 0, &word, 8, 2);
  quiet.signalled = false;
  const Verb later = verb(VerbKind::kWrite, 0, &word, 8, 3);
  // The refusal of the first has arrived, the reply to the second has not.
  TcpOutput output(1 << 20);
  Completions done(100);
  TcpVerbQueue queue(kB, Domain::kEngine, &done);
  ASSERT_TRUE(queue.post({&bad, 1}, output) && queue.post({&quiet, 1}, output));
  TcpFault fault;
  TcpFrame refused{};
  refused.reply = {0, static_cast<uint8_t>(VerbStatus::kRefused), 0, {0, 0}};
  ASSERT_TRUE(queue.take_reply(refused, &fault));
  EXPECT_FALSE(queue.post({&later, 1}, output)) << "its completion would come before that of the second";
  refused.reply = {1, static_cast<uint8_t>(VerbStatus::kFlushed), 0, {0, 0}};
  ASSERT_TRUE(queue.take_reply(refused, &fault));
  EXPECT_TRUE(queue.post({&later, 1}, output)) << "flushed at once";
  std::vector<Completion> all(10);
  ASSERT_EQ(done.poll(all), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].tag, i + 1);
    EXPECT_NE(all[i].status, VerbStatus::kDone);
  }
}

TEST_F(TcpVerbsTest, WhatWasPostedUnderOneGrantDoesNotLandUnderTheNext) {
  uint64_t word = 42;
  const Verb write = verb(VerbKind::kWrite, 0, &word, 8, 1);
  ASSERT_EQ(one(write), VerbStatus::kDone);
  store_shared(memory(), 0);
  // Written to the socket, but not read by the target when the grant changes. Reset and posted again, so that it is not
  // the first of its generation either.
  const Verb bad = verb(VerbKind::kRead, 1 << 30, &word, 8, 2);
  ASSERT_EQ(one(bad), VerbStatus::kRefused);
  net_.wire(0).reset(kB, Domain::kEngine);
  ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, {&write, 1}));
  net_.receive(0);
  net_.node(1).regions.revoke(kA, Domain::kEngine);
  net_.node(1).regions.grant(kA, Domain::kEngine);
  EXPECT_EQ(completions(1).at(0).status, VerbStatus::kRefused);
  EXPECT_EQ(load_shared(memory()), 0U);
  net_.wire(0).reset(kB, Domain::kEngine);
  EXPECT_EQ(one(write), VerbStatus::kDone) << "the announcement of the grant came with the refusal";
  EXPECT_EQ(load_shared(memory()), 42U);
}

TEST_F(TcpVerbsTest, ALostConnectionFlushes) {
  std::vector<uint64_t> words(100);
  std::vector<Verb> verbs;
  for (size_t i = 0; i < words.size(); ++i) verbs.push_back(verb(VerbKind::kFetchAdd, 0, &words[i], 8, i));
  for (Verb& v : verbs) v.signalled = v.tag % 2 == 0;
  ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, verbs));
  net_.receive(0);
  net_.node(1).interconnect.reset();
  ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, verbs));
  const auto done = completions(200);
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].status, VerbStatus::kFlushed);
    EXPECT_EQ(done[i].tag, i % 100);
  }
  ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, verbs));
  EXPECT_EQ(completions(100).size(), 100U) << "nobody there";
}

TEST_F(TcpVerbsTest, AnotherAdmissionFlushes) {
  uint64_t word = 7;
  const Verb add = verb(VerbKind::kFetchAdd, 0, &word, 8, 5);
  ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, {&add, 1}));
  net_.receive(0);
  net_.wire(0).accept_incarnation(kB, 0);
  take_completions();
  ASSERT_EQ(done_.size(), 1U);
  EXPECT_EQ(done_[0].status, VerbStatus::kFlushed);
  done_.clear();
  word = 7;
  net_.wire(0).accept_incarnation(kB, 1);
  ASSERT_TRUE(net_.until_polling([&] { return load_shared(memory()) == 0 && !net_.wire(0).pending(); }));
  for (int i = 0; i < 10; ++i) net_.until_polling([] { return true; });
  EXPECT_EQ(word, 7U) << "the late reply is ignored";
  EXPECT_EQ(one(add), VerbStatus::kDone) << "and the same connection continues";
}

TEST_F(TcpVerbsTest, TheQueueIsBoundedAndTakesAllOrNothing) {
  std::vector<std::byte> local(kTcpVerbBytesMax);
  const Verb read = verb(VerbKind::kRead, 0, local.data(), kTcpVerbBytesMax, 0);
  size_t posted = 0;
  while (net_.wire(0).post(kB, Domain::kEngine, {&read, 1})) ++posted;
  EXPECT_EQ(posted, kTcpVerbWindowBytes / (kTcpVerbBytesMax + 16));
  EXPECT_EQ(completions(posted).size(), posted);
  uint64_t word = 0;
  const std::vector<Verb> adds(600, verb(VerbKind::kFetchAdd, 0, &word, 8, 0));
  ASSERT_TRUE(net_.wire(0).post(kB, Domain::kEngine, adds));
  EXPECT_FALSE(net_.wire(0).post(kB, Domain::kEngine, adds)) << "over kTcpVerbsMax";
  EXPECT_EQ(completions(600).size(), 600U);
  EXPECT_TRUE(net_.wire(0).post(kB, Domain::kEngine, adds));
  EXPECT_EQ(completions(600).size(), 600U);
}

}  // namespace
}  // namespace weft
