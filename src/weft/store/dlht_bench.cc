// How close do batched gets of a DLHT come to the machine's rate of random reads, and what do the four operations cost
// compared with the maps that one could use instead (absl::flat_hash_map, tbb::concurrent_hash_map, libcuckoo)? 8-byte
// keys and values, uniform, one thread; each map in a separate process, all with huge pages. And what does a resize by
// another thread do to the latency of gets?
//
//   dlht_bench [--keys N]... [--repeats N] [--quick] [--json]
//
// Rates are in millions per second: median of the repeats, and lowest to highest.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/store/dlht_bench_run.h"

namespace weft::dlht_bench {
namespace {

constexpr const char* kResize = "resize";
constexpr uint64_t kResizeKeysMax = 4'000'000;
constexpr const char* kMaps[] = {WeftMap::kName, AbslMap::kName, TbbMap::kName, CuckooMap::kName};

struct Arguments {
  std::vector<uint64_t> keys;
  int repeats = 5;
  bool quick = false;
  bool json = false;
  std::string only;  // measure this in this process, and print figures for the parent
};

struct Table {
  std::string map;
  uint64_t keys;
  std::vector<Figure> figures;
  const Figure* find(const std::string& name) const { return find_figure(figures, name); }
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool more = i + 1 < argc;
    if (flag == "--quick") {
      out.quick = true;
    } else if (flag == "--json") {
      out.json = true;
    } else if (flag == "--only" && more) {
      out.only = argv[++i];
    } else if ((flag == "--keys" || flag == "--repeats") && more) {
      char* end = nullptr;
      const unsigned long long n = std::strtoull(argv[++i], &end, 10);
      if (*end != '\0' || n == 0 || (flag == "--keys" && n < 1000) || (flag == "--repeats" && n > 1000)) {
        std::fprintf(stderr, "dlht_bench: %s %s: --keys takes 1000 or more, --repeats 1 to 1000\n", flag.c_str(),
                     argv[i]);
        return std::nullopt;
      }
      if (flag == "--keys") {
        out.keys.push_back(n);
      } else {
        out.repeats = static_cast<int>(n);
      }
    } else {
      std::fprintf(stderr,
                   "dlht_bench: what is %s?\nusage: dlht_bench [--keys N]... [--repeats N] [--quick] [--json]\n",
                   flag.c_str());
      return std::nullopt;
    }
  }
  if (out.quick) out.repeats = std::min(out.repeats, 3);
  if (out.keys.empty())
    out.keys = out.quick ? std::vector<uint64_t>{100'000} : std::vector<uint64_t>{1'000'000, 20'000'000};
  return out;
}

Plan plan_for(const Arguments& arguments, uint64_t keys) {
  return {keys, arguments.quick ? uint64_t{240'000} : uint64_t{6'000'000}, arguments.repeats};
}

std::vector<Figure> measure_named(const std::string& name, const Plan& plan) {
  if (name == WeftMap::kName) return measure<WeftMap>(plan);
  if (name == AbslMap::kName) return measure<AbslMap>(plan);
  if (name == TbbMap::kName) return measure<TbbMap>(plan);
  if (name == CuckooMap::kName) return measure<CuckooMap>(plan);
  if (name == kResize) return measure_resize({plan.keys, plan.ops / 4, plan.repeats});
  return {};
}

std::optional<Table> run_child(const Arguments& arguments, const std::string& map, uint64_t keys) {
  std::string flags = "--only '" + map + "' --keys " + std::to_string(keys) + " --repeats " +
                      std::to_string(arguments.repeats) + (arguments.quick ? " --quick" : "");
  if (auto figures = figures_of_child(flags)) return Table{map, keys, std::move(*figures)};
  std::fprintf(stderr, "dlht_bench: %s at %llu keys failed\n", map.c_str(), static_cast<unsigned long long>(keys));
  return std::nullopt;
}

void print_map(const Table& table) {
  const auto keys = static_cast<unsigned long long>(table.keys);
  const std::string by = " by " + std::to_string(kBatch);
  const std::string by_long = " by " + std::to_string(kLongBatch);
  std::printf("%-26s %10llu keys, %.1f resident bytes a key\n", table.map.c_str(), keys,
              table.find("bytes a key")->median);
  for (const std::string op : {"get", "put", "insert", "delete"}) {
    std::printf("  %-24s %21s %21s %21s\n", op.c_str(), cell(table.find(op)).c_str(), cell(table.find(op + by)).c_str(),
                cell(table.find(op + by_long)).c_str());
  }
  const Figure* const reads = table.find("reads");
  const Figure* const ahead = table.find("reads ahead");
  if (reads == nullptr || ahead == nullptr) return;
  std::printf("  random 64 B reads of the machine, in turn with the above: plain %s, prefetched %s\n",
              cell(reads).c_str(), cell(ahead).c_str());
  for (const std::string& size : {by, by_long}) {
    const double gets = table.find("get" + size)->median;
    std::printf("  gets%s are %.0f %% of the plain reads, %.0f %% of the prefetched ones\n", size.c_str(),
                100 * gets / reads->median, 100 * gets / ahead->median);
  }
}

void print_text(const std::vector<Table>& tables) {
  std::printf("M/s %44s %21s %21s\n", "one by one", ("by " + std::to_string(kBatch)).c_str(),
              ("by " + std::to_string(kLongBatch)).c_str());
  for (const Table& table : tables) {
    if (table.map != kResize) print_map(table);
  }
  for (const Table& table : tables) {
    if (table.map != kResize) continue;
    std::printf("\nsingle gets of %llu keys beside another thread, ns with the clock's own:\n",
                static_cast<unsigned long long>(table.keys));
    for (const char* const phase : {"quiet", "resize"}) {
      const std::string suffix = std::string(" ns, ") + phase;
      std::printf("  %-24s p50 %-24s p99.9 %s, %.0f gets\n",
                  std::strcmp(phase, "quiet") == 0 ? "the other gets" : "the other resizes",
                  cell(table.find("get p50" + suffix)).c_str(), cell(table.find("get p99.9" + suffix)).c_str(),
                  table.find(std::string("gets, ") + phase)->median);
    }
  }
}

void print_json(const std::vector<Table>& tables, const std::string& cpu) {
  std::printf("{\"cpu\":\"%s\",\"compiler\":\"%s\",\"results\":[", cpu.c_str(), __VERSION__);
  bool first = true;
  for (const Table& table : tables) {
    for (const Figure& figure : table.figures) {
      std::printf("%s\n{\"map\":\"%s\",\"keys\":%llu,\"figure\":\"%s\",\"median\":%.3f,\"low\":%.3f,\"high\":%.3f}",
                  first ? "" : ",", table.map.c_str(), static_cast<unsigned long long>(table.keys), figure.name.c_str(),
                  figure.median, figure.low, figure.high);
      first = false;
    }
  }
  std::printf("\n]}\n");
}

int run(const Arguments& arguments) {
  const std::string cpu = first_line_of("/proc/cpuinfo", "model name");
  if (!arguments.json) {
    std::printf("machine: %s, %u cores, huge pages %s\ncompiler: %s\n%d repeats; median (lowest..highest)\n\n",
                cpu.c_str(), std::thread::hardware_concurrency(),
                first_line_of("/sys/kernel/mm/transparent_hugepage/enabled").c_str(), __VERSION__, arguments.repeats);
  }
  std::vector<Table> tables;
  bool failed = false;
  const auto add = [&](const std::string& map, uint64_t keys) {
    if (auto table = run_child(arguments, map, keys)) {
      tables.push_back(std::move(*table));
    } else {
      failed = true;
    }
  };
  for (const uint64_t keys : arguments.keys) {
    for (const char* const map : kMaps) add(map, keys);
    add(kResize, std::min(keys, kResizeKeysMax));
  }
  arguments.json ? print_json(tables, cpu) : print_text(tables);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace weft::dlht_bench

int main(int argc, char** argv) {
  namespace bench = weft::dlht_bench;
  const auto arguments = bench::parse(argc, argv);
  if (!arguments) return 2;
  if (arguments->only.empty()) return bench::run(*arguments);
  for (const bench::Figure& figure :
       bench::measure_named(arguments->only, bench::plan_for(*arguments, arguments->keys.front()))) {
    bench::print_for_parent(figure);
  }
  return 0;
}
