// Scans of transactions: against std::map, in every row, at every node; and that no phantom commits.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/txn/scan_testing.h"

namespace weft {
namespace {

Options options_of(const char* row, int nodes = 4, int replicas = 2) {
  Options options;
  options.nodes = nodes;
  options.replicas = replicas;
  options.protocol = row;
  return options;
}

// The keys of a table, by number: all of them in few prefixes, in the order of the numbers.
class KeySpace {
 public:
  static constexpr uint64_t kPrefixes = 6, kKeys = 40;
  explicit KeySpace(bool numbers) : numbers_(numbers) {}
  // As a map orders them.
  std::string name(uint64_t prefix, uint64_t i) const {
    if (numbers_) {
      const uint64_t number = __builtin_bswap64(prefix << 8 | i);
      return {reinterpret_cast<const char*>(&number), sizeof number};
    }
    // Keys of many lengths, some the beginning of the next.
    std::string key = {static_cast<char>('a' + prefix), '/'};
    key += static_cast<char>(i / 4 * 7);
    key.append(i % 4 * (i / 4 + 1), static_cast<char>(i % 4 == 3 ? 0xff : 0));
    return key;
  }
  // Above all of a prefix.
  std::string end(uint64_t prefix) const {
    return numbers_ ? name(prefix + 1, 0) : std::string{static_cast<char>('a' + prefix), '/' + 1};
  }
  std::string name_of(const Scan::Item& item) const {
    if (!numbers_) return std::string(item.key);
    EXPECT_EQ(integer(item.key), item.integer);
    const uint64_t number = __builtin_bswap64(item.integer);
    return {reinterpret_cast<const char*>(&number), sizeof number};
  }
  // The same as the API takes it.
  Key key(const std::string& name) const {
    if (!numbers_) return Key(std::string_view(name));
    uint64_t number = 0;
    std::memcpy(&number, name.data(), sizeof number);
    return Key(__builtin_bswap64(number));
  }

