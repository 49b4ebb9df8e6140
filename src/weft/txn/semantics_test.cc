// What get, put, insert and erase mean, alone and within one transaction, for every protocol and many shapes of
// cluster.
#include <map>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/txn/stepped_cluster_testing.h"

namespace weft {
namespace {

class Semantics : public testing::TestWithParam<Shape> {
 protected:
  SteppedCluster cluster_{GetParam().options()};
  int last_ = GetParam().nodes - 1;
};

INSTANTIATE_TEST_SUITE_P(All, Semantics, testing::ValuesIn(all_shapes()), shape_name);

TEST_P(Semantics, WhatOneNodeCommitsAllOthersRead) {
  cluster_.start();
  for (uint64_t k = 0; k < 20; ++k) {
    auto put = [k](Txn& txn) -> Task<Code> { co_return txn.put(kT, k, "v" + std::to_string(k)); };
    EXPECT_TRUE(committed(cluster_->run(NodeId(static_cast<uint8_t>(k % static_cast<uint64_t>(last_ + 1))), {}, put)));
  }
  for (int n = 0; n <= last_; ++n) {
    std::vector<std::string> seen;
    auto read = [&seen](Txn& txn) -> Task<Code> {
      seen.clear();
      for (uint64_t k = 0; k < 20; ++k) seen.emplace_back((co_await txn.get(kT, k)).bytes);
      co_return Code::kOk;
    };
    EXPECT_TRUE(committed(cluster_->run(NodeId(static_cast<uint8_t>(n)), {.backoff_us = 1}, read)));
    for (uint64_t k = 0; k < 20; ++k) EXPECT_EQ(seen[k], "v" + std::to_string(k));
  }
}

TEST_P(Semantics, AbsentKeysAreReadAsAbsentAndThatCommits) {
  cluster_.start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    for (uint64_t k = 100; k < 110; ++k) {
      const Value v = co_await txn.get(kT, k, k % 2 == 0 ? Intent::kRead : Intent::kUpdate);
      EXPECT_EQ(v.code, Code::kOk);
      EXPECT_FALSE(v.found);
      EXPECT_FALSE(v);
    }
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  cluster_->stop();
  EXPECT_EQ(cluster_->table_use(kT).records, 0U) << "reading makes no record";
}

TEST_P(Semantics, ATransactionReadsItsOwnWrites) {
  cluster_.load(4, "old").start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    EXPECT_EQ(txn.put(kT, 0, "blind"), Code::kOk);
    EXPECT_EQ((co_await txn.get(kT, 0)).bytes, "blind");
    EXPECT_EQ((co_await txn.get(kT, 1)).bytes, "old");
    EXPECT_EQ(txn.put(kT, 1, "once"), Code::kOk);
    EXPECT_EQ(txn.put(kT, 1, "twice"), Code::kOk);
    EXPECT_EQ((co_await txn.get(kT, 1)).bytes, "twice");
    EXPECT_EQ(txn.erase(kT, 2), Code::kOk);
    EXPECT_FALSE((co_await txn.get(kT, 2)).found);
    EXPECT_EQ(txn.insert(kT, 77, "new"), Code::kOk);
    EXPECT_EQ((co_await txn.get(kT, 77, Intent::kUpdate)).bytes, "new");
    EXPECT_EQ((co_await txn.get(kT, 3)).bytes, "old");
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  cluster_->stop();
  const auto contents = cluster_.contents();
  EXPECT_EQ(contents,
            (std::map<std::string, std::string>{
                {bytes_of(0), "blind"}, {bytes_of(1), "twice"}, {bytes_of(3), "old"}, {bytes_of(77), "new"}}));
}

TEST_P(Semantics, AWriteHidesAReadThatIsStillUnderWay) {
  cluster_.load(2, "old").start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    const ReadHandle read = txn.get_async(kT, 0, Intent::kUpdate);
    const ReadHandle other = txn.get_async(kT, 1, Intent::kUpdate);
    txn.put(kT, 0, "mine");
    txn.erase(kT, 1);
    co_await txn.wait_all();
    EXPECT_EQ(txn.value(read).bytes, "mine");
    EXPECT_FALSE(txn.value(other).found);
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  cluster_->stop();
  EXPECT_EQ(cluster_.contents(), (std::map<std::string, std::string>{{bytes_of(0), "mine"}}));
}

TEST_P(Semantics, InsertOfAPresentKeyAbortsAndNamesIt) {
  cluster_.load(3, "old").start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    for (const bool read_first : {false, true}) {
      for (const Intent intent : {Intent::kRead, Intent::kUpdate}) {
        Txn txn = co_await session.begin();
        txn.put(kT, 50, "must not stay");
        if (read_first) co_await txn.get(kT, 1, intent);
        EXPECT_EQ(txn.insert(kT, 1, "x"), Code::kOk);
        const Outcome outcome = co_await txn.commit();
        EXPECT_TRUE(aborted(outcome, Code::kExists)) << read_first;
        EXPECT_EQ(key_of(outcome), bytes_of(1));
        EXPECT_EQ(outcome.table, kT);
      }
    }
  });
  cluster_->stop();
  EXPECT_FALSE(cluster_.contents().contains(bytes_of(50))) << "all or nothing";
}

