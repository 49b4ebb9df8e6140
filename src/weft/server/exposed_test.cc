#include "weft/server/exposed.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/redis/address.h"

namespace weft {
namespace {

NodeConfig closed() {
  NodeConfig config;
  config.cluster = "orders";
  config.fabric.listen = "127.0.0.1:7400";
  config.membership.socket = "@orders";
  return config;
}

std::vector<std::string> keys_of(const NodeConfig& config) {
  std::vector<std::string> keys;
  for (const Exposure& one : exposures(config)) keys.push_back(one.key);
  return keys;
}

using Keys = std::vector<std::string>;

TEST(Exposed, WhatIsOnLoopbackIsNot) { EXPECT_EQ(keys_of(closed()), Keys{}); }

TEST(Exposed, ZooKeeperWithoutAuth) {
  NodeConfig config = closed();
  config.membership = {MembershipKind::kZooKeeper, "", "zk1:2181,zk2:2181", "/weft/orders/view", ""};
  ASSERT_EQ(keys_of(config), Keys{"membership.auth"});
  EXPECT_NE(exposures(config)[0].why.find("zk1:2181,zk2:2181"), std::string::npos);
  config.membership.auth = "user:password";
  EXPECT_EQ(keys_of(config), Keys{});
}

TEST(Exposed, TheFabricWithoutTls) {
  NodeConfig config = closed();
  config.fabric.listen = "10.0.0.1:7400";
  EXPECT_EQ(keys_of(config), Keys{"fabric.tls"});
  config.fabric.tls = {"ca", "certificate", "key"};
  EXPECT_EQ(keys_of(config), Keys{});
  config.fabric = {};
  config.fabric.kind = FabricKind::kShm;
  config.fabric.listen = "@node";
  EXPECT_EQ(keys_of(config), Keys{});
}

TEST(Exposed, ClientsWithoutAPassword) {
  NodeConfig config = closed();
  config.client.listen = "0.0.0.0:7379";
  EXPECT_EQ(keys_of(config), Keys{"client.password"});
  config.client.tls = {"", "certificate", "key"};  // it encrypts, but admits everybody
  EXPECT_EQ(keys_of(config), Keys{"client.password"});
  config.client.tls.ca = "ca";
  EXPECT_EQ(keys_of(config), Keys{});
  config.client.tls = {};
  config.client.password = "password";
  EXPECT_EQ(keys_of(config), Keys{});
}

TEST(Exposed, HttpElsewhereThanOnLoopback) {
  const auto fault = [](const HttpConfig& http) { return http_fault(http); };
  const std::string prefix = "it is not a loopback address, and ";
  HttpConfig http;
  http.listen = "10.0.0.1:8379";
  EXPECT_EQ(fault(http), prefix + "http.password and [http.tls] are missing");
  http.password = "password";
  EXPECT_EQ(fault(http), prefix + "[http.tls] is missing");
  http.tls = {"", "certificate", "key"};
  EXPECT_EQ(fault(http), "");
  http.password.clear();
  EXPECT_EQ(fault(http), prefix + "http.password is missing");
  http.tls.ca = "ca";
  EXPECT_EQ(fault(http), "");
  http = {};
  for (const char* loopback : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"}) {
    http.listen = loopback;
    EXPECT_EQ(fault(http), "") << loopback;
  }
  for (const char* other : {"0.0.0.0:1", "[::]:1", "[::ffff:10.0.0.1]:1", "db-1:1", "localhost.example.org:1"}) {
    http.listen = other;
    http.open = false;
    EXPECT_NE(fault(http), "") << other;
    http.open = true;
    EXPECT_EQ(fault(http), "") << other;
  }
}

// Opening it is logged.
TEST(Exposed, HttpThatIsOpen) {
  NodeConfig config = closed();
  config.http.listen = "10.0.0.1:8379";
  config.http.open = true;
  ASSERT_EQ(keys_of(config), Keys{"http.open"});
  EXPECT_NE(exposures(config)[0].why.find("10.0.0.1:8379"), std::string::npos);
  config.http.password = "password";
  config.http.tls = {"", "certificate", "key"};
  EXPECT_EQ(keys_of(config), Keys{});
}

}  // namespace
}  // namespace weft
