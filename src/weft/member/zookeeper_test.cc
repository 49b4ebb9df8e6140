// The membership in ZooKeeper against a real server, which is killed, paused and restarted. Tests name the rules Z1 to
// Z3 of zookeeper.h that they try to break.
#include "weft/member/zookeeper.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/member/view_json.h"
#include "weft/member/zookeeper_testing.h"

// Sessions of one process share a buffer in the C client, where it puts a server's name for its log: a race, and
// harmless, since nothing is logged. The client is not instrumented, but what it has sprintf write is seen. So this
// program leaves out what libraries have the C library write; their locks, and all that our code does, still count.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
#endif
#endif

namespace weft {
namespace {

using Provider = std::unique_ptr<ZookeeperMembership>;

constexpr int kSessionMs = 10'000;  // as long as the server allows, so that a busy machine does not end one
constexpr int kShortSessionMs = 1000;
const std::string kPath = "/weft/test/view";

// Views that differ only in this can be told from each other.
View marked(View view, uint64_t mark) {
  view.members[0].token = mark;
  return view;
}

View next_of(const View& view, uint64_t mark) {
  View next = marked(view, mark);
  ++next.epoch.value;
  return next;
}

class Zookeeper : public ::testing::Test {
 protected:
  Provider open(const std::string& path = kPath, const std::string& auth = {}, int session_ms = kSessionMs) {
    auto provider = ZookeeperMembership::open(
        {.hosts = server_.hosts(), .path = path, .auth = auth, .session_timeout_ms = session_ms}, &clock_);
    EXPECT_TRUE(provider) << provider.error().text();
    return std::move(*provider);
  }
  // With the first view in it.
  Provider begin(int session_ms = kSessionMs) {
    Provider provider = open(kPath, {}, session_ms);
    provider->bootstrap(first_);
    EXPECT_TRUE(comes_true([&] { return provider->latest() != nullptr; })) << provider->status().text;
    return provider;
  }
  static bool reaches(const Provider& provider, uint32_t epoch) {
    return comes_true([&] {
      const auto latest = provider->latest();
      return latest != nullptr && latest->epoch.value >= epoch;
    });
  }
  static bool says(const Provider& provider, const std::string& part) {
    return comes_true([&] { return provider->status().text.find(part) != std::string::npos; });
  }
  // Retries until the view has changed, as an agent does.
  void change(const Provider& provider, uint64_t mark) {
    ASSERT_TRUE(comes_true([&] {
      const auto latest = provider->latest();
      if (latest->members[0].token == mark) return true;
      provider->propose(next_of(*latest, mark));
      usleep(20'000);
      return false;
    })) << provider->status().text;
  }

  RealClock clock_;
  ZookeeperServer server_;
  const View first_ = make_view(3, 2, 6);
};

TEST(ZookeeperOptions, ErrorsNameTheValue) {
  RealClock clock;
  const auto refusal = [&](const ZookeeperOptions& options) {
    const auto provider = ZookeeperMembership::open(options, &clock);
    return provider ? "taken" : provider.error().detail;
  };
  EXPECT_EQ(refusal({.hosts = "", .path = "/a"}),
            "zookeeper hosts is \"\": expected host:port, with commas between several");
  for (const char* hosts : {"a", "a:", ":1", "a:0", "a:65536", "a:1,", "a:1,,b:1", "a:1 ", "a:1/x", "a:x", "a:1x"}) {
    EXPECT_EQ(refusal({.hosts = hosts, .path = "/a"}).find("zookeeper hosts is \"" + std::string(hosts) + "\""), 0U);
  }
  for (const char* path : {"", "weft", "/", "/a/", "//a", "/a//b", "/a/./b", "/..", "/a b"}) {
    EXPECT_EQ(refusal({.hosts = "a:1", .path = path}).find("zookeeper path is \"" + std::string(path) + "\""), 0U);
  }
  for (const char* auth : {"alice", ":secret"}) {
    EXPECT_EQ(refusal({.hosts = "a:1", .path = "/a", .auth = auth}), "zookeeper auth: expected user:password");
  }
  EXPECT_EQ(refusal({.hosts = "a:1", .path = "/a", .session_timeout_ms = 5}),
            "zookeeper session_timeout_ms is \"5\": expected 100 to 600000");
}

TEST(ZookeeperOptions, AServerThatIsNowhereIsAway) {
  RealClock clock;
  auto provider = ZookeeperMembership::open({.hosts = "127.0.0.1:1", .path = "/a"}, &clock);
  ASSERT_TRUE(provider);
  (*provider)->bootstrap(make_view(1, 1, 1));
  (*provider)->propose(make_view(1, 1, 1));
  EXPECT_TRUE(comes_true([&] { return (*provider)->status().dropped == 1; }));
  EXPECT_EQ((*provider)->latest(), nullptr);
  EXPECT_FALSE((*provider)->fenced(NodeId(0), 1));
  const std::string text = (*provider)->status().text;
  EXPECT_EQ(text.find("127.0.0.1:1 is away for "), 0U) << text;
}

// Z1 for the first view.
TEST_F(Zookeeper, OfRacingFirstViewsOneIsCreated) {
  ZookeeperStranger stranger(server_.hosts());
  const Provider waiting = open();
  ASSERT_TRUE(says(waiting, kPath + " has no view yet")) << waiting->status().text;
  std::vector<Provider> providers;
  for (int i = 0; i < 6; ++i) providers.push_back(open());
  for (size_t i = 0; i < providers.size(); ++i) providers[i]->bootstrap(marked(first_, i + 1));
  ASSERT_TRUE(reaches(waiting, 1)) << waiting->status().text;
  const View view = *waiting->latest();
  const uint64_t winner = view.members[0].token;
  EXPECT_TRUE(winner >= 1 && winner <= providers.size());
  EXPECT_EQ(view, marked(first_, winner));
  for (const Provider& provider : providers) {
    ASSERT_TRUE(reaches(provider, 1)) << provider->status().text;
    EXPECT_EQ(*provider->latest(), view);
    EXPECT_EQ(provider->status().error, "");
  }
  const Provider late = open();
  late->bootstrap(marked(first_, 99));
  ASSERT_TRUE(reaches(late, 1));
  EXPECT_EQ(*late->latest(), view);
  EXPECT_EQ(stranger.get(kPath), std::pair(to_json(view), 0));
}

TEST_F(Zookeeper, WhoCannotFoundAClusterAloneSaysSo) {
  auto provider = ZookeeperMembership::open({.hosts = server_.hosts(), .path = kPath, .bootstrap = {1, 1, 1}}, &clock_);
  ASSERT_TRUE(provider) << provider.error().text();
  (*provider)->announce({NodeId(0), 0, NodeRoles::kData, 7, "10.0.0.1:7400", {}});
  EXPECT_TRUE(says(*provider, "none of them runs transactions (node.roles)")) << (*provider)->status().text;
  EXPECT_EQ((*provider)->latest(), nullptr);
  (*provider)->announce({NodeId(0), 0, NodeRoles::kBoth, 8, "10.0.0.1:7400", {}});
  EXPECT_TRUE(comes_true([&] { return (*provider)->latest() != nullptr; })) << (*provider)->status().text;
}

TEST_F(Zookeeper, AChangeReachesTheOthers) {
  const Provider a = begin(), b = open();
  ASSERT_TRUE(reaches(b, 1));
  const auto without = without_members(first_, node_set({2}));
  ASSERT_TRUE(without);
  a->propose(*without);
  ASSERT_TRUE(reaches(b, 2)) << b->status().text;
  EXPECT_EQ(*b->latest(), *without);
  const View with = with_member(*without, {NodeId(2), 0, NodeRoles::kBoth, 77, "c:1", {}});
  b->propose(with);
  ASSERT_TRUE(reaches(a, 3)) << a->status().text;
  EXPECT_EQ(*a->latest(), with);
  ASSERT_TRUE(comes_true([&] { return a->status().accepted + b->status().accepted == 2; }));

  // Not the next epoch: nothing happens, and it is counted.
  a->propose(with);
  ASSERT_TRUE(comes_true([&] { return a->status().superseded == 1; }));
  a->propose(next_of(next_of(with, 1), 1));
  ASSERT_TRUE(comes_true([&] { return a->status().superseded == 2; }));
  // An unreadable view is not written.
  View broken = next_of(with, 1);
  broken.partitions.clear();
  a->propose(broken);
  ASSERT_TRUE(says(a, "the proposal of epoch 4: view: partitions is []"));
  EXPECT_EQ(a->status().dropped, 1U);
  ZookeeperStranger stranger(server_.hosts());
  EXPECT_EQ(stranger.get(kPath), std::pair(to_json(with), 2));
  EXPECT_TRUE(says(a, "connected to " + server_.hosts() + " for "));
}

// Z1.
TEST_F(Zookeeper, OfRacingChangesOneWins) {
  constexpr uint32_t kRounds = 150;
  std::vector<Provider> providers;
  providers.push_back(begin());
  for (int i = 0; i < 2; ++i) providers.push_back(open());
  for (uint32_t epoch = 2; epoch < kRounds + 2; ++epoch) {
    for (const Provider& provider : providers) ASSERT_TRUE(reaches(provider, epoch - 1)) << provider->status().text;
    const View before = *providers[0]->latest();
    for (const Provider& provider : providers) ASSERT_EQ(*provider->latest(), before);
    for (size_t i = 0; i < providers.size(); ++i) {
      providers[(epoch + i) % providers.size()]->propose(next_of(before, i + 1));
    }
    ASSERT_TRUE(reaches(providers[0], epoch)) << providers[0]->status().text;
    const uint64_t winner = providers[0]->latest()->members[0].token;
    ASSERT_EQ(*providers[0]->latest(), next_of(before, winner));
  }
  uint64_t accepted = 0;
  ASSERT_TRUE(comes_true([&] {
    uint64_t others = accepted = 0;
    for (const Provider& provider : providers) {
      const ZookeeperStatus status = provider->status();
      accepted += status.accepted;
      others += status.superseded + status.dropped;
    }
    return accepted + others == kRounds * providers.size();
  }));
  EXPECT_EQ(accepted, kRounds);
  ZookeeperStranger stranger(server_.hosts());
  EXPECT_EQ(stranger.get(kPath).second, static_cast<int32_t>(kRounds));
}

// Z3, and Z1 over restarts of the server: a client proposes all the time, and every proposal is the view of one epoch
// or of none, the same for all.
TEST_F(Zookeeper, TheServerDiesAndComesBack) {
  std::vector<Provider> providers;
  providers.push_back(begin());
  providers.push_back(open());
  ASSERT_TRUE(reaches(providers[1], 1));
  uint64_t mark = 0;
  std::map<uint32_t, uint64_t> mark_of;   // of each epoch that was seen
  std::map<uint64_t, uint32_t> epoch_of;  // of each mark
  const auto look = [&] {
    for (const Provider& provider : providers) {
      const auto latest = provider->latest();
      ASSERT_NE(latest, nullptr);
      if (latest->epoch.value == 1) continue;
      const uint64_t seen = latest->members[0].token;
      ASSERT_EQ(mark_of.try_emplace(latest->epoch.value, seen).first->second, seen);
      ASSERT_EQ(epoch_of.try_emplace(seen, latest->epoch.value).first->second, latest->epoch.value);
    }
  };
  const auto propose_until = [&](const std::function<bool()>& condition) {
    ASSERT_TRUE(comes_true([&] {
      for (const Provider& provider : providers) {
        const auto before = provider->latest();
        provider->propose(next_of(*before, ++mark));
        look();
        if (::testing::Test::HasFatalFailure()) return true;
      }
      return condition();
    }));
  };
  for (const int signal : {SIGKILL, SIGTERM, SIGKILL}) {
    const uint32_t epoch = providers[0]->latest()->epoch.value;
    ASSERT_NO_FATAL_FAILURE(propose_until([&] { return providers[0]->latest()->epoch.value > epoch + 10; }));
    server_.end(signal);
    ASSERT_NO_FATAL_FAILURE(
        propose_until([&] { return !providers[0]->status().connected && !providers[1]->status().connected; }));
    const View during[] = {*providers[0]->latest(), *providers[1]->latest()};
    const uint64_t dropped = providers[0]->status().dropped;
    ASSERT_NO_FATAL_FAILURE(propose_until([&] { return providers[0]->status().dropped > dropped + 3; }));
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(*providers[i]->latest(), during[i]);
    server_.start();
    const uint32_t after = std::max(during[0].epoch.value, during[1].epoch.value) + 10;
    ASSERT_NO_FATAL_FAILURE(propose_until(
        [&] { return providers[0]->latest()->epoch.value > after && providers[1]->latest()->epoch.value > after; }));
  }
  // Each epoch was written once.
  ASSERT_TRUE(comes_true([&] { return *providers[0]->latest() == *providers[1]->latest(); }));
  ZookeeperStranger stranger(server_.hosts());
  ASSERT_TRUE(comes_true([&] {
    const auto [text, version] = stranger.get(kPath);
    return text == to_json(*providers[0]->latest()) && providers[0]->latest()->epoch.value == version + 1U;
  }));
}

TEST_F(Zookeeper, ASessionExpires) {
  const Provider a = begin(kShortSessionMs);
  uint64_t mark = 0;
  // The server may hear from the session before it has checked the time, so this may take more than one round.
  for (int round = 0; round < 10 && a->status().sessions == 1; ++round) {
    server_.pause();
    const uint64_t paused_ns = clock_.now_ns();
    a->propose(next_of(*a->latest(), ++mark));
    ASSERT_TRUE(says(a, " is away for ")) << a->status().text;
    ASSERT_TRUE(comes_true([&] { return clock_.now_ns() > paused_ns + kShortSessionMs * 2'000'000U; }));
    server_.go_on();
    ASSERT_TRUE(comes_true([&] { return a->status().connected; })) << a->status().text;
  }
  EXPECT_GE(a->status().sessions, 2U);
  const Provider b = open();
  ASSERT_TRUE(reaches(b, 1));
  ASSERT_NO_FATAL_FAILURE(change(b, ++mark));  // and the new session watches
  ASSERT_TRUE(reaches(a, b->latest()->epoch.value)) << a->status().text;
  ASSERT_NO_FATAL_FAILURE(change(a, ++mark));
}

// Z2.
TEST_F(Zookeeper, WhatAStrangerWritesChangesNothing) {
  ZookeeperStranger stranger(server_.hosts());
  const Provider a = begin();
  ASSERT_NO_FATAL_FAILURE(change(a, 5));
  const View good = *a->latest();
  const std::string text = to_json(good);
  const struct {
    std::string data, error;
  } cases[] = {
      {"garbage", kPath + " version 2: view: not JSON at byte 1"},
      {"", kPath + " version 3: view: not JSON at byte 1"},
      {to_json(first_), kPath + " version 4: epoch 1 after epoch 2"},
      {to_json(marked(good, 6)), kPath + " version 5: another view of epoch 2 than before"},
  };
  for (const auto& one : cases) {
    ASSERT_TRUE(stranger.set(kPath, one.data));
    ASSERT_TRUE(says(a, one.error)) << a->status().text;
    const uint64_t dropped = a->status().dropped;
    a->propose(next_of(good, 7));
    ASSERT_TRUE(comes_true([&] { return a->status().dropped > dropped; }));
    EXPECT_EQ(stranger.get(kPath).first, one.data);
    EXPECT_EQ(*a->latest(), good);
  }
  ASSERT_TRUE(stranger.set(kPath, text));
  ASSERT_TRUE(comes_true([&] { return a->status().error.empty(); }));
  ASSERT_NO_FATAL_FAILURE(change(a, 8));

  // After its removal it is not created again: a first view after a later one would be a second cluster.
  const View last = *a->latest();
  ASSERT_TRUE(stranger.remove(kPath));
  ASSERT_TRUE(says(a, kPath + " was removed")) << a->status().text;
  const uint64_t dropped = a->status().dropped;
  a->bootstrap(first_);
  a->propose(next_of(last, 9));
  ASSERT_TRUE(comes_true([&] { return a->status().dropped > dropped; }));
  EXPECT_EQ(stranger.get(kPath).second, -1);
  EXPECT_EQ(*a->latest(), last);
  ASSERT_TRUE(stranger.create(kPath, to_json(last)));
  ASSERT_TRUE(comes_true([&] { return a->status().error.empty(); }));
  ASSERT_NO_FATAL_FAILURE(change(a, 10));
}

TEST_F(Zookeeper, RightsAreKeptAndMissingOnesNamed) {
  const Provider a = open("/mine/view", "alice:secret"), b = open("/mine/view", "alice:secret");
  a->bootstrap(first_);
  ASSERT_TRUE(reaches(b, 1)) << b->status().text;
  ASSERT_NO_FATAL_FAILURE(change(b, 1));
  ASSERT_TRUE(reaches(a, 2));
  const Provider mallory = open("/mine/view", "mallory:secret"), nobody = open("/mine/view");
  ASSERT_TRUE(says(mallory, "reading /mine/view: not authenticated")) << mallory->status().text;
  ASSERT_TRUE(says(nobody, "reading /mine/view: not authenticated")) << nobody->status().text;
  EXPECT_EQ(mallory->latest(), nullptr);

  ZookeeperStranger alice(server_.hosts(), "alice:secret");
  ASSERT_TRUE(alice.create("/hers", "", true));
  const Provider c = open("/hers/x/y/view");
  c->bootstrap(first_);
  ASSERT_TRUE(says(c, "creating /hers/x: not authenticated")) << c->status().text;
  // The right to create below a node, without the right to create beside it, is enough.
  const Provider d = open("/hers/x/y/view", "alice:secret");
  d->bootstrap(first_);
  ASSERT_TRUE(reaches(d, 1)) << d->status().text;
}

TEST_F(Zookeeper, NothingHangsWhenTheServerIsAway) {
  Provider paused = begin(), dead = open();
  ASSERT_TRUE(reaches(dead, 1));
  server_.pause();
  paused->propose(next_of(first_, 1));
  paused.reset();
  { const Provider never_connected = open(); }
  server_.end(SIGKILL);
  dead->propose(next_of(first_, 2));
  dead.reset();
  const Provider refused = open();
  refused->bootstrap(first_);
}

}  // namespace
}  // namespace weft
