#include "weft/bench/queue_pairs.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "weft/wires/verbs/stub_device_testing.h"

namespace weft::bench {
namespace {

std::string run(const StubOptions& device) {
  const StubVerbs stub(device);
  QueuePairOptions options;
  options.threads = 3;
  options.seconds = 0.03;
  options.region_bytes = 2 << 20;
  options.library = &StubVerbs::library();
  std::ostringstream out;
  Progress progress(stderr);
  const auto done = run_queue_pairs(options, out, progress);
  EXPECT_TRUE(done) << done.error().text();
  EXPECT_EQ(stub.live(), 0U);
  EXPECT_EQ(stub.mistakes(), 0U);
  return out.str();
}

TEST(QueuePairs, OneTwoFourAndTheMost) {
  EXPECT_EQ(numbers_of_threads(1), (std::vector<uint32_t>{1}));
  EXPECT_EQ(numbers_of_threads(4), (std::vector<uint32_t>{1, 2, 4}));
  EXPECT_EQ(numbers_of_threads(96), (std::vector<uint32_t>{1, 2, 4, 8, 16, 32, 64, 96}));
}

TEST(QueuePairs, EveryPolicyHasAFigure) {
  const std::string text = run({});
  EXPECT_NE(text.find("| threads | shared | multiplexed | worker | doorbell | meet |"), std::string::npos) << text;
  for (const char* row : {"\n| 1 | ", "\n| 2 | ", "\n| 3 | "}) EXPECT_NE(text.find(row), std::string::npos) << text;
  EXPECT_EQ(text.find("–"), std::string::npos) << text;
}

TEST(QueuePairs, WhatTheDeviceDoesNotHaveIsNotMeasured) {
  const std::string text = run({.thread_domains = false});
  EXPECT_NE(text.find(" | – | 1 |\n"), std::string::npos) << text;
  EXPECT_NE(text.find("–: device stub0: no thread domain: Operation not supported.\n"), std::string::npos) << text;
}

TEST(QueuePairs, WithoutADeviceItSaysWhatToDo) {
  const StubVerbs stub({.devices = 0});
  QueuePairOptions options;
  options.region_bytes = 2 << 20;
  options.library = &StubVerbs::library();
  std::ostringstream out;
  Progress progress(stderr);
  const auto done = run_queue_pairs(options, out, progress);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().detail.find("this machine has no RDMA device"), std::string::npos);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace weft::bench
