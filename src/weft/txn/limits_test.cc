// Limits and misuse: each is refused by name, nothing is lost, and what comes after goes on as if nothing had happened.
#include <cstdlib>
#include <string>

#include "weft/txn/stepped_cluster_testing.h"

namespace weft {
namespace {

constexpr TableId kBytes(1);

// Not within a co_await operand: g++ 12 destroys a temporary there twice (task.h).
Key text(const std::string& key) { return std::string_view(key); }

class LimitsTest : public testing::TestWithParam<Shape> {
 protected:
  static Options options() {
    Options o = GetParam().options();
    o.limits.key_bytes_max = 40;
    o.limits.txn_keys_max = 20;
    o.limits.txn_bytes_max = 200'000;
    return o;
  }
  SteppedCluster cluster_{
      options(),
      {{.name = "t"}, {.name = "bytes", .keys = KeyKind::kBytes, .value_bytes_max = 65536, .capacity = 500}}};
};
INSTANTIATE_TEST_SUITE_P(Few, LimitsTest, testing::ValuesIn(few_shapes()), shape_name);

TEST_P(LimitsTest, ByteStringsOfAllSizes) {
  cluster_.start();
  const size_t sizes[] = {0, 1, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1000, 4096, 8192, 16'000, 65'535, 65'536};
  const auto key = [](size_t size) { return std::string(size % 41, 'k') + std::string(size == 0 ? 0 : 1, 'z'); };
  uint8_t node = 0;
  for (const size_t size : sizes) {
    const std::string k = key(size).substr(0, 40);
    const std::string v(size, static_cast<char>('a' + size % 26));
    auto put = [&](Txn& txn) -> Task<Code> { co_return txn.put(kBytes, text(k), v); };
    EXPECT_TRUE(committed(cluster_->run(NodeId(node), {.backoff_us = 1}, put))) << size;
    node = static_cast<uint8_t>((node + 1) % GetParam().nodes);
    std::string seen;  // of the attempt that committed: until then nothing may be concluded from a read
    auto halve = [&](Txn& txn) -> Task<Code> {
      const Value read = co_await txn.get(kBytes, text(k), Intent::kUpdate);
      if (read.code != Code::kOk) co_return read.code;
      seen = read.found ? std::string(read.bytes) : "absent";
      co_return txn.put(kBytes, text(k), v.substr(0, size / 2));
    };
    EXPECT_TRUE(committed(cluster_->run(NodeId(node), {.backoff_us = 1}, halve))) << size;
    EXPECT_TRUE(seen == v) << size << ", read " << seen.size();
    const auto one = cluster_->get_one(NodeId(0), kBytes, text(k));
    EXPECT_TRUE(one.found);
    EXPECT_TRUE(one.value == v.substr(0, size / 2)) << size;
  }
}

TEST_P(LimitsTest, ShrinkingAndGrowingValuesKeepTheirBytes) {
  cluster_.start();
  for (int i = 0; i < 40; ++i) {
    const std::string v(static_cast<size_t>(i * 7919 % 65'536), static_cast<char>('A' + i % 26));
    EXPECT_TRUE(committed(cluster_->put_one(NodeId(0), kBytes, std::string_view("key"), v)));
    const auto one =
        cluster_->get_one(NodeId(static_cast<uint8_t>(GetParam().nodes - 1)), kBytes, std::string_view("key"));
    EXPECT_TRUE(one.value == v) << i;
  }
}

TEST_P(LimitsTest, AKeyOverItsLimitIsRejected) {
  cluster_.start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    const std::string at_limit(40, 'k');
    const std::string over(41, 'k');
    {
      Txn txn = co_await session.begin();
      EXPECT_EQ(txn.put(kBytes, text(at_limit), "v"), Code::kOk);
      EXPECT_TRUE(committed(co_await txn.commit()));
    }
    {
      Txn txn = co_await session.begin();
      EXPECT_EQ(txn.put(kT, 1, "must not stay"), Code::kOk);
      EXPECT_EQ(txn.put(kBytes, text(over), "v"), Code::kKeyTooLong);
      const Outcome outcome = co_await txn.commit();
      EXPECT_TRUE(rejected(outcome, Code::kKeyTooLong));
    }
    {
      Txn txn = co_await session.begin();
      const Value v = co_await txn.get(kBytes, text(over));
      EXPECT_EQ(v.code, Code::kKeyTooLong);
      EXPECT_TRUE(rejected(co_await txn.commit(), Code::kKeyTooLong));
    }
  });
  EXPECT_FALSE(cluster_->get_one(NodeId(0), kT, 1).found);
  EXPECT_TRUE(rejected(cluster_->get_one(NodeId(0), kBytes, text(std::string(41, 'k'))).outcome, Code::kKeyTooLong));
  EXPECT_TRUE(rejected(cluster_->put_one(NodeId(0), kBytes, text(std::string(41, 'k')), "v"), Code::kKeyTooLong));
}

TEST_P(LimitsTest, AValueOverItsLimitIsRejectedAndItsKeyIsNamed) {
  cluster_.start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    EXPECT_EQ(txn.put(kT, 7, std::string(64, 'v')), Code::kOk);
    EXPECT_EQ(txn.put(kT, 8, std::string(65, 'v')), Code::kValueTooLong);
    const Outcome outcome = co_await txn.commit();
    EXPECT_TRUE(rejected(outcome, Code::kValueTooLong));
    EXPECT_EQ(key_of(outcome), bytes_of(8));
  });
  EXPECT_FALSE(cluster_->get_one(NodeId(0), kT, 7).found);
}

TEST_P(LimitsTest, AsManyKeysAsTheLimitAndNotOneMore) {
  cluster_.start();
  for (const uint64_t keys : {uint64_t{20}, uint64_t{21}}) {
    for (const bool reads : {false, true}) {
      cluster_.on(0, [keys, reads](Session& session) -> Task<void> {
        Txn txn = co_await session.begin();
        for (uint64_t k = 0; k < keys; ++k) {
          if (reads) {
            const Value v = co_await txn.get(kT, 1000 + k, Intent::kUpdate);
            EXPECT_EQ(v.code, k < 20 ? Code::kOk : Code::kTxnTooLarge);
          }
          EXPECT_EQ(txn.put(kT, 1000 + k, "v"), k < 20 ? Code::kOk : Code::kTxnTooLarge);
        }
        const Outcome outcome = co_await txn.commit();
        EXPECT_TRUE(keys <= 20 ? committed(outcome) : rejected(outcome, Code::kTxnTooLarge)) << keys << reads;
      });
    }
  }
}

TEST_P(LimitsTest, AsManyBytesAsTheLimitAndNotMore) {
  cluster_.start();
  const std::string big(65'000, 'v');
  cluster_.on(0, [&big](Session& session) -> Task<void> {
    for (const int values : {3, 4}) {
      Txn txn = co_await session.begin();
      for (int i = 0; i < values; ++i) {
        EXPECT_EQ(txn.put(kBytes, text(std::to_string(i)), big), i < 3 ? Code::kOk : Code::kTxnTooLarge);
      }
      const Outcome outcome = co_await txn.commit();
      EXPECT_TRUE(values == 3 ? committed(outcome) : rejected(outcome, Code::kTxnTooLarge));
    }
    bool all_found = false;
    auto read = [&all_found](Txn& txn) -> Task<Code> {
      all_found = true;
      for (int i = 0; i < 4; ++i) {  // the fourth is the first again
        const std::string key = std::to_string(i % 3);
        const Value v = co_await txn.get(kBytes, text(key), Intent::kUpdate);
        if (v.code != Code::kOk) co_return v.code;
        all_found &= v.found;
      }
      co_return Code::kOk;
    };
    Task<Outcome> task = session.run({.backoff_us = 1}, read);
    EXPECT_TRUE(committed(co_await task));
    EXPECT_TRUE(all_found);
  });
}

TEST_P(LimitsTest, ReadingMoreBytesThanATransactionHoldsIsRejected) {
  cluster_.start();
  const std::string big(65'000, 'v');
  for (int i = 0; i < 4; ++i) {
    const std::string key = std::to_string(i);
    EXPECT_TRUE(committed(cluster_->put_one(NodeId(0), kBytes, text(key), big)));
    // From here on the replica that the reader below uses has it.
    EXPECT_TRUE(cluster_->get_one(NodeId(static_cast<uint8_t>(GetParam().nodes - 1)), kBytes, text(key)).found);
  }
  for (const Intent intent : {Intent::kRead, Intent::kUpdate}) {
    cluster_.on(GetParam().nodes - 1, [intent](Session& session) -> Task<void> {
      Txn txn = co_await session.begin();
      for (int i = 0; i < 4; ++i) {
        const std::string key = std::to_string(i);
        const Value v = co_await txn.get(kBytes, text(key), intent);
        EXPECT_EQ(v.code, i < 3 ? Code::kOk : Code::kTxnTooLarge);
        EXPECT_EQ(v.found, i < 3);
      }
      EXPECT_TRUE(rejected(co_await txn.commit(), Code::kTxnTooLarge));
    });
  }
}

TEST_P(LimitsTest, UnknownTablesAreRejected) {
  cluster_.start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    {
      Txn txn = co_await session.begin();
      EXPECT_EQ(txn.put(TableId(9), 1, "v"), Code::kNoSuchTable);
      EXPECT_TRUE(rejected(co_await txn.commit(), Code::kNoSuchTable));
    }
    Txn txn = co_await session.begin();
    EXPECT_EQ((co_await txn.get(TableId(2), 1)).code, Code::kNoSuchTable);
    EXPECT_TRUE(rejected(co_await txn.commit(), Code::kNoSuchTable));
  });
  EXPECT_TRUE(rejected(cluster_->get_one(NodeId(0), TableId(7), 1).outcome, Code::kNoSuchTable));
  EXPECT_TRUE(rejected(cluster_->erase_one(NodeId(0), TableId(7), 1), Code::kNoSuchTable));
}

TEST_P(LimitsTest, AStringIsNoKeyOfAnIntegerTable) {
  const auto loaded = cluster_->load(kT, std::string_view("12345678"), "eight bytes are an integer");
  EXPECT_TRUE(loaded);
  cluster_.start();
  EXPECT_TRUE(rejected(cluster_->put_one(NodeId(0), kT, std::string_view("short"), "v"), Code::kInvalidArgument));
  EXPECT_TRUE(rejected(cluster_->get_one(NodeId(0), kT, std::string_view("")).outcome, Code::kInvalidArgument));
}

TEST_P(LimitsTest, MisuseIsAnsweredAndChangesNothing) {
  cluster_.start();
  cluster_.on(GetParam().nodes - 1, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    txn.put(kT, 1, "v");
    EXPECT_TRUE(committed(co_await txn.commit()));
    EXPECT_EQ(txn.put(kT, 2, "late"), Code::kInvalidArgument);
    EXPECT_EQ(txn.insert(kT, 2, "late"), Code::kInvalidArgument);
    EXPECT_EQ(txn.erase(kT, 1), Code::kInvalidArgument);
    EXPECT_TRUE(committed(co_await txn.commit())) << "the first outcome stands";
    txn.abort();
    EXPECT_TRUE(committed(co_await txn.commit())) << "too late to abort";
  });
  EXPECT_EQ(cluster_->get_one(NodeId(0), kT, 1).value, "v");
  EXPECT_FALSE(cluster_->get_one(NodeId(0), kT, 2).found);
}

