// Zipf's distribution: of n numbers, the k-th (from 0) is drawn in proportion to 1 / (k + 1)^alpha. Alpha 0 is uniform.
//
// By rejection-inversion (Hörmann and Derflinger 1996): exact, without a table, and nearly always with one random
// number. The area under x^-alpha is inverted; a draw between the curve and the bar of its integer is rejected.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "weft/base/check.h"
#include "weft/base/random.h"

namespace weft::bench {

class Zipf {
 public:
  Zipf(uint64_t n, double alpha)
      : n_(static_cast<double>(n)),
        alpha_(alpha),
        low_(area(1.5) - 1),
        high_(area(n_ + 0.5)),
        sure_(2 - inverse(area(2.5) - height(2))) {
    WEFT_CHECK(n >= 1 && alpha >= 0 && alpha < 1, "the area below has another form from 1 on");
  }

  uint64_t draw(Random& random) const {
    for (;;) {
      const double u = high_ + random.unit() * (low_ - high_);
      const double x = inverse(u);
      const double k = std::clamp(std::floor(x + 0.5), 1.0, n_);
      if (k - x <= sure_ || u >= area(k + 0.5) - height(k)) return static_cast<uint64_t>(k) - 1;
    }
  }

 private:
  double height(double x) const { return std::pow(x, -alpha_); }
  double area(double x) const { return std::pow(x, 1 - alpha_) / (1 - alpha_); }
  double inverse(double area) const { return std::pow(area * (1 - alpha_), 1 / (1 - alpha_)); }

  const double n_, alpha_;
  const double low_, high_;  // of the areas that are drawn
  const double sure_;        // an x this little below its integer is never rejected
};

}  // namespace weft::bench
