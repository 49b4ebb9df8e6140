// Entries that peers have logged into this worker's rings come to the participant, complete and of this view; an entry
// that follows another write waits for it.
#include "weft/txn/log_receiver.h"

#include <cstring>

#include "weft/txn/verb_testing.h"

namespace weft {
namespace {

class LogReceiverTest : public VerbPartTest {
 protected:
  static constexpr uint8_t kSlot = 3;

  LogReceiverTest() { participant_.set_log(&receiver_); }

  // Writes a peer's entry, as its verbs would. Returns where it is.
  std::byte* log(uint64_t sequence, const std::vector<Named>& keys, NodeId from = kPeer, uint8_t slot = kSlot,
                 uint32_t epoch = 0) {
    const Body body = body_of(request(sequence), keys);
    return log_bytes(body, from, body.tag | slot, epoch);
  }
  std::byte* log_bytes(const std::vector<std::byte>& body, NodeId from = kPeer, uint32_t tag = kSlot,
                       uint32_t epoch = 0) {
    LogRingWriter& writer = writers_[from.value];
    const size_t bytes = ring_entry_bytes(body.size());
    EXPECT_TRUE(writer.reserve(bytes));
    const LogRingWriter::Place place = writer.place(bytes);
    RingHeader header{};
    header.epoch = epoch != 0 ? epoch : ctx_.view().epoch.value;
    std::vector<std::byte> entry(bytes);
    if (place.skip != 0) {
      header.position = place.skip_position;
      header.bytes = place.skip;
      header.skip = 1;
      ring_seal(entry.data(), header);
      std::memcpy(ring_at(kSelf, from) + place.skip_at, entry.data(), sizeof header);
    }
    std::copy(body.begin(), body.end(), entry.begin() + sizeof header);
    header.position = place.position;
    header.bytes = static_cast<uint32_t>(body.size());
    header.tag = tag;
    header.skip = 0;
    ring_seal(entry.data(), header);
    std::byte* const at = ring_at(kSelf, from) + place.at;
    std::memcpy(at, entry.data(), bytes);
    return at;
  }
  // By message: a write that is applied after the version it follows.
  void replicate_in_order(uint64_t sequence, Named key, uint32_t predecessor_delta) {
    key.part.flags |= kOrdered;
    key.part.predecessor_delta = predecessor_delta;
    const auto body = body_of(request(sequence), {key});
    Message m = message(Kind::kReplicate, kSlot, body);
    ASSERT_TRUE(parse(m));
    participant_.on_replicate(batch_, {&m, 1});
  }
  PreparedTxn& record(NodeId from = kPeer) { return records_.at(from, kSlot); }

