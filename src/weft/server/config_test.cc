#include "weft/server/config.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "weft/base/random.h"
#include "weft/base/source_testing.h"
#include "weft/redis/value.h"
#include "weft/server/config_keys.h"
#include "weft/server/config_testing.h"
#include "weft/txn/protocol.h"

namespace weft {
namespace {

NodeConfig sound(const std::string& text, const std::string& path = "/etc/weft/node.toml") {
  const LoadedConfig loaded = parse_config(text, path);
  EXPECT_TRUE(loaded) << joined(loaded.errors) << text;
  return loaded.config;
}

TEST(Config, TheSmallestFileHasDefaultsForTheRest) {
  const NodeConfig c = sound(std::string(kMinimalConfig));
  EXPECT_EQ(c.cluster, "orders");
  EXPECT_EQ(c.node, NodeId(0));
  EXPECT_EQ(c.lease_ms, kSupervisedLeaseMs);
  const Options defaults;
  EXPECT_EQ(c.options.nodes, defaults.nodes);
  EXPECT_EQ(c.initial_members, defaults.nodes);
  EXPECT_EQ(c.options.replicas, defaults.replicas);
  EXPECT_EQ(c.options.workers, defaults.workers);
  EXPECT_EQ(c.options.protocol, "auto");
  EXPECT_EQ(c.options.hash_seed, defaults.hash_seed);
  EXPECT_EQ(c.options.limits.credit_bytes, defaults.limits.credit_bytes);
  EXPECT_EQ(c.fabric.kind, FabricKind::kTcp);
  EXPECT_EQ(c.fabric.advertise, "");
  EXPECT_FALSE(c.fabric.has_tls());
  EXPECT_EQ(c.membership.kind, MembershipKind::kSupervisor);
  EXPECT_EQ(c.client.listen, "127.0.0.1:7379");
  EXPECT_EQ(c.http.listen, "");
  EXPECT_EQ(c.store.memory_bytes_max, 1U << 30);
  EXPECT_EQ(c.store.capacity, 1'000'000U);
  EXPECT_EQ(c.store.value_bytes_max, 16U << 20);
}

TEST(Config, DefaultsFollowOtherKeys) {
  const NodeConfig c = sound(R"(
cluster = {name = "one", nodes = 1}
node.id = 0
fabric.listen = "[::1]:0"
limits.value_bytes_max = 1000
membership = {kind = "zookeeper", hosts = "zk:2181"})");
  EXPECT_EQ(c.options.replicas, 1);
  EXPECT_EQ(c.store.value_bytes_max, 1000U);
  EXPECT_EQ(c.membership.path, "/weft/one/view");
  EXPECT_EQ(c.node, NodeId(0));
}

TEST(Config, PathsBeginAtTheFilesFolder) {
  const std::string shm = R"(
cluster.name = "x"
node.id = 1
fabric = {kind = "shm", listen = "run/../node.sock"}
membership.socket = "@supervisor")";
  EXPECT_EQ(sound(shm).fabric.listen, "/etc/weft/node.sock");
  EXPECT_EQ(sound(shm).membership.socket, "@supervisor");
  EXPECT_EQ(sound(shm, "node.toml").fabric.listen, (std::filesystem::current_path() / "node.sock").string());
}

TEST(Config, Sizes) {
  uint64_t bytes = 0;
  EXPECT_TRUE(parse_size("0", bytes) && bytes == 0);
  EXPECT_TRUE(parse_size("17", bytes) && bytes == 17);
  EXPECT_TRUE(parse_size("64KiB", bytes) && bytes == 65536);
  EXPECT_TRUE(parse_size("3MiB", bytes) && bytes == 3U << 20);
  EXPECT_TRUE(parse_size("2GiB", bytes) && bytes == uint64_t{2} << 30);
  EXPECT_TRUE(parse_size("16TiB", bytes) && bytes == uint64_t{1} << 44);
  for (const char* bad : {"", "KiB", "-1", "+1", "1KB", "1kib", "1 KiB", "1.5KiB", " 1", "1B", "16777216TiB",
                          "99999999999999999999", "1KiBx"}) {
    EXPECT_FALSE(parse_size(bad, bytes)) << bad;
  }
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1024}, uint64_t{1} << 44}) {
    EXPECT_TRUE(parse_size(size_text(size), bytes) && bytes == size) << size;
  }
  EXPECT_EQ(size_text(1536 << 10), "1536KiB");
}

