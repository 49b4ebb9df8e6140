// A replica that is catching up requests copies from the primary, chunk by chunk, and says that it has everything when
// all have come.
#include "weft/txn/state_transfer.h"

#include <string>
#include <vector>

#include "weft/txn/part_testing.h"

namespace weft {
namespace {

// As on the wire (state_transfer.cc).
struct TransferBytes {
  uint64_t cursor;
  uint64_t version;
  uint32_t epoch;
  uint16_t partition;
  uint16_t table;
  uint32_t key_bytes;
  uint8_t step;
  uint8_t unused[3];
  uint32_t value_bytes;
  uint32_t question;
};
static_assert(sizeof(TransferBytes) == 40);
enum TransferStep : uint8_t { kTransferAsk, kTransferWords, kTransferRecord, kTransferNext };
constexpr uint64_t kTransferRecords = uint64_t{1} << 63;

class StateTransferTest : public PartTest {
 protected:
  static constexpr NodeId kPrimary{1};
  static constexpr NodeId kOther{2};

  explicit StateTransferTest(Limits limits = Limits()) : PartTest(limits) {}

  // This node is catching up on the key's partition, whose primary is node 1.
  void catch_up() {
    enter(catching_up_view(partition_, kPrimary, kSelf));
    transfer_.on_view_active();
  }
  // This node is the primary, and node 2 is catching up.
  void serve() { enter(catching_up_view(partition_, kSelf, kOther)); }

  TransferBytes message(uint8_t step, uint64_t cursor = 0) const {
    TransferBytes m{};
    m.cursor = cursor;
    m.epoch = ctx_.view().epoch.value;
    m.partition = partition_.value;
    m.step = step;
    m.question = 1;
    return m;
  }
  bool hear(const TransferBytes& m, ByteView rest = {}, NodeId from = kPrimary) {
    return hand_over<&StateTransfer::parse, &StateTransfer::on_message>(transfer_, from, Kind::kTransfer,
                                                                        bytes_with(m, rest));
  }
  std::vector<std::byte> record_bytes(uint64_t key, const std::string& value) const {
    std::vector<std::byte> rest(sizeof key + padded(value.size()));
    store(rest.data(), key);
    std::memcpy(rest.data() + sizeof key, value.data(), value.size());
    return rest;
  }
  bool hear_record(uint64_t key, const std::string& value, uint64_t version, NodeId from = kPrimary) {
    TransferBytes m = message(kTransferRecord, kTransferRecords);
    m.version = version;
    m.key_bytes = 8;
    m.value_bytes = static_cast<uint32_t>(value.size());
    return hear(m, record_bytes(key, value), from);
  }
  bool caught_up() const { return transfer_.caught_up_in(ctx_.view().epoch); }
  // The requests that the primary has received.
  std::vector<TransferBytes> questions() {
    deliver();
    std::vector<TransferBytes> out;
    for (const Received& r : take_received()) {
      EXPECT_EQ(r.at, kPrimary);
      EXPECT_EQ(r.kind, Kind::kTransfer);
      out.push_back(r.as<TransferBytes>());
    }
    return out;
  }

  const uint64_t key_ = key_at(kSelf);
  const PartitionId partition_ = hashed(key_).partition;
  StateTransfer transfer_{ctx_};
};

TEST_F(StateTransferTest, WhoFillsNothingIsWholeAtOnce) {
  EXPECT_FALSE(caught_up());
  transfer_.on_view_active();
  EXPECT_TRUE(caught_up());
  EXPECT_FALSE(transfer_.caught_up_in(Epoch(2))) << "in that view";
  EXPECT_FALSE(transfer_.step(0));
  EXPECT_EQ(transfer_.deadline_ns(), UINT64_MAX);
}

TEST_F(StateTransferTest, AsksThePrimaryForTheAbsenceWordsFirst) {
  catch_up();
  EXPECT_FALSE(caught_up());
  EXPECT_TRUE(transfer_.step(1000));
  const std::vector<TransferBytes> asked = questions();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].step, kTransferAsk);
  EXPECT_EQ(asked[0].cursor, 0U);
  EXPECT_EQ(asked[0].epoch, ctx_.view().epoch.value);
  EXPECT_EQ(asked[0].partition, partition_.value);
  EXPECT_EQ(asked[0].table, kTable.value);
}

TEST_F(StateTransferTest, HasOneQuestionOpenAndAsksAgainLaterEachTime) {
  catch_up();
  transfer_.step(0);
  const uint64_t due = transfer_.deadline_ns();
  EXPECT_FALSE(transfer_.step(due - 1));
  EXPECT_TRUE(transfer_.step(due));
  EXPECT_EQ(transfer_.deadline_ns(), due + 2 * due);
  EXPECT_EQ(questions().size(), 2U);
}

