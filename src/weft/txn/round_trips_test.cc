// Round trips and messages of a commit are counted, and the counts are the paper's: 4, 2, 1 for a transaction with a
// read-only key and a written key of which the coordinator holds no replica.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/txn/protocol.h"
#include "weft/txn/stepped_cluster_testing.h"
#include "weft/txn/txn_worker.h"

namespace weft {
namespace {

constexpr uint64_t kKeys = 200;

struct Expected {
  const char* protocol;
  int trips;
  // Messages with their answers, on disjoint replicas: lock, validate, replicate, unlock, and the notices at the end.
  uint64_t lock, validate, replicate, unlock, notices;
  // Verbs: CAS and READ to lock, READs to validate, WRITEs to log and to commit.
  uint64_t swaps = 0, lock_reads = 0, checks = 0, logs = 0, installs = 0;
};

void PrintTo(const Expected& e, std::ostream* out) { *out << e.protocol; }

// Seven nodes with three replicas of each key. Node 0 coordinates.
class RoundTrips : public testing::TestWithParam<Expected> {
 protected:
  RoundTrips() {
    cluster_.load(kKeys, "0").start();
    at_123_ = key_at(node_set({1, 2, 3}), 1);
    at_456_ = key_at(node_set({4, 5, 6}), 4);
  }

