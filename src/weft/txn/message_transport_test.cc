// A phase is one message for each node that takes part in it, and says what the plan says.
#include "weft/txn/message_transport.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/txn/commit_testing.h"
#include "weft/txn/key_part.h"

namespace weft {
namespace {

class MessageTransportTest : public CommitTest {
 protected:
  explicit MessageTransportTest(std::string_view row = "dnl4") : CommitTest(row) {}

  // A parsed message of a commit.
  struct Taken {
    CommitRequest request;
    std::vector<KeyPart> keys;
    std::vector<std::string> values;
  };
  Taken take_apart(const Received& one) {
    Taken out{one.request(), {}, {}};
    const std::byte* at = one.body.data() + CommitRequest::bytes(kNodes);
    const std::byte* const end = one.body.data() + one.body.size();
    KeyPartView view{};
    while (at != end && take_key(&at, end, &view)) {
      out.keys.push_back(view.part);
      out.values.emplace_back(as_text(view.value));
    }
    EXPECT_EQ(at, end) << "nothing is left";
    return out;
  }
  void plan(TxnSlot& slot) {
    slot.stage = TxnStage::kCommitting;
    slot.participants = planner_.plan(slot);
  }
  // Sends one phase as it was planned, and returns what was received.
  std::vector<Received> send(const TxnSlot& slot, Phase phase) {
    messages_.send(slot, phase, slot.steps[index_of(phase)].send_to);
    deliver();
    return take_received();
  }
};

TEST_F(MessageTransportTest, APhaseIsOneMessageForEachOfItsNodes) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "a");
  put(slot, key_at(kOne, 1), "bb");
  put(slot, key_at(kTwo), "ccc");
  plan(slot);
  const std::vector<Received> got = send(slot, Phase::kLock);
  ASSERT_EQ(got.size(), 2U);
  for (const Received& one : got) {
    EXPECT_EQ(one.kind, Kind::kLock);
    EXPECT_EQ(one.slot(), slot.index);
    EXPECT_EQ(one.tag, messages_.tag(slot));
    EXPECT_EQ(one.body.size(), messages_.phase_bytes(slot, Phase::kLock, one.at));
    EXPECT_EQ(take_apart(one).keys.size(), one.at == kOne ? 2U : 1U);
  }
  EXPECT_EQ(ctx_.counters.phase_messages[index_of(Phase::kLock)], 2U);
}

TEST_F(MessageTransportTest, AMessageSaysWhichTransactionItBelongsTo) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "a");
  plan(slot);
  const CommitRequest request = take_apart(send(slot, Phase::kLock).at(0)).request;
  EXPECT_EQ(request.sequence, slot.sequence);
  EXPECT_EQ(request.slot, slot.index);
  EXPECT_EQ(request.participants, node_set({1, 2}));
  EXPECT_EQ(request.writes, 1);
  EXPECT_EQ(request.flags, slot.flags | kCommits);
  slot.flags |= kPiggybackAck;
  slot.stage = TxnStage::kAborting;
  EXPECT_EQ(take_apart(send(slot, Phase::kLock).at(0)).request.flags, slot.flags) << "an abort";
}

TEST_F(MessageTransportTest, WhoOnlyFillsIsNotNamedAsAParticipant) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "a");
  plan(slot);
  slot.nonvoting_nodes = node_set({2});
  EXPECT_EQ(take_apart(send(slot, Phase::kLock).at(0)).request.participants, node_set({1}));
}

TEST_F(MessageTransportTest, ALockBringsTheVersionThatWasReadAndTheValue) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "a value");
  Entry& e = slot.entry(0);
  e.read = e.found = true;
  e.version = Version(5);
  plan(slot);
  const Taken got = take_apart(send(slot, Phase::kLock).at(0));
  EXPECT_EQ(got.keys.at(0).version, 5U);
  EXPECT_EQ(got.keys[0].flags, kHasVersion | kHasValue);
  EXPECT_EQ(got.keys[0].write, static_cast<uint8_t>(Write::kPut));
  EXPECT_EQ(got.values.at(0), "a value");
}

TEST_F(MessageTransportTest, ALockOfAKeyThatWasNotReadExpectsNoVersion) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "v");
  plan(slot);
  EXPECT_EQ(take_apart(send(slot, Phase::kLock).at(0)).keys.at(0).flags & kHasVersion, 0);
}

TEST_F(MessageTransportTest, ReplicationBringsTheVersionAfterTheLocks) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "v");
  plan(slot);
  slot.entry(0).base = Version(8);
  const std::vector<Received> got = send(slot, Phase::kReplicate);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, kTwo) << "the lock brought it to the primary";
  const Taken taken = take_apart(got[0]);
  EXPECT_EQ(taken.keys.at(0).version, 9U);
  EXPECT_EQ(taken.values.at(0), "v");
}

