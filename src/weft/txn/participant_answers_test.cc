// What a participant answers, and keeps of a request, whatever its size: an ack where that says all, else a reply.
#include "weft/txn/participant.h"
#include "weft/txn/participant_testing.h"

namespace weft {
namespace {

TEST_F(ParticipantTest, TheAnswerToALockHasTheBasesInTheOrderOfTheKeys) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  Named erase = named(a, Write::kErase, 0);
  erase.part.flags = kWantsReplaced;
  handle(Kind::kLock, request(5), {with_value(b, "made", 0, 1), erase});
  const PhaseReply reply = answer(Phase::kLock);
  EXPECT_FALSE(acked_);
  EXPECT_EQ(static_cast<Code>(reply.code), Code::kOk);
  EXPECT_EQ(reply.bases, 2U);
  EXPECT_EQ(reply.erased, 1U);
  EXPECT_EQ(last_.size(), sizeof reply + 3 * sizeof(uint64_t));
  EXPECT_EQ(version_in_answer(0), 0U) << "an insert follows the absence";
  EXPECT_EQ(version_in_answer(1), 1U);
  EXPECT_EQ(version_in_answer(2), 1U) << "the version that the erase replaces";
}

// Then the coordinator knows the bases.
TEST_F(ParticipantTest, ALockIsAckedIfAllBasesAreTheVersionsThatItNames) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1), c = key_at(kSelf, 2);
  load_record(a, "old");
  load_record(b, "old");
  Named put = with_value(a, "new", 1, 0), erase = named(b, Write::kErase, 1), read = named(c, Write::kNone, 2);
  put.part.flags |= kHasVersion;
  erase.part.flags = read.part.flags = kHasVersion;
  erase.part.version = 1;
  for (const uint64_t sequence : {uint64_t{5}, (uint64_t{1} << 40) + 6}) {
    handle(Kind::kLock, request(sequence), {put, erase, read});
    EXPECT_EQ(answer(Phase::kLock).sequence, sequence & UINT16_MAX);
    EXPECT_TRUE(acked_);
    EXPECT_EQ(word_of(a).owner(), owner(kSlot));
    handle(Kind::kUnlock, request(sequence, false), {});
    EXPECT_EQ(code(Phase::kUnlock), Code::kOk);
    EXPECT_TRUE(acked_);
  }
  handle(Kind::kValidate, request(70'000), {read});
  EXPECT_EQ(answer(Phase::kValidate).sequence, 70'000U & UINT16_MAX) << "as much of it as an ack has room for";
  EXPECT_TRUE(acked_);
}

TEST_F(ParticipantTest, ALockThatDoesNotNameAllVersionsIsAnsweredWithTheBases) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  load_record(b, "old");
  Named put = with_value(a, "new", 1, 0), erase = named(b, Write::kErase, 1);
  put.part.flags |= kHasVersion;
  erase.part.version = 1;
  uint64_t sequence = (uint64_t{1} << 32) + 70'000;
  for (const uint8_t flags : {uint8_t{0}, uint8_t{kWantsReplaced}, uint8_t{kHasVersion | kWantsReplaced}}) {
    erase.part.flags = flags;
    handle(Kind::kLock, request(++sequence), {put, erase});
    const PhaseReply reply = answer(Phase::kLock);
    EXPECT_FALSE(acked_) << int{flags};
    EXPECT_EQ(static_cast<Code>(reply.code), Code::kOk);
    EXPECT_EQ(reply.sequence, static_cast<uint32_t>(sequence));
    EXPECT_EQ(reply.bases, 2U);
    EXPECT_EQ(reply.erased, (flags & kWantsReplaced) != 0 ? 1U : 0U);
    EXPECT_EQ(last_.size(), sizeof reply + (2 + reply.erased) * sizeof(uint64_t));
    for (size_t i = 0; i < 2U + reply.erased; ++i) EXPECT_EQ(version_in_answer(i), 1U);
    handle(Kind::kUnlock, request(sequence, false), {});
    answers();
  }
}

TEST_F(ParticipantTest, AcksOfAStepLeaveTogether) {
  const uint64_t a = key_at(kSelf), b = key_at(kOther);
  load_record(a, "old");
  Named lock = with_value(a, "new", 1);
  lock.part.flags |= kHasVersion;
  EXPECT_FALSE(participant_.has_acks());
  handle(Kind::kLock, request(5), {lock});
  handle(Kind::kReplicate, request(6), {with_value(b, "made", 1)}, kSlot + 1);
  handle(Kind::kReplicate, request(7), {with_value(b, "made", 2)}, kSlot, kOther);
  handle(Kind::kUnlock, request(5), {});
  EXPECT_TRUE(participant_.has_acks());
  EXPECT_TRUE(CommitPartTest::answers().empty()) << "not before the step ends";
  const std::vector<Received> got = answers();
  EXPECT_FALSE(participant_.has_acks());
  ASSERT_EQ(got.size(), 2U);
  for (const Received& one : got) {
    const std::vector<PhaseAck> acks = one.acks();
    ASSERT_EQ(acks.size(), one.at == kPeer ? 3U : 1U);
    if (one.at != kPeer) continue;
    EXPECT_EQ(static_cast<Phase>(acks[0].phase), Phase::kLock);
    EXPECT_EQ(acks[1].slot, kSlot + 1);
    EXPECT_EQ(acks[1].sequence, 6U);
    EXPECT_EQ(static_cast<Phase>(acks[2].phase), Phase::kUnlock);
  }
}

Limits participant_most_keys() {
  Limits limits;
  limits.txn_keys_max = 250;
  return limits;
}

class ParticipantMostKeysTest : public ParticipantTest {
 protected:
  ParticipantMostKeysTest() : ParticipantTest(participant_most_keys()) {}
};

TEST_F(ParticipantMostKeysTest, AMessageWithTheMostKeysIsAnsweredWhole) {
  std::vector<Named> keys;
  for (int i = 0; i < 250; ++i) {
    load_record(key_at(kSelf, i), "old");
    keys.push_back(named(key_at(kSelf, i), Write::kErase, static_cast<uint16_t>(i)));
    keys.back().part.flags = kWantsReplaced;
  }
  handle(Kind::kLock, request(5), keys);
  const PhaseReply reply = answer(Phase::kLock);
  ASSERT_EQ(static_cast<Code>(reply.code), Code::kOk);
  EXPECT_EQ(reply.bases, 250U);
  EXPECT_EQ(reply.erased, 250U);
  EXPECT_EQ(last_.size(), sizeof reply + 500 * sizeof(uint64_t));
  EXPECT_EQ(version_in_answer(499), 1U);
  handle(Kind::kUnlock, request(5, false), {});
  EXPECT_EQ(table().leak_report().locked, 0U);
}

// What its record tells recovery.
template <int kClusterNodes>
class ParticipantClusterTest : public ParticipantTest {
 protected:
  ParticipantClusterTest() : ParticipantTest(Setup{.nodes = kClusterNodes}) {}

  void expect_kept() {
    CommitRequest in = request(CommitRequest::kSequenceMax, true, kUnanimous);
    in.participants = node_set({1, 2, kClusterNodes - 1});
    in.writes = 250;
    handle(Kind::kReplicate, in, {with_value(key_at(kOther), "made", 1)});
    EXPECT_EQ(code(Phase::kReplicate), Code::kOk);
    EXPECT_EQ(record().sequence, in.sequence);
    EXPECT_EQ(record().participants, in.participants);
    EXPECT_EQ(record().writes, 250U);
    EXPECT_TRUE(record().unanimous);
  }
};
using ParticipantThreeNodesTest = ParticipantClusterTest<3>;
using ParticipantSixteenNodesTest = ParticipantClusterTest<16>;
using ParticipantSeventeenNodesTest = ParticipantClusterTest<17>;
using ParticipantMostNodesTest = ParticipantClusterTest<kNodesMax>;

TEST_F(ParticipantThreeNodesTest, ARecordHasAllParticipants) { expect_kept(); }
TEST_F(ParticipantSixteenNodesTest, ARecordHasAllParticipants) { expect_kept(); }
TEST_F(ParticipantSeventeenNodesTest, ARecordHasAllParticipants) { expect_kept(); }
TEST_F(ParticipantMostNodesTest, ARecordHasAllParticipants) { expect_kept(); }

}  // namespace
}  // namespace weft
