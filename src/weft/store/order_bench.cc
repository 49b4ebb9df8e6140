// What do points, scans and inserts of an ordered table cost, beside the ordered maps that one could use instead:
// absl::btree_map behind a lock, and tbb::concurrent_map? 8-byte keys and values in random order, one and two threads;
// each map in a separate process, all with huge pages. Our table reads and writes whole records, with versions and
// locks.
//
//   order_bench [--keys N]... [--repeats N] [--quick]
//
// Rates are in millions per second of all threads together: median of the repeats, and lowest to highest.
#include <absl/container/btree_map.h>
#include <tbb/concurrent_map.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/base/random.h"
#include "weft/store/bench_figures.h"
#include "weft/store/ordered_testing.h"
#include "weft/store/table_in_place.h"

namespace weft::order_bench {
namespace {

using store_bench::cell;
using store_bench::Figure;
using store_bench::figures_of_child;
using store_bench::find_figure;
using store_bench::first_line_of;
using store_bench::print_for_parent;
using store_bench::rate;
using store_bench::resident_bytes;
using store_bench::Samples;

constexpr int kThreadsMax = 2;
constexpr uint64_t kPairsMax = 4;  // of a thread: one insert for three others in "mixed"

// The n-th key: no two are the same, and neighbours come in no order.
uint64_t key_of(uint64_t n) { return mix64(n + 1); }

class WeftOrdered {
 public:
  static constexpr const char* kName = "weft::Table, ordered";

  explicit WeftOrdered(uint64_t keys) : box_(options(keys)) {}

  class User {
   public:
    User(WeftOrdered& map, int thread)
        : table_(*map.box_),
          worker_(static_cast<uint8_t>(thread)),
          scan_(table_),
          owner_(make_owner(NodeId(0), worker_, 1)) {}
    ~User() { table_.offline(worker_); }

    bool get(uint64_t number, uint64_t* value) {
      quiesce();
      const HashedKey key = table_.hashed(bytes(number));
      return table_.read(key, reinterpret_cast<std::byte*>(value), sizeof *value).found;
    }
    uint64_t scan(uint64_t from, uint64_t items) {
      quiesce();
      scan_.start({.partition = PartitionId(0), .from = bytes(from), .limit = items});
      uint64_t sum = 0;
      ScanItem item;
      while (scan_.next(&item)) sum += load<uint64_t>(item.value.data());
      return sum;
    }
    bool insert(uint64_t number, uint64_t value) {
      quiesce();
      const HashedKey key = table_.hashed(bytes(number));
      LockResult locked;
      do {  // another key with the same absence word may be locked by the other thread
        locked = table_.lock(key, owner_, Write::kInsert, std::nullopt, sizeof value);
      } while (locked.code == Code::kLocked);
      if (locked.code == Code::kOk) table_.commit(key, owner_, Write::kInsert, bytes(value), locked.locked);
      return locked.code == Code::kOk;
    }

   private:
    static ByteView bytes(const uint64_t& number) {
      return {reinterpret_cast<const std::byte*>(&number), sizeof number};
    }
    void quiesce() {
      if (++calls_ % 64 == 0) table_.quiesce(worker_);
    }

    Table& table_;
    const WorkerId worker_;
    OrderedScan scan_;
    const Owner owner_;
    uint64_t calls_ = 0;
  };

 private:
  static TableOptions options(uint64_t keys) {
    TableOptions options = testing::ordered_integers(keys);
    options.spec.value_bytes_max = 8;
    options.workers = kThreadsMax;
    options.checksums = false;
    return options;
  }
  testing::TableBox box_;
};

template <class Lock, class ReadGuard>
class AbslBtree {
 public:
  explicit AbslBtree(uint64_t) {}
  struct User {
    User(AbslBtree& m, int) : map(m) {}
    bool get(uint64_t key, uint64_t* value) {
      const ReadGuard guard(map.lock_);
      const auto it = map.map_.find(key);
      if (it == map.map_.end()) return false;
      *value = it->second;
      return true;
    }
    uint64_t scan(uint64_t from, uint64_t items) {
      const ReadGuard guard(map.lock_);
      uint64_t sum = 0;
      for (auto it = map.map_.lower_bound(from); items > 0 && it != map.map_.end(); ++it, --items) sum += it->second;
      return sum;
    }
    bool insert(uint64_t key, uint64_t value) {
      const std::lock_guard guard(map.lock_);
      return map.map_.emplace(key, value).second;
    }
    AbslBtree& map;
  };