TEST_P(Semantics, EraseOfAnAbsentKeyAbortsAndNamesIt) {
  cluster_.load(3, "old").start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    for (const bool read_first : {false, true}) {
      for (const Intent intent : {Intent::kRead, Intent::kUpdate}) {
        Txn txn = co_await session.begin();
        txn.put(kT, 0, "must not stay");
        if (read_first) co_await txn.get(kT, 40, intent);
        EXPECT_EQ(txn.erase(kT, 40), Code::kOk);
        const Outcome outcome = co_await txn.commit();
        EXPECT_TRUE(aborted(outcome, Code::kNotFound)) << read_first;
        EXPECT_EQ(key_of(outcome), bytes_of(40));
      }
    }
  });
  cluster_->stop();
  EXPECT_EQ(cluster_.contents().at(bytes_of(0)), "old");
}

// Rule G1: through delete and re-insert no version comes back, so what was read before cannot pass for current.
TEST_P(Semantics, AReadDoesNotSurviveEraseAndInsertOfTheSameValue) {
  cluster_.load(8, "same").start();
  const std::string_view protocol = GetParam().protocol;
  cluster_.on(0, [protocol](Session& session) -> Task<void> {
    for (uint64_t k = 0; k < 8; ++k) {
      Txn reader = co_await session.begin();
      EXPECT_EQ((co_await reader.get(kT, k)).bytes, "same");
      {
        Txn eraser = co_await session.begin();
        eraser.erase(kT, k);
        EXPECT_TRUE(committed(co_await eraser.commit()));
      }
      {
        Txn inserter = co_await session.begin();
        inserter.insert(kT, k, "same");
        EXPECT_TRUE(committed(co_await inserter.commit()));
      }
      EXPECT_TRUE(aborted_by_change(co_await reader.commit(), protocol)) << k;
    }
  });
}

TEST_P(Semantics, AbsenceDoesNotSurviveInsertAndErase) {
  cluster_.start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    for (uint64_t k = 0; k < 8; ++k) {
      Txn reader = co_await session.begin();
      EXPECT_FALSE((co_await reader.get(kT, k)).found);
      reader.put(kT, 100 + k, "depends on the absence");
      {
        Txn txn = co_await session.begin();
        txn.insert(kT, k, "for a moment");
        EXPECT_TRUE(committed(co_await txn.commit()));
      }
      {
        Txn txn = co_await session.begin();
        txn.erase(kT, k);
        EXPECT_TRUE(committed(co_await txn.commit()));
      }
      EXPECT_TRUE(aborted(co_await reader.commit(), Code::kVersionMoved)) << k;
    }
  });
}

TEST_P(Semantics, VersionsOnlyGoUp) {
  cluster_.load(1, "v").start();
  std::map<uint64_t, int> seen;
  for (int round = 0; round < 6; ++round) {
    if (round % 3 == 1) {
      EXPECT_TRUE(committed(cluster_->erase_one(NodeId(0), kT, 0)));
      EXPECT_TRUE(committed(cluster_->insert_one(NodeId(0), kT, 0, "again")));
    } else {
      EXPECT_TRUE(committed(cluster_->put_one(NodeId(0), kT, 0, "more")));
    }
    cluster_->stop();
    uint64_t version = 0;
    cluster_->visit(kT, [&](NodeId, bool primary, std::string_view, std::string_view, uint64_t v) {
      if (primary) version = v;
    });
    EXPECT_GT(version, seen.empty() ? 0 : seen.rbegin()->first);
    EXPECT_TRUE(seen.emplace(version, round).second);
    cluster_.start();
  }
}

TEST_P(Semantics, TheEmptyTransactionCommits) {
  cluster_.start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    EXPECT_TRUE(txn.all_ready());
    co_await txn.wait_all();
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
  const Counters counters = cluster_->counters();
  EXPECT_EQ(counters.committed, 1U);
  EXPECT_EQ(counters.commit_round_trips, 0U);
}

TEST_P(Semantics, AReadOnlyTransactionSeesOneMoment) {
  cluster_.load(4, "0").start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn reader = co_await session.begin();
    co_await reader.get(kT, 0);
    {
      Txn writer = co_await session.begin();
      writer.put(kT, 0, "1");
      writer.put(kT, 1, "1");
      EXPECT_TRUE(committed(co_await writer.commit()));
    }
    const Value after = co_await reader.get(kT, 1);
    const Outcome outcome = co_await reader.commit();
    EXPECT_TRUE(aborted(outcome, Code::kVersionMoved)) << "read 0 before and " << after.bytes << " after";
  });
}

