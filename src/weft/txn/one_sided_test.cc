// The parts that use verbs, together: completions come to where they belong, and when a view ends nothing lands any
// more before the landed entries are taken (rule O3).
#include "weft/txn/one_sided.h"

#include "weft/txn/verb_testing.h"

namespace weft {
namespace {

class OneSidedTest : public VerbPartTest {
 protected:
  OneSidedTest() {
    one_.connect(reads_, keys_, parser_, participant_);
    reads_.set_verbs(&one_.reads());
    participant_.set_log(one_.log_receiver());
  }
  void run() {
    for (int i = 0; i < 8; ++i) {
      one_.verb_issuer().flush(ctx_.now_ns());
      one_.poll(coordinator_);
    }
  }
  // Writes what a peer's verbs would write into this worker's ring.
  void log_here(NodeId from, uint8_t slot, uint64_t sequence, const std::vector<Named>& keys) {
    const auto body = body_of(request(sequence), keys);
    std::vector<std::byte> entry(ring_entry_bytes(body.size()));
    std::copy(body.begin(), body.end(), entry.begin() + sizeof(RingHeader));
    RingHeader header{};
    header.epoch = ctx_.view().epoch.value;
    header.bytes = static_cast<uint32_t>(body.size());
    header.tag = body.tag | slot;
    ring_seal(entry.data(), header);
    std::copy(entry.begin(), entry.end(), ring_at(kSelf, from));
  }
  // A transaction that has read the peer's key and is about to commit a new value.
  TxnSlot& about_to_commit(uint64_t key, const std::string& value) {
    TxnSlot& slot = begin();
    Entry& e = read_entry(slot, key);
    EXPECT_EQ(keys_.write(slot, e, Write::kPut, value), Code::kOk);
    slot.done_upto = 1;
    return slot;
  }

  OneSided one_{ctx_,     rows_,     options_, *memory_[0], std::move(*LocationCache::create(1 << 16)),
                planner_, messages_, slots_};
  Coordinator coordinator_{ctx_, false, slots_, acks_, credit_, planner_, {messages_, nullptr, &one_.transport()}};
  Reads reads_{ctx_, ReadRules(), planner_, slots_, keys_, credit_, acks_, coordinator_};
};

TEST_F(OneSidedTest, ACommitGoesThroughByVerbsAlone) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = about_to_commit(a, "new");
  coordinator_.start_commit(slot);
  run();
  EXPECT_EQ(value_at(kPeer, a), "new");
  EXPECT_EQ(word_at(kPeer, a), Word(Version(2), kReadable));
  EXPECT_TRUE(slot.acknowledged);
  EXPECT_EQ(slot.outcome.code, Code::kOk);
  EXPECT_TRUE(answers().empty()) << "no processor but this one was needed";
  std::vector<std::byte> scratch(kRingBytes);
  for (const NodeId node : {kPeer, kOther}) {
    LogRingReader ring(ring_at(node, kSelf), kRingBytes);
    LogRingReader::Entry entry;
    ASSERT_TRUE(ring.next(ctx_.view().epoch.value, scratch.data(), &entry)) << "rule K2: every replica has the value";
    EXPECT_EQ(CommitRequest::of(kSelf, entry.tag, entry.body.data(), kNodes).sequence, slot.sequence);
  }
}

TEST_F(OneSidedTest, ACommitThatIsRefusedLeavesNothingBehind) {
  const uint64_t a = key_at(kPeer), b = key_at(kPeer, 1);
  load_at(kPeer, a, "old");
  load_at(kPeer, b, "old");
  TxnSlot& slot = about_to_commit(a, "new");
  Entry& second = read_entry(slot, b);
  EXPECT_EQ(keys_.write(slot, second, Write::kPut, "new"), Code::kOk);
  slot.done_upto = 2;
  load_at(kPeer, b, "newer");
  coordinator_.start_commit(slot);
  run();
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_TRUE(slot.acknowledged);
  EXPECT_EQ(word_at(kPeer, a), Word(Version(1), kReadable));
  EXPECT_EQ(word_at(kPeer, b), Word(Version(2), kReadable));
  EXPECT_EQ(load<RingHeader>(ring_at(kPeer, kSelf)).epoch, 0U) << "nothing was logged";
}

TEST_F(OneSidedTest, VerbCreditIsWhatTheOptionSaysOrTheFabricWants) {
  const auto limit = [](const char* text, const char* fabric) -> std::optional<uint32_t> {
    Options options;
    options.verb_credit = text;
    options.fabric = fabric;
    const auto credit = verb_credit_of(options);
    if (!credit) return UINT32_MAX;
    return *credit ? std::optional((*credit)->limit) : std::nullopt;
  };
  EXPECT_EQ(limit("", "verbs"), 0U) << "measured";
  for (const char* fabric : {"local", "shm", "tcp"}) EXPECT_EQ(limit("", fabric), std::nullopt);
  for (const char* fabric : {"local", "verbs"}) {
    EXPECT_EQ(limit("auto", fabric), 0U);
    EXPECT_EQ(limit("off", fabric), std::nullopt);
    EXPECT_EQ(limit("1", fabric), 1U);
    EXPECT_EQ(limit("4096", fabric), kVerbCreditMax);
    for (const char* bad : {"0", "4097", "-1", "on", "8x", " 8", "99999999999"}) {
      EXPECT_EQ(limit(bad, fabric), UINT32_MAX) << bad;
    }
  }
  EXPECT_EQ(one_.credit(), nullptr);
}

TEST_F(OneSidedTest, AnAnswerToAReadComesToTheReads) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  TxnSlot& first = begin();
  const RemoteIndexAddress index = table_at(kPeer).index_address();
  one_.reads().remember_location(*keys_.find_or_add(first, kTable, a), kPeer, {0, index.offset, index.bins});
  TxnSlot& slot = begin();
  const ReadHandle handle = reads_.get_async(slot, kTable, a, Intent::kRead);
  EXPECT_EQ(handle.index, 0U);
  run();
  EXPECT_TRUE(slot.entry(0).done && slot.entry(0).found);
  EXPECT_EQ(slot.reads_pending, 0U);
}