TEST_P(LimitsTest, AGetAfterCommitDoesNotChangeTheOutcome) {
  cluster_.start();
  cluster_.on(GetParam().nodes - 1, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    txn.put(kT, 1, "v");
    EXPECT_TRUE(committed(co_await txn.commit()));
    const Value v = co_await txn.get(kT, 3);
    EXPECT_EQ(v.code, Code::kInvalidArgument);
    EXPECT_TRUE(committed(co_await txn.commit())) << "the first outcome stands";
  });
}

TEST_P(LimitsTest, AnAbortedTransactionStaysAborted) {
  cluster_.start();
  cluster_.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    co_await txn.get(kT, 1, Intent::kUpdate);
    txn.put(kT, 1, "v");
    txn.abort();
    EXPECT_EQ(txn.put(kT, 1, "v"), Code::kInvalidArgument);
    EXPECT_TRUE(aborted(co_await txn.commit(), Code::kApplication));
    txn.abort();
  });
  EXPECT_FALSE(cluster_->get_one(NodeId(0), kT, 1).found);
}

// Every limit error names the limit and the value.
TEST(LimitsTogether, ARejectionSaysWhichLimitAndWhichValue) {
  Options options;
  options.limits.key_bytes_max = 40;
  SteppedCluster cluster(options, {{.name = "t"}, {.name = "bytes", .keys = KeyKind::kBytes}});
  cluster.start();
  const std::string key = cluster->put_one(NodeId(0), kBytes, text(std::string(41, 'k')), "v").text();
  EXPECT_NE(key.find("40"), std::string::npos) << key;
  EXPECT_NE(key.find("41"), std::string::npos) << key;
  const std::string value = cluster->put_one(NodeId(0), kT, 1, std::string(65, 'v')).text();
  EXPECT_NE(value.find("64"), std::string::npos) << value;
  EXPECT_NE(value.find("65"), std::string::npos) << value;
}

