// Stored procedures mean the same in every row, wherever they are executed.
#include "weft/txn/procedure.h"

#include <string>
#include <vector>

#include "weft/base/sanitized.h"
#include "weft/txn/procedure_testing.h"
#include "weft/txn/stepped_cluster_testing.h"

namespace weft {
namespace {

// Five nodes with three replicas of each key, so that some keys of a node have no replica there.
class ProcedureTest : public testing::TestWithParam<const char*> {
 protected:
  ProcedureTest() { cluster_.load(kLoaded, "v").start(); }

  static constexpr uint64_t kLoaded = 100;
  static Options options() {
    Options o;
    o.protocol = GetParam();
    o.nodes = 5;
    o.replicas = 3;
    return o;
  }
  Outcome call(int node, std::string_view arguments) {
    Outcome outcome;
    reply_ = "untouched";
    cluster_.on(node, [&](Session& session) -> Task<void> {
      Task<Outcome> task = session.call(ProcedureId(0), arguments, &reply_);
      outcome = co_await task;
    });
    return outcome;
  }
  std::string value(uint64_t key) {
    const SteppedCluster::OneValue one = cluster_.get_one(NodeId(0), kProcedureTable, key);
    return one.found ? one.value : "-";
  }

  SteppedCluster cluster_{options(), {{.name = "t", .value_bytes_max = 4096}}, {words_procedure()}};
  std::string reply_;
};

INSTANTIATE_TEST_SUITE_P(All, ProcedureTest,
                         testing::Values("dnl4", "dnl2", "dnl1", "fasst", "farm", "drtmr", "drtmh", "drtmh-nc", "hop"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

// At every node, of keys anywhere: one key, and keys of two partitions.
TEST_P(ProcedureTest, ReadsWritesAndReplies) {
  std::string expected = "v";
  for (int node = 0; node < 5; ++node) {
    for (int round = 0; round < 2; ++round) {
      for (uint64_t key = 0; key < 20; ++key) {
        ASSERT_TRUE(committed(call(node, "u" + std::to_string(key)))) << node << " " << key;
        ASSERT_EQ(reply_, expected) << node << " " << key;
      }
      expected += "+";
    }
  }
  for (uint64_t key = 20; key < 40; ++key) {
    const std::string a = std::to_string(key), b = std::to_string(key + 1);
    ASSERT_TRUE(committed(call(0, "r" + a + " u" + b + " r" + a)));
    EXPECT_EQ(reply_, key == 20 ? "vvv" : "v+vv+") << "a key that is named twice has its value twice";
  }
}

TEST_P(ProcedureTest, InsertsAndErases) {
  for (uint64_t key = 0; key < 20; ++key) {
    const std::string old = std::to_string(key), fresh = std::to_string(key + 1000), late = std::to_string(key + 2000);
    const int node = static_cast<int>(key % 5);
    ASSERT_TRUE(committed(call(node, "e" + old + " i" + fresh + " w" + late))) << key;
    EXPECT_EQ(value(key) + value(key + 1000) + value(key + 2000), "-newlate");
    EXPECT_TRUE(aborted(call(node, "i" + fresh), Code::kExists));
    EXPECT_TRUE(aborted(call(node, "x" + old), Code::kNotFound));
    EXPECT_TRUE(aborted(call(node, "e" + old + " u" + fresh), Code::kNotFound));
    EXPECT_EQ(value(key + 1000), "new");
    ASSERT_TRUE(committed(call(node, "p" + old + " x" + fresh)));
    EXPECT_EQ(value(key) + value(key + 1000), "put-");
  }
}

TEST_P(ProcedureTest, MayReadMore) {
  for (uint64_t key = 0; key < 10; ++key) {
    const std::string a = std::to_string(key), b = std::to_string(key + 20), c = std::to_string(key + 40);
    ASSERT_TRUE(committed(call(static_cast<int>(key % 5), "u" + a + " m" + b + " m" + c)));
    EXPECT_EQ(reply_, "vvv");
    EXPECT_EQ(value(key), "v+");
  }
}

// A key that was announced to be written only may be read later.
TEST_P(ProcedureTest, MayReadMoreOfWhatItOnlyWrites) {
  for (uint64_t key = 0; key < 20; ++key) {
    const std::string a = std::to_string(key), b = std::to_string(key + 20), c = std::to_string(key + 1000);
    const int node = static_cast<int>(key % 5);
    ASSERT_TRUE(committed(call(node, "u" + b + " p" + a + " m" + a))) << key;
    EXPECT_EQ(reply_, "vv") << key;
    ASSERT_TRUE(committed(call(node, "u" + b + " p" + c + " m" + c))) << key;
    EXPECT_EQ(reply_, "v+-") << key;
    EXPECT_EQ(value(key) + value(key + 1000), "putput");
  }
}

// Whether the key existed decides, and no value of it was read.
TEST_P(ProcedureTest, InsertsAndErasesTheSameKey) {
  for (uint64_t key = 0; key < 20; ++key) {
    const int node = static_cast<int>(key % 5);
    EXPECT_TRUE(aborted(call(node, "u" + std::to_string(key + 20) + " b" + std::to_string(key)), Code::kExists));
    EXPECT_TRUE(committed(call(node, "u" + std::to_string(key + 20) + " b" + std::to_string(key + 1000))));
    EXPECT_EQ(value(key) + value(key + 1000), "v-");
  }
}

// Keys share words for their absence: an erase moves them alike at all replicas, which the cluster compares at its end.
TEST_P(ProcedureTest, ErasesBesideKeysThatComeAndGo) {
  for (int round = 0; round < 6; ++round) {
    for (uint64_t key = 500; key < 600; ++key) {
      ASSERT_TRUE(committed(call(static_cast<int>(key % 5), "i" + std::to_string(key))));
      ASSERT_TRUE(committed(call(static_cast<int>(key % 5), "x" + std::to_string(key))));
    }
  }
  for (uint64_t key = 0; key + 1 < 60; key += 2) {
    for (int node = 0; node < 5; ++node) {
      const std::string a = std::to_string(key), b = std::to_string(key + 1);
      ASSERT_TRUE(committed(call(node, "e" + a + " u" + b))) << key;
      ASSERT_TRUE(committed(call(node, "i" + a))) << key;
    }
  }
}

TEST_P(ProcedureTest, LongValuesAndHeads) {
  for (uint64_t key = 0; key < 20; ++key) {
    const std::string name = std::to_string(key);
    ASSERT_TRUE(committed(call(static_cast<int>(key % 5), "l" + name)));
    EXPECT_EQ(value(key), std::string(3000, 'l'));
    ASSERT_TRUE(committed(call(static_cast<int>(key % 5), "head" + name)));
    EXPECT_EQ(reply_, std::string(kHeadBytes, 'l'));
    const std::string beside = std::to_string(key + 40);
    ASSERT_TRUE(committed(call(static_cast<int>(key % 5), "len" + name + " p" + beside + " len" + beside)));
    EXPECT_EQ(reply_, "3000:" + std::string(kHeadBytes, 'l') + (key < 20 ? "1:v" : ""));
    ASSERT_TRUE(committed(call(static_cast<int>(key % 5), "hint" + beside)));
    EXPECT_EQ(reply_, "put");
    ASSERT_TRUE(rejected(call(static_cast<int>(key % 5), "r" + name), Code::kReplyTooLong));
  }
}

TEST_P(ProcedureTest, WhatIsWrongIsNamed) {
  for (int node = 0; node < 5; ++node) {
    EXPECT_TRUE(aborted(call(node, "u1 no"), Code::kApplication));
    EXPECT_EQ(reply_.substr(0, 9), reply_ == "untouched" ? "untouched" : "");
    const Outcome unannounced = call(node, "u1 n7");
    EXPECT_TRUE(rejected(unannounced, Code::kNotAnnounced));
    EXPECT_NE(unannounced.text().find("table 0 key 7"), std::string::npos) << unannounced.text();
    EXPECT_TRUE(rejected(call(node, "r1 n1"), Code::kNotAnnounced)) << "it was announced to be read";
    const Outcome reply = call(node, "u1 long");
    EXPECT_TRUE(rejected(reply, Code::kReplyTooLong));
    EXPECT_EQ(reply.limit, uint64_t{kReplyMax});
    EXPECT_EQ(reply.asked, kReplyMax + 1U);
    EXPECT_TRUE(rejected(call(node, "r1 m1"), Code::kInvalidArgument)) << "it asks for what it has";
    EXPECT_TRUE(committed(call(node, ""))) << "no keys, nothing to do";
    std::string many = "r0";
    for (int i = 1; i <= StoredProcedure::kKeysMax; ++i) many += " r" + std::to_string(i);
    const Outcome over = call(node, many);
    EXPECT_TRUE(rejected(over, Code::kTxnTooLarge));
    EXPECT_EQ(over.limit, uint64_t{StoredProcedure::kKeysMax});
    EXPECT_EQ(over.asked, StoredProcedure::kKeysMax + 1U);
    std::string more;
    for (int i = 0; i < 65'600; ++i) more += "r1 ";
    EXPECT_TRUE(rejected(call(node, more), Code::kTxnTooLarge));
  }
  EXPECT_EQ(value(1), "v");
  EXPECT_EQ(value(7), "v");
}

// Whatever it returns, wherever it runs.
TEST_P(ProcedureTest, MayRefuseByAnyCode) {
  for (int node = 0; node < 5; ++node) {
    for (uint64_t key = 0; key < 10; ++key) {
      const Outcome outcome = call(node, "k" + std::to_string(key));
      EXPECT_TRUE(aborted(outcome, Code::kLocked)) << outcome.text();
    }
  }
}

// Nobody's channel is closed for it: others go on.
TEST_P(ProcedureTest, WhoseKeysAreNotAlwaysTheSameIsRefused) {
  int found = 0;
  for (int node = 0; node < 5; ++node) {
    for (uint64_t key = 0; key < 10; ++key) {
      const Outcome outcome = call(node, "o" + std::to_string(key) + " p50");
      EXPECT_TRUE(outcome.committed() || outcome.code == Code::kImpure || code_retryable(outcome.code))
          << outcome.text();
      found += outcome.code == Code::kImpure ? 1 : 0;
    }
  }
  if (kSanitized) {
    EXPECT_EQ(found, 50);
  }
  for (int node = 0; node < 5; ++node)
    EXPECT_TRUE(committed(call(node, "u" + std::to_string(60 + 2 * node) + " u" + std::to_string(61 + 2 * node))));
}

TEST_P(ProcedureTest, AnImpureOneIsFoundWhereStepsRunTwice) {
  if (!kSanitized) GTEST_SKIP() << "runs once in this build";
  for (int node = 0; node < 5; ++node) EXPECT_TRUE(rejected(call(node, "u1 twice1"), Code::kImpure));
  EXPECT_EQ(value(1), "v");
  // Both runs are shown, at the node where it was called.
  int shown = 0;
  for (const LoggedEvent& event : cluster_.events()->since(0)) {
    if (event.name != "impure_procedure") continue;
    EXPECT_EQ(event.node, shown++);
    ASSERT_EQ(event.fields.size(), 3U);
    EXPECT_EQ(event.fields[0].text(), "words");
    EXPECT_NE(event.fields[1].text().find("put table 0 key 1 value "), std::string::npos) << event.text();
    EXPECT_NE(event.fields[2].text().find("put table 0 key 1 value "), std::string::npos) << event.text();
    EXPECT_NE(event.fields[1].text(), event.fields[2].text());
  }
  EXPECT_EQ(shown, 5);
}

TEST(StepOutput, AnImpureRunIsShownBothTimes) {
  if (!kSanitized) GTEST_SKIP() << "runs once in this build";
  StepOutput output;
  EXPECT_EQ(output.run(words_procedure(), "twice1", {}), Code::kImpure);
  EXPECT_TRUE(output.first_run().starts_with("put table 0 key 1 value ")) << output.first_run();
  EXPECT_TRUE(output.text().starts_with("put table 0 key 1 value ")) << output.text();
  EXPECT_NE(output.first_run(), output.text());
}

}  // namespace
}  // namespace weft
