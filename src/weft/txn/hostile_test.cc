// A peer that sends what no correct peer sends: its channel is closed with a named error, what waits for it gets an
// outcome, and everything that does not need it goes on. Nodes 0 and 2 are real; node 1 is a bare port in our hands.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/fabric/local.h"
#include "weft/run/detached.h"
#include "weft/txn/engine.h"
#include "weft/txn/messages.h"
#include "weft/txn/node.h"

namespace weft {
namespace {

class StepClock final : public Clock {
 public:
  uint64_t now_ns() override { return now_ += 1000; }

 private:
  uint64_t now_ = 0;
};

class Hostile : public testing::TestWithParam<const char*>, public Environment {
 protected:
  static constexpr NodeId kEnemy{1};
  static constexpr TableId kTable{0};

  void SetUp() override { start(false); }

  // All anew.
  void start(bool recovers) {
    enemy_.reset();
    for (auto& node : nodes_) node.reset();
    fabric_.reset();
    for (auto& regions : regions_) regions = std::make_unique<Regions>();
    spec_ = ClusterSpec();
    spec_.recovers = recovers;
    spec_.options.nodes = 3;
    spec_.options.replicas = 2;
    spec_.options.protocol = GetParam();
    spec_.tables.push_back({.name = "t", .value_bytes_max = 16, .capacity = 1000});
    fabric_ = std::make_unique<LocalFabric>(LocalOptions{.nodes = 3});
    for (uint8_t n = 0; n < 3; ++n) fabric_->set_regions(NodeId(n), regions_[n].get());
    const View view = make_view(3, 2, 3);
    for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) {
      auto node = Node::create(NodeId(n), spec_, view, this);
      ASSERT_TRUE(node) << node.error().text();
      nodes_[n] = std::move(*node);
    }
    PortOptions port;
    port.self = kEnemy;
    port.nodes = 3;
    enemy_ = std::make_unique<Port>(port, fabric_->wire(kEnemy, WorkerId(0)), nullptr);
    for (uint8_t kind = 0; kind < kKindsMax; ++kind) {
      enemy_->set_handler(
          kind, [](void* count, std::span<const Message> run) { *static_cast<size_t*>(count) += run.size(); }, &heard_);
    }
  }

  Clock* clock(NodeId) override { return &clock_; }
  Charges* charges(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId node, WorkerId worker) override { return fabric_->wire(node, worker); }
  Regions* regions(NodeId node) override { return regions_[node.value].get(); }
  uint64_t seed(NodeId node, WorkerId) override { return node.value; }

  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      nodes_[0]->worker(WorkerId(0))->step();
      nodes_[2]->worker(WorkerId(0))->step();
      enemy_->flush();
      enemy_->poll();
    }
  }

  Engine* engine(uint8_t node) { return nodes_[node]->engine(WorkerId(0)); }

  // The n-th key whose primary is that node.
  uint64_t key_at(NodeId primary, int n = 0) {
    for (uint64_t key = 0;; ++key) {
      const ByteView bytes{reinterpret_cast<const std::byte*>(&key), sizeof key};
      const HashedKey hashed = nodes_[0]->table(kTable)->hashed(bytes);
      if (nodes_[0]->view().placement(hashed.partition).primary() == primary && n-- == 0) return key;
    }
  }

  Detached put(Session session, uint64_t key, std::vector<Outcome>* outcomes) {
    Task<Outcome> task = session.put_one(kTable, key, "value");
    outcomes->push_back(co_await task);
  }
  Detached get(Session session, uint64_t key, std::vector<Outcome>* outcomes) {
    Txn txn = co_await session.begin();
    const Value value = co_await txn.get(kTable, key);
    Outcome outcome;
    if (value.code != Code::kOk) outcome.kind = OutcomeKind::kAborted;
    outcome.code = value.code;
    outcomes->push_back(outcome);
  }

  Detached get_one(Session session, uint64_t key, std::vector<Outcome>* outcomes) {
    char room[16];
    Task<Session::One> task = session.get_one(kTable, key, room);
    const Session::One one = co_await task;
    outcomes->push_back(one.outcome);
  }

  ClusterSpec spec_;
  StepClock clock_;
  std::unique_ptr<Regions> regions_[3];
  std::unique_ptr<LocalFabric> fabric_;
  std::unique_ptr<Node> nodes_[3];
  std::unique_ptr<Port> enemy_;
  size_t heard_ = 0;
};

