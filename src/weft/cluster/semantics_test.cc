// What get, put, insert and erase mean, alone and within one transaction, for every protocol and many shapes of
// cluster.
#include <initializer_list>
#include <map>
#include <string>

#include "weft/base/random.h"
#include "weft/cluster/cluster_testing.h"

namespace weft {
namespace {

constexpr TableId kT(0);

class Semantics : public testing::TestWithParam<Shape> {
 protected:
  TestCluster cluster_{GetParam().options()};
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
    cluster_.on(n, [](Session& session) -> Task<void> {
      Txn txn = co_await session.begin();
      for (uint64_t k = 0; k < 20; ++k) {
        const Value v = co_await txn.get(kT, k);
        EXPECT_EQ(v.bytes, "v" + std::to_string(k));
      }
      EXPECT_TRUE(committed(co_await txn.commit()));
    });
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
    const Ticket read = txn.start_get(kT, 0, Intent::kUpdate);
    const Ticket other = txn.start_get(kT, 1, Intent::kUpdate);
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
  cluster_.on(0, [](Session& session) -> Task<void> {
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
      EXPECT_TRUE(aborted(co_await reader.commit(), Code::kVersionMoved)) << k;
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
    if (!seen.empty()) EXPECT_GT(version, seen.rbegin()->first);
    EXPECT_TRUE(seen.emplace(version, round).second);
    cluster_.start();
  }
}

TEST_P(Semantics, TheEmptyTransactionCommits) {
  cluster_.start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    EXPECT_TRUE(txn.poll_all());
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

// A random program against a map: every operation of one transaction at a time, from a random node.
TEST_P(Semantics, ARandomProgramIsWhatAMapDoes) {
  cluster_.start();
  std::map<uint64_t, std::string> twin;
  Random random(11);
  int wrong = 0;
  for (int step = 0; step < 60 && wrong == 0; ++step) {
    cluster_.on(static_cast<int>(random.below(static_cast<uint64_t>(last_) + 1)), [&](Session& session) -> Task<void> {
      Txn txn = co_await session.begin();
      std::map<uint64_t, std::string> next = twin;
      for (uint64_t op = random.between(1, 10); op > 0; --op) {
        const uint64_t key = random.below(12);
        const Intent intent = random.chance(50) ? Intent::kRead : Intent::kUpdate;
        const Value v = co_await txn.get(kT, key, intent);
        const auto at = next.find(key);
        if (v.found != (at != next.end()) || (v.found && v.bytes != at->second)) ++wrong;
        const std::string value(random.below(64), static_cast<char>('a' + random.below(26)));
        switch (random.below(4)) {
          case 0:
            break;
          case 1:
            txn.put(kT, key, value);
            next[key] = value;
            break;
          case 2:
            if (v.found) {
              txn.erase(kT, key);
              next.erase(key);
            }
            break;
          default:
            if (!v.found) {
              txn.insert(kT, key, value);
              next[key] = value;
            }
        }
      }
      const bool commits = random.chance(70);
      if (!commits) {
        if (random.chance(50)) txn.abort();
        co_return;
      }
      const Outcome outcome = co_await txn.commit();
      EXPECT_TRUE(committed(outcome));
      if (outcome.committed()) twin = next;
    });
  }
  EXPECT_EQ(wrong, 0);
  cluster_->stop();
  std::map<std::string, std::string> expected;
  for (const auto& [key, value] : twin) expected[bytes_of(key)] = value;
  EXPECT_EQ(cluster_.contents(), expected);
}

// What several writes of one key in one transaction come to. The order of the calls is their order.
struct Sequence {
  const char* ops;  // g get, p put, i insert, e erase
  bool present;     // before
  Code outcome;
  bool present_after;
};

class WriteSequence : public testing::TestWithParam<Shape> {
 protected:
  void check(std::initializer_list<Sequence> all) {
    TestCluster cluster(GetParam().options());
    cluster.start();
    uint64_t key = 0;
    for (const Sequence& s : all) {
      ++key;
      const std::string what = std::string(s.ops) + (s.present ? " on a present key" : " on an absent key");
      if (s.present) EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, key, "before")));
      cluster.on(0, [&](Session& session) -> Task<void> {
        Txn txn = co_await session.begin();
        for (const char* op = s.ops; *op != 0; ++op) {
          if (*op == 'g') co_await txn.get(kT, key, Intent::kUpdate);
          if (*op == 'p') txn.put(kT, key, "after");
          if (*op == 'i') txn.insert(kT, key, "after");
          if (*op == 'e') txn.erase(kT, key);
        }
        const Outcome outcome = co_await txn.commit();
        EXPECT_EQ(code_name(outcome.code), code_name(s.outcome)) << what << ": " << outcome.text();
      });
      EXPECT_EQ(cluster->get_one(NodeId(0), kT, key).found, s.present_after) << what;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Few, WriteSequence, testing::ValuesIn(few_shapes()), shape_name);

TEST_P(WriteSequence, TheLastWriteStays) {
  check({{"gpp", true, Code::kOk, true},
         {"gpe", true, Code::kOk, false},
         {"gpe", false, Code::kOk, false},
         {"gie", false, Code::kOk, false},
         {"gei", true, Code::kOk, true},
         {"ei", true, Code::kOk, true},
         {"gipp", false, Code::kOk, true},
         {"gpei", true, Code::kOk, true},
         {"geie", true, Code::kOk, false}});
}

// insert says that the key must not be there, erase that it must; a later write of the key does not take that back.
TEST_P(WriteSequence, ALaterWriteDoesNotTakeBackWhatAnEarlierOneDemands) {
  check({{"pi", false, Code::kExists, false},
         {"ii", false, Code::kExists, false},
         {"gi", true, Code::kExists, true},
         {"gie", true, Code::kExists, true},
         {"gip", true, Code::kExists, true},
         {"ip", true, Code::kExists, true},
         {"ei", false, Code::kNotFound, false},
         {"gei", false, Code::kNotFound, false},
         {"ep", false, Code::kNotFound, false},
         {"gep", false, Code::kNotFound, false},
         {"ee", true, Code::kNotFound, true},
         {"gee", true, Code::kNotFound, true}});
}

// A key this transaction has written is there for it, whether or not it was read before.
TEST_P(WriteSequence, EraseTakesBackABlindWrite) {
  check({{"pe", true, Code::kOk, false},
         {"pe", false, Code::kOk, false},
         {"ie", false, Code::kOk, false},
         {"ie", true, Code::kExists, true},
         {"eie", true, Code::kOk, false}});
}

}  // namespace
}  // namespace weft