  // A key whose replicas are exactly these nodes.
  uint64_t key_at(NodeSet replicas, int primary, uint64_t not_this = UINT64_MAX) const {
    for (const auto& [key, place] : cluster_.places()) {
      if (place.in_sync == replicas && place.primary.value == primary && key != not_this) return key;
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
  // Reads one key and updates another.
  static Task<void> update(Session& session, uint64_t read, uint64_t written) {
    Txn txn = co_await session.begin();
    EXPECT_TRUE((co_await txn.get(kT, read)).found);
    EXPECT_TRUE((co_await txn.get(kT, written, Intent::kUpdate)).found);
    txn.put(kT, written, "1");
    EXPECT_TRUE(committed(co_await txn.commit()));
  }
  static uint64_t phase(const Counters& c, Phase p) { return c.phase_messages[static_cast<int>(p)]; }
  static const Protocol& row() { return *find_protocol(GetParam().protocol); }

  SteppedCluster cluster_{options(7, 3)};
  uint64_t at_123_ = 0;  // a key whose primary is node 1 and whose backups are nodes 2 and 3
  uint64_t at_456_ = 0;  // likewise
};

constexpr Expected kExpected[] = {{"dnl4", 4, 2, 2, 4, 2, 3},
                                  {"dnl2", 2, 4, 0, 6, 4, 4},
                                  {"dnl1", 1, 12, 0, 0, 12, 6},
                                  {"fasst", 3, 0, 2, 4, 2, 3},
                                  {"farm", 4, 2, 0, 0, 2, 3, 0, 0, 1, 2, 0},
                                  {"drtmr", 3, 0, 0, 0, 0, 3, 1, 1, 1, 3, 2},
                                  {"drtmh", 3, 0, 0, 0, 0, 3, 1, 1, 1, 3, 2},
                                  {"drtmh-nc", 3, 0, 0, 0, 0, 3, 1, 1, 1, 3, 2},
                                  {"hop", 2, 0, 2, 6, 2, 3}};

TEST(RoundTripsExpected, EveryRowHasItsNumbers) {
  for (const Protocol& row : kProtocols) {
    EXPECT_TRUE(std::any_of(std::begin(kExpected), std::end(kExpected), [&](const Expected& e) {
      return e.protocol == row.name;
    })) << row.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundTrips, testing::ValuesIn(kExpected), [](const auto& param) {
  std::string name = param.param.protocol;
  std::erase(name, '-');
  return name;
});

TEST_P(RoundTrips, OfAFullyRemoteCommitAreThePapers) {
  cluster_.on(0, [this](Session& session) { return update(session, at_123_, at_456_); });
  cluster_.stop();
  const Counters counters = cluster_.counters();
  const Expected& e = GetParam();
  EXPECT_EQ(counters.commits_counted, 1U);
  EXPECT_EQ(counters.commit_round_trips, static_cast<uint64_t>(e.trips));
  EXPECT_EQ(static_cast<int>(counters.commit_round_trips), round_trips(*find_protocol(e.protocol)));
  EXPECT_EQ(phase(counters, Phase::kExecute), 4U);
  EXPECT_EQ(phase(counters, Phase::kLock), e.lock);
  EXPECT_EQ(phase(counters, Phase::kValidate), e.validate);
  EXPECT_EQ(phase(counters, Phase::kReplicate), e.replicate);
  EXPECT_EQ(phase(counters, Phase::kUnlock), e.unlock + e.notices);
  EXPECT_EQ(counters.phase_swaps[static_cast<int>(Phase::kLock)], e.swaps);
  EXPECT_EQ(counters.phase_reads[static_cast<int>(Phase::kLock)], e.lock_reads);
  EXPECT_EQ(counters.phase_reads[static_cast<int>(Phase::kValidate)], e.checks);
  EXPECT_EQ(counters.phase_writes[static_cast<int>(Phase::kReplicate)], e.logs);
  EXPECT_EQ(counters.phase_writes[static_cast<int>(Phase::kUnlock)], e.installs);
  EXPECT_EQ(counters.remote_gets, 2U);
  EXPECT_EQ(counters.local_gets, 0U);
  EXPECT_EQ(counters.committed, 1U);
}

// Record locations are known after the first time: one READ per record, or two without a location cache.
TEST_P(RoundTrips, OfARepeatedReadIsOneReadOrTwo) {
  if (!row().verbs()) GTEST_SKIP() << "reads by message";
  cluster_.on(0, [this](Session& session) -> Task<void> {
    for (int i = 0; i < 5; ++i) {
      Txn txn = co_await session.begin();
      EXPECT_TRUE((co_await txn.get(kT, at_456_)).found);
      EXPECT_TRUE(committed(co_await txn.commit()));
    }
  });
  const Counters counters = cluster_.counters();
  EXPECT_EQ(phase(counters, Phase::kExecute), 2U) << "the first, by message";
  EXPECT_EQ(counters.phase_reads[static_cast<int>(Phase::kExecute)], row().location_cache ? 4U : 8U);
  EXPECT_EQ(counters.phase_reads[static_cast<int>(Phase::kValidate)], 5U);
  EXPECT_EQ(phase(counters, Phase::kValidate), 0U);
  EXPECT_EQ(counters.places_stale, 0U);
}

// Reads by verbs that are started together are in flight together, at whatever nodes: the client waits once.
TEST_P(RoundTrips, OfIndependentReadsAreThoseOfOne) {
  if (!row().verbs()) GTEST_SKIP() << "reads by message";
  std::vector<uint64_t> keys;
  for (const auto& [key, place] : cluster_.places()) {
    if (!place.in_sync.contains(NodeId(0))) keys.push_back(key);
  }
  ASSERT_GE(keys.size(), 8U);
  keys.resize(8);
  cluster_.on(0, [=](Session& session) -> Task<void> {
    TxnWorker* const txn_worker = session.txn_worker();
    for (const uint64_t key : keys) {  // so that their locations are known
      Txn txn = co_await session.begin();
      co_await txn.get(kT, key);
    }
    const uint64_t reads_each = row().location_cache ? 1 : 2;
    const auto reads = [&] { return txn_worker->counters().phase_reads[static_cast<int>(Phase::kExecute)]; };
    Txn txn = co_await session.begin();
    const uint64_t begun = txn_worker->context().worker->steps();
    co_await txn.get(kT, keys[0]);
    const uint64_t of_one = txn_worker->context().worker->steps() - begun;
    const uint64_t reads_before = reads();
    std::vector<ReadHandle> handles;
    for (size_t i = 1; i < keys.size(); ++i) handles.push_back(txn.get_async(kT, keys[i]));
    EXPECT_FALSE(txn.all_ready()) << "nothing has waited yet";
    const uint64_t started = txn_worker->context().worker->steps();
    co_await txn.wait(handles.front());  // the first use
    EXPECT_EQ(txn_worker->context().worker->steps() - started, of_one);
    EXPECT_TRUE(txn.all_ready()) << "the others are there as well";
    EXPECT_EQ(reads() - reads_before, handles.size() * reads_each);
    for (const ReadHandle handle : handles) EXPECT_TRUE(txn.value(handle).found);
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
}

TEST_P(RoundTrips, OfAReadOnlyCommitIsOne) {
  cluster_.on(0, [this](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kT, at_123_);
    co_await txn.get(kT, at_456_);
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  const Counters counters = cluster_.counters();
  EXPECT_EQ(counters.commit_round_trips, 1U);
  EXPECT_EQ(phase(counters, Phase::kLock), 0U);
  EXPECT_EQ(phase(counters, Phase::kUnlock), 0U);
}

// Rule G7.
TEST_P(RoundTrips, OfAReadOnlyCommitAtABackupIsNoneWhereReadsAreLocked) {
  const uint64_t a = key_at(node_set({0, 1, 6}), 6), b = key_at(node_set({0, 1, 2}), 0);
  cluster_.on(0, [=](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kT, a);
    co_await txn.get(kT, b);
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  EXPECT_EQ(cluster_.counters().commit_round_trips, row().locks_reads() ? 0U : 1U);
}

TEST_P(RoundTrips, ABlindWriteHasNothingToValidate) {
  EXPECT_TRUE(committed(cluster_.put_one(NodeId(0), kT, at_456_, "1")));
  // fasst has no read here that could have locked, so it locks at commit.
  const std::string_view protocol = GetParam().protocol;
  const bool told_by_the_log = protocol == "dnl2" || protocol == "hop" || protocol.starts_with("drtm");
  const uint64_t expected = protocol == "dnl1" ? 1 : told_by_the_log ? 2 : 3;
  EXPECT_EQ(cluster_.counters().commit_round_trips, expected);
}

TEST_P(RoundTrips, OneWhereTheCoordinatorIsThePrimary) {
  const uint64_t a = key_at(node_set({0, 1, 2}), 0);
  const uint64_t b = key_at(node_set({0, 1, 2}), 0, a);
  cluster_.on(0, [=](Session& session) { return update(session, a, b); });
  EXPECT_EQ(cluster_.counters().commit_round_trips, 1U) << "only the backups are elsewhere";
}

TEST_P(RoundTrips, NoneWhereEverythingIsLocal) {
  SteppedCluster one(options(1, 1));
  one.load(2, "0").start();
  one.on(0, [](Session& session) { return update(session, 0, 1); });
  const Counters counters = one.counters();
  EXPECT_EQ(counters.commit_round_trips, 0U);
  for (int p = 0; p < kPhases; ++p) EXPECT_EQ(counters.phase_messages[p], 0U) << p;
}

// An abort of dnl1 is acknowledged when all who locked have answered that they released: two round trips. Other rows
// acknowledge it at once.
TEST_P(RoundTrips, AnAbortOfDnl1IsToldAfterTheUnlockAnswers) {
  cluster_.on(0, [this](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kT, at_123_);
    co_await txn.get(kT, at_456_, Intent::kUpdate);
    txn.put(kT, at_456_, "never");
    {
      Txn other = co_await session.begin();
      other.put(kT, at_123_, "moved");
      EXPECT_TRUE(committed(co_await other.commit()));
      // Waits until its notices have left: they go after the coroutines that wake up, so after the first sleep if that
      // ends late.
      for (int i = 0; i < 2; ++i) co_await session.sleep_ns(20'000'000);
    }
    const Counters before = session.txn_worker()->counters();
    EXPECT_TRUE(aborted(co_await txn.commit(), Code::kVersionMoved));
    const Counters after = session.txn_worker()->counters();
    const uint64_t unlocks = phase(after, Phase::kUnlock) - phase(before, Phase::kUnlock);
    const uint64_t locks = phase(after, Phase::kLock) - phase(before, Phase::kLock);
    const std::string_view protocol = GetParam().protocol;
    EXPECT_EQ(after.aborts_counted - before.aborts_counted, 1U);
    if (protocol == "dnl1") {
      EXPECT_EQ(after.abort_round_trips - before.abort_round_trips, 2U);
      EXPECT_EQ(locks, 12U);
      EXPECT_EQ(unlocks, 6U) << "the written key's three replicas, with their answers";
    } else if (protocol.starts_with("drtm")) {
      EXPECT_EQ(unlocks, 0U);
      EXPECT_EQ(after.phase_swaps[static_cast<int>(Phase::kUnlock)], 1U) << "a verb unlocks";
    } else {
      EXPECT_EQ(unlocks, 1U) << "on its way, and nobody waited for the answer";
    }
    EXPECT_EQ(after.aborts_by_code[static_cast<int>(Code::kVersionMoved)], 1U);
  });
  EXPECT_EQ(cluster_.counters().aborted, 1U);
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
