#include "weft/base/histogram.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"

namespace weft {

Histogram& Histogram::operator=(const Histogram& other) {
  if (this == &other) return *this;
  clear();
  merge(other);
  return *this;
}

void Histogram::merge(const Histogram& other) {
  for (size_t i = 0; i < histogram::kBuckets; ++i) add(counts_[i], other.counts_[i].load(std::memory_order_relaxed));
  add(sum_, other.sum_.load(std::memory_order_relaxed));
  max_.store(std::max(max(), other.max()), std::memory_order_relaxed);
}

void Histogram::subtract(const Histogram& earlier) {
  for (size_t i = 0; i < histogram::kBuckets; ++i)
    add(counts_[i], 0 - earlier.counts_[i].load(std::memory_order_relaxed));
  add(sum_, 0 - earlier.sum_.load(std::memory_order_relaxed));
}

void Histogram::clear() {
  for (Counter& counter : counts_) counter.store(0, std::memory_order_relaxed);
  sum_.store(0, std::memory_order_relaxed);
  max_.store(0, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (const Counter& counter : counts_) total += counter.load(std::memory_order_relaxed);
  return total;
}

uint64_t Histogram::count_upto(uint64_t value) const {
  uint64_t total = 0;
  for (size_t i = 0; i < histogram::kBuckets && histogram::upper_edge(i) <= value; ++i) {
    total += counts_[i].load(std::memory_order_relaxed);
  }
  return total;
}

double Histogram::mean() const {
  const uint64_t n = count();
  return n == 0 ? 0.0 : static_cast<double>(sum_.load(std::memory_order_relaxed)) / static_cast<double>(n);
}

uint64_t Histogram::quantile(double q) const {
  WEFT_CHECK(q >= 0.0 && q <= 1.0, "a quantile is a fraction");
  const uint64_t n = count();
  if (n == 0) return 0;
  // Above 2^53 values the product rounds; the clamp keeps the rank a rank.
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(std::ceil(q * static_cast<double>(n))), 1, n);
  uint64_t seen = 0;
  for (size_t i = 0; i < histogram::kBuckets; ++i) {
    seen += counts_[i].load(std::memory_order_relaxed);
    if (seen >= rank) return std::min(histogram::upper_edge(i), max());
  }
  return max();
}

}  // namespace weft
