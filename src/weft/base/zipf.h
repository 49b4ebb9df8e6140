// Zipf's distribution: of n numbers, the k-th (from 0) is drawn in proportion to 1 / (k + 1)^theta. Theta 0 is uniform;
// the head grows with it, and 1 is no special case.
//
// By rejection-inversion (Hörmann and Derflinger 1996): exact, without a table, and nearly always with one random
// number. The area under x^-theta is inverted; a draw between the curve and the bar of its integer is rejected. The
// area is counted from 1, (x^(1 - theta) - 1) / (1 - theta), in a form that stays exact as theta passes 1, where it is
// log x.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "weft/base/check.h"
#include "weft/base/random.h"
#include "weft/status.h"

namespace weft {

class Zipf {
 public:
  static constexpr double kThetaMax = 2;
  static constexpr uint64_t kNumbersMax = uint64_t{1} << 52;  // a double tells all of them apart

  // For what a user gives.
  static Result<Zipf> create(uint64_t n, double theta) {
    if (n < 1 || n > kNumbersMax) {
      return Error{Code::kBadOption,
                   "Zipf of " + std::to_string(n) + " numbers: there are 1 to " + std::to_string(kNumbersMax)};
    }
    if (!valid(theta)) {
      return Error{Code::kBadOption, "Zipf with theta " + std::to_string(theta) + ": theta is from 0 to 2"};
    }
    return Zipf(n, theta);
  }

  Zipf(uint64_t n, double theta)
      : n_(static_cast<double>(n)),
        theta_(theta),
        low_(area(1.5) - 1),
        high_(area(n_ + 0.5)),
        sure_(2 - inverse(area(2.5) - height(2))) {
    WEFT_CHECK(n >= 1 && n <= kNumbersMax && valid(theta), "create refuses what a user gives");
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
  static bool valid(double theta) { return theta >= 0 && theta <= kThetaMax; }  // false for what is no number
  double height(double x) const { return std::pow(x, -theta_); }
  double area(double x) const {
    const double log_x = std::log(x);
    const double power = (1 - theta_) * log_x;
    return power == 0 ? log_x : std::expm1(power) / power * log_x;
  }
  double inverse(double area) const {
    const double grown = (1 - theta_) * area;
    // Rounding must not take it to where the area is infinite.
    return std::exp(grown == 0 ? area : std::log1p(std::max(grown, -1 + 0x1p-53)) / grown * area);
  }

  double n_, theta_;
  double low_, high_;  // of the areas that are drawn
  double sure_;        // an x this little below its integer is never rejected
};

}  // namespace weft