// The next version would be one that no record can have. Primaries do not lock that to be written.
TEST_F(MessageTransportTest, AWriteAfterTheLastVersionFails) {
  for (const uint64_t base : {kVersionMax - 1, kVersionMax}) {
    for (const bool writes : {true, false}) {
      TxnSlot& slot = begin();
      put(slot, key_at(kOne), "v");
      plan(slot);
      if (!writes) slot.entry(0).write = Write::kNone;
      PhaseResult result;
      result.versions = {&base, 1};
      MessageTransport::take_lock_versions(slot, kOne, result);
      EXPECT_EQ(slot.outcome.code, writes && base == kVersionMax ? Code::kVersionLimit : Code::kOk);
      EXPECT_EQ(slot.entry(0).base, Version(base));
    }
  }
}

TEST_F(MessageTransportTest, ValidationNamesWhatWasOnlyRead) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "v");
  Entry& e = *keys_.find_or_add(slot, kTable, key_at(kTwo));
  e.read = e.done = e.found = true;
  e.version = Version(3);
  plan(slot);
  const std::vector<Received> got = send(slot, Phase::kValidate);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, kTwo);
  const Taken taken = take_apart(got[0]);
  EXPECT_EQ(taken.keys.at(0).version, 3U);
  EXPECT_EQ(taken.keys[0].index, 1) << "its place in the transaction";
  EXPECT_EQ(taken.keys[0].flags, kHasVersion);
}

TEST_F(MessageTransportTest, AnEraseCarriesNoValue) {
  TxnSlot& slot = begin();
  ASSERT_EQ(reads_.write(slot, kTable, key_at(kOne), Write::kErase, {}), Code::kOk);
  plan(slot);
  for (const Phase phase : {Phase::kLock, Phase::kReplicate}) {
    const Taken got = take_apart(send(slot, phase).at(0));
    EXPECT_EQ(got.keys.at(0).flags & kHasValue, 0);
    EXPECT_EQ(got.keys[0].value_bytes, 0U);
  }
}

TEST_F(MessageTransportTest, AnUnlockThatAbortsNamesNoKeys) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "v");
  plan(slot);
  slot.entry(0).at[index_of(Phase::kUnlock)] = node_set({1});
  slot.stage = TxnStage::kAborting;
  messages_.send(slot, Phase::kUnlock, node_set({1}));
  deliver();
  const Taken got = take_apart(take_received().at(0));
  EXPECT_FALSE(got.request.commits());
  EXPECT_TRUE(got.keys.empty());
}

TEST_F(MessageTransportTest, MessagesToTheNodeItselfAreNotCounted) {
  TxnSlot& slot = begin();
  put(slot, key_at(kSelf), "v");
  plan(slot);
  messages_.send(slot, Phase::kLock, node_set({0}));
  EXPECT_EQ(ctx_.counters.phase_messages[index_of(Phase::kLock)], 0U);
}

TEST_F(MessageTransportTest, NothingGoesToWhoHasNoPart) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "v");
  plan(slot);
  EXPECT_DEATH(messages_.send(slot, Phase::kLock, node_set({0})), "its participants only");
  EXPECT_DEATH(messages_.send(slot, Phase::kExecute, node_set({1})), "has these phases");
}

class MessageTransportDnl2Test : public MessageTransportTest {
 protected:
  MessageTransportDnl2Test() : MessageTransportTest("dnl2") {}
};

TEST_F(MessageTransportDnl2Test, WhereTheLockBringsNoValueReplicationBringsItToThePrimaryToo) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "v");
  plan(slot);
  const Taken lock = take_apart(send(slot, Phase::kLock).at(0));
  EXPECT_EQ(lock.keys.at(0).flags & kHasValue, 0);
  EXPECT_EQ(lock.keys[0].value_bytes, 1U) << "its size is said all the same";
  const std::vector<Received> got = send(slot, Phase::kReplicate);
  ASSERT_EQ(got.size(), 2U);
  for (const Received& one : got) EXPECT_EQ(take_apart(one).values.at(0), "v");
}

TEST_F(MessageTransportDnl2Test, ALockTakenWhileReadingIsNamedAsHeld) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "v");
  plan(slot);
  slot.entry(0).locked = true;
  EXPECT_NE(take_apart(send(slot, Phase::kLock).at(0)).keys.at(0).flags & kHeld, 0);
}

TEST_F(MessageTransportDnl2Test, WhatIsAppliedInOrderSaysWhatItFollows) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "v");
  ASSERT_EQ(reads_.write(slot, kTable, key_at(kOne, 1), Write::kErase, {}), Code::kOk);
  plan(slot);
  for (int i = 0; i < 2; ++i) {
    slot.entry(i).flags = kOrdered;
    slot.entry(i).base = Version(9);
  }
  slot.entry(1).replaced = Version(7);
  const Taken got = take_apart(send(slot, Phase::kReplicate).at(0));
  EXPECT_EQ(got.keys.at(0).predecessor_delta, 1U);
  EXPECT_EQ(got.keys.at(1).predecessor_delta, 3U) << "10 follows 7";
  EXPECT_NE(got.keys[0].flags & kOrdered, 0);
}

}  // namespace
}  // namespace weft