// Over a slow connection a node that asks again before the answer can be there gets every answer twice, behind the copy
// of the one before (seed 1 of `weft sim --workload tpcc`).
TEST_F(StateTransferTest, ASlowAnswerMakesItWaitLongerForTheNext) {
  catch_up();
  transfer_.step(1000);
  const uint64_t least = transfer_.deadline_ns() - 1000;
  const uint64_t slow = 5 * least;
  TransferBytes answer = message(kTransferNext);
  uint64_t now = 1000;
  uint32_t asked = 1;
  for (const uint64_t end = now + slow; transfer_.deadline_ns() < end; ++asked) {
    now = transfer_.deadline_ns();
    ASSERT_TRUE(transfer_.step(now));
  }
  ASSERT_EQ(asked, 3U);
  const auto answered = [&](uint32_t question, uint64_t after_ns) {
    answer.cursor = question;
    answer.question = question;
    ASSERT_TRUE(hear(answer));
    now += after_ns;
    ASSERT_TRUE(transfer_.step(now));
    ++asked;
  };
  now = 1000;
  answered(1, slow);  // the answer to the first of three questions
  EXPECT_EQ(transfer_.deadline_ns(), now + 2 * slow);
  answered(asked, slow);
  EXPECT_EQ(transfer_.deadline_ns(), now + 2 * slow) << "as long as they are slow";
  for (int i = 0; i < 10; ++i) answered(asked, 1);
  EXPECT_EQ(transfer_.deadline_ns(), now + least) << "when they are fast again";
}

// Otherwise it would wait twice as long after each answer that is lost.
TEST_F(StateTransferTest, AnAnswerToTheLastQuestionTookNoLongerThanSinceThen) {
  catch_up();
  transfer_.step(1000);
  const uint64_t least = transfer_.deadline_ns() - 1000;
  TransferBytes answer = message(kTransferNext);
  for (answer.question = 2; answer.question < 20; answer.question += 2) {
    const uint64_t again = transfer_.deadline_ns();
    ASSERT_TRUE(transfer_.step(again));
    answer.cursor = answer.question;
    ASSERT_TRUE(hear(answer));
    ASSERT_TRUE(transfer_.step(again + 1));
    EXPECT_EQ(transfer_.deadline_ns(), again + 1 + least);
  }
}

TEST_F(StateTransferTest, AViewThatComesLaterDoesNotMakeItWait) {
  catch_up();
  transfer_.step(1000);
  const uint64_t least = transfer_.deadline_ns() - 1000;
  hear(message(kTransferNext));
  ASSERT_TRUE(caught_up());
  catch_up();
  const uint64_t much_later = 1'000'000 * least;
  ASSERT_TRUE(transfer_.step(much_later));
  EXPECT_EQ(transfer_.deadline_ns(), much_later + least);
}

TEST_F(StateTransferTest, GoesOnWhereTheAnswerSaysAndEndsWithTheLast) {
  catch_up();
  transfer_.step(0);
  EXPECT_TRUE(hear(message(kTransferNext, 17)));
  EXPECT_FALSE(caught_up());
  EXPECT_TRUE(transfer_.step(1)) << "at once";
  const std::vector<TransferBytes> asked = questions();
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[1].cursor, 17U);
  TransferBytes last = message(kTransferNext, 0);
  last.question = 2;
  EXPECT_TRUE(hear(last));
  EXPECT_TRUE(caught_up());
  EXPECT_FALSE(transfer_.step(2));
}

TEST_F(StateTransferTest, AnAnswerToAnEarlierPlaceDoesNotMoveIt) {
  catch_up();
  transfer_.step(0);
  hear(message(kTransferNext, 17));
  hear(message(kTransferNext, 0));
  EXPECT_FALSE(caught_up()) << "nothing was asked";
  transfer_.step(1);
  hear(message(kTransferNext, 0));
  EXPECT_FALSE(caught_up()) << "that is the answer to the first question";
}

TEST_F(StateTransferTest, WhicheverAnswerToARepeatedQuestionComesFirstCounts) {
  catch_up();
  transfer_.step(0);
  transfer_.step(transfer_.deadline_ns());
  hear(message(kTransferNext, 0));
  EXPECT_TRUE(caught_up());
}

