// A small bank on Weft, with only the public headers: a replicated cluster in this process, transfers from blocking
// code, coroutines that move money on the workers, a conflict and its outcome, and a sum at the end that must equal the
// one at the beginning.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "weft/cluster.h"

namespace {

constexpr uint64_t kAccounts = 100;
constexpr int64_t kFirstBalance = 1'000;

// Values are bytes; these accounts hold one integer.
std::string_view bytes_of(const int64_t& amount) { return {reinterpret_cast<const char*>(&amount), sizeof amount}; }

int64_t amount_of(const weft::Value& value) {
  int64_t amount = 0;
  std::memcpy(&amount, value.bytes.data(), sizeof amount);
  return amount;
}

struct Tables {
  weft::TableId checking, savings;
};

// Moves money from a checking to a savings account, or refuses with kApplication. The body of a transaction: it may run
// several times, so it changes nothing but through `txn`.
struct Transfer {
  Tables tables;
  uint64_t from = 0, to = 0;
  int64_t amount = 0;

  weft::Task<weft::Code> operator()(weft::Txn& txn) const {
    // Both reads travel together; kUpdate says that the keys will be written.
    const weft::ReadHandle from_read = txn.get_async(tables.checking, from, weft::Intent::kUpdate);
    const weft::ReadHandle to_read = txn.get_async(tables.savings, to, weft::Intent::kUpdate);
    co_await txn.wait_all();
    const weft::Value source = txn.value(from_read), target = txn.value(to_read);
    if (!source || !target) co_return source.code != weft::Code::kOk ? source.code : target.code;
    const int64_t left = amount_of(source) - amount;
    const int64_t saved = amount_of(target) + amount;
    if (left < 0) co_return weft::Code::kApplication;
    txn.put(tables.checking, from, bytes_of(left));
    txn.put(tables.savings, to, bytes_of(saved));
    co_return weft::Code::kOk;
  }
};

// A client on a worker: many transfers, one after another. run() takes its body as an lvalue, and a task is put into a
// variable before it is awaited.
weft::Task<void> saver(weft::Session& session, Tables tables, int transfers, int* committed) {
  for (int i = 0; i < transfers; ++i) {
    const uint64_t account = static_cast<uint64_t>(i) % kAccounts;
    Transfer transfer{tables, account, (account + 1) % kAccounts, 1};
    weft::Task<weft::Outcome> attempt = session.run({.backoff_us = 5}, transfer);
    const weft::Outcome outcome = co_await attempt;
    if (outcome.committed()) ++*committed;
  }
}

// Two transactions that read the same account and both write it: one of them must not commit.
weft::Task<void> conflict(weft::Session& session, Tables tables, weft::Outcome* first, weft::Outcome* second) {
  weft::Txn one = co_await session.begin();
  weft::Txn two = co_await session.begin();
  const weft::Value seen_by_one = co_await one.get(tables.checking, 0);
  const weft::Value seen_by_two = co_await two.get(tables.checking, 0);
  const int64_t by_one = seen_by_one ? amount_of(seen_by_one) : 0;
  const int64_t by_two = seen_by_two ? amount_of(seen_by_two) : 0;
  one.put(tables.checking, 0, bytes_of(by_one));
  two.put(tables.checking, 0, bytes_of(by_two));
  *first = co_await one.commit();
  *second = co_await two.commit();
}

int complain(const char* what, const weft::Error& error) {
  std::fprintf(stderr, "%s: %s\n", what, error.text().c_str());
  return 1;
}

}  // namespace

int main() {
  weft::Options options;
  options.nodes = 3;
  options.replicas = 3;
  auto opened = weft::Cluster::open(options);
  if (!opened) return complain("open", opened.error());
  weft::Cluster& cluster = **opened;

  Tables tables;
  for (auto [name, id] : {std::pair{"checking", &tables.checking}, std::pair{"savings", &tables.savings}}) {
    weft::TableSpec spec;
    spec.name = name;
    spec.value_bytes_max = sizeof(int64_t);
    spec.capacity = kAccounts;
    auto table = cluster.create_table(spec);
    if (!table) return complain(name, table.error());
    *id = *table;
  }
  for (const weft::TableId table : {tables.checking, tables.savings}) {
    for (uint64_t account = 0; account < kAccounts; ++account) {
      const auto loaded = cluster.load(table, account, bytes_of(kFirstBalance));
      if (!loaded) return complain("load", loaded.error());
    }
  }
  if (auto started = cluster.start(); !started) return complain("start", started.error());

  // Blocking code: any thread may do this. The policy says how to retry after a conflict.
  const weft::RetryPolicy patient{.attempts = 100, .backoff_us = 10, .backoff_us_max = 1'000};
  Transfer small{tables, 1, 2, 250};
  std::printf("250 from 1 to 2:     %s\n", cluster.run(weft::NodeId(0), patient, small).text().c_str());
  Transfer large{tables, 1, 2, 1'000'000};
  std::printf("a million, too much: %s\n", cluster.run(weft::NodeId(1), patient, large).text().c_str());

  // A coroutine at each node.
  int committed[3] = {};
  weft::Cluster::Handle handles[3];
  for (uint8_t node = 0; node < 3; ++node) {
    handles[node] = cluster.spawn(weft::NodeId(node), weft::WorkerId(0), [&, node](weft::Session& session) {
      return saver(session, tables, 1'000, &committed[node]);
    });
  }
  for (const weft::Cluster::Handle& handle : handles) handle.wait();
  std::printf("three savers:        %d transfers committed\n", committed[0] + committed[1] + committed[2]);

  // An outcome names the key of the conflict and the holder of its lock.
  weft::Outcome first, second;
  cluster
      .spawn(weft::NodeId(2), weft::WorkerId(0),
             [&](weft::Session& session) { return conflict(session, tables, &first, &second); })
      .wait();
  std::printf("a conflict, first:   %s\n            second:  %s\n", first.text().c_str(), second.text().c_str());

  cluster.stop();
  int64_t sum = 0;
  for (const weft::TableId table : {tables.checking, tables.savings}) {
    cluster.visit(table, [&](weft::NodeId, bool primary, std::string_view, std::string_view value, uint64_t) {
      if (!primary) return;
      int64_t amount = 0;
      std::memcpy(&amount, value.data(), sizeof amount);
      sum += amount;
    });
  }
  const int64_t expected = 2 * static_cast<int64_t>(kAccounts) * kFirstBalance;
  const std::string wrong = cluster.audit();
  std::printf("all accounts:        %lld, expected %lld; replicas %s\n", static_cast<long long>(sum),
              static_cast<long long>(expected), wrong.empty() ? "agree" : wrong.c_str());
  return sum == expected && wrong.empty() && second.kind == weft::OutcomeKind::kAborted ? 0 : 1;
}
