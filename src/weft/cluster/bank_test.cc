// A small bank under load on two threads: transfers while readers add up all accounts in one transaction. Every sum
// that commits is the bank's total, in every protocol. With tokens the accounts themselves come and go, so that absence
// must be serializable too.
#include <atomic>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/cluster/cluster_testing.h"

namespace weft {
namespace {

constexpr uint64_t kAccounts = 12;
constexpr uint64_t kEachOwns = 1000;

class Bank : public testing::TestWithParam<Shape> {
 protected:
  struct Tally {
    std::atomic<uint64_t> transfers{0}, sums{0}, wrong{0};
  };

  static Task<Code> transfer(Txn& txn, uint64_t from, uint64_t to, uint64_t amount) {
    const Value a = co_await txn.get(kT, from, Intent::kUpdate);
    if (a.code != Code::kOk) co_return a.code;
    const Value b = co_await txn.get(kT, to, Intent::kUpdate);
    if (b.code != Code::kOk) co_return b.code;
    // Reads need not be consistent before the commit confirms them, so the balance may be too small.
    if (integer(a.bytes) < amount) co_return Code::kOk;
    const uint64_t left = integer(a.bytes) - amount;
    const uint64_t more = integer(b.bytes) + amount;
    txn.put(kT, from, bytes_of(left));
    txn.put(kT, to, bytes_of(more));
    co_return Code::kOk;
  }

  // Moves a token from one place to another by erase and insert; does nothing if there is none, or the place is taken.
  static Task<Code> move_token(Txn& txn, uint64_t from, uint64_t to, uint64_t) {
    const Value a = co_await txn.get(kT, from, Intent::kUpdate);
    if (a.code != Code::kOk) co_return a.code;
    const Value b = co_await txn.get(kT, to, Intent::kUpdate);
    if (b.code != Code::kOk) co_return b.code;
    if (!a.found || b.found) co_return Code::kOk;
    const std::string token(a.bytes);
    txn.erase(kT, from);
    co_return txn.insert(kT, to, token);
  }

  using Change = Task<Code> (*)(Txn&, uint64_t, uint64_t, uint64_t);

  static Task<void> writer(Session& session, uint64_t seed, uint64_t keys, int rounds, Change change, Tally& tally) {
    Random random(seed);
    for (int i = 0; i < rounds; ++i) {
      const uint64_t from = random.below(keys);
      const uint64_t to = (from + 1 + random.below(keys - 1)) % keys;
      const uint64_t amount = random.below(50);
      auto body = [=](Txn& txn) { return change(txn, from, to, amount); };
      Task<Outcome> task = session.run({.attempts = 1'000'000, .backoff_us = 3, .backoff_us_max = 300}, body);
      const Outcome outcome = co_await task;
      if (!outcome.committed()) ++tally.wrong;
      ++tally.transfers;
    }
  }

  // Adds everything up: balances, or one for each token that exists.
  static Task<void> reader(Session& session, uint64_t keys, int rounds, bool tokens, uint64_t expected, Tally& tally) {
    for (int i = 0; i < rounds; ++i) {
      uint64_t sum = 0;
      auto body = [&sum, keys, tokens](Txn& txn) -> Task<Code> {
        std::vector<ReadHandle> handles;
        for (uint64_t k = 0; k < keys; ++k) handles.push_back(txn.get_async(kT, k));
        co_await txn.wait_all();
        sum = 0;
        for (const ReadHandle handle : handles) {
          const Value v = txn.value(handle);
          if (v.code != Code::kOk) co_return v.code;
          if (v.found) sum += tokens ? 1 : integer(v.bytes);
        }
        co_return Code::kOk;
      };
      Task<Outcome> task = session.run({.attempts = 400, .backoff_us = 2, .backoff_us_max = 100}, body);
      const Outcome outcome = co_await task;
      if (!outcome.committed()) continue;
      ++tally.sums;
      if (sum != expected) ++tally.wrong;
    }
  }

  void run(uint64_t keys, bool tokens, Change change, uint64_t expected, TestCluster& cluster) {
    Tally tally;
    std::vector<Cluster::Handle> handles;
    for (int n = 0; n < GetParam().nodes; ++n) {
      for (int w = 0; w < GetParam().workers; ++w) {
        const NodeId node(static_cast<uint8_t>(n));
        const WorkerId worker(static_cast<uint8_t>(w));
        for (uint64_t c = 0; c < 2; ++c) {
          const uint64_t seed = c * 1000 + static_cast<uint64_t>(n * 10 + w);
          handles.push_back(cluster->spawn(
              node, worker, [=, &tally](Session& session) { return writer(session, seed, keys, 150, change, tally); }));
        }
        handles.push_back(cluster->spawn(node, worker, [=, &tally](Session& session) {
          return reader(session, keys, 60, tokens, expected, tally);
        }));
      }
    }
    for (const auto& handle : handles) {
      if (!cluster.wait(handle)) return;
    }
    EXPECT_EQ(tally.wrong, 0U);
    EXPECT_GT(tally.sums, 0U) << "no reader ever committed";
    EXPECT_GT(tally.transfers, 0U);
  }
};

std::vector<Shape> bank_shapes() {
  std::vector<Shape> out;
  for (const char* protocol : all_rows()) {
    out.push_back({protocol, 3, 3, 2});
    out.push_back({protocol, 5, 2, 2});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(TwoThreads, Bank, testing::ValuesIn(bank_shapes()), shape_name);
INSTANTIATE_TEST_SUITE_P(Meshes, Bank, testing::ValuesIn(mesh_shapes()), shape_name);

TEST_P(Bank, EveryCommittedSumIsTheTotal) {
  TestCluster cluster(GetParam().options());
  cluster.load(kAccounts, bytes_of(kEachOwns)).start();
  run(kAccounts, false, &Bank::transfer, kAccounts * kEachOwns, cluster);
  cluster->stop();
  uint64_t total = 0;
  for (const auto& [key, value] : cluster.contents()) total += integer(value);
  EXPECT_EQ(total, kAccounts * kEachOwns);
}

TEST_P(Bank, TokensAreNeitherLostNorDoubled) {
  constexpr uint64_t kPlaces = 12;
  constexpr uint64_t kTokens = 5;
  TestCluster cluster(GetParam().options());
  cluster.load(kTokens, "token").start();
  run(kPlaces, true, &Bank::move_token, kTokens, cluster);
  cluster->stop();
  EXPECT_EQ(cluster.contents().size(), kTokens);
}

}  // namespace
}  // namespace weft