TEST(Config, OneKeyAsAPersonTypesIt) {
  NodeConfig config = sound(std::string(kMinimalConfig));
  for (const char* set : {"cluster.lease_ms=700", "client.password=a \"b\"", "limits.transfer_chunk_bytes=128KiB",
                          "store.memory_bytes_max=4194304", "node.pin_threads=true", "cluster.protocol=dnl1"}) {
    EXPECT_EQ(set_key(config, set), std::vector<std::string>()) << set;
  }
  EXPECT_EQ(config.lease_ms, 700U);
  EXPECT_EQ(config.client.password, "a \"b\"");
  EXPECT_EQ(config.options.limits.transfer_chunk_bytes, 128U << 10);
  EXPECT_EQ(config.store.memory_bytes_max, 4U << 20);
  EXPECT_TRUE(config.options.pin_threads);
  EXPECT_EQ(config.options.protocol, "dnl1");
  EXPECT_EQ(config.cluster, "orders");  // the others stay
  for (const auto& [set, says] : {std::pair{"lease", "expected key=value"},
                                  {"cluster.lease_ms=soon", "lease_ms"},
                                  {"cluster.lease_ms=0", "1 to 60000"},
                                  {"cluster.leese_ms=5", "did you mean cluster.lease_ms?"},
                                  {"cluster.protocol=raft", "\"raft\""},
                                  {"=5", "expected key=value"},
                                  {"cluster.lease_ms=5\nnode.id=2", "lease_ms"}}) {
    const std::vector<std::string> errors = set_key(config, set);
    ASSERT_FALSE(errors.empty()) << set;
    EXPECT_NE(errors.front().find(says), std::string::npos) << errors.front();
  }
  EXPECT_EQ(config.lease_ms, 700U);
}

TEST(Config, APasswordInAFile) {
  const ConfigFolder folder;
  const std::string text = std::string(kMinimalConfig) + "password_file = \"secret\"\n";
  for (const char* content : {"pass word", "pass word\n", "pass word\r\nand more\n"}) {
    folder.write("secret", content);
    std::filesystem::permissions(folder / "secret", std::filesystem::perms(0600));
    const LoadedConfig loaded = parse_config(text, folder / "node.toml");
    ASSERT_TRUE(loaded) << joined(loaded.errors);
    EXPECT_EQ(loaded.config.client.password, "pass word");
    EXPECT_EQ(loaded.warnings, std::vector<std::string>());
    // A copy that is passed on needs no password file.
    const NodeConfig again = sound(to_toml(loaded.config));
    EXPECT_EQ(again.client.password, "pass word");
  }
  std::filesystem::permissions(folder / "secret", std::filesystem::perms(0640));
  const LoadedConfig open = parse_config(text, folder / "node.toml");
  ASSERT_TRUE(open) << joined(open.errors);
  ASSERT_EQ(open.warnings.size(), 1U);
  EXPECT_EQ(open.warnings[0], (folder / "node.toml") + ": client.password_file, " + (folder / "secret") +
                                  ": others than its owner may use it (its mode is 0640); chmod 600 keeps them out");
}

TEST(Config, TheLeaseIsLongerWhereASupervisorSeesAProcessEnd) {
  EXPECT_EQ(sound(std::string(kMinimalConfig)).lease_ms, kSupervisedLeaseMs);
  EXPECT_EQ(sound(R"(
cluster.name = "x"
node.id = 1
fabric.listen = "127.0.0.1:7400"
membership = {kind = "zookeeper", hosts = "127.0.0.1:2181", path = "/weft/x"})")
                .lease_ms,
            kLeaseMs);
}

TEST(Config, TheSpecIsWhatTheFileSays) {
  const ClusterSpec spec =
      spec_of(sound(std::string(kMinimalConfig) + "[store]\nvalue_bytes_max = 100\ncapacity = 7\nordered = true"));
  EXPECT_TRUE(spec.recovers);
  ASSERT_EQ(spec.tables.size(), 1U);
  EXPECT_EQ(spec.tables[0].name, "store");
  EXPECT_EQ(spec.tables[0].keys, KeyKind::kBytes);
  EXPECT_EQ(spec.tables[0].value_bytes_max, 100 + kValueHeaderBytesMax);
  EXPECT_EQ(spec.tables[0].partition, PartitionBy::kRedisSlot);
  EXPECT_EQ(spec.tables[0].capacity, 7U);
  EXPECT_TRUE(spec.tables[0].ordered);
  EXPECT_EQ(spec.tables[0].memory_bytes_max, 1U << 30);
  EXPECT_TRUE(check_spec(spec));
}

