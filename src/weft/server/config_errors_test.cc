// Every class of error, with its exact text. Those of files that a configuration names: config_check_files_test.cc.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "weft/redis/address.h"
#include "weft/server/config.h"
#include "weft/server/config_keys.h"
#include "weft/server/config_testing.h"

namespace weft {
namespace {

// A file that begins with this line.
Texts errors_after(const std::string& first) {
  return errors_of(first + "\ncluster.name = \"a\"\nnode.id = 0\n" + kTcp + kSupervised);
}
// A file whose first line has these keys of the cluster, and the second the node's.
Texts errors_of_cluster(const std::string& keys, int node = 0) {
  return errors_of("cluster = {name = \"a\", " + keys + "}\nnode.id = " + std::to_string(node) + "\n" + kTcp +
                   kSupervised);
}

TEST(ConfigErrors, Types) {
  for (const auto& [value, found] : Cases{{"\"many\"", "\"many\""},
                                          {"1.5", "the float 1.5"},
                                          {"[1]", "an array"},
                                          {"true", "true"},
                                          {"2024-01-02", "a date or time"}}) {
    EXPECT_EQ(errors_with("[limits]\ntransactions_in_flight_max = " + value),
              Texts{"n.toml:12:30: limits.transactions_in_flight_max is " + found + ", expected an integer, 1 to 200"});
  }
  EXPECT_EQ(errors_with("[limits.transactions_in_flight_max]"),
            Texts{"n.toml:11:1: limits.transactions_in_flight_max is a table, expected an integer, 1 to 200"});
  EXPECT_EQ(errors_with("[store]\nvalue_bytes_max = \"64KB\""),
            Texts{"n.toml:12:19: store.value_bytes_max is \"64KB\", expected a size, 1 to 16778231 (an integer, or a "
                  "string with KiB, MiB, GiB or TiB)"});
  EXPECT_EQ(errors_of("node = {id = 0, pin_threads = 1}\ncluster.name = \"a\"\n" + kTcp + kSupervised),
            Texts{"n.toml:1:31: node.pin_threads is 1, expected true or false"});
  EXPECT_EQ(errors_between(kSupervised + "[fabric]\nlisten = 7400"),
            Texts{"n.toml:8:10: fabric.listen is 7400, expected a string"});
  EXPECT_EQ(errors_of("fabric = 3\ncluster.name = \"a\"\nnode.id = 0\n" + kSupervised),
            Texts{"n.toml:1:1: fabric is 3, expected a table"});
}

TEST(ConfigErrors, Ranges) {
  EXPECT_EQ(errors_of_cluster("nodes = 64", 63),
            (Texts{"n.toml:1:32: cluster.nodes is 64, expected an integer, 1 to 63",
                   "n.toml:2:11: node.id is 63, expected an integer, 0 to 62"}));
  EXPECT_EQ(errors_with("[limits]\nanswer_ms = 3999"),
            Texts{"n.toml:12:13: limits.answer_ms is 3999, expected at least 4000, twice cluster.lease_ms, which is "
                  "2000"});
  EXPECT_EQ(errors_with("[limits]\nmailbox = -1"),
            Texts{"n.toml:12:11: limits.mailbox is -1, expected an integer, 1 to 1048576"});
  EXPECT_EQ(errors_with("[limits]\ncredit_bytes = \"65MiB\""),
            Texts{"n.toml:12:16: limits.credit_bytes is \"65MiB\", expected a size, 4KiB to 64MiB (an integer, or a "
                  "string with KiB, MiB, GiB or TiB)"});
  EXPECT_EQ(errors_with("[store]\ncapacity = 0"),
            Texts{"n.toml:12:12: store.capacity is 0, expected an integer, 1 to 10000000000"});
}

TEST(ConfigErrors, Names) {
  EXPECT_EQ(errors_of_cluster("protocol = \"dnl5\""),
            Texts{"n.toml:1:35: cluster.protocol is \"dnl5\", expected one of \"auto\", \"dnl4\", \"dnl2\", "
                  "\"dnl1\", \"fasst\", \"farm\", \"drtmr\", \"drtmh\", \"drtmh-nc\", \"hop\""});
  EXPECT_EQ(errors_between(kSupervised + "[fabric]\nkind = \"rdma\"\nlisten = \"h\""),
            Texts{"n.toml:8:8: fabric.kind is \"rdma\", expected one of \"tcp\", \"shm\", \"verbs\""});
  EXPECT_EQ(errors_between(kTcp + "[membership]\nkind = \"etcd\""),
            Texts{"n.toml:8:8: membership.kind is \"etcd\", expected one of \"supervisor\", \"zookeeper\""});
  const std::string long_name(65, 'x');
  for (const auto& [name, why] : Cases{{"", "it is empty"},
                                       {"a/b", "it has other characters"},
                                       {"..", "a path cannot go through it"},
                                       {long_name, "it has 65 bytes"}}) {
    EXPECT_EQ(errors_of("cluster.name = \"" + name + "\"\nnode.id = 0\n" + kTcp + kSupervised),
              Texts{"n.toml:1:16: cluster.name is \"" + name + "\" (" + why +
                    "), expected 1 to 64 letters, digits, '-', '_' or '.'"});
  }
}

// A user of an old file is told what to write.
TEST(ConfigErrors, AnOldKeyNamesTheNewOne) {
  EXPECT_EQ(errors_with("[limits]\ninflight = 3"),
            Texts{"n.toml:12:1: limits.inflight is not a key: it is called limits.transactions_in_flight_max now"});
  for (const char* old :
       {"cluster.founders", "fabric.locks", "limits.inflight", "limits.fill_bytes", "limits.outcome_wait_ms"}) {
    EXPECT_EQ(find_key(old), nullptr) << old;
    EXPECT_NE(find_key(std::string(renamed_key(old))), nullptr) << old;
  }
  EXPECT_EQ(renamed_key("limits.mailbox"), "");
}

TEST(ConfigErrors, UnknownKeysAndTables) {
  const std::string all =
      "there are [cluster], [node], [fabric], [fabric.tls], [membership], [client], [client.tls], [http], [http.tls], "
      "[store] and [limits]";
  for (const auto& [more, error] :
       Cases{{"[limits]\ntransactions_in_flight = 3",
              "12:1: limits.transactions_in_flight is not a key; did you mean limits.transactions_in_flight_max?"},
             {"[limits]\nlease_ms = 3", "12:1: limits.lease_ms is not a key; did you mean cluster.lease_ms?"},
             {"[store]\ncompression = \"zstd\"",
              "12:1: store.compression is not a key; [store] has memory_bytes_max, capacity, value_bytes_max, ordered"},
             {"[limit]\ntransactions_in_flight_max = 3",
              "11:1: [limit] is not a table of this file; did you mean [limits]?"},
             {"[telemetry]\nx = 3", "11:1: [telemetry] is not a table of this file; " + all}}) {
    EXPECT_EQ(errors_with(more), Texts{"n.toml:" + error});
  }
  for (const auto& [first, error] : Cases{{"replicas = 3", "replicas is not a key; did you mean cluster.replicas?"},
                                          // A quoted key with a dot in it is not a key of a table.
                                          {"\"store.capacity\" = 3", "store.capacity is not a key; " + all},
                                          {"\"a\\nb\" = 3", "a\\nb is not a key; " + all}}) {
    EXPECT_EQ(errors_of(first + "\n" + std::string(kMinimalConfig)), Texts{"n.toml:1:1: " + error});
  }
}

TEST(ConfigErrors, MissingKeysStandAtTheirTables) {
  EXPECT_EQ(errors_of("\n[cluster]\n[node]\n\n[fabric]\n[membership]"),
            (Texts{"n.toml:2:1: cluster.name is missing, expected 1 to 64 letters, digits, '-', '_' or '.'",
                   "n.toml:3:1: node.id is missing, expected an integer, 0 to 62",
                   "n.toml:5:1: fabric.listen is missing, expected host:port, port 0 to 65535",
                   "n.toml:6:1: membership.socket is missing, expected '@' and a name, or a path"}));
  EXPECT_EQ(errors_of("[fabric]\nkind = \"shm\"\n[membership]\nkind = \"supervisor\""),
            (Texts{"n.toml:1:1: cluster.name is missing, expected 1 to 64 letters, digits, '-', '_' or '.'",
                   "n.toml:1:1: node.id is missing, expected an integer, 0 to 62",
                   "n.toml:1:1: fabric.listen is missing, expected '@' and a name, or a path",
                   "n.toml:3:1: membership.socket is missing, expected '@' and a name, or a path"}));
  EXPECT_EQ(errors_between(kTcp + "[membership]\nkind = \"zookeeper\""),
            Texts{"n.toml:7:1: membership.hosts is missing, expected host:port, separated by commas"});
}

TEST(ConfigErrors, AnEmptyFileMissesWhatIsRequired) {
  for (const char* text : {"", "\n\n", "# nothing\n"}) EXPECT_EQ(errors_of(text).size(), 4U) << text;
}

TEST(ConfigErrors, SyntaxComesFromTheParser) {
  const Texts twice = errors_with("[limits]\ntransactions_in_flight_max = 3\ntransactions_in_flight_max = 4");
  ASSERT_EQ(twice.size(), 1U);
  EXPECT_TRUE(twice[0].starts_with("n.toml:13:")) << twice[0];
  EXPECT_NE(twice[0].find("transactio"), std::string::npos) << twice[0];
  for (const char* text : {"[limits", "x = ", "x = \"open", "x 3", "[a]\n[a]", "x = 1__0", "= 3", "x = {a = 1"}) {
    const Texts errors = errors_with(text);
    ASSERT_EQ(errors.size(), 1U) << text;
    EXPECT_TRUE(errors[0].starts_with("n.toml:1")) << errors[0];
    EXPECT_EQ(errors[0].find('\n'), std::string::npos) << errors[0];
  }
}

TEST(ConfigErrors, AllAtOnceInTheOrderOfTheFile) {
  EXPECT_EQ(errors_of("[node]\nid = 99\n[cluster]\nnodes = 2\nreplicas = 5\nworkers = 0\n[fabric]\nlisten = \"x\"\n"),
            (Texts{"n.toml:1:1: membership.socket is missing, expected '@' and a name, or a path",
                   "n.toml:2:6: node.id is 99, expected an integer, 0 to 62",
                   "n.toml:3:1: cluster.name is missing, expected 1 to 64 letters, digits, '-', '_' or '.'",
                   "n.toml:5:12: cluster.replicas is 5, expected at most 2 (cluster.nodes)",
                   "n.toml:6:11: cluster.workers is 0, expected an integer, 1 to 128",
                   "n.toml:8:10: fabric.listen is \"x\" (there is no port), expected host:port, port 0 to 65535"}));
}

TEST(ConfigErrors, RolesHaveNames) {
  const auto errors = [](const std::string& roles) {
    return errors_of("cluster.name = \"a\"\nnode = {id = 0, roles = " + roles + "}\n" + kTcp + kSupervised);
  };
  EXPECT_EQ(errors("\"data\""), Texts{});
  EXPECT_EQ(errors("\"memory\""),
            Texts{"n.toml:2:25: node.roles is \"memory\", expected one of \"both\", \"data\", \"transactions\""});
}

TEST(ConfigErrors, AtMostAHundred) {
  std::string text(kMinimalConfig);
  for (int i = 0; i < 250; ++i) text += "x" + std::to_string(i) + " = 1\n";
  const Texts errors = errors_of(text);
  ASSERT_EQ(errors.size(), kConfigErrorsMax + 1);
  EXPECT_EQ(errors.back(), "n.toml: there are 150 more errors");
}

TEST(ConfigErrors, CountsThatDoNotFitEachOther) {
  EXPECT_EQ(errors_of_cluster("nodes = 2, replicas = 3"),
            Texts{"n.toml:1:46: cluster.replicas is 3, expected at most 2 (cluster.nodes)"});
  EXPECT_EQ(errors_of_cluster("nodes = 5, initial_members = 3", 4), Texts{});
  EXPECT_EQ(errors_of_cluster("nodes = 5, initial_members = 1"), Texts{}) << "one replica, then";
  for (const auto& [members, error] : Cases{{"6", "6, expected at most 5 (cluster.nodes)"},
                                            {"2, replicas = 3", "2, expected at least 3 (cluster.replicas)"},
                                            {"0", "0, expected an integer, 1 to 63"}}) {
    EXPECT_EQ(errors_of_cluster("nodes = 5, initial_members = " + members),
              Texts{"n.toml:1:53: cluster.initial_members is " + error});
  }
  EXPECT_EQ(errors_of_cluster("nodes = 5", 5), Texts{"n.toml:2:11: node.id is 5, expected below 5 (cluster.nodes)"});
  EXPECT_EQ(errors_of("cluster.name = \"a\"\nnode = {id = 0, threads = 2}\n" + kTcp + kSupervised),
            Texts{"n.toml:2:27: node.threads is 2, expected at most 1 (cluster.workers)"});
  EXPECT_EQ(errors_with("[limits]\nvalue_bytes_max = 1000\n[store]\nvalue_bytes_max = \"1KiB\""),
            Texts{"n.toml:14:19: store.value_bytes_max is 1KiB, expected at most 1000 (limits.value_bytes_max)"});
}

TEST(ConfigErrors, WhatTheEngineRefuses) {
  const Texts small = errors_with("[store]\nmemory_bytes_max = \"1MiB\"");
  ASSERT_EQ(small.size(), 1U);
  EXPECT_TRUE(
      small[0].starts_with("n.toml:12:20: store.memory_bytes_max is 1048576, its capacity of 1000000 records "
                           "needs at least "))
      << small[0];
  const Texts large = errors_with("[store]\ncapacity = 10_000_000_000");
  ASSERT_EQ(large.size(), 1U);
  EXPECT_TRUE(large[0].starts_with("n.toml:12:12: store.memory_bytes_max is 1073741824, its capacity of ")) << large[0];
}

TEST(ConfigErrors, Addresses) {
  const auto listen = [](const std::string& address) {
    return errors_between(kSupervised + "[fabric]\nlisten = \"" + address + "\"");
  };
  for (const char* good : {"h:0", "a-b_c.d:65535", "1.2.3.4:5", "[::1]:5", "[fe80::1%eth0]:5"}) {
    EXPECT_EQ(listen(good), Texts{}) << good;
  }
  for (const auto& [address, why] : Cases{{"host", "there is no port"},
                                          {"", "there is no port"},
                                          {"[::1]", "there is no port"},
                                          {"host:", "the port is no number"},
                                          {"host:x", "the port is no number"},
                                          {"host:-1", "the port is no number"},
                                          {"host:65536", "the port is above 65535"},
                                          {"host:99999999999999999999", "the port is above 65535"},
                                          {":7400", "the host is empty"},
                                          {"::1:7400", "an IPv6 address goes in brackets"},
                                          {"[1.2.3.4]:5", "what is in brackets is no IPv6 address"},
                                          {"1.2.3.400:5", "the host is no IPv4 address"},
                                          {"a b:5", "a host has letters, digits, '.', '-' and '_'"}}) {
    EXPECT_EQ(listen(address), Texts{"n.toml:8:10: fabric.listen is \"" + address + "\" (" + why +
                                     "), expected host:port, port 0 to 65535"});
  }
  const std::string host(300, 'h');
  EXPECT_EQ(listen(host + ":5"),
            Texts{"n.toml:8:10: fabric.listen is \"" + host.substr(0, 80) +
                  "\"... (302 bytes) (the host has 300 bytes, at most 253), expected host:port, port 0 to 65535"});
  EXPECT_EQ(errors_after("client.listen = \"x\""),
            Texts{"n.toml:1:17: client.listen is \"x\" (there is no port), expected host:port, port 0 to 65535"});
}

TEST(ConfigErrors, WhatOthersCannotConnectTo) {
  EXPECT_EQ(errors_between(kSupervised + "[fabric]\nlisten = \"0.0.0.0:7400\""),
            Texts{"n.toml:7:1: fabric.advertise is missing, expected host:port, port 1 to 65535: nobody can connect to "
                  "fabric.listen, \"0.0.0.0:7400\""});
  EXPECT_EQ(errors_between(kSupervised + "[fabric]\nlisten = \"[::]:7400\"\nadvertise = \"a:1\""), Texts{});
  EXPECT_EQ(errors_between(kSupervised + kTcp + "advertise = \"a:0\""),
            Texts{"n.toml:9:13: fabric.advertise is \"a:0\" (nobody can connect to port 0), expected host:port, port 1 "
                  "to 65535"});
  EXPECT_EQ(errors_between(kSupervised + kTcp + "advertise = \"[::]:1\""),
            Texts{"n.toml:9:13: fabric.advertise is \"[::]:1\" (nobody can connect to a wildcard), expected host:port, "
                  "port 1 to 65535"});
}

TEST(ConfigErrors, SocketPaths) {
  const auto shm = [](const std::string& address) {
    return errors_between(kSupervised + "[fabric]\nkind = \"shm\"\nlisten = \"" + address + "\"");
  };
  const std::string longest = "/" + std::string(kSocketPathBytesMax - 1, 's');
  EXPECT_EQ(shm(longest), Texts{});
  EXPECT_EQ(shm("@" + longest.substr(1)), Texts{});
  EXPECT_EQ(shm(longest + "s"),
            Texts{"n.toml:9:10: fabric.listen is \"" + longest.substr(0, 80) +
                  "\"... (108 bytes) (a socket's address has at most 107 bytes, this one 108), expected '@' and a "
                  "name, or a path"});
  for (const auto& [address, why] :
       Cases{{"", "it is empty"}, {"@", "it is empty"}, {"@a\\u0000b", "there is a zero byte in it"}}) {
    EXPECT_EQ(shm(address), Texts{"n.toml:9:10: fabric.listen is \"" + address + "\" (" + why +
                                  "), expected '@' and a name, or a path"});
  }
}

TEST(ConfigErrors, TheDevice) {
  const auto verbs = [](const std::string& keys) {
    return errors_between(kSupervised + "[fabric]\nkind = \"verbs\"\nlisten = \"a:1\"\n" + keys);
  };
  EXPECT_EQ(
      verbs(
          "device = \"mlx5_0\"\ndevice_port = 2\ngid_index = 3\nremote_lock_mode = \"loopback\"\nadvertise = \"b:2\""),
      Texts{});
  EXPECT_EQ(verbs("device_port = 0"), Texts{"n.toml:10:15: fabric.device_port is 0, expected an integer, 1 to 255"});
  EXPECT_EQ(verbs("gid_index = 256"), Texts{"n.toml:10:13: fabric.gid_index is 256, expected an integer, 0 to 255"});
  for (const std::string good : {"auto", "off", "1", "4096"}) {
    EXPECT_EQ(verbs("verb_credit = \"" + good + "\""), Texts{});
  }
  for (const std::string bad : {"", "on", "0", "4097", "-1", "8 "}) {
    EXPECT_EQ(verbs("verb_credit = \"" + bad + "\""), Texts{"n.toml:10:15: fabric.verb_credit is \"" + bad +
                                                            "\", expected \"auto\", \"off\" or \"1\" to \"4096\""});
  }
  EXPECT_EQ(errors_between(kSupervised + kTcp + "verb_credit = \"auto\""),
            Texts{"n.toml:9:15: fabric.verb_credit is given, expected only with fabric.kind = \"verbs\""});
  EXPECT_EQ(errors_between(kSupervised + kTcp + "device = \"mlx5_0\"\ngid_index = 3"),
            (Texts{"n.toml:9:10: fabric.device is given, expected only with fabric.kind = \"verbs\"",
                   "n.toml:10:13: fabric.gid_index is given, expected only with fabric.kind = \"verbs\""}));
}

TEST(ConfigErrors, KeysOfOtherKinds) {
  EXPECT_EQ(
      errors_between(kSupervised + "[fabric]\nkind = \"shm\"\nlisten = \"@a\"\nadvertise = \"a:1\"\n[fabric.tls]"),
      (Texts{"n.toml:10:13: fabric.advertise is given, expected only with fabric.kind = \"tcp\" or \"verbs\"",
             "n.toml:11:1: [fabric.tls] is given, expected only with fabric.kind = \"tcp\" or \"verbs\""}));
  EXPECT_EQ(errors_between(kTcp + kSupervised + "hosts = \"zk:1\"\npath = \"/a\"\nauth = \"u:p\""),
            (Texts{"n.toml:9:9: membership.hosts is given, expected only with membership.kind = \"zookeeper\"",
                   "n.toml:10:8: membership.path is given, expected only with membership.kind = \"zookeeper\"",
                   "n.toml:11:8: membership.auth is given, expected only with membership.kind = \"zookeeper\""}));
  EXPECT_EQ(errors_between(kTcp + kSupervised + "kind = \"zookeeper\"\nhosts = \"zk:1\""),
            Texts{"n.toml:8:10: membership.socket is given, expected only with membership.kind = \"supervisor\""});
}

TEST(ConfigErrors, SharedMemoryNeedsTheSupervisor) {
  EXPECT_EQ(
      errors_between("[fabric]\nkind = \"shm\"\nlisten = \"@a\"\n[membership]\nkind = \"zookeeper\"\nhosts = "
                     "\"zk:1\""),
      Texts{"n.toml:9:8: membership.kind is \"zookeeper\", expected \"supervisor\" with fabric.kind = \"shm\": who "
            "shares memory is fenced only by the end of its process, and only a supervisor sees that"});
}

TEST(ConfigErrors, OneAddressForTwo) {
  EXPECT_EQ(errors_after("client.listen = \"h:1\""),
            Texts{"n.toml:1:17: client.listen is \"h:1\" (fabric.listen, \"h:1\", has that port already), expected "
                  "host:port, port 0 to 65535"});
  EXPECT_EQ(errors_after("client.listen = \"[::]:1\"").size(), 1U);
  EXPECT_EQ(errors_after("http.listen = \"h:1\""),
            Texts{"n.toml:1:15: http.listen is \"h:1\" (fabric.listen, \"h:1\", has that port already), expected "
                  "host:port, port 0 to 65535"});
  EXPECT_EQ(errors_after("http.listen = \"0.0.0.0:7379\""),
            Texts{"n.toml:1:15: http.listen is \"0.0.0.0:7379\" (client.listen, \"127.0.0.1:7379\", has that port "
                  "already), expected host:port, port 0 to 65535"});
  EXPECT_EQ(errors_after("client.listen = \"i:1\""), Texts{});
  EXPECT_EQ(
      errors_between("[fabric]\nkind = \"shm\"\nlisten = \"@s\"\n" + kSupervised),
      Texts{"n.toml:9:10: membership.socket is \"@s\" (fabric.listen has it already), expected '@' and a name, or "
            "a path"});
}

// Opening it must be explicit.
TEST(ConfigErrors, ZooKeeper) {
  const auto with = [](const std::string& more) {
    return errors_between(kTcp + "[membership]\nkind = \"zookeeper\"\n" + more);
  };
  EXPECT_EQ(with("hosts = \"zk1:2181,[::1]:2181\"\npath = \"/a/b.c\"\nauth = \"u:p:q\""), Texts{});
  for (const auto& [hosts, why] : Cases{{"", "\"\": there is no port"},
                                        {"zk1:1,zk2", "\"zk2\": there is no port"},
                                        {"zk1:1,", "\"\": there is no port"},
                                        {"zk1:0", "\"zk1:0\": nobody can connect to port 0"},
                                        {"a:1, b:1", "\" b:1\": a host has letters, digits, '.', '-' and '_'"},
                                        {"a:1,b:1,a:1", "\"a:1\" is there twice"}}) {
    EXPECT_EQ(with("hosts = \"" + hosts + "\""), Texts{"n.toml:9:9: membership.hosts is \"" + hosts + "\" (" + why +
                                                       "), expected host:port, separated by commas"});
  }
  for (const auto& [path, why] : Cases{{"weft", "it does not begin with '/'"},
                                       {"/", "it ends with '/'"},
                                       {"/a/", "it ends with '/'"},
                                       {"/a//b", "a part of it is empty"},
                                       {"/a/../b", "a part of it is \"..\""},
                                       {"/a b", "it has characters that are not printable ASCII"}}) {
    EXPECT_EQ(with("hosts = \"a:1\"\npath = \"" + path + "\""),
              Texts{"n.toml:10:8: membership.path is \"" + path + "\" (" + why +
                    "), expected a path like /weft/orders/view"});
  }
}

TEST(ConfigErrors, Files) {
  const ConfigFolder folder;
  EXPECT_EQ(load_config(folder / "gone").errors,
            Texts{(folder / "gone") + ": cannot be read: No such file or directory"});
  EXPECT_EQ(load_config(folder / ".").errors, Texts{(folder / ".") + ": it is a directory, expected a regular file"});
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(load_config(folder / "pipe").errors, Texts{(folder / "pipe") + ": it is a pipe, expected a regular file"});
  EXPECT_EQ(load_config("/dev/zero").errors, Texts{"/dev/zero: it is a device, expected a regular file"});
  EXPECT_EQ(load_config("").errors, Texts{": cannot be read: No such file or directory"});
  EXPECT_EQ(load_config(folder.write("empty", "")).errors.size(), 4U);
  const std::string line = "# " + std::string(1021, 'x') + "\n";
  std::string large(kMinimalConfig);
  while (large.size() + line.size() <= kConfigBytesMax) large += line;
  EXPECT_EQ(load_config(folder.write("largest", large)).errors, Texts{});
  while (large.size() < 10 << 20) large += line;
  EXPECT_EQ(load_config(folder.write("large", large)).errors,
            Texts{(folder / "large") + ": the file has " + std::to_string(large.size()) +
                  " bytes, expected at most 1048576 (1 MiB)"});
}

TEST(ConfigErrors, LinesHaveALimit) {
  const std::string longest = "# " + std::string(kConfigLineBytesMax - 2, 'x');
  EXPECT_EQ(errors_with(longest + "\n" + longest), Texts{});
  EXPECT_EQ(errors_with(longest + "\n\n" + longest + "x\n"),
            Texts{"n.toml:13:1: the line has 4097 bytes, expected at most 4096"});
}

}  // namespace
}  // namespace weft
