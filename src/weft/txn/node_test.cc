// A node: what its options may be, what it is made of, and that its workers can be made anew over the same tables.
#include "weft/txn/node.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "weft/txn/node_testing.h"

namespace weft {
namespace {

std::string spec_error(const std::function<void(ClusterSpec&)>& change) {
  ClusterSpec spec;
  spec.tables.push_back({.name = "t"});
  change(spec);
  const Result<void> checked = check_spec(spec);
  if (!checked) {
    EXPECT_EQ(checked.error().code, Code::kBadOption);
  }
  return checked ? "" : checked.error().text();
}
#define EXPECT_SPEC_ERROR(change, part) \
  EXPECT_NE(spec_error([](ClusterSpec& s) { change; }).find(part), std::string::npos) << #change

TEST(NodeSpec, ASoundOneHasNoError) {
  EXPECT_EQ(spec_error([](ClusterSpec&) {}), "");
}

TEST(NodeSpec, ALockNamesEveryTransactionOfTheCluster) {
  const auto sized = [](int nodes, int workers) {
    return spec_error([&](ClusterSpec& s) {
      s.options.nodes = nodes;
      s.options.workers = workers;
      s.options.limits.transactions_in_flight_max = 198;
    });
  };
  EXPECT_EQ(sized(63, 64), "");
  EXPECT_EQ(sized(31, 128), "");
  EXPECT_NE(
      sized(32, 128).find("32 nodes of 128 workers with 255 transactions each "
                          "(limits.transactions_in_flight_max is 198) need 21 bits to name one, and a lock has 20"),
      std::string::npos);
}

TEST(NodeSpec, AnOptionOutOfItsRangeIsNamedWithValueAndRange) {
  EXPECT_SPEC_ERROR(s.options.nodes = 0, "nodes is 0, must be 1 to 63");
  EXPECT_SPEC_ERROR(s.options.replicas = 0, "replicas is 0, must be 1 to 8");
  EXPECT_SPEC_ERROR(s.options.replicas = 4, "replicas is 4, but there are only 3 nodes");
  EXPECT_SPEC_ERROR(s.options.roles = memory_and_compute(1, 1), "roles has 2 entries, must be one for each of 3 nodes");
  EXPECT_SPEC_ERROR((s.options.roles = memory_and_compute(2, 1), s.options.replicas = 3),
                    "replicas is 3, but there are only 2 nodes that hold data");
  EXPECT_SPEC_ERROR((s.options.roles = memory_and_compute(3, 0)), "roles: no node runs transactions");
  EXPECT_SPEC_ERROR(s.options.workers = 129, "workers is 129, must be 1 to 128");
  EXPECT_SPEC_ERROR(s.options.threads = 2, "threads is 2, must be 0 to 1");
  EXPECT_SPEC_ERROR(s.options.partitions = -1, "partitions is -1, must be 0 to 4096");
  EXPECT_SPEC_ERROR(s.options.fabric = "air", "fabric is \"air\", must be local, shm, tcp or verbs");
  EXPECT_SPEC_ERROR(s.options.verb_credit = "4097", "verb_credit is \"4097\", must be auto, off, or 1 to 4096");
}

TEST(NodeSpec, ALimitOutOfItsRangeIsNamedWithValueAndRange) {
  EXPECT_SPEC_ERROR(s.options.limits.transactions_in_flight_max = 201, "limits.transactions_in_flight_max is 201");
  EXPECT_SPEC_ERROR(s.options.limits.key_bytes_max = 7, "limits.key_bytes_max is 7, must be 8 to 65536");
  EXPECT_SPEC_ERROR(s.options.limits.value_bytes_max = 0, "limits.value_bytes_max is 0, must be 1 to 16778240");
  EXPECT_SPEC_ERROR(s.options.limits.txn_keys_max = 4097, "limits.txn_keys_max is 4097, must be 1 to 4096");
  EXPECT_SPEC_ERROR(s.options.limits.txn_bytes_max = 1023, "limits.txn_bytes_max is 1023");
  EXPECT_SPEC_ERROR(s.options.limits.credit_bytes = 4095, "limits.credit_bytes is 4095");
  EXPECT_SPEC_ERROR(s.options.limits.transfer_chunk_bytes = 255, "limits.transfer_chunk_bytes is 255");
  EXPECT_SPEC_ERROR(s.options.limits.mailbox = 0, "limits.mailbox is 0");
  EXPECT_SPEC_ERROR(s.options.limits.outcome_bytes = 65535, "limits.outcome_bytes is 65535");
  EXPECT_SPEC_ERROR(s.options.limits.outcome_timeout_ms = 0, "limits.outcome_timeout_ms is 0");
  EXPECT_SPEC_ERROR(s.options.limits.answer_ms = 600'001, "limits.answer_ms is 600001, must be 1 to 600000");
  EXPECT_SPEC_ERROR(s.options.limits.ring_bytes = 4095, "limits.ring_bytes is 4095");
  EXPECT_SPEC_ERROR(s.options.limits.location_bytes = (1U << 30) + 1, "limits.location_bytes is 1073741825");
}

TEST(NodeSpec, RowsMustExistAndFitUnlessThatIsThePlantedBug) {
  EXPECT_SPEC_ERROR(s.options.protocol = "dnl9", "protocol is \"dnl9\"");
  EXPECT_SPEC_ERROR(s.options.protocol = "dnl4+dnl1", "cannot run in one cluster");
  EXPECT_EQ(spec_error([](ClusterSpec& s) {
              s.options.protocol = "dnl4+dnl1";
              s.bugs.mask = static_cast<uint64_t>(PlantedBug::kUnfitRows);
            }),
            "");
}

TEST(NodeSpec, ATableThatCannotBeIsNamed) {
  EXPECT_SPEC_ERROR(s.tables[0].name = "", "a table needs a name");
  EXPECT_SPEC_ERROR(s.tables[0].capacity = 0, "table t: capacity is 0");
  EXPECT_SPEC_ERROR(s.tables[0].value_bytes_max = (16 << 20) + 1,
                    "table t: value_bytes_max is 16777217, must be 1 to 16777216");
  EXPECT_SPEC_ERROR(s.tables[0].partition = PartitionBy::kPrefix, "table t: prefix_bytes is 0");
  EXPECT_SPEC_ERROR(s.tables.push_back({.name = "t"}), "table t is declared twice");
}

TEST(NodeSpec, AnOrderedTableIsPartitionedByWhatIsComparedFirst) {
  EXPECT_SPEC_ERROR(s.tables[0].ordered = true, "table t: ordered, but partitioned by hash");
  static constexpr auto kByPrefix = [](ClusterSpec& s, uint32_t bytes, IntegerPrefix which) {
    s.tables[0].ordered = true;
    s.tables[0].partition = PartitionBy::kPrefix;
    s.tables[0].prefix_bytes = bytes;
    s.tables[0].integer_prefix = which;
  };
  EXPECT_SPEC_ERROR(kByPrefix(s, 2, IntegerPrefix::kLowBytes), "table t: ordered, but integer_prefix is kLowBytes");
  EXPECT_SPEC_ERROR(kByPrefix(s, 8, IntegerPrefix::kHighBytes), "table t: ordered, but prefix_bytes is 8");
  EXPECT_SPEC_ERROR(kByPrefix(s, 0, IntegerPrefix::kByOrder), "table t: prefix_bytes is 0");
  EXPECT_EQ(spec_error([](ClusterSpec& s) { kByPrefix(s, 2, IntegerPrefix::kByOrder); }), "");
  EXPECT_EQ(spec_error([](ClusterSpec& s) { kByPrefix(s, 2, IntegerPrefix::kHighBytes); }), "");
  static constexpr auto kBySlot = [](ClusterSpec& s, KeyKind keys) {
    s.tables[0].ordered = true;
    s.tables[0].partition = PartitionBy::kRedisSlot;
    s.tables[0].keys = keys;
  };
  EXPECT_SPEC_ERROR(kBySlot(s, KeyKind::kInteger), "integer keys are partitioned by the slot of Redis");
  EXPECT_EQ(spec_error([](ClusterSpec& s) { kBySlot(s, KeyKind::kBytes); }), "");
}

#undef EXPECT_SPEC_ERROR

struct NodeTestAgent final : NodeAgentHook {
  bool step(uint64_t) override { return false; }
  uint64_t deadline_ns() const override { return UINT64_MAX; }
  void on_message(NodeId from, ByteView message) override { heard.emplace_back(from, std::string(as_text(message))); }
  std::vector<std::pair<NodeId, std::string>> heard;
};

struct NodeAtomics final : LocalAtomics {
  bool swap(RegionId, uint64_t, uint64_t, uint64_t) override { return false; }
  uint64_t swaps() const override { return 0; }
};

class NodeTest : public testing::Test, public HandNodes {
 protected:
  NodeTest() {
    spec_ = three_nodes();
    spec_.recovers = true;
  }
  LocalAtomics* local_atomics(NodeId) override { return device_; }

  void start(const char* protocol = "dnl4", int count = 3, bool joins = false) {
    spec_.options.protocol = protocol;
    make_network();
    for (int n = 0; n < count; ++n) {
      ASSERT_NO_FATAL_FAILURE(start_node(NodeId(static_cast<uint8_t>(n)), view_, joins));
    }
  }
  Node& node() { return *nodes_[0]; }
  Result<void> load_key(uint64_t key, std::string_view value) {
    return node().load(kTable, {reinterpret_cast<const std::byte*>(&key), sizeof key}, as_bytes(value));
  }

  LocalAtomics* device_ = nullptr;
};

TEST_F(NodeTest, TablesAreMadeInTheOrderOfTheSpecAndAsLargeAsWhatIsHeld) {
  spec_.recovers = false;
  spec_.tables.push_back({.name = "u", .keys = KeyKind::kBytes});
  const auto bytes = [&](int held) {
    const Result<NodeTables> made = Node::make_tables(spec_, 8, held);
    EXPECT_TRUE(made);
    EXPECT_EQ((*made).count(), 2U);
    EXPECT_EQ((*made).at(TableId(0))->spec().name, "t");
    EXPECT_EQ((*made).at(TableId(1))->spec().name, "u");
    return (*made).at(TableId(1))->memory_bytes_max();
  };
  EXPECT_GT(bytes(0), 0U) << "a node that holds nothing has tables";
  EXPECT_LT(bytes(0), bytes(1));
  EXPECT_LT(bytes(1), bytes(8));
}

// What a node may come to hold, and what it will never hold.
TEST_F(NodeTest, TablesHaveRoomForWhatTheNodesRolesSay) {
  const auto bytes = [&](size_t n) { return nodes_[n]->table(TableId(0))->memory_bytes_max(); };
  spec_.options.roles = memory_and_compute(2, 1);
  spec_.options.replicas = 1;
  spec_.options.partitions = 16;
  spec_.tables[0].capacity = 1 << 20;
  spec_.recovers = false;
  start();
  const uint64_t half = bytes(1);
  EXPECT_LT(bytes(0) * 4, half) << "it holds no data";
  EXPECT_LT(nodes_[0]->table(TableId(0))->memory_bytes() * 4, nodes_[1]->table(TableId(0))->memory_bytes());
  spec_.recovers = true;
  start();
  EXPECT_GT(bytes(1), half) << "it may come to hold any partition";
  EXPECT_LT(bytes(0) * 4, half);
}

TEST_F(NodeTest, ANodeThatRunsNoTransactionsRejectsThem) {
  spec_.options.roles = memory_and_compute(2, 1);
  spec_.options.replicas = 2;
  start();
  for (size_t n = 0; n < 3; ++n) {
    SlotTable& slots = nodes_[n]->txn_worker(WorkerId(0))->slots();
    TxnSlot* const slot = slots.acquire(0);
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->rejected, n == 0 ? Code::kOk : Code::kNoTransactions);
  }
}

TEST_F(NodeTest, WhatCannotBeIsNotCreated) {
  make_network();
  Result<NodeTables> tables = Node::make_tables(spec_, 3, 3);
  ASSERT_TRUE(tables);
  spec_.options.replicas = 4;
  EXPECT_FALSE(Node::create(NodeId(0), spec_, view_, this));
  EXPECT_FALSE(Node::create(NodeId(0), spec_, view_, this, false, std::move(*tables)));
  spec_.options.replicas = 2;
  spec_.tables[0].memory_bytes_max = 1;
  EXPECT_FALSE(Node::create(NodeId(0), spec_, view_, this));
}

TEST_F(NodeTest, IsWhatTheSpecAndTheEnvironmentSay) {
  spec_.options.workers = 2;
  spec_.bugs.mask = static_cast<uint64_t>(PlantedBug::kToldLate);
  make_network();
  Result<NodeTables> tables = Node::make_tables(spec_, 3, 3);
  ASSERT_TRUE(tables);
  const Table* const table = (*tables).at(kTable);
  auto made = Node::create(NodeId(2), spec_, view_, this, false, std::move(*tables));
  ASSERT_TRUE(made) << made.error().text();
  Node& node = **made;
  EXPECT_EQ(node.id(), NodeId(2));
  EXPECT_EQ(node.table(kTable), table) << "the tables that were made before";
  EXPECT_EQ(regions(NodeId(2))->count(), 1U) << "which peers can reach";
  EXPECT_EQ(node.workers(), 2);
  EXPECT_EQ(node.first_view(), view_);
  EXPECT_EQ(node.rows().names(), "dnl4");
  EXPECT_EQ(node.agent_host()->cluster_options().workers, 2);
  EXPECT_TRUE(node.agent_host()->planted_bugs().has(PlantedBug::kToldLate));
  clock_.now = 5'000'000;
  EXPECT_GT(node.agent_host()->clock_ns(), 5'000'000U);
}

TEST_F(NodeTest, LoadsARecordReadableAtVersionOneAndOnce) {
  start("dnl4", 1);
  const uint64_t key = 7;
  ASSERT_TRUE(load_key(key, "value"));
  std::byte room[16];
  const Table& table = *node().table(kTable);
  const ReadResult read = table.read(table.hashed({reinterpret_cast<const std::byte*>(&key), 8}), room, sizeof room);
  EXPECT_TRUE(read.found);
  EXPECT_EQ(as_text({room, read.value_bytes}), "value");
  EXPECT_EQ(read.word, Word(Version(1), kReadable));
  const Error twice = load_key(key, "other").error();
  EXPECT_EQ(twice.code, Code::kExists);
  EXPECT_NE(twice.detail.find("the key was loaded before"), std::string::npos) << twice.detail;
  Result<void> loaded;
  for (uint64_t k = 8; loaded && k < 5000; ++k) loaded = load_key(k, "value");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kTableFull);
  EXPECT_EQ(table.leak_report().locked, 0U);
}

TEST_F(NodeTest, WorkersAreMadeAnewOverTheSameTables) {
  start();
  const uint64_t key = key_at(NodeId(0));
  std::vector<Outcome> outcomes;
  put(Session(txn_worker(0)), key, &outcomes);
  steps(100);
  const Table* const table = node().table(kTable);
  Options options = spec_.options;
  options.protocol = "drtmr";
  for (const auto& one : nodes_) one->drop_workers();
  EXPECT_EQ(node().workers(), 0);
  EXPECT_EQ(node().last_sequence(), outcomes.at(0).id.sequence);
  for (const auto& one : nodes_) {
    const Result<void> made = one->make_workers(options, this);
    ASSERT_TRUE(made) << made.error().text();
  }
  EXPECT_EQ(node().workers(), 1);
  EXPECT_EQ(node().rows().names(), "drtmr");
  EXPECT_EQ(node().table(kTable), table);
  EXPECT_EQ(table->records(), 1U);
  put(Session(txn_worker(0)), key, &outcomes);
  steps(100);
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_TRUE(outcomes[1].committed()) << outcomes[1].text();
  EXPECT_GT(outcomes[1].id.sequence, outcomes[0].id.sequence) << "no id comes twice";
  options.workers = 2;
  node().drop_workers();
  EXPECT_DEATH((void)node().make_workers(options, this), "the number of workers stays");
}

TEST_F(NodeTest, OnlyRowsWithVerbsOpenItsMemoryAndOnlyToMembers) {
  NodeAtomics atomics;
  device_ = &atomics;
  start("dnl4", 1);
  EXPECT_EQ(node().verb_memory(), nullptr);
  EXPECT_EQ(node().local_atomics(), nullptr);
  EXPECT_FALSE(regions(NodeId(0))->granted(NodeId(1), Domain::kEngine));
  start("farm", 1);
  EXPECT_NE(node().verb_memory(), nullptr);
  EXPECT_EQ(node().local_atomics(), nullptr) << "it locks by message";
  EXPECT_TRUE(regions(NodeId(0))->granted(NodeId(1), Domain::kEngine));
  start("drtmr", 1);
  EXPECT_EQ(node().local_atomics(), &atomics);
  start("drtmr", 1, true);
  EXPECT_NE(node().verb_memory(), nullptr);
  EXPECT_FALSE(regions(NodeId(0))->granted(NodeId(1), Domain::kEngine)) << "a node that joins is in no view yet";
}

TEST_F(NodeTest, WhatAViewTakesAwayIsStaleUnlessTheNodeOnlyJoins) {
  start("dnl4", 1);
  node().state().views.publish(view_without(NodeId(0)));
  EXPECT_EQ(node().sweep().stale(), std::vector<bool>({true, false, true}));
  start("dnl4", 1, true);
  EXPECT_FALSE(txn_worker(0)->active());
  node().state().views.publish(view_without(NodeId(0)));
  EXPECT_FALSE(node().sweep().has_stale()) << "an earlier process had it";
}

TEST_F(NodeTest, ItsWorkersGoThroughAChangeOfTheViewTogether) {
  spec_.options.workers = 2;
  start();
  EXPECT_EQ(node().last_change().epoch, 0U);
  EXPECT_TRUE(node().agent_host()->caught_up(view_.epoch));
  const auto next = view_without(NodeId(2));
  nodes_[2].reset();
  for (const size_t n : {0U, 1U}) nodes_[n]->state().views.publish(next);
  step(0);
  EXPECT_EQ(node().last_change().epoch, next->epoch.value);
  EXPECT_EQ(node().last_change().active_ns, 0U) << "under way";
  EXPECT_FALSE(node().agent_host()->caught_up(next->epoch));
  steps(2000);
  const ViewChange change = node().last_change();
  EXPECT_GT(change.active_ns, change.adopted_ns);
  EXPECT_TRUE(node().agent_host()->caught_up(next->epoch));
  EXPECT_FALSE(node().agent_host()->caught_up(view_.epoch));
}

TEST_F(NodeTest, ItsAgentTalksToOtherNodesThroughTheFirstWorker) {
  spec_.options.workers = 2;
  start();
  NodeTestAgent agent;
  nodes_[1]->agent_host()->set_agent(&agent);
  node().agent_host()->send_control(NodeId(1), as_bytes("lease"));
  steps(10);
  using Heard = std::vector<std::pair<NodeId, std::string>>;
  EXPECT_EQ(agent.heard, Heard({{NodeId(0), "lease"}}));
  nodes_[1]->agent_host()->set_agent(nullptr);
  const std::string much(4096, 'm');
  for (int i = 0; i < 10'000 && node().agent_host()->control_queued_bytes(NodeId(1)) == 0; ++i) {
    node().agent_host()->send_control(NodeId(1), as_bytes(much));
    step(0);
  }
  EXPECT_GT(node().agent_host()->control_queued_bytes(NodeId(1)), 0U) << "node 1 takes nothing";
  EXPECT_EQ(node().agent_host()->control_queued_bytes(NodeId(2)), 0U);
  steps(1000);
  EXPECT_EQ(node().agent_host()->control_queued_bytes(NodeId(1)), 0U);
  EXPECT_EQ(agent.heard.size(), 1U) << "it hears nothing more";
}

}  // namespace
}  // namespace weft