// Every range of check_spec is the key's own: its ends are accepted, and values beyond are refused.
TEST(Config, RangesAreThoseOfTheEngine) {
  int compared = 0;
  for (const ConfigKey& key : config_keys()) {
    const bool txn_worker =
        key.table == "cluster" || key.table == "limits" || key.name == "threads" || key.name == "backoff_unit_ns";
    const bool number = key.type == KeyType::kInteger || key.type == KeyType::kSize;
    if (!txn_worker || !number || key.name == "hash_seed" || key.name == "lease_ms" || key.name == "initial_members") {
      continue;
    }
    const auto fits = [&](int64_t value) {
      ClusterSpec spec;
      NodeConfig c;
      c.options.nodes = kNodesMax;
      c.options.replicas = 1;
      // With all of its nodes and workers, a cluster has not the most transactions a worker.
      c.options.workers = key.name == "transactions_in_flight_max" ? 64 : kWorkersMax;
      if (key.name == "workers") c.options.threads = 0;
      std::visit(
          [&](auto field) {
            using T = std::remove_reference_t<decltype(field(c))>;
            if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) field(c) = static_cast<T>(value);
          },
          key.field);
      spec.options = c.options;
      spec.options.protocol = founding_protocol(c);
      return static_cast<bool>(check_spec(spec));
    };
    const auto low = static_cast<int64_t>(key.low), high = static_cast<int64_t>(key.high);
    EXPECT_TRUE(fits(low)) << key.full_name();
    EXPECT_TRUE(fits(high)) << key.full_name();
    EXPECT_FALSE(fits(low - 1)) << key.full_name();
    EXPECT_FALSE(fits(high + 1)) << key.full_name();
    ++compared;
  }
  EXPECT_EQ(compared, 19);
}