// A body that ignores what put() returns must still come to its end.
TEST(LimitsTogether, ReadsGoOnAfterARejectedWrite) {
  SteppedCluster cluster(Options{});
  cluster.start();
  cluster.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    EXPECT_EQ(txn.put(kT, 1, std::string(65, 'v')), Code::kValueTooLong);
    co_await txn.get(kT, 2);
    co_await txn.wait_all();
    EXPECT_TRUE(rejected(co_await txn.commit(), Code::kValueTooLong));
  });
}

class TableFull : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Few, TableFull, testing::ValuesIn(few_shapes()), shape_name);

TEST_P(TableFull, IsRejectedKeepsWhatIsThereAndHasRoomAgainAfterErase) {
  SteppedCluster cluster(GetParam().options(), {{.name = "small", .value_bytes_max = 16, .capacity = 64}});
  cluster.start();
  uint64_t inserted = 0;
  Outcome last;
  for (; inserted < 4000; ++inserted) {
    last = cluster->insert_one(NodeId(0), kT, inserted, bytes_of(inserted));
    if (!last.committed()) break;
  }
  ASSERT_TRUE(rejected(last, Code::kTableFull));
  EXPECT_EQ(key_of(last), bytes_of(inserted));
  EXPECT_GE(inserted, 64U) << "at least its capacity";
  for (uint64_t k = 0; k < inserted; ++k) {
    ASSERT_EQ(cluster->get_one(NodeId(0), kT, k).value, bytes_of(k));
  }
  EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, 0, "replaced"))) << "a present key needs no room";
  for (uint64_t k = 0; k < inserted; k += 2) EXPECT_TRUE(committed(cluster->erase_one(NodeId(0), kT, k)));
  for (uint64_t k = 0; k < inserted; k += 2) {
    EXPECT_TRUE(committed(cluster->insert_one(NodeId(0), kT, k, "again")));
  }
  EXPECT_TRUE(rejected(cluster->insert_one(NodeId(0), kT, inserted, "x"), Code::kTableFull));
}