TEST_F(StateTransferTest, AnAnswerToAQuestionThatWasNotAskedIsIgnored) {
  catch_up();
  transfer_.step(0);
  for (const uint32_t question : {0U, 2U, UINT32_MAX}) {
    TransferBytes m = message(kTransferNext, 0);
    m.question = question;
    EXPECT_TRUE(hear(m));
    EXPECT_FALSE(caught_up()) << question;
  }
}

TEST_F(StateTransferTest, InstallsACopyUnlessSomethingNewerIsThere) {
  catch_up();
  EXPECT_TRUE(hear_record(key_, "copy", 5));
  EXPECT_EQ(value_of(key_), "copy");
  EXPECT_EQ(word_of(key_).version(), Version(5));
  hear_record(key_, "older", 4);
  EXPECT_EQ(value_of(key_), "copy");
  hear_record(key_, "newer", 6);
  EXPECT_EQ(value_of(key_), "newer");
}

TEST_F(StateTransferTest, ACopyThatComesAfterADeleteBringsNothingBack) {
  catch_up();
  table().install_if_newer(hashed(key_), Write::kErase, {}, Version(9), ctx_.scratch.data());
  hear_record(key_, "copy", 5);
  EXPECT_EQ(value_of(key_), "(absent)");
}

TEST_F(StateTransferTest, AbsenceWordsAreRaisedAndThoseThatDoNotExistIgnored) {
  catch_up();
  const uint32_t words = table().absence_words();
  ASSERT_GE(words, 2U);
  const std::vector<uint64_t> versions{30, 31, 32};
  hear(message(kTransferWords, words - 2), std::as_bytes(std::span(versions)));
  EXPECT_EQ(table().absence_version(partition_, words - 2), Version(30));
  EXPECT_EQ(table().absence_version(partition_, words - 1), Version(31));
  hear(message(kTransferWords, UINT64_MAX), std::as_bytes(std::span(versions)));
  EXPECT_EQ(table().absence_version(partition_, words - 1), Version(31));
}

TEST_F(StateTransferTest, OnlyThePrimaryIsBelieved) {
  catch_up();
  transfer_.step(0);
  hear_record(key_, "copy", 5, kOther);
  EXPECT_EQ(value_of(key_), "(absent)");
  hear(message(kTransferNext, 0), {}, kOther);
  EXPECT_FALSE(caught_up());
}

TEST_F(StateTransferTest, WhatIsOfAnotherEpochPartitionOrKeyChangesNothing) {
  catch_up();
  transfer_.step(0);
  TransferBytes m = message(kTransferNext, 0);
  --m.epoch;
  EXPECT_TRUE(hear(m));
  m = message(kTransferNext, 0);
  m.partition = static_cast<uint16_t>((partition_.value + 1) % 3);
  EXPECT_TRUE(hear(m));
  EXPECT_FALSE(caught_up());
  const uint64_t foreign = key_at(NodeId(2));
  ASSERT_NE(hashed(foreign).partition, partition_);
  EXPECT_TRUE(hear_record(foreign, "copy", 5));
  EXPECT_EQ(value_of(foreign), "(absent)");
}

TEST_F(StateTransferTest, WhoFillsNothingTakesNothing) {
  enter(catching_up_view(partition_, kPrimary, kOther));
  transfer_.on_view_active();
  hear_record(key_, "copy", 5);
  EXPECT_EQ(value_of(key_), "(absent)");
}

TEST_F(StateTransferTest, WhatIsMalformedIsRefusedAndChangesNothing) {
  catch_up();
  transfer_.step(0);
  const auto refused = [&](const TransferBytes& m, ByteView rest, const char* what) {
    EXPECT_FALSE(hear(m, rest)) << what;
    EXPECT_EQ(value_of(key_), "(absent)") << what;
    EXPECT_FALSE(caught_up()) << what;
  };
  const std::vector<std::byte> rest = record_bytes(key_, "copy");
  TransferBytes good = message(kTransferRecord);
  good.version = 5;
  good.key_bytes = 8;
  good.value_bytes = 4;
  TransferBytes m = good;
  m.step = kTransferNext + 1;
  refused(m, rest, "step");
  m = good;
  m.table = 1;
  refused(m, rest, "table");
  m = good;
  m.partition = 3;
  refused(m, rest, "partition");
  m = good;
  m.key_bytes = 7;
  refused(m, rest, "an integer key");
  m = good;
  m.value_bytes = 65;
  refused(m, std::vector<std::byte>(8 + 72), "a value that is too large");
  m = good;
  m.version = kVersionMax + 1;
  refused(m, rest, "a version that no record has");
  const uint64_t words[] = {1, kVersionMax + 1};
  refused(message(kTransferWords), std::as_bytes(std::span(words)), "a version that no word has");
  EXPECT_EQ(table().absence_version(partition_, 0), Version(0));
  refused(good, ByteView(rest).subspan(0, rest.size() - 8), "too short");
  refused(good, {}, "nothing");
  refused(message(kTransferNext, 0), rest, "more than a header");
  refused(message(kTransferWords), ByteView(rest).subspan(0, 4), "half a word");
  const std::vector<std::byte> half(sizeof(TransferBytes) - 1);
  EXPECT_FALSE(
      (hand_over<&StateTransfer::parse, &StateTransfer::on_message>(transfer_, kPrimary, Kind::kTransfer, half)));
  EXPECT_TRUE(hear(good, rest)) << "and this one is whole";
  EXPECT_EQ(value_of(key_), "copy");
}

