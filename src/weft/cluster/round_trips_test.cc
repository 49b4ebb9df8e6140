// Round trips and messages of a commit are counted, and the counts are the paper's: 4, 2, 1 for a transaction with a
// read-only key and a written key of which the coordinator holds no replica.
#include <string>

#include "weft/cluster/cluster_testing.h"
#include "weft/txn/engine.h"
#include "weft/txn/protocol.h"

namespace weft {
namespace {

constexpr TableId kT(0);
constexpr uint64_t kKeys = 200;

struct Expected {
  const char* protocol;
  int trips;
  // Messages with their answers, on disjoint replicas: lock, validate, replicate, unlock, and the notices at the end.
  uint64_t lock, validate, replicate, unlock, notices;
};

void PrintTo(const Expected& e, std::ostream* out) { *out << e.protocol; }

class RoundTrips : public testing::TestWithParam<Expected> {
 protected:
  // A key whose replicas are exactly these nodes.
  static uint64_t key_at(const TestCluster& cluster, uint64_t mask, int primary, uint64_t not_this = UINT64_MAX) {
    for (const auto& [key, place] : cluster.places()) {
      if (place.mask == mask && place.primary.value == primary && key != not_this) return key;
    }
    ADD_FAILURE() << "no such key";
    return 0;
  }
  static Options options(int nodes, int replicas) {
    Options o;
    o.protocol = GetParam().protocol;
    o.nodes = nodes;
    o.replicas = replicas;
    return o;
  }
  static uint64_t phase(const Counters& c, Phase p) { return c.phase_messages[static_cast<int>(p)]; }
};

INSTANTIATE_TEST_SUITE_P(All, RoundTrips,
                         testing::Values(Expected{"dnl4", 4, 2, 2, 4, 2, 3}, Expected{"dnl2", 2, 4, 0, 6, 4, 4},
                                         Expected{"dnl1", 1, 12, 0, 0, 12, 6}, Expected{"fasst", 3, 0, 2, 4, 2, 3}),
                         [](const auto& param) { return std::string(param.param.protocol); });

TEST_P(RoundTrips, OfAFullyRemoteCommitAreThePapers) {
  TestCluster cluster(options(7, 3));
  cluster.load(kKeys, "0");
  const uint64_t read = key_at(cluster, 0b0001110, 1);
  const uint64_t written = key_at(cluster, 0b1110000, 4);
  cluster.start();
  cluster.on(0, [=](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    EXPECT_TRUE((co_await txn.get(kT, read)).found);
    EXPECT_TRUE((co_await txn.get(kT, written, Intent::kUpdate)).found);
    txn.put(kT, written, "1");
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  cluster->stop();
  const Counters counters = cluster->counters();
  const Expected& e = GetParam();
  EXPECT_EQ(counters.commits_counted, 1U);
  EXPECT_EQ(counters.commit_round_trips, static_cast<uint64_t>(e.trips));
  EXPECT_EQ(static_cast<int>(counters.commit_round_trips), round_trips(*find_protocol(e.protocol)));
  EXPECT_EQ(phase(counters, Phase::kExecute), 4U);
  EXPECT_EQ(phase(counters, Phase::kLock), e.lock);
  EXPECT_EQ(phase(counters, Phase::kValidate), e.validate);
  EXPECT_EQ(phase(counters, Phase::kReplicate), e.replicate);
  EXPECT_EQ(phase(counters, Phase::kUnlock), e.unlock + e.notices);
  EXPECT_EQ(counters.remote_gets, 2U);
  EXPECT_EQ(counters.local_gets, 0U);
  EXPECT_EQ(counters.committed, 1U);
}

TEST_P(RoundTrips, OfAReadOnlyCommitIsOne) {
  TestCluster cluster(options(7, 3));
  cluster.load(kKeys, "0");
  const uint64_t a = key_at(cluster, 0b0001110, 1);
  const uint64_t b = key_at(cluster, 0b1110000, 4);
  cluster.start();
  cluster.on(0, [=](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kT, a);
    co_await txn.get(kT, b);
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  const Counters counters = cluster->counters();
  EXPECT_EQ(counters.commit_round_trips, 1U);
  EXPECT_EQ(phase(counters, Phase::kLock), 0U);
  EXPECT_EQ(phase(counters, Phase::kUnlock), 0U);
}

TEST_P(RoundTrips, ABlindWriteHasNothingToValidate) {
  TestCluster cluster(options(7, 3));
  cluster.load(kKeys, "0");
  const uint64_t written = key_at(cluster, 0b1110000, 4);
  cluster.start();
  EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, written, "1")));
  // fasst has no read here that could have locked, so it locks at commit.
  const std::string_view protocol = GetParam().protocol;
  const uint64_t expected = protocol == "dnl1" ? 1 : protocol == "dnl2" ? 2 : 3;
  EXPECT_EQ(cluster->counters().commit_round_trips, expected);
}

TEST_P(RoundTrips, OneWhereTheCoordinatorIsThePrimary) {
  TestCluster cluster(options(7, 3));
  cluster.load(kKeys, "0");
  const uint64_t a = key_at(cluster, 0b0000111, 0);
  const uint64_t b = key_at(cluster, 0b0000111, 0, a);
  cluster.start();
  cluster.on(0, [=](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kT, a);
    co_await txn.get(kT, b, Intent::kUpdate);
    txn.put(kT, b, "1");
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  EXPECT_EQ(cluster->counters().commit_round_trips, 1U) << "only the backups are elsewhere";
}

TEST_P(RoundTrips, NoneWhereEverythingIsLocal) {
  TestCluster cluster(options(1, 1));
  cluster.load(2, "0").start();
  cluster.on(0, [=](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kT, 0);
    co_await txn.get(kT, 1, Intent::kUpdate);
    txn.put(kT, 1, "1");
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  const Counters counters = cluster->counters();
  EXPECT_EQ(counters.commit_round_trips, 0U);
  for (int p = 0; p < kPhases; ++p) EXPECT_EQ(counters.phase_messages[p], 0U) << p;
}

// An abort of dnl1 is told when all who locked have said that they let go: two round trips. The others' is told at
// once.
TEST_P(RoundTrips, AnAbortOfDnl1IsToldAfterTheUnlockAnswers) {
  TestCluster cluster(options(7, 3));
  cluster.load(kKeys, "0");
  const uint64_t read = key_at(cluster, 0b0001110, 1);
  const uint64_t written = key_at(cluster, 0b1110000, 4);
  cluster.start();
  cluster.on(0, [=](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kT, read);
    co_await txn.get(kT, written, Intent::kUpdate);
    txn.put(kT, written, "never");
    {
      Txn other = co_await session.begin();
      other.put(kT, read, "moved");
      EXPECT_TRUE(committed(co_await other.commit()));
      co_await session.sleep_ns(20'000'000);  // its notices have left
    }
    const Counters before = session.engine()->counters();
    EXPECT_TRUE(aborted(co_await txn.commit(), Code::kVersionMoved));
    const Counters after = session.engine()->counters();
    const uint64_t unlocks = phase(after, Phase::kUnlock) - phase(before, Phase::kUnlock);
    const uint64_t locks = phase(after, Phase::kLock) - phase(before, Phase::kLock);
    const std::string_view protocol = GetParam().protocol;
    EXPECT_EQ(after.aborts_counted - before.aborts_counted, 1U);
    if (protocol == "dnl1") {
      EXPECT_EQ(after.abort_round_trips - before.abort_round_trips, 2U);
      EXPECT_EQ(locks, 12U);
      EXPECT_EQ(unlocks, 6U) << "the written key's three replicas, with their answers";
    } else {
      EXPECT_EQ(unlocks, 1U) << "on its way, and nobody waited for the answer";
    }
    EXPECT_EQ(after.aborts_by_code[static_cast<int>(Code::kVersionMoved)], 1U);
  });
  EXPECT_EQ(cluster->counters().aborted, 1U);
}

TEST(Counters, AddUp) {
  Counters a;
  a.committed = 1;
  a.steps = 5;
  a.aborts_by_code[3] = 2;
  Counters b = a;
  b.phase_messages[4] = 9;
  a.add(b);
  EXPECT_EQ(a.committed, 2U);
  EXPECT_EQ(a.steps, 10U);
  EXPECT_EQ(a.aborts_by_code[3], 4U);
  EXPECT_EQ(a.phase_messages[4], 9U);
}

}  // namespace
}  // namespace weft