 private:
  Lock lock_;
  absl::btree_map<uint64_t, uint64_t> map_;
};

struct AbslMutex : AbslBtree<std::mutex, std::lock_guard<std::mutex>> {
  static constexpr const char* kName = "absl::btree_map, mutex";
  using AbslBtree::AbslBtree;
};
struct AbslShared : AbslBtree<std::shared_mutex, std::shared_lock<std::shared_mutex>> {
  static constexpr const char* kName = "absl::btree_map, shared_mutex";
  using AbslBtree::AbslBtree;
};

class TbbConcurrent {
 public:
  static constexpr const char* kName = "tbb::concurrent_map";
  explicit TbbConcurrent(uint64_t) {}
  struct User {
    User(TbbConcurrent& m, int) : map(m.map_) {}
    bool get(uint64_t key, uint64_t* value) {
      const auto it = map.find(key);
      if (it == map.end()) return false;
      *value = it->second;
      return true;
    }
    uint64_t scan(uint64_t from, uint64_t items) {
      uint64_t sum = 0;
      for (auto it = map.lower_bound(from); items > 0 && it != map.end(); ++it, --items) sum += it->second;
      return sum;
    }
    bool insert(uint64_t key, uint64_t value) { return map.emplace(key, value).second; }
    tbb::concurrent_map<uint64_t, uint64_t>& map;
  };

 private:
  tbb::concurrent_map<uint64_t, uint64_t> map_;
};

struct Plan {
  uint64_t keys = 0;
  uint64_t ops = 0;  // of one measurement and thread
  int repeats = 0;
};

// Millions per second of all threads: each calls body(user, thread).
template <class Map, class Body>
double together(Map& map, int threads, uint64_t ops, Body body) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      typename Map::User user(map, t);
      ready.fetch_add(1);
      while (!go.load(std::memory_order_acquire)) {
      }
      body(user, t);
    });
  }
  while (ready.load() < threads) {
  }
  return rate(ops * static_cast<uint64_t>(threads), [&] {
    go.store(true, std::memory_order_release);
    for (std::thread& thread : running) thread.join();
  });
}

template <class Map>
class Measure {
 public:
  explicit Measure(const Plan& plan)
      : plan_(plan),
        inserts_(std::min(plan.ops, plan.keys / 50)),
        next_(plan.keys),
        map_(plan.keys + inserts_ * static_cast<uint64_t>(plan.repeats) * kThreadsMax * 4) {}

  std::vector<Figure> run() {
    const uint64_t before = resident_bytes();
    {
      typename Map::User user(map_, 0);
      samples_.add("load", rate(plan_.keys, [&] {
                     for (uint64_t i = 0; i < plan_.keys; ++i) WEFT_CHECK(user.insert(key_of(i), i), "the key is new");
                   }));
    }
    samples_.add("bytes a key", static_cast<double>(resident_bytes() - before) / static_cast<double>(plan_.keys));
    for (int i = 0; i < plan_.repeats; ++i) {
      for (const int threads : {1, 2}) once(threads, threads == 1 ? ", 1 thread" : ", 2 threads");
    }
    return samples_.figures();
  }

 private:
  void once(int threads, const std::string& suffix) {
    const auto reads = [&](const char* name, uint64_t ops, auto op) {
      samples_.add(name + suffix, together(map_, threads, ops, [&, ops](auto& user, int thread) {
                     Random random(static_cast<uint64_t>(thread) + ops);
                     uint64_t sum = 0;
                     for (uint64_t i = 0; i < ops; ++i) sum += op(user, key_of(random.below(plan_.keys)));
                     WEFT_CHECK(sum != 1, "the reads are not optimised away");
                   }));
    };
    reads("point", plan_.ops, [](auto& user, uint64_t key) {
      uint64_t value = 0;
      WEFT_CHECK(user.get(key, &value), "the key is there");
      return value;
    });
    reads("scan of 10", plan_.ops / 2, [](auto& user, uint64_t key) { return user.scan(key, 10); });
    reads("scan of 100", plan_.ops / 10, [](auto& user, uint64_t key) { return user.scan(key, 100); });
    const auto key_for = [&](int thread) { return next_ + static_cast<uint64_t>(thread) * inserts_; };
    samples_.add("insert" + suffix, together(map_, threads, inserts_, [&](auto& user, int thread) {
                   for (uint64_t i = 0; i < inserts_; ++i) {
                     WEFT_CHECK(user.insert(key_of(key_for(thread) + i), i), "the key is new");
                   }
                 }));
    next_ += inserts_ * kThreadsMax;
    // Of four operations two are points, one is a scan of 10 and one an insert.
    samples_.add("mixed" + suffix, together(map_, threads, inserts_ * kPairsMax, [&](auto& user, int thread) {
                   Random random(static_cast<uint64_t>(thread));
                   uint64_t value = 0;
                   for (uint64_t i = 0; i < inserts_; ++i) {
                     WEFT_CHECK(user.get(key_of(random.below(plan_.keys)), &value), "the key is there");
                     WEFT_CHECK(user.insert(key_of(key_for(thread) + i), i), "the key is new");
                     WEFT_CHECK(user.get(key_of(random.below(plan_.keys)), &value), "the key is there");
                     value += user.scan(key_of(random.below(plan_.keys)), 10);
                   }
                 }));
    next_ += inserts_ * kThreadsMax;
  }