TEST_F(OneSidedTest, PollTakesWhatIsInTheRings) {
  const uint64_t a = key_at(kOther);
  EXPECT_TRUE(one_.idle());
  log_here(kPeer, 3, 5, {with_value(a, "v", 1)});
  EXPECT_FALSE(one_.idle());
  one_.poll(coordinator_);
  EXPECT_TRUE(one_.idle());
  EXPECT_EQ(records_.at(kPeer, 3).sequence, 5U);
}

TEST_F(OneSidedTest, WhatWaitsForWhatItFollowsIsNotIdle) {
  const uint64_t a = key_at(kOther);
  load_record(a, "one");
  Named put = with_value(a, "three", 3);
  put.part.flags |= kOrdered;
  put.part.predecessor_delta = 1;
  const auto body = body_of(request(5), {put});
  Message m = message(Kind::kReplicate, 3, body);
  ASSERT_TRUE(parse(m));
  participant_.on_replicate(batch_, {&m, 1});
  EXPECT_FALSE(one_.idle());
}

TEST_F(OneSidedTest, WhenAViewEndsNoPeersVerbLandsAndNoAnswerComes) {  // rule O3
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = about_to_commit(a, "new");
  coordinator_.start_commit(slot);
  EXPECT_TRUE(one_.verb_issuer().pending());
  EXPECT_TRUE(one_.stop_access(Epoch(2)));
  one_.stop();
  for (uint8_t n = 0; n < kNodes; ++n) EXPECT_FALSE(regions_[kSelf.value].granted(NodeId(n), Domain::kEngine));
  run();
  EXPECT_EQ(word_at(kPeer, a), Word(Version(1), kReadable)) << "what had not left does not leave";
  EXPECT_FALSE(slot.entry(0).verb_locked);
  EXPECT_FALSE(slot.acknowledged);
  EXPECT_EQ(one_.verb_issuer().in_flight_count(), 0U);
}

TEST_F(OneSidedTest, WhatHasLandedIsTakenBeforeTheRingsBeginAnew) {  // rule O3
  const uint64_t a = key_at(kOther);
  log_here(kPeer, 3, 5, {with_value(a, "v", 1)});
  EXPECT_TRUE(one_.stop_access(Epoch(2)));
  one_.stop();
  one_.finish_view();
  EXPECT_EQ(records_.at(kPeer, 3).sequence, 5U);
  EXPECT_EQ(records_.at(kPeer, 3).state, kReplicated);
}

TEST_F(OneSidedTest, RowsThatLogByVerbsHaveAWriterAndAReceiver) {
  EXPECT_NE(one_.log_writer(), nullptr);
  EXPECT_NE(one_.log_receiver(), nullptr);
}

}  // namespace
}  // namespace weft
