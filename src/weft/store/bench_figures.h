// What the benchmarks of the store share: figures of repeated measurements, and a process for each thing measured.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/clock.h"

namespace weft::store_bench {

// One figure: the median of the repeats and its spread.
struct Figure {
  std::string name;  // "get", "get batched", ...
  double median = 0;
  double low = 0;
  double high = 0;
};

class Samples {
 public:
  void add(const std::string& name, double value) {
    for (auto& [known, values] : all_) {
      if (known == name) return values.push_back(value);
    }
    all_.push_back({name, {value}});
  }
  std::vector<Figure> figures() const {
    std::vector<Figure> out;
    for (auto [name, values] : all_) {
      std::sort(values.begin(), values.end());
      out.push_back({name, values[values.size() / 2], values.front(), values.back()});
    }
    return out;
  }

 private:
  std::vector<std::pair<std::string, std::vector<double>>> all_;
};

inline uint64_t resident_bytes() {
  unsigned long long pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Millions per second.
template <class Body>
double rate(uint64_t ops, Body body) {
  RealClock clock;
  const uint64_t from = clock.now_ns();
  body();
  return static_cast<double>(ops) * 1e3 / static_cast<double>(clock.now_ns() - from);
}

inline const Figure* find_figure(const std::vector<Figure>& figures, const std::string& name) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

inline void print_for_parent(const Figure& figure) {
  std::printf("%s\t%f\t%f\t%f\n", figure.name.c_str(), figure.median, figure.low, figure.high);
}

// Runs this program again with other flags, with a malloc that uses huge pages as our tables do, and reads the figures
// that it prints.
inline std::optional<std::vector<Figure>> figures_of_child(const std::string& flags) {
  const std::string command =
      "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 /proc/" + std::to_string(getpid()) + "/exe " + flags;
  std::FILE* const out = popen(command.c_str(), "r");
  if (out == nullptr) return std::nullopt;
  std::vector<Figure> figures;
  char line[256];
  while (std::fgets(line, sizeof line, out) != nullptr) {
    Figure figure;
    char name[128];
    if (std::sscanf(line, "%127[^\t]\t%lf\t%lf\t%lf", name, &figure.median, &figure.low, &figure.high) == 4) {
      figure.name = name;
      figures.push_back(figure);
    }
  }
  if (pclose(out) != 0) return std::nullopt;
  return figures;
}

inline std::string first_line_of(const char* path, const char* starts = "") {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(starts)) return line.substr(line.find(':') == std::string::npos ? 0 : line.find(':') + 2);
  }
  return "unknown";
}

inline std::string cell(const Figure* figure) {
  if (figure == nullptr) return "-";
  char text[64];
  std::snprintf(text, sizeof text, "%.1f (%.1f..%.1f)", figure->median, figure->low, figure->high);
  return text;
}

}  // namespace weft::store_bench