// A full table must not take an unrelated key of the same transaction with it, nor leave its lock behind.
TEST_P(TableFull, RejectsTheWholeTransaction) {
  SteppedCluster cluster(GetParam().options(),
                         {{.name = "small", .value_bytes_max = 16, .capacity = 64}, {.name = "other"}});
  cluster.start();
  uint64_t k = 0;
  while (k < 4000 && cluster->insert_one(NodeId(0), kT, k, "x").committed()) ++k;
  auto body = [&](Txn& txn) -> Task<Code> {
    txn.put(TableId(1), 5, "must not stay");
    txn.put(kT, k, "no room");
    co_return Code::kOk;
  };
  EXPECT_TRUE(rejected(cluster->run(NodeId(0), {}, body), Code::kTableFull));
  EXPECT_FALSE(cluster->get_one(NodeId(0), TableId(1), 5).found);
}

// The largest values there are, written, grown, read at every node and deleted, under every protocol.
TEST(Limits, ValuesOfAMebibyte) {
  constexpr uint32_t kMebibyte = 1 << 20;
  for (const char* protocol : all_rows()) {
    Options options;
    options.protocol = protocol;
    options.limits.value_bytes_max = kMebibyte;
    options.limits.txn_bytes_max = 4 << 20;
    options.limits.credit_bytes = 16 << 20;
    SteppedCluster cluster(options, {{.name = "big", .value_bytes_max = kMebibyte, .capacity = 16}});
    cluster.start();
    for (uint64_t k = 0; k < (kSanitized ? 1 : 4); ++k) {
      for (const size_t size : {size_t{1}, size_t{300'000}, size_t{kMebibyte}}) {
        const std::string v(size, static_cast<char>('a' + k));
        EXPECT_TRUE(committed(retried([&] { return cluster->put_one(NodeId(0), kT, k, v); }))) << protocol << size;
        for (uint8_t node = 0; node < 3; ++node) {
          const auto one = cluster->get_one(NodeId(node), kT, k);
          EXPECT_TRUE(one.found && one.value == v) << protocol << " " << size << " at node " << int{node};
        }
      }
    }
    auto swap = [&](Txn& txn) -> Task<Code> {
      const Value a = co_await txn.get(kT, 0, Intent::kUpdate);
      if (a.code != Code::kOk) co_return a.code;
      co_return txn.put(kT, 1, a.bytes);
    };
    EXPECT_TRUE(committed(cluster->run(NodeId(1), {.backoff_us = 1}, swap))) << protocol;
    EXPECT_TRUE(cluster->get_one(NodeId(2), kT, 1).value == std::string(kMebibyte, 'a')) << protocol;
    EXPECT_TRUE(committed(retried([&] { return cluster->erase_one(NodeId(2), kT, 0); }))) << protocol;
    const Outcome over = cluster->put_one(NodeId(0), kT, 2, std::string(kMebibyte + 1, 'x'));
    EXPECT_TRUE(rejected(over, Code::kValueTooLong)) << over.text();
  }
}

// An answer of a peer may be as large as a value, whatever room this transaction has for it. Runs in a process of its
// own: the cluster must answer, not crash.
void read_more_than_a_transaction_holds(const char* protocol) {
  {
    Options options;
    options.protocol = protocol;
    options.replicas = 1;
    options.limits.txn_bytes_max = 1024;
    options.limits.txn_keys_max = 4;
    SteppedCluster cluster(options, {{.name = "big", .value_bytes_max = 65536, .capacity = 100}});
    cluster.load(10, std::string(60'000, 'v')).start();
    for (uint64_t k = 0; k < 10; ++k) {
      cluster.on(0, [k](Session& session) -> Task<void> {
        Txn txn = co_await session.begin();
        EXPECT_EQ((co_await txn.get(kT, k, Intent::kUpdate)).code, Code::kTxnTooLarge);
        EXPECT_TRUE(rejected(co_await txn.commit(), Code::kTxnTooLarge));
      });
    }
  }
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(LimitsDeathTest, ALargeValueIsReadByAClusterOfSmallTransactions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* protocol : all_rows()) {
    EXPECT_EXIT(read_more_than_a_transaction_holds(protocol), testing::ExitedWithCode(0), "") << protocol;
  }
}

TEST(LimitsTogether, TheLargestLimitsOpen) {
  Options options;
  options.limits.transactions_in_flight_max = 190;
  options.limits.txn_keys_max = 4096;
  options.limits.txn_bytes_max = 64U << 20;
  options.limits.credit_bytes = 64U << 20;
  options.limits.key_bytes_max = 64 << 10;
  SteppedCluster cluster(options,
                         {{.name = "t", .keys = KeyKind::kBytes, .value_bytes_max = 16'000, .capacity = 2000}});
  cluster.start();
  cluster.on(0, [](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    for (int i = 0; i < 250; ++i) {
      const std::string key = std::string(2043, 'k') + std::to_string(1000 + i);
      EXPECT_EQ(txn.put(kT, text(key), std::string(14'000, 'v')), Code::kOk) << i;
    }
    EXPECT_TRUE(committed(co_await txn.commit()));
  });
}

}  // namespace
}  // namespace weft