TEST_P(Hostile, ACorruptPacketClosesThePeerAndTheRestGoesOn) {
  std::vector<Outcome> outcomes;
  const Session session(engine(0));
  // Waits for the enemy, which does not answer.
  get(session, key_at(kEnemy), &outcomes);
  put(session, key_at(kEnemy), &outcomes);
  steps(20);
  EXPECT_TRUE(outcomes.empty());
  const std::vector<std::byte> garbage(64, std::byte{0xa5});
  ASSERT_TRUE(fabric_->wire(kEnemy, WorkerId(0))->send(NodeId(0), Flow::kCommit, garbage));
  steps(20);
  ASSERT_EQ(outcomes.size(), 2U);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, Code::kClosed) << outcome.text();
  EXPECT_TRUE(engine(0)->port().closed(kEnemy));

  // What needs it is refused at once; what does not is as before.
  outcomes.clear();
  put(session, key_at(kEnemy, 1), &outcomes);
  get(session, key_at(kEnemy, 1), &outcomes);
  put(session, key_at(NodeId(2)), &outcomes);
  steps(40);
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_FALSE(outcomes[0].committed() && outcomes[1].committed());
  EXPECT_TRUE(outcomes[2].committed()) << outcomes[2].text();
}

TEST_P(Hostile, ASingleReadOfWhatOnlyALostPeerHasIsRefused) {
  const std::vector<std::byte> garbage(64, std::byte{0xa5});
  ASSERT_TRUE(fabric_->wire(kEnemy, WorkerId(0))->send(NodeId(0), Flow::kCommit, garbage));
  steps(5);
  std::vector<Outcome> outcomes;
  get_one(Session(engine(0)), key_at(kEnemy), &outcomes);
  steps(20);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].code, Code::kClosed) << outcomes[0].text();
}

// Well-formed packets with messages that make no sense, and random ones: never a crash, and nothing lost.
TEST_P(Hostile, MessagesThatMakeNoSense) {
  CommitRequest no_such_row{};
  no_such_row.row = 200;
  CommitRequest more_keys_than_bytes{};
  more_keys_than_bytes.keys = 255;
  CommitRequest unlock_of_nothing{};
  unlock_of_nothing.sequence = 7;
  unlock_of_nothing.commit = 1;
  GetRequest no_such_table{};
  no_such_table.table = 99;
  GetReply more_value_than_bytes{};
  more_value_than_bytes.value_bytes = 1U << 30;
  FateAnswer no_such_standing{};
  no_such_standing.standing = 9;
  const std::vector<std::function<void(std::byte*)>> bodies = {
      [&](std::byte* at) { store(at, no_such_row); },           [&](std::byte* at) { store(at, more_keys_than_bytes); },
      [&](std::byte* at) { store(at, unlock_of_nothing); },     [&](std::byte* at) { store(at, no_such_table); },
      [&](std::byte* at) { store(at, more_value_than_bytes); }, [&](std::byte* at) { store(at, no_such_standing); },
  };
  for (uint8_t kind = 1; kind <= static_cast<uint8_t>(Kind::kFateAnswer); ++kind) {
    for (const auto& fill : bodies) {
      std::byte* at = enemy_->reserve(NodeId(2), Flow::kCommit, kind, 64, 250);
      std::fill_n(at, 64, std::byte{0});
      fill(at);
    }
  }
  steps(10);
  EXPECT_TRUE(engine(2)->port().closed(kEnemy));
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const auto kind = static_cast<uint8_t>(random.between(1, static_cast<uint64_t>(Kind::kFateAnswer)));
    const size_t bytes = random.below(200);
    std::byte* at = enemy_->reserve(NodeId(0), Flow::kCommit, kind, bytes, static_cast<uint16_t>(random.below(300)));
    for (size_t b = 0; b < bytes; ++b) at[b] = static_cast<std::byte>(random.chance(70) ? 0 : random.below(256));
    if (i % 10 == 0) steps(1);
  }
  steps(20);
  std::vector<Outcome> outcomes;
  put(Session(engine(0)), key_at(NodeId(2)), &outcomes);
  steps(40);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
}

// Questions and answers of the wrong size, an answer that there is not; and one that nobody asked for, which is no
// fault: it may be late.
TEST_P(Hostile, QuestionsAndAnswersThatMakeNoSense) {
  FateAnswer unasked{};
  unasked.question = 1;
  unasked.standing = static_cast<uint8_t>(Standing::kCommitted);
  const auto send = [&](uint8_t to, Kind kind, const auto& body, size_t bytes) {
    std::byte* at = enemy_->reserve(NodeId(to), Flow::kExecution, static_cast<uint8_t>(kind), bytes);
    std::memcpy(at, &body, bytes);
    steps(10);
  };
  send(0, Kind::kFateAnswer, unasked, sizeof unasked);
  send(0, Kind::kFateAsk, FateAsk{~uint64_t{0}, 0, 5}, sizeof(FateAsk));
  send(0, Kind::kFateAsk, FateAsk{~uint64_t{0}, ~uint32_t{0}, 5}, sizeof(FateAsk));
  EXPECT_FALSE(engine(0)->port().closed(kEnemy));
  EXPECT_EQ(heard_, 2U);
  FateAnswer no_such_standing = unasked;
  no_such_standing.standing = 4;
  send(0, Kind::kFateAnswer, no_such_standing, sizeof no_such_standing);
  EXPECT_TRUE(engine(0)->port().closed(kEnemy));
  send(2, Kind::kFateAsk, FateAsk{1, 1, 1}, 8);
  EXPECT_TRUE(engine(2)->port().closed(kEnemy));
}

