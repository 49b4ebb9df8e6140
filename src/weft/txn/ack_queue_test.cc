// Acks wait for the end of a step, and leave in one message to each coordinator, in the order in which they were given.
#include "weft/txn/ack_queue.h"

#include <algorithm>
#include <map>

#include "weft/txn/part_testing.h"

namespace weft {
namespace {

class AckQueueTest : public PartTest {
 protected:
  static constexpr NodeId kOne{1};
  static constexpr NodeId kTwo{2};
  static constexpr int kMost = 62;  // in one message

  explicit AckQueueTest(const Setup& setup = Setup()) : PartTest(setup) {}

  // An ack that says which one it is.
  static PhaseAck nth(int n) {
    return {static_cast<uint8_t>(n % 200), static_cast<uint8_t>(n % 5), static_cast<uint16_t>(n)};
  }
  // The numbers of the acks in each message that the node has received since the last call.
  std::vector<std::vector<int>> at(NodeId node) {
    deliver();
    for (const Received& one : take_received()) {
      std::vector<int> numbers;
      for (const PhaseAck& ack : one.acks()) {
        const PhaseAck expected = nth(ack.sequence);
        EXPECT_EQ(ack.slot, expected.slot);
        EXPECT_EQ(ack.phase, expected.phase);
        numbers.push_back(ack.sequence);
      }
      EXPECT_EQ(one.tag, 0U);
      got_[one.at.value].push_back(numbers);
    }
    return std::exchange(got_[node.value], {});
  }
  static std::vector<int> numbers(int first, int count) {
    std::vector<int> out(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) out[static_cast<size_t>(i)] = first + i;
    return out;
  }
  using Messages = std::vector<std::vector<int>>;

  AckQueue queue_{ctx_};
  std::map<int, Messages> got_;
};

TEST_F(AckQueueTest, AcksOfAStepAreOneMessageForEachNode) {
  EXPECT_TRUE(queue_.empty());
  for (int i = 0; i < 10; ++i) queue_.add(i % 2 == 0 ? kOne : kTwo, nth(i));
  EXPECT_FALSE(queue_.empty());
  EXPECT_EQ(at(kOne), Messages()) << "not before the step ends";
  EXPECT_EQ(at(kTwo), Messages());
  queue_.flush();
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(at(kOne), (Messages{{0, 2, 4, 6, 8}}));
  EXPECT_EQ(at(kTwo), (Messages{{1, 3, 5, 7, 9}}));
}

TEST_F(AckQueueTest, WhoHasNoneGetsNoMessage) {
  queue_.flush();
  EXPECT_EQ(at(kOne), Messages());
  queue_.add(kTwo, nth(7));
  queue_.flush();
  EXPECT_EQ(at(kOne), Messages());
  EXPECT_EQ(at(kTwo), (Messages{{7}}));
  queue_.flush();
  EXPECT_EQ(at(kTwo), Messages()) << "each is sent once";
}

TEST_F(AckQueueTest, TheyShareThePacketOfCommits) {
  queue_.add(kOne, nth(7));
  EXPECT_FALSE(port_.has_open(kOne, Flow::kCommit));
  queue_.flush();
  EXPECT_TRUE(port_.has_open(kOne, Flow::kCommit));
  EXPECT_FALSE(port_.has_open(kOne, Flow::kExecution));
}

TEST_F(AckQueueTest, MoreThanFitIntoAMessageLeaveEarlyAndInOrder) {
  for (const int count : {kMost - 1, kMost, kMost + 1, 2 * kMost, 5 * kMost + 3}) {
    for (int i = 0; i < count; ++i) {
      queue_.add(kOne, nth(i));
      EXPECT_EQ(queue_.empty(), (i + 1) % kMost == 0) << i;
    }
    queue_.flush();
    Messages expected;
    for (int i = 0; i < count; i += kMost) expected.push_back(numbers(i, std::min(kMost, count - i)));
    EXPECT_EQ(at(kOne), expected) << count;
  }
}

TEST_F(AckQueueTest, AFullMessageTakesTheOthersAlong) {
  queue_.add(kTwo, nth(1));
  for (int i = 0; i < kMost; ++i) queue_.add(kOne, nth(i));
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(at(kOne), (Messages{numbers(0, kMost)}));
  EXPECT_EQ(at(kTwo), (Messages{{1}}));
}

TEST_F(AckQueueTest, WithTheViewTheyAreGone) {
  queue_.add(kOne, nth(1));
  queue_.add(kTwo, nth(2));
  queue_.clear();
  EXPECT_TRUE(queue_.empty());
  queue_.flush();
  EXPECT_EQ(at(kOne), Messages());
  EXPECT_EQ(at(kTwo), Messages());
  queue_.add(kOne, nth(3));
  queue_.flush();
  EXPECT_EQ(at(kOne), (Messages{{3}})) << "and those after it come alone";
}

class AckQueueUnbatchedTest : public AckQueueTest {
 protected:
  AckQueueUnbatchedTest() : AckQueueTest(Setup{.batching = false}) {}
};

TEST_F(AckQueueUnbatchedTest, EachIsAMessageAtOnce) {
  for (int i = 0; i < 2 * kMost; i += 3) {
    queue_.add(kOne, nth(i));
    queue_.add(kTwo, nth(i + 1));
    queue_.add(kOne, nth(i + 2));
    EXPECT_TRUE(queue_.empty());
    EXPECT_EQ(at(kOne), (Messages{{i}, {i + 2}}));
    EXPECT_EQ(at(kTwo), (Messages{{i + 1}}));
  }
  queue_.flush();
  queue_.clear();
  EXPECT_EQ(at(kOne), Messages());
}

}  // namespace
}  // namespace weft