 private:
  const bool numbers_;
};

using Twin = std::map<std::string, std::string>;
using Items = std::vector<std::pair<std::string, std::string>>;

struct Range {
  std::string from, to;
  uint32_t limit = Txn::kNoLimit;
  Direction direction = Direction::kForward;
};

Items scan_of(const Twin& twin, const Range& range, bool* limited) {
  Items all(twin.lower_bound(range.from), twin.lower_bound(range.to));
  if (range.direction == Direction::kBackward) std::reverse(all.begin(), all.end());
  *limited = all.size() > range.limit;
  if (*limited) all.resize(range.limit);
  return all;
}

class ScanRows : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ScanRows, testing::ValuesIn(all_rows()), row_test_name);

// Transactions of random writes and scans, one at a time, from all nodes.
void compare_with_map(const char* row, bool numbers, uint64_t seed) {
  SCOPED_TRACE(std::string(row) + (numbers ? ", numbers" : ", texts") + ", seed " + std::to_string(seed));
  const KeySpace space(numbers);
  Options options = options_of(row);
  if (seed % 3 == 0) options.limits.credit_bytes = 16 << 10;  // several pages
  SteppedCluster cluster(options, {numbers ? ordered_numbers("t", 200) : ordered_texts("t", 200)});
  Random random(seed);
  Twin twin;
  uint64_t written = 0;
  for (int round = 0; round < (kSanitized ? 40 : 120); ++round) {
    const uint64_t prefix = random.below(KeySpace::kPrefixes);
    const NodeId node(static_cast<uint8_t>(random.below(4)));
    const bool writes = may_scan_and_write(row) ? random.chance(60) : false;
    const bool scans = may_scan_and_write(row) || random.chance(40);
    Twin mine = twin;
    const auto write = [&](Txn& txn) {
      for (uint64_t n = random.between(1, 6); n > 0; --n) {
        const std::string name = space.name(prefix, random.below(KeySpace::kKeys));
        std::string value = std::to_string(++written);
        value.resize(random.chance(20) ? 200 : 8, '.');
        if (mine.contains(name) && random.chance(50)) {
          EXPECT_EQ(txn.erase(kT, space.key(name)), Code::kOk);
          mine.erase(name);
        } else {
          EXPECT_EQ(txn.put(kT, space.key(name), value), Code::kOk);
          mine[name] = value;
        }
      }
    };
    struct Found {
      uint32_t limit;
      Items items, expected;
      bool limited, is_limited;
    };
    std::vector<Found> all_found;
    const Outcome outcome = retried([&] {
      mine = twin;
      all_found.clear();
      Outcome out;
      cluster.on(node, [&](Session& session) -> Task<void> {
        Txn txn = co_await session.begin();
        if (writes || !scans) write(txn);
        for (uint64_t n = scans ? random.between(1, 3) : 0; n > 0; --n) {
          Range range;
          range.from = space.name(prefix, random.below(KeySpace::kKeys));
          range.to = space.name(prefix, random.below(KeySpace::kKeys));
          if (range.to < range.from) std::swap(range.from, range.to);
          if (random.chance(10) || range.from == range.to) range.to = space.end(prefix);
          if (random.chance(50)) range.limit = static_cast<uint32_t>(random.between(1, 8));
          if (random.chance(50)) range.direction = Direction::kBackward;
          bool limited = false;
          const auto expected = scan_of(mine, range, &limited);
          const ScanHandle handle =
              txn.scan_async(kT, space.key(range.from), space.key(range.to), range.limit, range.direction);
          if (writes && random.chance(50)) write(txn);  // is not in the result
          const Scan scan = co_await txn.wait(handle);
          if (scan.code == Code::kLocked) break;  // a lock of the commit before
          EXPECT_EQ(scan.code, Code::kOk) << code_text(scan.code);
          Found found{range.limit, {}, expected, scan.limited, limited};
          for (const Scan::Item& item : scan.items) found.items.emplace_back(space.name_of(item), item.value);
          all_found.push_back(std::move(found));
        }
        out = co_await txn.commit();
      });
      return out;
    });
    ASSERT_TRUE(committed(outcome));
    // What a replica had not heard of yet is read, but does not commit.
    for (const Found& found : all_found) {
      EXPECT_EQ(found.items, found.expected) << "limit " << found.limit;
      EXPECT_EQ(found.limited, found.is_limited);
    }
    twin = mine;
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(ScanRows, AgreeWithAMap) {
  for (uint64_t seed = 1; seed <= (kSanitized ? 2 : 6); ++seed) {
    for (const bool numbers : {true, false}) compare_with_map(GetParam(), numbers, seed);
    if (HasFailure()) return;
  }
}

// A transaction scans, another one changes the table, and the first commits. `keys`: what there is, of one prefix.
struct Interference {
  Range range;                                    // by low bytes of the numbers
  std::optional<uint64_t> inserts, puts, erases;  // by the other transaction
  bool writes = false;                            // the first one, somewhere else
  bool reads = false;                             // the first one, another key
  bool comes_and_goes = false;                    // what was inserted is erased again
};

std::string number_name(uint64_t low) { return std::string(1, static_cast<char>(low)); }

// Returns the first one's outcome. The keys 10, 20, ..., 90 are there.
Outcome interfered(const char* row, NodeId scanner, NodeId primary, const Interference& what) {
  SteppedCluster cluster(options_of(row), {ordered_numbers()});
  const auto number = [&](uint64_t low) { return number_at(primary, low, 4); };
  for (uint64_t low = 10; low < 100; low += 10) EXPECT_TRUE(cluster.load(kT, number(low), "v"));
  EXPECT_TRUE(cluster.load(kT, number_at(NodeId(2), 200, 4), "elsewhere"));
  Outcome outcome;
  const auto low_of = [](const std::string& name) { return uint64_t{static_cast<uint8_t>(name[0])}; };
  const auto other = NodeId(static_cast<uint8_t>((scanner.value + 1) % 4));
  bool scanned = false, changed = false;
  const auto first = cluster.spawn(scanner, WorkerId(0), [&](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    if (what.reads) co_await txn.get(kT, number_at(NodeId(2), 200, 4));
    const Scan scan = co_await txn.scan(kT, number(low_of(what.range.from)), number(low_of(what.range.to)),
                                        what.range.limit, what.range.direction);
    EXPECT_EQ(scan.code, Code::kOk);
    if (what.writes) txn.put(kT, number_at(NodeId(3), 201, 4), "mine");
    scanned = true;
    while (!changed) co_await session.sleep_ns(1);
    outcome = co_await txn.commit();
  });
  const auto second = cluster.spawn(other, WorkerId(0), [&](Session& session) -> Task<void> {
    while (!scanned) co_await session.sleep_ns(1);
    for (int step = 0; step < (what.comes_and_goes ? 2 : 1); ++step) {
      const auto body = [&](Txn& txn) -> Task<Code> {
        if (what.inserts && step == 0) co_return txn.insert(kT, number(*what.inserts), "new");
        if (what.inserts) co_return txn.erase(kT, number(*what.inserts));
        if (what.puts) co_return txn.put(kT, number(*what.puts), "put");
        if (what.erases) co_return txn.erase(kT, number(*what.erases));
        co_return Code::kOk;
      };
      Task<Outcome> task = session.run({}, body);
      EXPECT_TRUE(committed(co_await task));
    }
    // Rows that acknowledge before they unlock.
    co_await session.sleep_ns(2'000'000);
    changed = true;
  });
  EXPECT_TRUE(cluster.wait(first) && cluster.wait(second));
  return outcome;
}

Interference of(uint64_t from, uint64_t to, uint32_t limit = Txn::kNoLimit, Direction direction = Direction::kForward) {
  Interference out;
  out.range = {number_name(from), number_name(to), limit, direction};
  return out;
}

TEST_P(ScanRows, PhantomsDoNotCommit) {
  const struct {
    const char* what;
    Interference of;
    bool commits;
  } cases[] = {
      {"nothing happens", of(10, 60), true},
      {"an insert into the range",
       [] {
         Interference i = of(10, 60);
         i.inserts = 35;
         return i;
       }(),
       false},
      {"an insert at its beginning",
       [] {
         Interference i = of(5, 60);
         i.inserts = 5;
         return i;
       }(),
       false},
      {"an insert behind its last key",
       [] {
         Interference i = of(10, 60);
         i.inserts = 55;
         return i;
       }(),
       false},
      {"an insert at its end",
       [] {
         Interference i = of(10, 60);
         i.inserts = 61;
         return i;
       }(),
       true},
      {"an insert before it",
       [] {
         Interference i = of(10, 60);
         i.inserts = 9;
         return i;
       }(),
       true},
      {"an erase from it",
       [] {
         Interference i = of(10, 60);
         i.erases = 30;
         return i;
       }(),
       false},
      {"an erase of its end",
       [] {
         Interference i = of(10, 60);
         i.erases = 60;
         return i;
       }(),
       true},
      {"a put in it",
       [] {
         Interference i = of(10, 60);
         i.puts = 30;
         return i;
       }(),
       false},
      {"a put that inserts",
       [] {
         Interference i = of(10, 60);
         i.puts = 31;
         return i;
       }(),
       false},
      {"an insert within the limit",
       [] {
         Interference i = of(10, 95, 3);
         i.inserts = 25;
         return i;
       }(),
       false},
      {"an insert beyond the limit",
       [] {
         Interference i = of(10, 95, 3);
         i.inserts = 31;
         return i;
       }(),
       true},
      {"an erase beyond the limit",
       [] {
         Interference i = of(10, 95, 3);
         i.erases = 40;
         return i;
       }(),
       true},
      {"a backward scan, an insert within the limit",
       [] {
         Interference i = of(10, 95, 3, Direction::kBackward);
         i.inserts = 75;
         return i;
       }(),
       false},
      {"a backward scan, an insert beyond the limit",
       [] {
         Interference i = of(10, 95, 3, Direction::kBackward);
         i.inserts = 69;
         return i;
       }(),
       true},
      {"an insert into an empty range",
       [] {
         Interference i = of(31, 39);
         i.inserts = 35;
         return i;
       }(),
       false},
  };
  for (const auto& c : cases) {
    for (const uint8_t scanner : {uint8_t{0}, uint8_t{1}, uint8_t{3}}) {  // the primary, its backup, and neither
      for (const bool writes : {false, true}) {
        if (writes && !may_scan_and_write(GetParam())) continue;
        SCOPED_TRACE(std::string(c.what) + ", at node " + std::to_string(scanner) + (writes ? ", and it writes" : ""));
        Interference what = c.of;
        what.writes = writes;
        what.reads = !writes;
        const Outcome outcome = interfered(GetParam(), NodeId(scanner), NodeId(0), what);
        if (c.commits && (what.erases && !writes)) {
          // What else is read makes every erase of the partition count.
          EXPECT_TRUE(outcome.committed() || aborted(outcome, Code::kVersionMoved)) << outcome.text();
        } else if (c.commits) {
          EXPECT_TRUE(committed(outcome));
        } else {
          EXPECT_TRUE(aborted(outcome, Code::kVersionMoved));
          EXPECT_EQ(outcome.table, kT);
        }
      }
    }
  }
}

TEST_P(ScanRows, ARowThatCannotRefuses) {
  SteppedCluster cluster(options_of(GetParam()), {ordered_numbers()});
  EXPECT_TRUE(cluster.load(kT, 7, "v"));
  cluster.on(0, [&](Session& session) -> Task<void> {
    Txn txn = co_await session.begin();
    EXPECT_EQ((co_await txn.scan(kT, 0, 100)).items.size(), 1U);
    txn.put(kT, 8, "w");
    const Outcome outcome = co_await txn.commit();
    EXPECT_TRUE(may_scan_and_write(GetParam()) ? committed(outcome) : rejected(outcome, Code::kNotInThisRow));
  });
}

}  // namespace
}  // namespace weft