// Recovery and filling listen outside of epochs, and while the node is stopped too.
TEST_P(Hostile, RecoveryMessagesThatMakeNoSense) {
  start(true);
  const auto send = [&](NodeId to, Kind kind, const auto& header, size_t more) {
    std::byte* at = enemy_->reserve(to, Flow::kRecovery, static_cast<uint8_t>(kind), sizeof header + more);
    std::fill_n(at, sizeof header + more, std::byte{0});
    store(at, header);
  };
  const auto closes = [&](const auto& header, size_t more, const char* what) {
    EXPECT_FALSE(engine(2)->port().closed(kEnemy));
    send(NodeId(2), Kind::kRecovery, header, more);
    steps(5);
    EXPECT_TRUE(engine(2)->port().closed(kEnemy)) << what;
    start(true);
  };
  RecoveryHeader header{};
  header.epoch = 1;
  header.step = 99;
  closes(header, 0, "no such step");
  header.step = 0;
  header.coordinator = 60;
  closes(header, 0, "no such node");
  header.coordinator = 0;
  header.slot = 255;
  closes(header, 0, "no such slot");
  header.slot = 0;
  header.row = 77;
  closes(header, 0, "no such row");
  header.row = 0;
  header.verdict = 3;
  closes(header, 0, "no such verdict");
  header.verdict = 0;
  header.keys = 3;
  closes(header, 24, "more keys than bytes");
  // Active nodes do not listen to a recovery that is over.
  header.keys = 0;
  for (uint8_t step = 0; step <= static_cast<uint8_t>(RecoveryStep::kActive); ++step) {
    header.step = step;
    send(NodeId(0), Kind::kRecovery, header, 0);
  }
  steps(5);
  EXPECT_FALSE(engine(0)->port().closed(kEnemy));
  // While node 0 leads into the next view, the enemy reports things that nobody has, gives orders, and asks for copies.
  const auto next = [&] {
    View view = nodes_[0]->view();
    view.epoch = Epoch(2);
    return std::make_shared<const View>(view);
  }();
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) nodes_[n]->publish(next);
  steps(5);
  header.epoch = 2;
  Random random(7);
  for (int i = 0; i < 400; ++i) {
    const bool to_leader = random.chance(50);
    header.step = static_cast<uint8_t>(to_leader ? random.between(1, 4) : random.between(0, 11));
    header.coordinator = static_cast<uint8_t>(random.below(3));
    header.slot = static_cast<uint8_t>(random.below(4));
    header.sequence = static_cast<uint32_t>(random.below(3));
    header.incarnation = static_cast<uint32_t>(random.below(4));
    header.state = static_cast<uint8_t>(random.below(8));
    header.verdict = static_cast<uint8_t>(random.below(3));
    header.participants = random.below(8);
    header.writes = static_cast<uint8_t>(random.below(2));
    send(NodeId(to_leader ? 0 : 2), Kind::kRecovery, header, 0);
    if (i % 20 == 0) {
      const std::vector<uint64_t> fill{random.below(4), 0, 2, random.below(3) << 56, 0};
      std::byte* at = enemy_->reserve(NodeId(0), Flow::kRecovery, static_cast<uint8_t>(Kind::kFill), 40);
      std::memcpy(at, fill.data(), 40);
    }
    if (i % 10 == 0) steps(1);
  }
  steps(20);
  EXPECT_TRUE(engine(2)->port().closed(kEnemy)) << "only the leader gives orders";
  // Without it the others come to the view after.
  Result<View> without = without_members(*next, uint64_t{1} << kEnemy.value);
  ASSERT_TRUE(without);
  const auto last = std::make_shared<const View>(*without);
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) nodes_[n]->publish(last);
  steps(3000);
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) EXPECT_TRUE(engine(n)->active()) << int{n};
}

INSTANTIATE_TEST_SUITE_P(Rows, Hostile, testing::Values("dnl4", "dnl2", "dnl1", "fasst"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace weft