  const Plan plan_;
  const uint64_t inserts_;
  uint64_t next_;  // number of the next new key
  Map map_;
  Samples samples_;
};

constexpr const char* kMaps[] = {WeftOrdered::kName, AbslMutex::kName, AbslShared::kName, TbbConcurrent::kName};

std::vector<Figure> measure_named(const std::string& name, const Plan& plan) {
  if (name == WeftOrdered::kName) return Measure<WeftOrdered>(plan).run();
  if (name == AbslMutex::kName) return Measure<AbslMutex>(plan).run();
  if (name == AbslShared::kName) return Measure<AbslShared>(plan).run();
  if (name == TbbConcurrent::kName) return Measure<TbbConcurrent>(plan).run();
  return {};
}

struct Arguments {
  std::vector<uint64_t> keys;
  int repeats = 3;
  bool quick = false;
  std::string only;  // measure this in this process, and print figures for the parent
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool more = i + 1 < argc;
    if (flag == "--quick") {
      out.quick = true;
    } else if (flag == "--only" && more) {
      out.only = argv[++i];
    } else if ((flag == "--keys" || flag == "--repeats") && more) {
      char* end = nullptr;
      const unsigned long long n = std::strtoull(argv[++i], &end, 10);
      if (*end != '\0' || n == 0 || (flag == "--keys" && n < 1000) || (flag == "--repeats" && n > 1000)) {
        std::fprintf(stderr, "order_bench: %s %s: --keys takes 1000 or more, --repeats 1 to 1000\n", flag.c_str(),
                     argv[i]);
        return std::nullopt;
      }
      flag == "--keys" ? out.keys.push_back(n) : static_cast<void>(out.repeats = static_cast<int>(n));
    } else {
      std::fprintf(stderr, "order_bench: what is %s?\nusage: order_bench [--keys N]... [--repeats N] [--quick]\n",
                   flag.c_str());
      return std::nullopt;
    }
  }
  if (out.keys.empty()) out.keys = {out.quick ? uint64_t{100'000} : uint64_t{1'000'000}};
  return out;
}

int run(const Arguments& arguments) {
  std::printf("machine: %s, %u cores\n%d repeats; M/s, median (lowest..highest)\n",
              first_line_of("/proc/cpuinfo", "model name").c_str(), std::thread::hardware_concurrency(),
              arguments.repeats);
  bool failed = false;
  for (const uint64_t keys : arguments.keys) {
    for (const std::string map : kMaps) {
      const std::string flags = "--only '" + map + "' --keys " + std::to_string(keys) + " --repeats " +
                                std::to_string(arguments.repeats) + (arguments.quick ? " --quick" : "");
      const auto figures = figures_of_child(flags);
      failed |= !figures.has_value();
      std::printf("\n%s, %llu keys%s\n", map.c_str(), static_cast<unsigned long long>(keys), figures ? "" : ": failed");
      if (!figures) continue;
      std::printf("  %-12s %21s, %s resident bytes a key\n", "load", cell(find_figure(*figures, "load")).c_str(),
                  cell(find_figure(*figures, "bytes a key")).c_str());
      for (const std::string op : {"point", "scan of 10", "scan of 100", "insert", "mixed"}) {
        std::printf("  %-12s %21s %21s\n", op.c_str(), cell(find_figure(*figures, op + ", 1 thread")).c_str(),
                    cell(find_figure(*figures, op + ", 2 threads")).c_str());
      }
      std::fflush(stdout);
    }
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace weft::order_bench

int main(int argc, char** argv) {
  namespace bench = weft::order_bench;
  const auto arguments = bench::parse(argc, argv);
  if (!arguments) return 2;
  if (arguments->only.empty()) return bench::run(*arguments);
  const uint64_t ops = arguments->quick ? 100'000 : 2'000'000;
  for (const bench::Figure& figure :
       bench::measure_named(arguments->only, {arguments->keys.front(), ops, arguments->repeats})) {
    bench::print_for_parent(figure);
  }
  return 0;
}