// A silent node is detected after a lease: until then, and until the others have continued, no command fails.
TEST(Config, AnswersTakeTwoLeasesOrMore) {
  EXPECT_EQ(sound(std::string(kMinimalConfig)).options.limits.answer_ms, 10'000U);
  const std::string text =
      "cluster = {name = \"a\", lease_ms = 9000}\nnode.id = 0\n"
      "fabric.listen = \"h:1\"\nmembership.socket = \"@s\"\n";
  EXPECT_EQ(sound(text).options.limits.answer_ms, 18'000U);
  EXPECT_EQ(sound(text + "limits.answer_ms = 18000\n").options.limits.answer_ms, 18'000U);
}

TEST(Config, AClusterWhoseNodesHaveEveryKeyIsFoundedWithTheRowForThat) {
  const auto founded = [](int nodes, int replicas, const char* protocol = "auto") {
    NodeConfig c = sound(std::string(kMinimalConfig));
    c.options.nodes = nodes;
    c.options.replicas = replicas;
    c.options.protocol = protocol;
    EXPECT_EQ(spec_of(c).options.protocol, founding_protocol(c));
    return founding_protocol(c);
  };
  EXPECT_EQ(founded(3, 3), "dnl1");
  EXPECT_EQ(founded(2, 2), "dnl1");
  EXPECT_EQ(founded(4, 3), "hop");
  EXPECT_EQ(founded(7, 1), "hop");
  EXPECT_EQ(founded(1, 1), "dnl4");
  EXPECT_EQ(founded(3, 3, "fasst"), "fasst");
}

TEST(Config, EveryProtocolIsAChoice) {
  for (const Protocol& row : kProtocols) {
    const std::string text = std::string(kMinimalConfig) + "[limits]\n";
    NodeConfig c = sound(text);
    c.options.protocol = row.name;
    EXPECT_EQ(sound(to_toml(c)).options.protocol, row.name);
  }
}

// A random valid configuration.
NodeConfig drawn(Random& random) {
  NodeConfig c;
  for (const ConfigKey& key : config_keys()) {
    std::visit(
        [&](auto field) {
          auto& value = field(c);
          using T = std::remove_reference_t<decltype(value)>;
          if constexpr (std::is_same_v<T, bool>) {
            value = random.chance(50);
          } else if constexpr (std::is_same_v<T, NodeId>) {
            value = NodeId(static_cast<uint8_t>(random.between(key.low, key.high)));
          } else if constexpr (std::is_enum_v<T>) {
            value = static_cast<T>(random.below(key.choices.size()));
          } else if constexpr (std::is_integral_v<T>) {
            value = static_cast<T>(random.between(key.low, key.high));
          } else if (key.type == KeyType::kChoice) {
            value = key.choices[random.below(key.choices.size())];
          }
        },
        key.field);
  }
  Options& o = c.options;
  c.initial_members = std::min(c.initial_members, o.nodes);
  o.replicas = std::min(o.replicas, c.initial_members);
  c.node = NodeId(static_cast<uint8_t>(c.node.value % o.nodes));
  if (o.nodes > 31) o.workers = std::min(o.workers, 64);  // see OwnerFormat
  o.threads = std::min(o.threads, o.workers);
  o.limits.credit_bytes = std::max<uint32_t>(o.limits.credit_bytes, (1 << 20) + (16 << 10));
  o.limits.answer_ms = std::max(o.limits.answer_ms, 2 * c.lease_ms);
  c.store.value_bytes_max = std::min(c.store.value_bytes_max, o.limits.value_bytes_max);
  c.store.memory_bytes_max = 0;
  c.cluster = "cluster-" + std::to_string(random.below(100));
  c.client.listen = "localhost:" + std::to_string(random.below(7000));
  if (random.below(2) == 0) c.http.listen = "localhost:" + std::to_string(7000 + random.below(300));
  const bool tcp = c.fabric.kind != FabricKind::kShm;
  if (!tcp) c.membership.kind = MembershipKind::kSupervisor;
  c.fabric.listen = tcp ? "[::]:7400" : random.chance(50) ? "@node" : "/run/a \"quoted\"\\\t\x7f\u00e4 path";
  if (tcp) c.fabric.advertise = "db-1.example.org:1";
  if (c.fabric.kind == FabricKind::kVerbs && random.chance(50)) c.fabric.device.device = "mlx5_0";
  if (c.membership.kind == MembershipKind::kSupervisor) {
    c.membership.socket = "/run/weft.sock";
  } else {
    c.membership.hosts = "a:1,b:65535,[::1]:2181";
    c.membership.path = "/view";
    if (random.chance(50)) c.membership.auth = "user:pass\"word\n";
  }
  return c;
}

TEST(Config, WhatIsWrittenIsReadAgain) {
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    const NodeConfig c = drawn(random);
    const std::string text = to_toml(c);
    const NodeConfig again = sound(text, "/elsewhere/node.toml");
    ASSERT_EQ(to_toml(again), text);
    ASSERT_EQ(again.fabric.listen, c.fabric.listen);
    ASSERT_EQ(again.membership.auth, c.membership.auth);
    ASSERT_EQ(again.options.hash_seed, c.options.hash_seed);
  }
}

TEST(Config, EveryKeyIsWritten) {
  NodeConfig one, other;
  one.initial_members = 3;
  one.http.listen = "127.0.0.1:8379";
  one.membership.kind = MembershipKind::kZooKeeper;
  one.membership.auth = "user:password";
  one.client.password = "password";
  one.client.password_file = "file";
  one.http.password = "password";
  one.http.password_file = "file";
  one.fabric.tls = one.client.tls = one.http.tls = {"ca", "certificate", "key"};
  other.fabric.kind = FabricKind::kVerbs;
  other.fabric.device.gid_index = 3;
  other.options.verb_credit = "auto";
  const std::string text = to_toml(one) + to_toml(other);
  for (const ConfigKey& key : config_keys()) {
    EXPECT_NE(text.find("\n" + std::string(key.name) + " = "), std::string::npos) << key.full_name();
    EXPECT_NE(text.find("\n[" + std::string(key.table) + "]\n"), std::string::npos) << key.full_name();
  }
}

TEST(Config, TheExampleHolds) {
  const std::string path = source_path("examples/node.toml");
  const LoadedConfig loaded = load_config(path);
  ASSERT_TRUE(loaded) << joined(loaded.errors);
  EXPECT_EQ(loaded.config.cluster, "orders");
  EXPECT_EQ(loaded.config.options.nodes, 5);
  EXPECT_EQ(loaded.config.membership.hosts, "zk1:2181,zk2:2181,zk3:2181");
}

// Each key is in its table, set or commented out, and values that are commented out are valid, too.
TEST(Config, TheExampleHasEveryKey) {
  std::string text = file_text(source_path("examples/node.toml"));
  for (const ConfigKey& key : config_keys()) {
    const size_t table = text.find("[" + std::string(key.table) + "]\n");
    ASSERT_NE(table, std::string::npos) << key.full_name();
    const std::string section = text.substr(table, text.find("\n\n", table) - table);
    const std::string line = std::string(key.name) + " = ";
    EXPECT_TRUE(section.find("\n" + line) != std::string::npos || section.find("\n# " + line) != std::string::npos)
        << key.full_name();
  }
}

TEST(Config, ThePageIsTheReference) {
  const std::string page = file_text(source_path("docs/configuration.md"));
  const size_t at = page.find("### [cluster]");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(page.substr(at), config_reference());
  for (const ConfigKey& key : config_keys()) {
    EXPECT_NE(page.find("| `" + std::string(key.name) + "` |"), std::string::npos) << key.full_name();
    EXPECT_EQ(key.about.find('|'), std::string_view::npos) << key.full_name();
  }
}

TEST(Config, ThePagesSmallestFileHolds) {
  const std::string page = file_text(source_path("docs/configuration.md"));
  const size_t begin = page.find("```toml\n") + 8;
  sound(page.substr(begin, page.find("```\n", begin) - begin));
}

}  // namespace
}  // namespace weft
