#include "weft/wires/tcp/host_lookup.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace weft {
namespace {

constexpr uint64_t kNow = 1'000'000'000;

// Answers are held back until the test releases them. Shared with threads that may outlive the test.
class NameServer {
 public:
  void hold(const std::string& address) {
    const std::scoped_lock lock(mutex_);
    held_.insert(address);
  }
  void let_go() {
    const std::scoped_lock lock(mutex_);
    held_.clear();
    news_.notify_all();
  }
  int asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  Result<SocketAddress> resolve(const std::string& address) {
    std::unique_lock lock(mutex_);
    ++asked_;
    news_.notify_all();
    news_.wait(lock, [&] { return held_.count(address) == 0; });
    if (address.starts_with("nobody")) return Error{Code::kBadOption, "address " + address + ": nobody knows it"};
    return tcp_resolve("127.0.0.1" + address.substr(address.rfind(':')));
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::set<std::string> held_;
  int asked_ = 0;
};

class HostLookupTest : public testing::Test {
 protected:
  ~HostLookupTest() override { server_->let_go(); }
  Result<SocketAddress> wait_for(const std::string& address, uint64_t now_ns = kNow) {
    for (;;) {
      if (const auto found = lookup_.find(address, now_ns)) return *found;
      std::this_thread::yield();
    }
  }
  std::shared_ptr<NameServer> server_ = std::make_shared<NameServer>();
  HostLookup lookup_{[server = server_](const std::string& address) { return server->resolve(address); }};
};

TEST_F(HostLookupTest, NumbersAndNonsenseAreKnownAtOnce) {
  for (const char* number : {"127.0.0.1:80", "[::1]:80", ":80"}) {
    const auto found = lookup_.find(number, kNow);
    ASSERT_TRUE(found && *found) << number;
    EXPECT_GT((*found)->bytes, 0U);
  }
  for (const char* nonsense : {"", "host", "127.0.0.1:port", "host:"}) {
    const auto found = lookup_.find(nonsense, kNow);
    if (!found) continue;  // for a name, an invalid port is found only by the lookup
    EXPECT_FALSE(*found) << nonsense;
  }
  EXPECT_FALSE(*lookup_.find("nonsense", kNow));
}

TEST_F(HostLookupTest, AnAnswerIsKeptForAWhile) {
  EXPECT_FALSE(lookup_.find("here:80", kNow).has_value());
  EXPECT_TRUE(wait_for("here:80"));
  EXPECT_TRUE(*lookup_.find("here:80", kNow + HostLookup::kKeepNs));
  const Result<SocketAddress> none = wait_for("nobody:80");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().detail, "address nobody:80: nobody knows it");
  EXPECT_EQ(server_->asked(), 2);
  const uint64_t later = kNow + 2 * HostLookup::kKeepNs;
  EXPECT_FALSE(lookup_.find("here:80", later).has_value());
  EXPECT_TRUE(wait_for("here:80", later));
  EXPECT_EQ(server_->asked(), 3);
}

TEST_F(HostLookupTest, ANameThatTakesLongHoldsUpNoOther) {
  server_->hold("slow:80");
  EXPECT_FALSE(lookup_.find("slow:80", kNow).has_value());
  EXPECT_TRUE(wait_for("fast:80"));
  EXPECT_FALSE(lookup_.find("slow:80", kNow).has_value());
  server_->let_go();
  EXPECT_TRUE(wait_for("slow:80"));
}

// The time of such an answer is unknown. That it has arrived shows because there is room for another name.
TEST_F(HostLookupTest, AnAnswerThatNobodyWaitedForIsNotUsed) {
  for (size_t i = 1; i < HostLookup::kLookupsMax; ++i) {
    const std::string address = "slow" + std::to_string(i) + ":80";
    server_->hold(address);
    EXPECT_FALSE(lookup_.find(address, kNow).has_value());
  }
  EXPECT_FALSE(lookup_.find("here:80", kNow).has_value());
  const uint64_t later = kNow + 2 * HostLookup::kKeepNs;
  EXPECT_TRUE(wait_for("fast:80", later));
  EXPECT_FALSE(lookup_.find("here:80", later).has_value()) << "it is looked up again";
}

// Also if nobody asks for the others any more.
TEST_F(HostLookupTest, SoManyAtATime) {
  for (size_t i = 0; i < HostLookup::kLookupsMax; ++i) {
    const std::string address = "slow" + std::to_string(i) + ":80";
    server_->hold(address);
    EXPECT_FALSE(lookup_.find(address, kNow).has_value());
  }
  while (server_->asked() < static_cast<int>(HostLookup::kLookupsMax)) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(lookup_.find("fast:80", kNow).has_value());
  EXPECT_EQ(server_->asked(), static_cast<int>(HostLookup::kLookupsMax));
  server_->let_go();
  EXPECT_TRUE(wait_for("fast:80"));
}

}  // namespace
}  // namespace weft
