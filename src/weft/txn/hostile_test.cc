// A peer that sends what no correct peer sends: its channel is closed with a named error, what waits for it gets an
// outcome, and everything that does not need it goes on. Nodes 0 and 2 are real; node 1 is a bare port in our hands.
#include <gtest/gtest.h>

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

  void SetUp() override {
    spec_.options.nodes = 3;
    spec_.options.replicas = 2;
    spec_.options.protocol = GetParam();
    spec_.tables.push_back({.name = "t", .value_bytes_max = 16, .capacity = 1000});
    fabric_ = std::make_unique<LocalFabric>(LocalOptions{.nodes = 3});
    for (uint8_t n = 0; n < 3; ++n) fabric_->set_regions(NodeId(n), &regions_[n]);
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
  Regions* regions(NodeId node) override { return &regions_[node.value]; }
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
  Regions regions_[3];
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
  const std::vector<std::function<void(std::byte*)>> bodies = {
      [&](std::byte* at) { store(at, no_such_row); },           [&](std::byte* at) { store(at, more_keys_than_bytes); },
      [&](std::byte* at) { store(at, unlock_of_nothing); },     [&](std::byte* at) { store(at, no_such_table); },
      [&](std::byte* at) { store(at, more_value_than_bytes); },
  };
  for (uint8_t kind = 1; kind <= static_cast<uint8_t>(Kind::kDone); ++kind) {
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
    const auto kind = static_cast<uint8_t>(random.between(1, static_cast<uint64_t>(Kind::kDone)));
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

INSTANTIATE_TEST_SUITE_P(Rows, Hostile, testing::Values("dnl4", "dnl2", "dnl1", "fasst"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace weft
