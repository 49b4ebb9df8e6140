// The parts of a worker are made as the cluster's spec says, and connected: every kind of message has somebody who
// takes it.
#include "weft/txn/txn_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "weft/run/owned_task.h"
#include "weft/txn/messages.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/protocol.h"
#include "weft/txn/rows_testing.h"
#include "weft/txn/txn_worker.h"

namespace weft {
namespace {

// Three nodes with two replicas; a test changes the spec, then starts them.
class TxnPartsTest : public testing::Test, public HandNodes {
 protected:
  TxnPartsTest() { spec_ = three_nodes(); }

  void start() {
    make_network();
    for (uint8_t n = 0; n < 3; ++n) ASSERT_NO_FATAL_FAILURE(start_node(NodeId(n), view_));
    steps(1);
  }
  TxnWorker& parts(size_t node = 0) { return *txn_worker(node); }

  Task<void> get_one(uint64_t key, std::optional<Outcome>* out) {
    Session session(txn_worker(0));
    char room[16];
    Task<Session::GetResult> task = session.get_one(kTable, key, room);
    *out = (co_await task).outcome;
  }
  // Node 0 alone reads what this node is a backup of. Whether it has an answer.
  bool answers_alone(const char* protocol, bool local_reads) {
    spec_.options.protocol = protocol;
    spec_.options.local_reads = local_reads;
    start();
    std::optional<Outcome> outcome;
    OwnedTask task = OwnedTask::of(get_one(key_at(NodeId(2)), &outcome));
    task.start();
    for (int i = 0; i < 10; ++i) step(0);
    return outcome && outcome->committed();
  }
  // Whether node 0 keeps up its channel with a peer that sends this.
  bool takes(const char* protocol, Kind kind, const std::vector<std::byte>& body) {
    spec_.options.protocol = protocol;
    make_network();
    start_node(NodeId(0), view_);
    start_enemy();
    enemy_->set_epoch(port_epoch(view_.epoch, true));
    std::byte* at = enemy_->reserve(NodeId(0), Flow::kControl, static_cast<uint8_t>(kind), body.size());
    if (!body.empty()) std::memcpy(at, body.data(), body.size());
    steps(5);
    EXPECT_EQ(parts().counters().packets_received, 1U);
    return !parts().context().port.closed(enemy_id_);
  }
};

TEST_F(TxnPartsTest, TheContextSaysWhoAndWhereTheyAre) {
  spec_.options.workers = 2;
  spec_.options.table_batching = false;
  spec_.options.limits.txn_keys_max = 17;
  spec_.recovers = true;
  ASSERT_NO_FATAL_FAILURE(start());
  const WorkerContext& ctx = txn_worker(2, 1)->context();
  EXPECT_EQ(ctx.self, NodeId(2));
  EXPECT_EQ(ctx.id, WorkerId(1));
  EXPECT_EQ(ctx.worker, nodes_[2]->worker(WorkerId(1)));
  EXPECT_EQ(ctx.wire, fabric_->wire(NodeId(2), WorkerId(1)));
  EXPECT_EQ(ctx.nodes, 3);
  EXPECT_EQ(ctx.workers, 2);
  EXPECT_EQ(ctx.limits.txn_keys_max, 17U);
  EXPECT_FALSE(ctx.table_batching);
  EXPECT_TRUE(ctx.recovers);
  EXPECT_EQ(&ctx.state, &nodes_[2]->state());
  EXPECT_EQ(txn_worker(2, 1)->node(), nodes_[2].get());
}

TEST_F(TxnPartsTest, TheScratchHasRoomForAValueOfAnyTable) {
  spec_.tables.push_back({.name = "large", .value_bytes_max = 5001, .capacity = 10});
  spec_.tables.push_back({.name = "small", .value_bytes_max = 8, .capacity = 10});
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_GE(parts().context().scratch.size(), 5001U);
}

TEST_F(TxnPartsTest, AnswersMayTakeAsLongAsTheLimitSaysUnlessATestSaysOtherwise) {
  spec_.options.limits.answer_ms = 7;
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_EQ(parts().slots().answer_ns(), 7'000'000U);
  spec_.answer_ns = 123;
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_EQ(parts().slots().answer_ns(), 123U);
}

TEST_F(TxnPartsTest, ParticipantsKeepOneRecordForEachSlotOfAPeer) {
  spec_.options.limits.transactions_in_flight_max = 4;
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_EQ(parts().slots().size(), static_cast<size_t>(SlotTable::slots_for(spec_.options.limits)));
  EXPECT_EQ(parts().records().slots(), SlotTable::slots_for(spec_.options.limits));
  EXPECT_EQ(parts().records().open_records(), 0U);
  EXPECT_EQ(parts().outcomes().contradictions(), 0U);
}

TEST_F(TxnPartsTest, ANodeOfTheFirstViewIsActiveAtOnceAndOneThatJoinsIsNot) {
  make_network();
  ASSERT_NO_FATAL_FAILURE(start_node(NodeId(0), view_));
  EXPECT_TRUE(parts().active());
  spec_.recovers = true;
  ASSERT_NO_FATAL_FAILURE(start_node(NodeId(1), *view_without(NodeId(1)), true));
  EXPECT_FALSE(parts(1).active());
  EXPECT_EQ(parts(1).context().views.incarnation(), 0U);
}

TEST_F(TxnPartsTest, EachWorkerHasARandomSequenceOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(start());
  Random same(seed(NodeId(1), WorkerId(0)));
  const uint64_t first = same.below(UINT64_MAX);
  EXPECT_EQ(parts(1).random().below(UINT64_MAX), first);
  EXPECT_NE(parts(2).random().below(UINT64_MAX), first);
}

TEST_F(TxnPartsTest, WorkersThatAreMadeAnewGoOnWithTheirSequences) {
  ASSERT_NO_FATAL_FAILURE(start());
  std::vector<Outcome> outcomes;
  put(Session(&parts()), key_at(NodeId(0)), &outcomes);
  steps(50);
  ASSERT_EQ(outcomes.size(), 1U);
  nodes_[0]->drop_workers();
  ASSERT_TRUE(nodes_[0]->make_workers(spec_.options, this));
  EXPECT_EQ(parts().slots().last_sequence(), outcomes[0].id.sequence);
  EXPECT_EQ(parts().outcomes().find(outcomes[0].id.incarnation, outcomes[0].id.sequence), OutcomeLog::Known::kNothing);
}

TEST_F(TxnPartsTest, TransactionsTakeTheClustersRowsInTurnIfTheSpecSaysSo) {
  spec_.options.protocol = "dnl4+fasst";
  for (const bool rotates : {false, true}) {
    spec_.rotates_rows = rotates;
    ASSERT_NO_FATAL_FAILURE(start());
    std::string rows;
    for (int i = 0; i < 4; ++i) {
      TxnSlot* slot = parts().slots().acquire(0);
      ASSERT_NE(slot, nullptr);
      rows += std::to_string(slot->row);
    }
    EXPECT_EQ(std::count(rows.begin(), rows.end(), '1'), rotates ? 2 : 0) << rows;
  }
}

// Rows whose backups may answer reads that nobody validates, if the options let them.
TEST_F(TxnPartsTest, ABackupAnswersSingleReadsWhereRowAndOptionsAllowIt) {
  EXPECT_TRUE(answers_alone("dnl2", true));
  EXPECT_FALSE(answers_alone("dnl2", false));
  EXPECT_FALSE(answers_alone("dnl4", true));
}

TEST_F(TxnPartsTest, OnlyRowsThatRememberLocationsHaveMemoryForThem) {
  for (const char* protocol : all_rows()) {
    spec_.options.protocol = protocol;
    ASSERT_NO_FATAL_FAILURE(start());
    Result<TxnMemory> memory = TxnMemory::create(*nodes_[0]);
    ASSERT_TRUE(memory);
    EXPECT_NE(memory->pool, nullptr);
    const RecordSlot slot(PartitionId(1), 1, 64);
    memory->locations.put(NodeId(1), kTable, 7, slot);
    const bool remembers = find_protocol(protocol)->location_cache;
    EXPECT_EQ(memory->locations.find(NodeId(1), kTable, 7), remembers ? slot : RecordSlot()) << protocol;
  }
}

// What an agent sends is taken in every row. How far a ring is read is told only where the log is a ring.
TEST_F(TxnPartsTest, EachRowTakesTheKindsOfMessagesThatItHas) {
  EXPECT_TRUE(takes("dnl4", Kind::kControl, {}));
  EXPECT_TRUE(takes("farm", Kind::kControl, {}));
  EXPECT_FALSE(takes("dnl4", Kind::kRingRead, std::vector<std::byte>(sizeof(RingRead))));
  EXPECT_TRUE(takes("farm", Kind::kRingRead, std::vector<std::byte>(sizeof(RingRead))));
  EXPECT_FALSE(takes("farm", Kind::kRingRead, {}));
}

TEST_F(TxnPartsTest, APacketThatNoPortMakesIsAFaultOfThePeer) {
  make_network();
  ASSERT_NO_FATAL_FAILURE(start_node(NodeId(0), view_));
  start_enemy();
  ASSERT_NO_FATAL_FAILURE(send_garbage(NodeId(0), Flow::kCommit));
  parts().poll();
  std::optional<PeerFaults::Fault> fault = parts().context().faults.take();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->peer, enemy_id_);
  EXPECT_TRUE(fault->closed);
}

}  // namespace
}  // namespace weft
