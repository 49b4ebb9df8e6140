// Log entries that go into other nodes' rings: they say what a Replicate message would, in the space that was reserved.
#include "weft/txn/log_writer.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/txn/verb_testing.h"

namespace weft {
namespace {

class LogWriterTest : public VerbPartTest {
 protected:
  static constexpr NodeSet kPeers = node_set({1, 2});

  // A transaction that replicates one put to these nodes.
  TxnSlot& writes_to(NodeSet nodes, size_t bytes = 8) {
    TxnSlot& slot = begin();
    Entry& e = *keys_.find_or_add(slot, kTable, key_at(kPeer));
    value_ = std::string(bytes, 'v');
    EXPECT_EQ(keys_.write(slot, e, Write::kPut, value_), Code::kOk);
    e.base = Version(4);
    e.at[index_of(Phase::kReplicate)] = nodes;
    slot.steps[index_of(Phase::kReplicate)].send_to = nodes;
    slot.participants = nodes;
    slot.writes = 1;
    return slot;
  }
  // The slot is no longer in use.
  void end(TxnSlot& slot) {
    slot.participants = {};
    slot.ring_bytes = 0;
    slot.stage = TxnStage::kFinished;
    slots_.detach(slot);
    slots_.free_if_done(slot);
  }
  void step() {
    issuer_->flush(0);
    issuer_->poll(
        0, [](void* to, VerbRequest&) { ++*static_cast<int*>(to); }, &answered_);
  }
  void write(TxnSlot& slot) {
    writer_->plan(slot);
    writer_->reserve(slot);
    for (const NodeId node : slot.ring_nodes) writer_->post(slot, node);
    slot.ring_bytes = 0;
    step();
  }
  void say_read(NodeId from, uint64_t position) {
    std::vector<std::byte> body(sizeof(RingRead));
    store(body.data(), RingRead{position});
    Message m = message(Kind::kRingRead, 0, body, from);
    ASSERT_TRUE(writer_->parse(m));
    batch_.begin();
    batch_.note(m, 0, true);
    writer_->on_ring_read(batch_, {&m, 1});
  }
  bool next(NodeId at) { return readers_[at.value].next(ctx_.view().epoch.value, scratch_.data(), &entry_); }
  // How many transactions of this size fit into the peer's ring.
  int fill(size_t bytes) {
    int count = 0;
    for (;; ++count) {
      TxnSlot& slot = writes_to(node_set({1}), bytes);
      write(slot);
      const bool by_ring = !slot.ring_nodes.empty();
      end(slot);
      if (!by_ring) return count;
    }
  }

  uint64_t entry_sequence() const { return CommitRequest::of(kSelf, entry_.tag, entry_.body.data(), kNodes).sequence; }

