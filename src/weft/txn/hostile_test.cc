// A peer that sends what no correct peer sends: its channel is closed with a named error, what waits for it gets an
// outcome, and everything that does not need it goes on. Nodes 0 and 2 are real; node 1 is a bare port that the test
// controls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/rows_testing.h"

namespace weft {
namespace {

class Hostile : public testing::TestWithParam<const char*>, public HandNodes {
 protected:
  void SetUp() override { start(false); }

  // Starts everything anew.
  void start(bool recovers) {
    spec_ = three_nodes();
    spec_.recovers = recovers;
    spec_.options.protocol = GetParam();
    make_network();
    for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) start_node(NodeId(n), view_);
    start_enemy();
  }

  void enemy_hears(std::span<const Message> run) override { heard_ += run.size(); }

  DetachedTask get(Session session, uint64_t key, std::vector<Outcome>* outcomes) {
    Txn txn = co_await session.begin();
    const Value value = co_await txn.get(kTable, key);
    outcomes->push_back(value.code == Code::kOk ? Outcome() : txn.abort(value.code));
  }

  DetachedTask get_one(Session session, uint64_t key, std::vector<Outcome>* outcomes) {
    char room[16];
    Task<Session::GetResult> task = session.get_one(kTable, key, room);
    const Session::GetResult one = co_await task;
    outcomes->push_back(one.outcome);
  }

  size_t heard_ = 0;
};

TEST_P(Hostile, ACorruptPacketClosesThePeerAndTheRestGoesOn) {
  std::vector<Outcome> outcomes;
  const Session session(txn_worker(0));
  // Waits for the enemy, which does not answer.
  get(session, key_at(enemy_id_), &outcomes);
  put(session, key_at(enemy_id_), &outcomes);
  steps(20);
  EXPECT_TRUE(outcomes.empty());
  ASSERT_NO_FATAL_FAILURE(send_garbage(NodeId(0), Flow::kCommit));
  steps(20);
  ASSERT_EQ(outcomes.size(), 2U);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, Code::kPeerLost) << outcome.text();
    EXPECT_EQ(outcome.silent, NodeSet::of(enemy_id_).bits());
    EXPECT_NE(outcome.text().find("the connection to a node is lost"), std::string::npos) << outcome.text();
  }
  EXPECT_TRUE(txn_worker(0)->context().port.closed(enemy_id_));

  // Transactions that need it are refused at once; others run as before.
  outcomes.clear();
  put(session, key_at(enemy_id_, 1), &outcomes);
  get(session, key_at(enemy_id_, 1), &outcomes);
  put(session, key_at(NodeId(2)), &outcomes);
  steps(40);
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_FALSE(outcomes[0].committed() && outcomes[1].committed());
  EXPECT_TRUE(outcomes[2].committed()) << outcomes[2].text();
}

TEST_P(Hostile, ASingleReadOfWhatOnlyALostPeerHasIsRefused) {
  ASSERT_NO_FATAL_FAILURE(send_garbage(NodeId(0), Flow::kCommit));
  steps(5);
  std::vector<Outcome> outcomes;
  get_one(Session(txn_worker(0)), key_at(enemy_id_), &outcomes);
  steps(20);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].code, Code::kPeerLost) << outcomes[0].text();
}

