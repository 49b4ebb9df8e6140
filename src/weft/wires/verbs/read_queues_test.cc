#include "weft/wires/verbs/read_queues.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/wires/verbs/stub_device_testing.h"

namespace weft {
namespace {

// A region in which each word has its own number, on one device; the threads are on another.
class Target {
 public:
  explicit Target(const VerbsLibrary& library, const std::string& device = "stub1") {
    region_ = std::move(*Region::create(1 << 20));
    for (uint64_t at = 0; at < region_->bytes(); at += 8) store_shared(region_->base() + at, at / 8);
    regions_.add(region_.get());
    nic_ = std::move(*VerbsNic::open(library, {device, 1, -1}));
    registered_ = std::make_unique<VerbsRegions>(*nic_, &regions_);
    EXPECT_TRUE(registered_->refresh());
  }
  const VerbsNic& nic() const { return *nic_; }
  VerbsRegions::Entry from() const { return registered_->at(0); }

 private:
  std::unique_ptr<Region> region_;
  Regions regions_;
  std::unique_ptr<VerbsNic> nic_;
  std::unique_ptr<VerbsRegions> registered_;
};

void wait(ReadQueues& queues, uint32_t thread) {
  for (bool is_done = false; !is_done; std::this_thread::yield()) {
    const auto done = queues.done(thread);
    ASSERT_TRUE(done) << done.error().text();
    is_done = *done;
  }
}

// Every thread reads what it asked for, whoever else uses its queue pair.
void read(ReadQueues& queues, uint32_t thread, const ReadQueuesOptions& options, int rounds) {
  Random random(thread);
  for (int round = 0; round < rounds; ++round) {
    std::vector<uint64_t> offsets(1 + random.below(options.depth));
    for (uint64_t& offset : offsets) offset = 8 * random.below((1 << 20) / 8);
    ASSERT_TRUE(queues.post(thread, offsets));
    wait(queues, thread);
    for (size_t i = 0; i < offsets.size(); ++i) {
      ASSERT_EQ(load<uint64_t>(queues.word(thread, i)), offsets[i] / 8);
    }
  }
}

struct PolicyCase {
  QueuePairPolicy policy;
  size_t queue_pairs;
  size_t thread_domains;
};

class ReadQueuesTest : public ::testing::TestWithParam<PolicyCase> {};

TEST_P(ReadQueuesTest, ThreadsReadOverWhatThePolicyGivesThem) {
  const PolicyCase& expected = GetParam();
  const ReadQueuesOptions options = {.policy = expected.policy, .threads = 5, .sharing = 2, .depth = 4};
  const int rounds = kSanitized ? 50 : 500;
  StubVerbs stub;
  {
    const auto nic = VerbsNic::open(StubVerbs::library(), {"stub0", 1, -1});
    ASSERT_TRUE(nic);
    const Target target(StubVerbs::library());
    const auto made = ReadQueues::create(**nic, target.nic(), target.from(), options);
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ(stub.queue_pairs().size(), 2 * expected.queue_pairs) << "and as many at the target";
    ASSERT_EQ(stub.thread_domains().size(), expected.thread_domains);
    stub.forget_threads();
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < options.threads; ++t) {
      threads.emplace_back([&, t] { read(**made, t, options, rounds); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const StubVerbs::Td* td : stub.thread_domains()) EXPECT_EQ(td->threads.size(), 1U);
  }
  EXPECT_EQ(stub.live(), 0U);
  EXPECT_EQ(stub.mistakes(), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, ReadQueuesTest,
    ::testing::Values(PolicyCase{QueuePairPolicy::kShared, 1, 0}, PolicyCase{QueuePairPolicy::kMultiplexed, 3, 0},
                      PolicyCase{QueuePairPolicy::kWorker, 5, 0}, PolicyCase{QueuePairPolicy::kDoorbell, 5, 5}),
    [](const auto& tested) { return std::string(kQueuePairPolicies[static_cast<size_t>(tested.param.policy)]); });

// Nobody takes one policy's figures for another's.
TEST(ReadQueues, TooFewRegistersAreRefused) {
  const StubVerbs stub({.thread_domains_max = 2});
  const auto nic = VerbsNic::open(StubVerbs::library(), {"stub0", 1, -1});
  ASSERT_TRUE(nic);
  const Target target(StubVerbs::library());
  const auto made = ReadQueues::create(**nic, target.nic(), target.from(), {.threads = 3});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kBadOption);
  EXPECT_EQ(made.error().detail, "device stub0: no thread domain: No such file or directory");
}

// All that share the queue pair are told, each for itself.
TEST(ReadQueues, ARefusedReadIsAnErrorForAll) {
  const StubVerbs stub;
  const auto nic = VerbsNic::open(StubVerbs::library(), {"stub0", 1, -1});
  ASSERT_TRUE(nic);
  const Target target(StubVerbs::library());
  const auto made =
      ReadQueues::create(**nic, target.nic(), target.from(), {.policy = QueuePairPolicy::kShared, .threads = 2});
  ASSERT_TRUE(made);
  const std::vector<uint64_t> beyond = {0, target.from().bytes};
  ASSERT_TRUE((*made)->post(0, beyond));
  EXPECT_TRUE((*made)->done(1)) << "nobody has polled yet";
  for (const uint32_t thread : {0, 1}) {
    const auto done = (*made)->done(thread);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().text().find("READs: stub status"), std::string::npos);
  }
}

TEST(ReadQueues, ARefusedAllocationLeavesNothing) {
  for (size_t nth = 1;; ++nth) {
    StubVerbs stub;
    size_t before = 0;
    {
      const auto nic = VerbsNic::open(StubVerbs::library(), {"stub0", 1, -1});
      ASSERT_TRUE(nic);
      const Target target(StubVerbs::library());
      before = stub.live();
      stub.refuse(nth);
      const auto made = ReadQueues::create(**nic, target.nic(), target.from(), {.threads = 2});
      if (stub.refused().empty()) {
        EXPECT_TRUE(made);
        return;
      }
      EXPECT_TRUE(made || stub.live() == before) << "after a refused " << stub.refused();
    }
    EXPECT_EQ(stub.live(), 0U) << "after a refused " << stub.refused();
    EXPECT_EQ(stub.mistakes(), 0U) << "after a refused " << stub.refused();
  }
}

}  // namespace
}  // namespace weft