  std::array<LogRingReader, kNodes> readers_{LogRingReader(ring_at(NodeId(0), kSelf), kRingBytes),
                                             LogRingReader(ring_at(NodeId(1), kSelf), kRingBytes),
                                             LogRingReader(ring_at(NodeId(2), kSelf), kRingBytes)};
  LogRingReader::Entry entry_{};
  std::vector<std::byte> scratch_ = std::vector<std::byte>(kRingBytes);
  std::string value_;
  int answered_ = 0;
};

TEST_F(LogWriterTest, AnEntryIsWhatAReplicateMessageWouldSay) {
  TxnSlot& slot = writes_to(kPeers);
  write(slot);
  EXPECT_EQ(answered_, 2) << "that it is written is the acknowledgement";
  EXPECT_EQ(slot.verbs_pending, 2U);
  for (const NodeId node : {kPeer, kOther}) {
    ASSERT_TRUE(next(node));
    EXPECT_EQ(entry_.tag, messages_.tag(slot));
    EXPECT_EQ(static_cast<uint8_t>(entry_.tag), slot.index);
    std::vector<std::byte> said(messages_.phase_bytes(slot, Phase::kReplicate, node));
    messages_.encode_phase(said.data(), slot, Phase::kReplicate, node);
    EXPECT_EQ(as_text(entry_.body), as_text(said));
    EXPECT_FALSE(next(node));
  }
}

TEST_F(LogWriterTest, EntriesLandInThisWritersRingAlone) {
  TxnSlot& slot = writes_to(node_set({1}));
  write(slot);
  EXPECT_NE(load<RingHeader>(ring_at(kPeer, kSelf)).epoch, 0U);
  for (const NodeId writer : {kPeer, kOther}) {
    const std::vector<std::byte> ring(ring_at(kPeer, writer), ring_at(kPeer, writer) + kRingBytes);
    EXPECT_EQ(ring, std::vector<std::byte>(kRingBytes));
  }
  EXPECT_FALSE(next(kOther));
}

TEST_F(LogWriterTest, AnEntryIsOneOfThePresentViewOnly) {
  TxnSlot& slot = writes_to(node_set({1}));
  write(slot);
  EXPECT_FALSE(readers_[1].next(ctx_.view().epoch.value + 1, scratch_.data(), &entry_));
  EXPECT_TRUE(next(kPeer));
}

TEST_F(LogWriterTest, ThisNodeAndKeysInOrderGoByMessage) {
  TxnSlot& slot = writes_to(node_set({0, 1, 2}));
  writer_->plan(slot);
  EXPECT_EQ(slot.ring_nodes, kPeers);
  EXPECT_EQ(ctx_.counters.logs_by_message, 0U) << "the own node costs no message";
  slot.entry(0).at[index_of(Phase::kReplicate)] = node_set({1});
  slot.entry(0).flags = kOrdered;
  writer_->plan(slot);
  EXPECT_EQ(slot.ring_nodes, node_set({2}));
  EXPECT_EQ(ctx_.counters.logs_by_message, 1U);
  EXPECT_EQ(slot.ring_bytes, 0U);
}

TEST_F(LogWriterTest, WhatThePlanNeedsIsEnoughForTheEntry) {
  for (size_t bytes = 0; bytes <= 64; ++bytes) {
    TxnSlot& slot = writes_to(node_set({1}), bytes);
    writer_->plan(slot);
    EXPECT_GE(slot.need_ring, ring_entry_bytes(messages_.phase_bytes(slot, Phase::kReplicate, kPeer)));
    EXPECT_EQ(slot.need_ring % kRingAlign, 0U);
    end(slot);
  }
}

TEST_F(LogWriterTest, WhereThereIsNoRoomAMessageGoes) {  // rule K3
  EXPECT_GT(fill(64), 4);
  TxnSlot& slot = writes_to(kPeers, 64);
  ctx_.counters.logs_by_message = 0;
  writer_->plan(slot);
  writer_->reserve(slot);
  EXPECT_EQ(slot.ring_nodes, node_set({2})) << "the other ring has room";
  EXPECT_EQ(ctx_.counters.logs_by_message, 1U);
}

TEST_F(LogWriterTest, WhatIsGivenBackIsThereForTheNext) {
  const auto reserve_until_full = [&] {
    size_t count = 0;
    for (TxnSlot& slot = writes_to(node_set({1}), 64);; ++count) {
      writer_->plan(slot);
      writer_->reserve(slot);
      if (slot.ring_nodes.empty()) {
        end(slot);
        return count;
      }
      slot.ring_bytes = 0;  // forgotten, so that the space stays reserved
    }
  };
  TxnSlot& first = writes_to(node_set({1}), 64);
  writer_->plan(first);
  writer_->reserve(first);
  EXPECT_EQ(first.ring_bytes, first.need_ring);
  EXPECT_GT(reserve_until_full(), 2U);
  EXPECT_EQ(reserve_until_full(), 0U);
  writer_->give_back(first);
  EXPECT_EQ(first.ring_bytes, 0U);
  EXPECT_EQ(reserve_until_full(), 1U);
}

TEST_F(LogWriterTest, WhatIsReadIsWrittenAgainAndEntriesDoNotWrap) {
  int entries = 0;
  for (int round = 0; round < 200; ++round) {
    TxnSlot& slot = writes_to(node_set({1}), static_cast<size_t>(round) % 65);
    write(slot);
    ASSERT_NE(slot.ring_nodes, NodeSet{}) << round;
    ASSERT_TRUE(next(kPeer)) << round;
    EXPECT_EQ(entry_sequence(), slot.sequence);
    say_read(kPeer, readers_[1].position());
    ++entries;
    end(slot);
  }
  EXPECT_EQ(entries, 200);
  EXPECT_GT(readers_[1].position(), 4 * kRingBytes) << "several laps";
  EXPECT_TRUE(take_faults().empty());
}

TEST_F(LogWriterTest, AReaderThatSaysMoreThanWasWrittenIsReported) {
  TxnSlot& slot = writes_to(node_set({1}));
  write(slot);
  ASSERT_TRUE(next(kPeer));
  const uint64_t written = readers_[1].position();
  for (const uint64_t position : {written + 32, UINT64_MAX}) {
    say_read(kPeer, position);
    EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
  }
  say_read(kOther, 32);
  EXPECT_EQ(take_faults(), (std::vector<NodeId>{kOther})) << "nothing was written there";
  say_read(kPeer, written);
  EXPECT_TRUE(take_faults().empty());
  say_read(kPeer, 0);
  EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer})) << "it goes back";
}

TEST_F(LogWriterTest, WhatAReaderSaysIsOneNumber) {
  for (const size_t bytes : {size_t{0}, size_t{4}, size_t{7}, size_t{9}, size_t{16}}) {
    const std::vector<std::byte> body(bytes);
    EXPECT_FALSE(writer_->parse(message(Kind::kRingRead, 0, body)));
  }
}

TEST_F(LogWriterTest, EveryViewBeginsWithEmptyRings) {
  EXPECT_GT(fill(64), 0);
  writer_->begin_view();
  readers_[1].begin();
  TxnSlot& slot = writes_to(node_set({1}), 64);
  write(slot);
  ASSERT_NE(slot.ring_nodes, NodeSet{});
  ASSERT_TRUE(next(kPeer));
  EXPECT_EQ(entry_sequence(), slot.sequence) << "from the beginning of the ring";
}

TEST_F(LogWriterTest, PaddingIsNeverWhatWasThereBefore) {
  for (int i = 0; i < 4; ++i) {
    TxnSlot& slot = writes_to(node_set({1}), i % 2 == 0 ? 64 : 1);
    write(slot);
    const uint64_t from = readers_[1].position();
    ASSERT_TRUE(next(kPeer));
    const std::byte* const ring = ring_at(kPeer, kSelf);
    for (uint64_t at = from + sizeof(RingHeader) + entry_.body.size(); at < readers_[1].position(); ++at) {
      EXPECT_EQ(ring[at], std::byte{0});
    }
    end(slot);
  }
}

}  // namespace
}  // namespace weft