  LogReceiver receiver_{ctx_, *memory_[0], parser_, participant_};
  std::array<LogRingWriter, kNodes> writers_{LogRingWriter(kRingBytes), LogRingWriter(kRingBytes),
                                             LogRingWriter(kRingBytes)};
};

TEST_F(LogReceiverTest, EntriesComeToTheParticipantAndNobodyIsAnswered) {
  const uint64_t a = key_at(kOther);
  load_record(a, "old");
  log(5, {with_value(a, "new", 2)});
  log(6, {with_value(key_at(kOther, 1), "made", 1)}, kOther);
  EXPECT_TRUE(receiver_.has_entries());
  EXPECT_EQ(value_of(a), "old") << "to look is not to take";
  receiver_.drain();
  EXPECT_FALSE(receiver_.has_entries());
  EXPECT_EQ(value_of(a), "new");
  EXPECT_EQ(record().sequence, 5U);
  EXPECT_EQ(record().state, kReplicated);
  EXPECT_EQ(record(kOther).sequence, 6U) << "the ring says whose it is";
  EXPECT_FALSE(participant_.has_acks());
  EXPECT_TRUE(answers().empty());
  EXPECT_TRUE(take_faults().empty());
}

TEST_F(LogReceiverTest, AnEntryIsTakenOnce) {
  log(5, {with_value(key_at(kOther), "v", 1)});
  receiver_.drain();
  records_.drop(record(), true);
  receiver_.drain();
  EXPECT_EQ(records_.open_records(), 0U);
}

TEST_F(LogReceiverTest, AnEntryThatIsNotWholeIsNotThere) {
  const uint64_t a = key_at(kOther);
  const size_t bytes = ring_entry_bytes(body_of(request(5), {with_value(a, "v", 1)}).size());
  std::byte* const at = log(5, {with_value(a, "v", 1)});
  for (size_t i = 0; i < bytes - kRingAlign; i += 8) {
    if (i == 24) continue;  // the check itself is below
    at[i] ^= std::byte{1};
    receiver_.drain();
    EXPECT_FALSE(receiver_.has_entries()) << i;
    at[i] ^= std::byte{1};
  }
  at[24] ^= std::byte{1};
  receiver_.drain();
  EXPECT_EQ(records_.open_records(), 0U);
  EXPECT_TRUE(take_faults().empty()) << "it may still be on its way";
  at[24] ^= std::byte{1};
  receiver_.drain();
  EXPECT_EQ(record().sequence, 5U);
}

TEST_F(LogReceiverTest, WhatAnotherViewLeftIsNoEntry) {  // rule O3
  log(5, {with_value(key_at(kOther), "v", 1)}, kPeer, kSlot, ctx_.view().epoch.value + 1);
  receiver_.drain();
  EXPECT_FALSE(receiver_.has_entries());
  EXPECT_EQ(records_.open_records(), 0U);
}

TEST_F(LogReceiverTest, NothingIsTakenWhileTheWorkerIsNotActive) {
  log(5, {with_value(key_at(kOther), "v", 1)});
  ctx_.views.stop(false);
  receiver_.drain();
  EXPECT_FALSE(receiver_.step(0));
  EXPECT_EQ(records_.open_records(), 0U);
  EXPECT_TRUE(receiver_.has_entries());
}

TEST_F(LogReceiverTest, AnEntryThatDoesNotParseIsReportedAndTheNextIsTaken) {
  const uint64_t a = key_at(kOther);
  Named wrong = with_value(a, "bad", 2);
  wrong.part.table = 9;
  log(5, {wrong});
  log_bytes({});
  log_bytes(std::vector<std::byte>(CommitRequest::bytes(kNodes) - 1));
  log_bytes(body_of(request(5), {}), kPeer, kSlots);            // no such slot
  log_bytes(body_of(request(5), {}), kPeer, kSlot | 1U << 12);  // no such flag
  log(5, {with_value(key_at(kPeer), "bad", 2)});                // not held here
  log(5, {named(a, Write::kPut)});                              // without its value
  receiver_.drain();
  EXPECT_EQ(take_faults(), (std::vector<NodeId>(7, kPeer)));
  EXPECT_EQ(records_.open_records(), 0U);
  EXPECT_EQ(value_of(a), "(absent)");
  log(5, {with_value(a, "good", 1)});
  receiver_.drain();
  EXPECT_EQ(value_of(a), "good");
}

TEST_F(LogReceiverTest, AWriterHearsFromTimeToTimeHowFarItsRingIsRead) {
  uint64_t told = 0;
  for (uint64_t i = 1; i <= 120; ++i) {
    log(i, {with_value(key_at(kOther), "v", i)});
    receiver_.drain();
    receiver_.step(0);
    for (const Received& one : answers()) {
      EXPECT_EQ(one.kind, Kind::kRingRead);
      EXPECT_EQ(one.at, kPeer);
      const uint64_t position = one.as<RingRead>().position;
      EXPECT_GE(position, told + kRingBytes / 8);
      told = position;
      ASSERT_TRUE(writers_[kPeer.value].read_up_to(position));
    }
    ASSERT_LT(writers_[kPeer.value].under_way(), kRingBytes / 2);
  }
  EXPECT_GT(told, kRingBytes) << "once around";
  EXPECT_EQ(record().sequence, 120U);
  EXPECT_TRUE(take_faults().empty());
}

TEST_F(LogReceiverTest, AWriteWaitsForWhatItFollows) {
  const uint64_t a = key_at(kOther);
  load_record(a, "one");
  Named put = with_value(a, "two", 2);
  put.part.flags |= kDeferred;
  log(4, {put}, kOther);  // another transaction, which is not finished here
  receiver_.drain();
  Named erase = named(a, Write::kErase);
  erase.part.version = 3;
  EXPECT_EQ(receiver_.deadline_ns(), UINT64_MAX);
  replicate_in_order(5, erase, 1);
  EXPECT_TRUE(receiver_.has_deferred());
  EXPECT_LT(receiver_.deadline_ns(), UINT64_MAX);
  EXPECT_FALSE(receiver_.step(0));
  EXPECT_FALSE(participant_.has_acks());
  EXPECT_TRUE(answers().empty()) << "not acknowledged before it is applied";
  EXPECT_EQ(value_of(a), "one");
  EXPECT_EQ(record().state, 0U);

  log(5, {with_value(key_at(kOther, 1), "made", 1)}, kOther);  // so the slot's last one is finished
  receiver_.drain();
  EXPECT_EQ(value_of(a), "two");
  EXPECT_TRUE(receiver_.step(0));
  EXPECT_FALSE(receiver_.has_deferred());
  EXPECT_EQ(value_of(a), "(absent)");
  participant_.flush();
  const auto got = answers();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, kPeer);
  const std::vector<PhaseAck> acks = got[0].acks();
  ASSERT_EQ(acks.size(), 1U);
  EXPECT_EQ(acks[0].slot, kSlot);
  EXPECT_EQ(static_cast<Phase>(acks[0].phase), Phase::kReplicate);
  EXPECT_EQ(acks[0].sequence, 5U);
}

TEST_F(LogReceiverTest, AWriteThatFollowsNothingDoesNotWait) {
  const uint64_t a = key_at(kOther), b = key_at(kOther, 1);
  load_record(a, "one");
  replicate_in_order(5, with_value(a, "nine", 9), 0);
  EXPECT_FALSE(receiver_.has_deferred());
  EXPECT_EQ(value_of(a), "nine");
  records_.drop(record(), true);
  replicate_in_order(6, with_value(b, "made", 9), 1);
  EXPECT_FALSE(receiver_.has_deferred()) << "nothing is there that it could follow";
}

TEST_F(LogReceiverTest, WithTheViewWhatWaitsIsGoneAndTheRingsBeginAnew) {
  const uint64_t a = key_at(kOther);
  load_record(a, "one");
  log(4, {with_value(key_at(kOther, 1), "v", 1)}, kOther);
  receiver_.drain();
  replicate_in_order(5, with_value(a, "three", 3), 1);
  ASSERT_TRUE(receiver_.has_deferred());
  receiver_.begin_view();
  EXPECT_FALSE(receiver_.has_deferred());
  EXPECT_FALSE(receiver_.step(0));
  EXPECT_EQ(value_of(a), "one");
  EXPECT_TRUE(receiver_.has_entries()) << "of the same view: its first entry would come again";
  for (LogRingWriter& writer : writers_) writer.begin();
  log(5, {with_value(key_at(kOther, 1), "w", 2)}, kOther, kSlot, ctx_.view().epoch.value + 1);
  EXPECT_FALSE(receiver_.has_entries()) << "the next view's is not this view's";
}

}  // namespace
}  // namespace weft