TEST_F(StateTransferTest, AViewChangeBeginsTheCopyingAgain) {
  catch_up();
  transfer_.step(0);
  hear(message(kTransferNext, 17));
  View next = ctx_.view();
  ++next.epoch.value;
  enter(next, false);
  EXPECT_FALSE(transfer_.step(1)) << "not while it recovers";
  ctx_.views.activate(next.epoch.value);
  transfer_.on_view_active();
  EXPECT_FALSE(caught_up());
  transfer_.step(2);
  EXPECT_EQ(questions().back().cursor, 0U);
}

TEST_F(StateTransferTest, APrimaryServesWordsThenRecordsThenSaysThatItWasAll) {
  serve();
  load_record(key_, "value");
  std::vector<TransferBytes> got;
  std::vector<std::string> values;
  uint64_t cursor = 0;
  for (int i = 0; i < 1000; ++i) {
    TransferBytes ask = message(kTransferAsk, cursor);
    ask.question = static_cast<uint32_t>(i + 1);
    EXPECT_TRUE(hear(ask, {}, kOther));
    deliver();
    for (const Received& r : take_received()) {
      EXPECT_EQ(r.at, kOther);
      got.push_back(r.as<TransferBytes>());
      EXPECT_EQ(got.back().question, ask.question) << "the number comes back";
      if (got.back().step == kTransferRecord) {
        values.emplace_back(reinterpret_cast<const char*>(r.body.data()) + sizeof(TransferBytes) + 8, 5);
      }
    }
    ASSERT_FALSE(got.empty());
    ASSERT_EQ(got.back().step, kTransferNext);
    cursor = got.back().cursor;
    if (cursor == 0) break;
  }
  EXPECT_EQ(cursor, 0U);
  EXPECT_EQ(got.front().step, kTransferWords);
  EXPECT_EQ(values, (std::vector<std::string>{"value"}));
  bool records = false;
  for (const TransferBytes& m : got) {
    records = records || m.step == kTransferRecord;
    EXPECT_FALSE(records && m.step == kTransferWords) << "words come first";
  }
}

TEST_F(StateTransferTest, ServesOnlyWhoFillsAndOnlyAsPrimary) {
  serve();
  hear(message(kTransferAsk), {}, NodeId(1));
  deliver();
  EXPECT_TRUE(take_received().empty()) << "node 1 is asked for nothing";
  View next = catching_up_view(partition_, NodeId(1), kOther);
  enter(next);
  hear(message(kTransferAsk), {}, kOther);
  deliver();
  EXPECT_TRUE(take_received().empty()) << "node 1 is the primary";
}

TEST_F(StateTransferTest, ACursorThatNobodyWasGivenDoesNoHarm) {
  serve();
  for (const uint64_t cursor : {uint64_t{1} << 40, kTransferRecords - 1, kTransferRecords, UINT64_MAX}) {
    EXPECT_TRUE(hear(message(kTransferAsk, cursor), {}, kOther));
    deliver();
    const std::vector<Received> got = take_received();
    ASSERT_FALSE(got.empty());
    EXPECT_EQ(got.back().as<TransferBytes>().step, kTransferNext);
  }
}

class StateTransferChoked : public StateTransferTest {
 protected:
  StateTransferChoked() : StateTransferTest(small()) {}
  static Limits small() {
    Limits limits;
    limits.credit_bytes = 64 << 10;
    return limits;
  }
};

TEST_F(StateTransferChoked, WhoTakesNothingIsNotServedUntilItDoes) {
  serve();
  choke(kOther, ctx_.limits.credit_bytes);
  hear(message(kTransferAsk), {}, kOther);
  EXPECT_TRUE(unchoke().empty());
  hear(message(kTransferAsk), {}, kOther);
  deliver();
  EXPECT_FALSE(take_received().empty());
}

}  // namespace
}  // namespace weft
