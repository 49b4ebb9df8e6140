#include "weft/txn/row_set.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(RowSet, OneRowIsASet) {
  for (const Protocol& row : kRows) {
    const Result<RowSet> set = RowSet::parse(row.name);
    ASSERT_TRUE(set) << set.error().text();
    EXPECT_EQ(set->size(), 1U);
    EXPECT_EQ(set->first().name, row.name);
    EXPECT_EQ(set->names(), row.name);
    EXPECT_EQ(set->uses_verbs(), row.verbs());
  }
}

TEST(RowSet, RowsThatFitAreOneCluster) {
  const Result<RowSet> set = RowSet::parse("farm+drtmr+drtmh-nc");
  ASSERT_TRUE(set) << set.error().text();
  EXPECT_EQ(set->names(), "farm+drtmr+drtmh-nc");
  EXPECT_EQ(set->find("farm"), 0);
  EXPECT_EQ(set->find("drtmh-nc"), 2);
  EXPECT_FALSE(set->find("drtmh"));
  EXPECT_TRUE(set->locks_by_verb()) << "drtmr does";
  EXPECT_TRUE(set->remembers_locations()) << "farm does";
  EXPECT_FALSE(set->backups_answer_reads());
}

TEST(RowSet, RowsThatDoNotFitAreRefusedWithTheReason) {
  const auto why = [](std::string_view names) {
    const Result<RowSet> set = RowSet::parse(names);
    return set ? std::string() : set.error().detail;
  };
  EXPECT_NE(why("dnl4+dnl1").find("one locks primaries only, the other all replicas"), std::string::npos);
  EXPECT_NE(why("dnl4+farm").find("their backups apply at different times"), std::string::npos);
  EXPECT_NE(why("dnl4+dnl2").find("only one of them lets backups answer"), std::string::npos);
  EXPECT_NE(why("fasst+dnl4+dnl2").find("fasst and dnl2"), std::string::npos) << "names the two";
  EXPECT_NE(why("dnl4+dnl4").find("twice"), std::string::npos);
  for (const char* names : {"", "+", "dnl4+", "+dnl4", "dnl3", "dnl4+dnl3", "dnl4,fasst"}) {
    EXPECT_NE(why(names).find("must be one of dnl4, "), std::string::npos) << names;
  }
}

TEST(RowSet, MixesAreTheLargestSetsThatFit) {
  for (const std::string& names : RowSet::mixes()) {
    const Result<RowSet> set = RowSet::parse(names);
    ASSERT_TRUE(set) << set.error().text();
    EXPECT_GT(set->size(), 1U) << names;
    for (const Protocol& row : kProtocols) {
      EXPECT_EQ(unfit(set->first(), row).empty(), set->find(row.name).has_value()) << names << " " << row.name;
    }
  }
  EXPECT_EQ(RowSet::mixes().front(), "dnl4+fasst+hop");
}

// What fits is an equivalence: which rows run together does not depend on their order.
TEST(RowSet, FittingIsSymmetricAndTransitive) {
  for (const Protocol& a : kRows) {
    EXPECT_TRUE(unfit(a, a).empty()) << a.name;
    for (const Protocol& b : kRows) {
      EXPECT_EQ(unfit(a, b).empty(), unfit(b, a).empty()) << a.name << " " << b.name;
      for (const Protocol& c : kRows) {
        if (unfit(a, b).empty() && unfit(b, c).empty()) {
          EXPECT_TRUE(unfit(a, c).empty()) << a.name << " " << c.name;
        }
      }
    }
  }
}

TEST(RowSet, WhatBackupsHideFollowsFromAllRows) {
  EXPECT_FALSE(RowSet::parse("dnl4")->marks_readable()) << "nobody asks a backup for one key";
  EXPECT_TRUE(RowSet::parse("dnl2")->marks_readable());
  EXPECT_TRUE(RowSet::parse("drtmr")->marks_readable()) << "verbs lock words that are readable only";
  EXPECT_TRUE(RowSet::parse("dnl4+dnl4-e")->marks_readable()) << "one row is enough";
}

TEST(RowSet, ASwitchChangesAllRows) {
  Options options;
  options.protocol = "drtmr+drtmh";
  EXPECT_EQ(RowSet::of(options).at(1).unlock_ack, UnlockAck::kPiggybacked);
  options.piggyback_acks = false;
  EXPECT_EQ(RowSet::of(options).at(0).unlock_ack, UnlockAck::kReply);
  EXPECT_EQ(RowSet::of(options).at(1).unlock_ack, UnlockAck::kReply);
}

}  // namespace
}  // namespace weft
