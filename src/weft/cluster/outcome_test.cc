// Outcomes of transactions, queried by their ids: at any node, for any worker, across threads.
#include <vector>

#include "weft/cluster/cluster_testing.h"

namespace weft {
namespace {

class OutcomeById : public testing::TestWithParam<Shape> {};

TEST_P(OutcomeById, AnyNodeAnswersForAnyWorker) {
  TestCluster cluster(GetParam().options());
  cluster.start();
  std::vector<TxnId> committed;
  std::vector<TxnId> aborted;
  for (int w = 0; w < GetParam().workers; ++w) {
    const auto body = [&](Session& session) -> Task<void> {
      for (uint64_t key = 0; key < 20; ++key) {
        Txn txn = co_await session.begin();
        txn.put(kT, key, "value");
        const Outcome outcome = co_await txn.commit();
        EXPECT_TRUE(outcome.committed() || outcome.kind == OutcomeKind::kAborted) << outcome.text();
        (outcome.committed() ? committed : aborted).push_back(outcome.id);
        Txn given_up = co_await session.begin();
        given_up.put(kT, key, "other");
        aborted.push_back(given_up.abort().id);
      }
    };
    cluster.wait(cluster->spawn(NodeId(0), WorkerId(static_cast<uint8_t>(w)), body));
  }
  EXPECT_FALSE(committed.empty());
  for (int n = 0; n < GetParam().nodes; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    for (const TxnId& id : committed) EXPECT_EQ(cluster->query_outcome(node, id), TxnStatus::kCommitted);
    for (const TxnId& id : aborted) EXPECT_EQ(cluster->query_outcome(node, id), TxnStatus::kAborted);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OutcomeById, testing::ValuesIn(all_shapes()), shape_name);

TEST(OutcomeOfCluster, NothingIsKnownWhileItDoesNotRun) {
  TestCluster cluster({});
  EXPECT_EQ(cluster->query_outcome(NodeId(0), TxnId{1, WorkerId(0), 1}), TxnStatus::kUnknownTxn);
  cluster.start();
  const Outcome outcome = cluster->put_one(NodeId(0), kT, 1, "value");
  EXPECT_TRUE(committed(outcome));
  EXPECT_EQ(cluster->query_outcome(NodeId(9), outcome.id), TxnStatus::kUnknownTxn);
  cluster->stop();
  EXPECT_EQ(cluster->query_outcome(NodeId(0), outcome.id), TxnStatus::kUnknownTxn);
}

// The workers are recreated, and their state with them: no earlier id may be reused.
TEST(OutcomeOfCluster, NoIdIsGivenTwice) {
  TestCluster cluster({});
  cluster.start();
  const Outcome before = cluster->put_one(NodeId(0), kT, 1, "value");
  EXPECT_EQ(cluster->query_outcome(NodeId(1), before.id), TxnStatus::kCommitted);
  cluster->stop();
  Options options;
  options.protocol = "dnl2";
  ASSERT_TRUE(cluster->reconfigure(options));
  cluster.start();
  const Outcome after = cluster->put_one(NodeId(0), kT, 1, "value");
  EXPECT_TRUE(committed(after));
  EXPECT_LT(before.id, after.id);
  EXPECT_EQ(cluster->query_outcome(NodeId(1), before.id), TxnStatus::kUnknownTxn);
  EXPECT_EQ(cluster->query_outcome(NodeId(1), after.id), TxnStatus::kCommitted);
}

}  // namespace
}  // namespace weft