TEST_P(Semantics, DisjointTransactionsDoNotDisturbEachOther) {
  cluster_.load(8, "0").start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn a = co_await session.begin();
    Txn b = co_await session.begin();
    co_await a.get(kT, 0, Intent::kUpdate);
    co_await b.get(kT, 1, Intent::kUpdate);
    co_await a.get(kT, 2);
    co_await b.get(kT, 2);
    a.put(kT, 0, "a");
    b.put(kT, 1, "b");
    EXPECT_TRUE(committed(co_await a.commit()));
    EXPECT_TRUE(committed(co_await b.commit()));
    EXPECT_NE(a.id(), b.id());
  });
}

TEST_P(Semantics, BlindPutsOfTheSameKeyBothCommit) {
  cluster_.start();
  cluster_.on(last_, [](Session& session) -> Task<void> {
    Txn a = co_await session.begin();
    Txn b = co_await session.begin();
    a.put(kT, 5, "first");
    b.put(kT, 5, "second");
    EXPECT_TRUE(committed(co_await a.commit()));
    EXPECT_TRUE(committed(co_await b.commit()));
  });
  EXPECT_EQ(cluster_->get_one(NodeId(0), kT, 5).value, "second");
}

// A random program against a map: one transaction at a time, each from a random node. Reads are compared when the
// transaction has committed; before that they may be old.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  // True if the transaction committed as the map says, or was not meant to commit; false: try again.
  Task<bool> step(Session& session, bool commits) {
    Txn txn = co_await session.begin();
    std::map<uint64_t, std::string> next = twin;
    for (uint64_t op = random_.between(1, 10); op > 0; --op) {
      const uint64_t key = random_.below(12);
      const Value v = co_await txn.get(TableId(0), key, random_.chance(50) ? Intent::kRead : Intent::kUpdate);
      const auto at = next.find(key);
      if (v.found != (at != next.end()) || (v.found && v.bytes != at->second)) co_return false;
      write(txn, key, v.found, &next);
    }
    if (!commits) {
      if (random_.chance(50)) txn.abort();
      co_return true;
    }
    const Outcome outcome = co_await txn.commit();
    if (outcome.committed()) twin = next;
    EXPECT_TRUE(outcome.committed() || code_retryable(outcome.code)) << outcome.text();
    co_return outcome.committed();
  }

  std::map<uint64_t, std::string> twin;

 private:
  void write(Txn& txn, uint64_t key, bool found, std::map<uint64_t, std::string>* next) {
    const std::string value(random_.below(64), static_cast<char>('a' + random_.below(26)));
    const uint64_t what = random_.below(4);
    if (what == 1) {
      txn.put(TableId(0), key, value);
    } else if (what == 2 && found) {
      txn.erase(TableId(0), key);
    } else if (what == 3 && !found) {
      txn.insert(TableId(0), key, value);
    } else {
      return;
    }
    if (what == 2) {
      next->erase(key);
    } else {
      (*next)[key] = value;
    }
  }

  Random random_;
};

TEST_P(Semantics, ARandomProgramIsWhatAMapDoes) {
  cluster_.start();
  RandomProgram program(11);
  Random random(12);
  for (int step = 0; step < 60; ++step) {
    const int node = static_cast<int>(random.below(static_cast<uint64_t>(last_) + 1));
    const bool commits = random.chance(70);
    cluster_.on(node, [&](Session& session) -> Task<void> {
      for (int attempt = 0; attempt < 1000; ++attempt) {
        Task<bool> task = program.step(session, commits);
        const bool done = co_await task;
        if (done) co_return;
        co_await session.sleep_ns(10'000);
      }
      ADD_FAILURE() << "never as the map says";
    });
  }
  cluster_->stop();
  std::map<std::string, std::string> expected;
  for (const auto& [key, value] : program.twin) expected[bytes_of(key)] = value;
  EXPECT_EQ(cluster_.contents(), expected);
}

// In one cluster, with rows that fit.
TEST(Semantics, ATransactionChoosesItsRow) {
  Options options;
  options.nodes = 3;
  options.replicas = 3;
  options.protocol = "dnl4+fasst";
  SteppedCluster cluster(options);
  cluster.load(4, bytes_of(0)).start();
  for (const char* row : {"dnl4", "fasst", "dnl4"}) {
    cluster.on(0, [row](Session& session) -> Task<void> {
      Txn txn = co_await session.begin();
      EXPECT_EQ(txn.set_protocol("dnl1"), Code::kInvalidArgument) << "the cluster does not run it";
      EXPECT_EQ(txn.set_protocol(row), Code::kOk);
      const Value value = co_await txn.get(kT, 1, Intent::kUpdate);
      EXPECT_EQ(txn.set_protocol(row), Code::kInvalidArgument) << "too late";
      txn.put(kT, 1, bytes_of(integer(value.bytes) + 1));
      EXPECT_TRUE(committed(co_await txn.commit()));
    });
  }
  cluster.on(1, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    const Value value = co_await txn.get(kT, 1);
    EXPECT_EQ(integer(value.bytes), 3U);
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
}

}  // namespace
}  // namespace weft