// Well-formed packets with messages that make no sense, and random ones: never a crash, and nothing lost.
TEST_P(Hostile, MessagesThatMakeNoSense) {
  CommitRequest no_such_flag{};
  no_such_flag.flags = 200;
  CommitRequest no_such_slot{};
  no_such_slot.slot = 250;
  CommitRequest unlock_of_nothing{};
  unlock_of_nothing.sequence = 7;
  unlock_of_nothing.flags = kCommits;
  const GetRequest no_such_table{.table = 99};
  const GetRequest no_such_table_either{.table = 999};
  const GetReply no_such_key{.slot = 3, .entry = 4000, .found = true, .has_where = true};
  KeyPart more_value_than_bytes{};
  more_value_than_bytes.key_bytes = 8;
  more_value_than_bytes.value_bytes = 1U << 30;
  more_value_than_bytes.flags = kHasValue;
  OutcomeReply no_such_standing{};
  no_such_standing.standing = 9;
  struct Wrong {
    uint32_t tag = 0;
    std::array<std::byte, 64> body{};
  };
  const auto commit = [&](const CommitRequest& request) {
    Wrong out{request.tag(spec_.options.nodes), {}};
    request.put(out.body.data(), spec_.options.nodes);
    return out;
  };
  const auto get = [](const GetRequest& request) {
    Wrong out{request.tag(), {}};
    request.put(out.body.data());
    return out;
  };
  Wrong more_value = commit(unlock_of_nothing);
  put_key_head(more_value.body.data() + CommitRequest::bytes(spec_.options.nodes), more_value_than_bytes);
  Wrong standing;
  store(standing.body.data(), no_such_standing);
  const Wrong all[] = {commit(no_such_flag),
                       commit(no_such_slot),
                       commit(unlock_of_nothing),
                       get(no_such_table),
                       get(no_such_table_either),
                       {no_such_key.tag(), {}},
                       more_value,
                       standing,
                       {UINT32_MAX, {}}};
  for (uint8_t kind = 1; kind <= static_cast<uint8_t>(Kind::kReplicateFor); ++kind) {
    for (const Wrong& wrong : all) {
      std::ranges::copy(wrong.body, enemy_->reserve(NodeId(2), Flow::kCommit, kind, wrong.body.size(), wrong.tag));
    }
  }
  steps(10);
  EXPECT_TRUE(txn_worker(2)->context().port.closed(enemy_id_));
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const auto kind = static_cast<uint8_t>(random.between(1, static_cast<uint64_t>(Kind::kReplicateFor)));
    const size_t bytes = random.below(200);
    const auto tag = static_cast<uint32_t>(random.chance(50) ? random.below(300) : random.next());
    std::byte* at = enemy_->reserve(NodeId(0), Flow::kCommit, kind, bytes, tag);
    for (size_t b = 0; b < bytes; ++b) at[b] = static_cast<std::byte>(random.chance(70) ? 0 : random.below(256));
    if (i % 10 == 0) steps(1);
  }
  steps(20);
  std::vector<Outcome> outcomes;
  put(Session(txn_worker(0)), key_at(NodeId(2)), &outcomes);
  steps(40);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
}

// Queries and answers of the wrong size, an answer with an invalid value; and an answer that nobody asked for, which is
// no fault: it may be late.
TEST_P(Hostile, QuestionsAndAnswersThatMakeNoSense) {
  OutcomeReply unasked{};
  unasked.question = 1;
  unasked.standing = static_cast<uint8_t>(KnownOutcome::kCommitted);
  const auto send = [&](uint8_t to, Kind kind, const auto& body, size_t bytes) {
    std::byte* at = enemy_->reserve(NodeId(to), Flow::kExecution, static_cast<uint8_t>(kind), bytes);
    std::memcpy(at, &body, bytes);
    steps(10);
  };
  send(0, Kind::kOutcomeReply, unasked, sizeof unasked);
  send(0, Kind::kOutcomeQuery, OutcomeQuery{~uint64_t{0}, 0, 5}, sizeof(OutcomeQuery));
  send(0, Kind::kOutcomeQuery, OutcomeQuery{~uint64_t{0}, ~uint32_t{0}, 5}, sizeof(OutcomeQuery));
  EXPECT_FALSE(txn_worker(0)->context().port.closed(enemy_id_));
  EXPECT_EQ(heard_, 2U);
  OutcomeReply no_such_standing = unasked;
  no_such_standing.standing = 4;
  send(0, Kind::kOutcomeReply, no_such_standing, sizeof no_such_standing);
  EXPECT_TRUE(txn_worker(0)->context().port.closed(enemy_id_));
  send(2, Kind::kOutcomeQuery, OutcomeQuery{1, 1, 1}, 8);
  EXPECT_TRUE(txn_worker(2)->context().port.closed(enemy_id_));
}

