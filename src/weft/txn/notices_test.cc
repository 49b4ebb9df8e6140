// Notices ride on commit messages to the same node, and go alone after a millisecond.
#include "weft/txn/notices.h"

#include "weft/txn/part_testing.h"

namespace weft {
namespace {

class NoticesTest : public PartTest {
 protected:
  bool send(bool at_once = false) {
    return queue_.send(at_once, [&](const TxnCompleteNotice& notice) { sent_.push_back(notice.slot()); });
  }

  NoticeQueue queue_{ctx_, Kind::kDone, 8};
  std::vector<uint32_t> sent_;
};

TEST_F(NoticesTest, RideOnAnOpenPacket) {
  at(1000);
  queue_.add(NodeId(1), {7, 3});
  EXPECT_FALSE(send()) << "nothing goes there";
  port_.reserve(NodeId(1), Flow::kCommit, static_cast<uint8_t>(Kind::kLock), 8);
  EXPECT_TRUE(send());
  EXPECT_EQ(sent_, (std::vector<uint32_t>{3}));
  EXPECT_TRUE(queue_.empty());
  deliver();
  const std::vector<Received> got = take_received();
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1].kind, Kind::kDone);
  EXPECT_EQ(got[1].as<TxnCompleteNotice>().sequence(), 7U);
}

TEST_F(NoticesTest, GoAloneAfterAMillisecond) {
  at(1000);
  queue_.add(NodeId(1), {7, 3});
  queue_.add(NodeId(2), {8, 4});
  EXPECT_EQ(queue_.deadline_ns(), 1000 + NoticeQueue::kRideAlongNs);
  at(1000 + NoticeQueue::kRideAlongNs - 1);
  EXPECT_FALSE(send());
  at(1000 + NoticeQueue::kRideAlongNs);
  EXPECT_TRUE(send());
  EXPECT_EQ(sent_.size(), 2U);
  EXPECT_EQ(queue_.deadline_ns(), UINT64_MAX);
}

TEST_F(NoticesTest, GoAtOnceToTheNodeItselfOrWhenAskedTo) {
  at(1000);
  queue_.add(kSelf, {7, 3});
  EXPECT_TRUE(send());
  queue_.add(NodeId(1), {8, 4});
  EXPECT_FALSE(send());
  EXPECT_TRUE(send(true));
  EXPECT_EQ(sent_, (std::vector<uint32_t>{3, 4}));
}

TEST_F(NoticesTest, AreDroppedWithTheirView) {
  queue_.add(NodeId(1), {7, 3});
  queue_.clear();
  EXPECT_TRUE(queue_.empty());
  EXPECT_FALSE(send(true));
}

}  // namespace
}  // namespace weft
