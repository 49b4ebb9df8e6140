// The embedded cluster itself: options, tables, procedures, loading, starting, stopping, reconfiguring, idling.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "weft/cluster/cluster_testing.h"
#include "weft/wires/tcp/tls_testing.h"

namespace weft {
namespace {

struct BadOption {
  std::function<void(Options&)> change;
  std::vector<std::string> says;  // the option's name and the value
};

TEST(Embedded, BadOptionsAreRefusedByNameAndValue) {
  const BadOption all[] = {
      {[](Options& o) { o.nodes = 0; }, {"nodes", "0"}},
      {[](Options& o) { o.nodes = 64; }, {"nodes", "64", "63"}},
      {[](Options& o) { o.nodes = -3; }, {"nodes", "-3"}},
      {[](Options& o) { o.replicas = 0; }, {"replicas", "0"}},
      {[](Options& o) { o.replicas = 4; }, {"replicas", "4", "3 nodes"}},
      {[](Options& o) { o.nodes = 20, o.replicas = 9; }, {"replicas", "9", "8"}},
      {[](Options& o) { o.workers = 0; }, {"workers", "0"}},
      {[](Options& o) { o.workers = 129; }, {"workers", "129", "128"}},
      {[](Options& o) { o.threads = 2; }, {"threads", "2", "1"}},
      {[](Options& o) { o.threads = -1; }, {"threads", "-1"}},
      {[](Options& o) { o.partitions = -1; }, {"partitions", "-1"}},
      {[](Options& o) { o.partitions = 5000; }, {"partitions", "5000"}},
      {[](Options& o) { o.protocol = "dnl3"; }, {"protocol", "dnl3", "dnl4, dnl2, dnl1, fasst"}},
      {[](Options& o) { o.protocol = ""; }, {"protocol"}},
      {[](Options& o) { o.limits.transactions_in_flight_max = 0; }, {"limits.transactions_in_flight_max", "0"}},
      {[](Options& o) { o.limits.transactions_in_flight_max = 1000; }, {"limits.transactions_in_flight_max", "1000"}},
      {[](Options& o) { o.limits.key_bytes_max = 4; }, {"limits.key_bytes_max", "4"}},
      {[](Options& o) { o.limits.key_bytes_max = 65'537; }, {"limits.key_bytes_max", "65537", "65536"}},
      {[](Options& o) { o.fabric = "pigeon"; }, {"fabric", "pigeon", "local, shm, tcp or verbs"}},
      {[](Options& o) { o.limits.value_bytes_max = 17 << 20; }, {"limits.value_bytes_max", "17825792", "16778240"}},
      {[](Options& o) { o.limits.txn_keys_max = 4097; }, {"limits.txn_keys_max", "4097", "4096"}},
      {[](Options& o) { o.limits.txn_bytes_max = 65 << 20; }, {"limits.txn_bytes_max"}},
      {[](Options& o) { o.limits.credit_bytes = 100; }, {"limits.credit_bytes", "100", "4096"}},
      {[](Options& o) { o.limits.mailbox = 0; }, {"limits.mailbox", "0"}},
      {[](Options& o) { o.limits.outcome_bytes = 100; }, {"limits.outcome_bytes", "100", "65536"}},
  };
  for (const BadOption& bad : all) {
    Options options;
    bad.change(options);
    const auto opened = Cluster::open(options);
    ASSERT_FALSE(opened) << bad.says.front();
    EXPECT_EQ(opened.error().code, Code::kBadOption);
    for (const std::string& part : bad.says) {
      EXPECT_NE(opened.error().text().find(part), std::string::npos) << opened.error().text();
    }
  }
}

// What options.h documents and what is checked must be the same.
TEST(Embedded, TheDocumentedLimitOfTransactionsInFlightIsAdmitted) {
  Options options;
  options.limits.transactions_in_flight_max = 200;
  EXPECT_TRUE(Cluster::open(options));
}

TEST(Embedded, BadTablesAreRefused) {
  auto opened = Cluster::open({});
  ASSERT_TRUE(opened);
  Cluster& cluster = **opened;
  const auto refused = [&](const TableSpec& spec, const std::string& part) {
    const auto table = cluster.create_table(spec);
    if (table) {
      ADD_FAILURE() << "accepted, should say " << part;
      return;
    }
    EXPECT_EQ(table.error().code, Code::kBadOption);
    EXPECT_NE(table.error().text().find(part), std::string::npos) << table.error().text();
  };
  refused({.name = ""}, "name");
  refused({.name = "a", .value_bytes_max = 0}, "value_bytes_max is 0");
  refused({.name = "a", .value_bytes_max = (16 << 20) + 1}, "16777217");
  refused({.name = "a", .capacity = 0}, "capacity is 0");
  refused({.name = "a", .partition = PartitionBy::kPrefix}, "prefix_bytes is 0");
  EXPECT_TRUE(cluster.create_table({.name = "a"}));
  refused({.name = "a"}, "twice");
  EXPECT_EQ(*cluster.create_table({.name = "b"}), TableId(1)) << "what was refused has no number";
}

TEST(Embedded, TheOrderOfCallsIsChecked) {
  TestCluster cluster(Options{});
  cluster.start();
  EXPECT_EQ(cluster->create_table({.name = "late"}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(cluster->load(kT, 1, "v").error().code, Code::kInvalidArgument);
  EXPECT_EQ(cluster->start().error().code, Code::kInvalidArgument);
  EXPECT_EQ(cluster->reconfigure({}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(cluster->declare({.name = "late"}).error().code, Code::kInvalidArgument);
  cluster->stop();
  cluster->stop();
}

TEST(Embedded, ClustersThatNeverStartEndQuietly) {
  { ASSERT_TRUE(Cluster::open({})); }
  auto opened = Cluster::open({});
  ASSERT_TRUE(opened);
  ASSERT_TRUE((*opened)->create_table({.name = "t"}));
  EXPECT_EQ((*opened)->audit(), "");
  EXPECT_EQ((*opened)->counters().committed, 0U);
  EXPECT_EQ((*opened)->table_use(kT).records, 0U);
}

TEST(Embedded, LoadChecksWhatItIsGiven) {
  TestCluster cluster({}, {{.name = "t", .value_bytes_max = 8, .capacity = 10},
                           {.name = "bytes", .keys = KeyKind::kBytes, .value_bytes_max = 8}});
  EXPECT_TRUE(cluster->load(kT, 1, "12345678"));
  EXPECT_EQ(cluster->load(kT, 1, "again").error().code, Code::kExists);
  EXPECT_EQ(cluster->load(kT, 2, "123456789").error().code, Code::kValueTooLong);
  EXPECT_EQ(cluster->load(TableId(5), 2, "x").error().code, Code::kNoSuchTable);
  const std::string long_key((64 << 10) + 1, 'k');
  EXPECT_EQ(cluster->load(TableId(1), std::string_view(long_key), "x").error().code, Code::kKeyTooLong);
  EXPECT_TRUE(cluster->load(TableId(1), std::string_view(""), "x"));
  Code full = Code::kOk;
  for (uint64_t k = 2; k < 1000 && full == Code::kOk; ++k) {
    const auto loaded = cluster->load(kT, k, "x");
    if (!loaded) full = loaded.error().code;
  }
  EXPECT_EQ(full, Code::kTableFull);
}

void load_a_short_key() {
  {
    TestCluster cluster(Options{});
    EXPECT_FALSE(cluster->load(kT, std::string_view("abc"), "x"));
  }
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(EmbeddedDeathTest, LoadRefusesAStringForAnIntegerTable) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(load_a_short_key(), testing::ExitedWithCode(0), "");
}

// The table may have to grow; it must not wait for workers that have stopped.
TEST(Embedded, LoadGoesOnAfterAStop) {
  TestCluster cluster({}, {{.name = "t", .capacity = 20'000}});
  cluster.load(10, "v").start();
  EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, 1'000'000, "w")));
  cluster->stop();
  for (uint64_t k = 10; k < 15'000; ++k) ASSERT_TRUE(cluster->load(kT, k, "v"));
  cluster.start();
  EXPECT_TRUE(cluster->get_one(NodeId(2), kT, 14'999).found);
}

TEST(Embedded, TablesGrowUnderTransactionsOfTwoThreads) {
  Options options;
  options.workers = options.threads = 2;
  TestCluster cluster(options, {{.name = "t", .capacity = 30'000}});
  cluster.start();
  std::vector<Cluster::Handle> handles;
  for (uint8_t w = 0; w < 2; ++w) {
    handles.push_back(cluster->spawn(NodeId(w), WorkerId(w), [w](Session& session) -> Task<void> {
      for (uint64_t k = 0; k < 300; ++k) {
        // Absent keys share words, so inserts of different keys may conflict: retry.
        auto body = [=](Txn& txn) -> Task<Code> {
          for (uint64_t i = 0; i < 30; ++i) txn.insert(kT, (k * 30 + i) * 2 + w, "v");
          co_return Code::kOk;
        };
        Task<Outcome> task = session.run({.backoff_us = 1}, body);
        EXPECT_TRUE(committed(co_await task));
      }
    }));
  }
  for (const auto& handle : handles) cluster.wait(handle);
  cluster->stop();
  EXPECT_EQ(cluster->table_use(kT).records, 18'000U * 3);
}

TEST(Embedded, PartitionsByHashPrefixAndRedisSlot) {
  for (const PartitionBy by : {PartitionBy::kHash, PartitionBy::kPrefix, PartitionBy::kRedisSlot}) {
    Options options;
    options.nodes = 5;
    options.replicas = 2;
    options.partitions = 13;
    TestCluster cluster(options,
                        {{.name = "t", .keys = KeyKind::kBytes, .capacity = 1000, .partition = by, .prefix_bytes = 4}});
    cluster.start();
    for (int i = 0; i < 50; ++i) {
      const std::string key = "{user" + std::to_string(i % 5) + "}" + std::to_string(i);
      EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, std::string_view(key), key)));
    }
    EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, std::string_view("ab"), "shorter than the prefix")));
    cluster->stop();
    EXPECT_EQ(cluster.contents().size(), 51U);
    EXPECT_EQ(cluster->table_use(kT).records, 102U);
  }
}

TEST(Embedded, ReconfigureKeepsTheDataAndChangesTheProtocol) {
  Options options;
  options.nodes = 4;
  options.replicas = 2;
  TestCluster cluster(options);
  cluster.load(50, bytes_of(0));
  uint64_t rounds = 0;
  std::vector<const char*> protocols = all_rows();
  protocols.insert(protocols.end(), {"dnl1", "dnl4"});  // back from verbs, and to the first
  for (const char* protocol : protocols) {
    options.protocol = protocol;
    options.network_batching = rounds % 2 == 0;
    options.limits.transactions_in_flight_max = 4 + static_cast<uint32_t>(rounds);
    const Result<void> done = cluster->reconfigure(options);
    ASSERT_TRUE(done) << protocol << ": " << done.error().text();
    EXPECT_EQ(cluster->options().protocol, protocol);
    cluster.start();
    ++rounds;
    for (uint64_t k = 0; k < 50; ++k) {
      auto body = [&](Txn& txn) -> Task<Code> {
        const Value v = co_await txn.get(kT, k, Intent::kUpdate);
        if (v.code != Code::kOk) co_return v.code;
        EXPECT_EQ(integer(v.bytes), rounds - 1);
        if (k % 5 == 0) {  // through absence, so that its versions must agree, too
          txn.erase(kT, k);
          txn.insert(kT, 1000 * rounds + k, "passing");
        }
        co_return txn.put(kT, k, bytes_of(rounds));
      };
      EXPECT_TRUE(committed(cluster->run(NodeId(static_cast<uint8_t>(k % 4)), {.backoff_us = 1}, body))) << protocol;
      if (k % 5 == 0) {
        EXPECT_TRUE(committed(retried([&] { return cluster->erase_one(NodeId(0), kT, 1000 * rounds + k); })));
      }
    }
    cluster->stop();
    EXPECT_EQ(cluster->audit(), "") << protocol;
  }
}

TEST(Embedded, ReconfigureRefusesWhatCannotChange) {
  TestCluster cluster(Options{});
  const auto refused = [&](const std::function<void(Options&)>& change) {
    Options options;
    change(options);
    const auto result = cluster->reconfigure(options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kBadOption);
  };
  refused([](Options& o) { o.nodes = 4; });
  refused([](Options& o) { o.replicas = 2; });
  refused([](Options& o) { o.workers = 2; });
  refused([](Options& o) { o.partitions = 7; });
  refused([](Options& o) { o.hash_seed = 1; });
  refused([](Options& o) { o.protocol = "none"; });
  cluster.start();
  EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, 1, "goes on")));
}

// A table's limits must still hold with the new ones.
TEST(Embedded, ReconfigureChecksLimitsAgainstTheTables) {
  TestCluster cluster({}, {{.name = "t", .value_bytes_max = 30'000}});
  Options options;
  options.limits.value_bytes_max = 100;
  EXPECT_FALSE(cluster->reconfigure(options));
}

TEST(Embedded, StopWaitsForWorkUnderWay) {
  for (const char* protocol : all_rows()) {
    Options options;
    options.protocol = protocol;
    options.workers = options.threads = 2;
    TestCluster cluster(options);
    cluster.load(100, bytes_of(0)).start();
    std::atomic<int> finished{0};
    std::vector<Cluster::Handle> handles;
    for (uint8_t i = 0; i < 30; ++i) {
      handles.push_back(cluster->spawn(NodeId(i % 3), WorkerId(i % 2), [&, i](Session& session) -> Task<void> {
        for (uint64_t round = 0; round < 20; ++round) {
          Txn txn = co_await session.begin();
          co_await txn.get(kT, (i + round) % 100, Intent::kUpdate);
          txn.put(kT, (i + round) % 100, bytes_of(round));
          co_await txn.commit();
        }
        // The last one is left half-way.
        Txn txn = co_await session.begin();
        txn.get_async(kT, i, Intent::kUpdate);
        ++finished;
      }));
    }
    cluster->stop();
    EXPECT_EQ(finished, 30) << protocol;
    for (const auto& handle : handles) EXPECT_TRUE(handle.done());
    EXPECT_EQ(cluster->audit(), "") << protocol;
    cluster.start();
    EXPECT_TRUE(cluster->get_one(NodeId(1), kT, 5).found);
  }
}

// All nodes have the one certificate, which names none of them.
TEST(Embedded, NodesOfOneProcessConnectByTls) {
  const std::string folder = testing::TempDir() + "weft-embedded-tls-" + std::to_string(getpid());
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const Credential authority("authority"), node("node", &authority);
  ASSERT_TRUE(authority.write_certificate(folder + "/ca") && node.write_certificate(folder + "/node") &&
              node.write_key(folder + "/key"));
  Options options;
  options.fabric = "tcp";
  options.tls = {.ca = folder + "/ca", .certificate = folder + "/node", .key = folder + "/key"};
  TestCluster cluster(options);
  cluster.start();
  EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, 1, "one")));
  EXPECT_TRUE(cluster->get_one(NodeId(2), kT, 1).found);
  std::filesystem::remove_all(folder);
}

TEST(Embedded, AHandleThatIsNobodysIsDone) {
  const Cluster::Handle handle;
  EXPECT_TRUE(handle.done());
  handle.wait();
}

// A loop that finds nothing to do must not keep polling.
TEST(Embedded, AnIdleClusterHardlySteps) {
  Options options;
  options.nodes = 5;
  TestCluster cluster(options);
  cluster.load(100, "v").start();
  EXPECT_TRUE(committed(cluster->put_one(NodeId(0), kT, 1, "w")));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const uint64_t before = cluster->counters().steps;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const uint64_t steps = cluster->counters().steps - before;
  // Spinning for 50 us around a few wake-ups is thousands of steps; half a second of it is millions.
  EXPECT_LT(steps, 200'000U);
}

// Stored procedures.

struct Transfer {
  uint64_t from, to, amount;
};

Transfer transfer_of(std::string_view arguments) {
  Transfer t{};
  std::memcpy(&t, arguments.data(), sizeof t);
  return t;
}

void transfer_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  keys.add(kT, transfer_of(arguments).from, Intent::kUpdate);
  keys.add(kT, transfer_of(arguments).to, Intent::kUpdate);
}

Code transfer_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  const Transfer t = transfer_of(arguments);
  if (!values[0] || !values[1]) return Code::kNotFound;
  if (integer(values[0].bytes) < t.amount) return Code::kApplication;
  writes.put(kT, t.from, bytes_of(integer(values[0].bytes) - t.amount));
  writes.put(kT, t.to, bytes_of(integer(values[1].bytes) + t.amount));
  return Code::kOk;
}

TEST(EmbeddedDeclared, RunsOnEveryProtocol) {
  for (const char* protocol : all_rows()) {
    Options options;
    options.protocol = protocol;
    options.nodes = 5;
    TestCluster cluster(options);
    const auto transfer = cluster->declare({.name = "transfer", .keys = transfer_keys, .execute = transfer_step});
    ASSERT_TRUE(transfer);
    EXPECT_EQ(cluster->declare({.name = "half", .keys = transfer_keys}).error().code, Code::kBadOption);
    cluster.load(10, bytes_of(100)).start();
    const auto call = [&](Transfer t) {
      const std::string arguments(reinterpret_cast<const char*>(&t), sizeof t);
      return retried([&] { return cluster->call(NodeId(static_cast<uint8_t>(t.from % 5)), *transfer, arguments); });
    };
    for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(committed(call({i, (i + 1) % 10, i})));
    EXPECT_TRUE(aborted(call({0, 1, 1000}), Code::kApplication));
    EXPECT_TRUE(aborted(call({0, 99, 1}), Code::kNotFound));
    EXPECT_TRUE(rejected(cluster->call(NodeId(0), ProcedureId(7), ""), Code::kNoSuchProcedure));
    cluster->stop();
    uint64_t total = 0;
    for (const auto& [key, value] : cluster.contents()) total += integer(value);
    EXPECT_EQ(total, 1000U) << protocol;
  }
}

TEST(EmbeddedDeclared, ARejectedKeyRejectsTheCall) {
  TestCluster cluster(Options{});
  const auto procedure = cluster->declare(
      {.name = "bad table",
       .keys = [](std::string_view, StoredProcedure::Keys& keys) { keys.add(TableId(9), 1); },
       .execute = [](std::string_view, std::span<const Value>, StoredProcedure::Writes&) { return Code::kOk; }});
  ASSERT_TRUE(procedure);
  cluster.start();
  EXPECT_TRUE(rejected(cluster->call(NodeId(0), *procedure, ""), Code::kNoSuchTable));
}

TEST(Embedded, AStoppedClusterSaysSo) {
  TestCluster cluster(Options{});
  auto body = [](Txn& txn) -> Task<Code> { co_return txn.put(kT, 1, "v"); };
  const auto is_closed = [](const Outcome& outcome) {
    return outcome.kind == OutcomeKind::kRejected && outcome.code == Code::kPeerUnreachable;
  };
  EXPECT_TRUE(is_closed(cluster->run(NodeId(0), {}, body))) << "before the start";
  cluster.start();
  EXPECT_TRUE(committed(cluster->run(NodeId(0), {}, body)));
  cluster->stop();
  EXPECT_TRUE(is_closed(cluster->run(NodeId(0), {}, body)));
  EXPECT_TRUE(is_closed(cluster->get_one(NodeId(0), kT, 1).outcome));
  EXPECT_TRUE(is_closed(cluster->put_one(NodeId(0), kT, 1, "w")));
  EXPECT_TRUE(cluster->spawn(NodeId(0), WorkerId(0), [](Session&) -> Task<void> { co_return; }).done());
}

// A record of up to 64 KiB takes one verb, and so does its log entry if that is no longer; longer ones take messages.
TEST(Embedded, ValuesAroundTheLargestVerb) {
  for (const char* fabric : {"shm", "tcp"}) {
    for (const char* protocol : {"farm", "drtmr"}) {
      const Shape shape{protocol, 3, 3, 1, fabric};
      TestCluster cluster(shape.options(), {{.name = "t", .value_bytes_max = 65'536, .capacity = 50}});
      const size_t sizes[] = {65'300, 65'400, 65'440, 65'504, 65'505, 65'512, 65'520, 65'536};
      for (uint64_t key = 0; key < std::size(sizes); ++key) {
        EXPECT_TRUE(cluster->load(kT, key, std::string(sizes[key], 'a')));
      }
      cluster.start();
      for (const char letter : {'b', 'c'}) {
        for (uint64_t key = 0; key < std::size(sizes); ++key) {
          const std::string value(sizes[key], letter);
          size_t seen = 0;
          auto change = [&](Txn& txn) -> Task<Code> {
            const Value read = co_await txn.get(kT, key, Intent::kUpdate);
            if (read.code != Code::kOk) co_return read.code;
            seen = read.bytes.size();
            co_return txn.put(kT, key, value);
          };
          EXPECT_TRUE(committed(cluster->run(NodeId(0), {.backoff_us = 1}, change))) << fabric << " " << protocol;
          EXPECT_EQ(seen, sizes[key]);
          EXPECT_TRUE(retried([&] { return cluster->put_one(NodeId(1), kT, key, value); }).committed());
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