// Recovery and state transfer listen outside of epochs, also while the node is stopped.
TEST_P(Hostile, RecoveryMessagesThatMakeNoSense) {
  start(true);
  const auto send = [&](NodeId to, Kind kind, const auto& header, size_t more) {
    std::byte* at = enemy_->reserve(to, Flow::kRecovery, static_cast<uint8_t>(kind), sizeof header + more);
    std::fill_n(at, sizeof header + more, std::byte{0});
    store(at, header);
  };
  struct Wrong {
    const char* what;
    void (*spoil)(RecoveryHeader&);
    size_t more = 0;  // bytes after the header
  };
  for (const Wrong& wrong : {Wrong{"no such step", [](RecoveryHeader& h) { h.step = 99; }},
                             Wrong{"no such node", [](RecoveryHeader& h) { h.coordinator = 60; }},
                             Wrong{"no such slot", [](RecoveryHeader& h) { h.slot = 255; }},
                             Wrong{"no such rule", [](RecoveryHeader& h) { h.unanimous = 77; }},
                             Wrong{"no such ending", [](RecoveryHeader& h) { h.ending = 3; }},
                             Wrong{"more keys than bytes", [](RecoveryHeader& h) { h.keys = 3; }, 24},
                             Wrong{"many more", [](RecoveryHeader& h) { h.keys = UINT16_MAX; }, 24}}) {
    RecoveryHeader header{};
    header.epoch = 1;
    wrong.spoil(header);
    EXPECT_FALSE(txn_worker(2)->context().port.closed(enemy_id_));
    send(NodeId(2), Kind::kRecovery, header, wrong.more);
    steps(5);
    EXPECT_TRUE(txn_worker(2)->context().port.closed(enemy_id_)) << wrong.what;
    start(true);
  }
  // Active nodes do not listen to a recovery that is over.
  RecoveryHeader header{};
  header.epoch = 1;
  for (uint8_t step = 0; step <= static_cast<uint8_t>(RecoveryStep::kActive); ++step) {
    header.step = step;
    send(NodeId(0), Kind::kRecovery, header, 0);
  }
  steps(5);
  EXPECT_FALSE(txn_worker(0)->context().port.closed(enemy_id_));
  // While node 0 leads into the next view, the enemy reports things that nobody has, gives orders, and requests copies.
  const auto next = [&] {
    View view = nodes_[0]->first_view();
    view.epoch = Epoch(2);
    return std::make_shared<const View>(view);
  }();
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) nodes_[n]->state().views.publish(next);
  steps(5);
  header.epoch = 2;
  Random random(7);
  for (int i = 0; i < 400; ++i) {
    const bool to_leader = random.chance(50);
    header.step = static_cast<uint8_t>(to_leader ? random.between(1, 4) : random.between(0, 11));
    header.coordinator = static_cast<uint8_t>(random.below(3));
    header.slot = static_cast<uint8_t>(random.below(4));
    header.set_sequence(random.below(3));
    header.incarnation = static_cast<uint32_t>(random.below(4));
    header.state = static_cast<uint8_t>(random.below(8));
    header.ending = static_cast<uint8_t>(random.below(3));
    header.participants = NodeSet::from_bits(random.below(8));
    header.writes = static_cast<uint8_t>(random.below(2));
    send(NodeId(to_leader ? 0 : 2), Kind::kRecovery, header, 0);
    if (i % 20 == 0) {
      const std::vector<uint64_t> fill{random.below(4), 0, 2, random.below(3) << 56, 0};
      std::byte* at = enemy_->reserve(NodeId(0), Flow::kRecovery, static_cast<uint8_t>(Kind::kTransfer), 40);
      std::memcpy(at, fill.data(), 40);
    }
    if (i % 10 == 0) steps(1);
  }
  steps(20);
  EXPECT_TRUE(txn_worker(2)->context().port.closed(enemy_id_)) << "only the leader gives orders";
  // Without the enemy, the others come to the view after that.
  Result<View> without = without_members(*next, NodeSet::of(enemy_id_));
  ASSERT_TRUE(without);
  const auto last = std::make_shared<const View>(*without);
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) nodes_[n]->state().views.publish(last);
  steps(3000);
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) EXPECT_TRUE(txn_worker(n)->active()) << int{n};
}

INSTANTIATE_TEST_SUITE_P(Rows, Hostile, testing::ValuesIn(all_rows()), row_test_name);

}  // namespace
}  // namespace weft
