// How a heat kernel changes with its Laplacian, in the eigenbasis.

#pragma once

#include <cmath>
#include <vector>

#include "vectors.hpp"

namespace heatgraph {

// sinh(x) / x = sum_n x^(2n) / (2n + 1)! as a series in z = x^2; what follows is below rounding at
// z = 1/4.
inline double sinhc(double z) {
  double sum = 1.0 / 1307674368000.0;
  sum = sum * z + 1.0 / 6227020800.0;
  sum = sum * z + 1.0 / 39916800.0;
  sum = sum * z + 1.0 / 362880.0;
  sum = sum * z + 1.0 / 5040.0;
  sum = sum * z + 1.0 / 120.0;
  sum = sum * z + 1.0 / 6.0;
  return sum * z + 1.0;
}

// K += Q * (exp(x[:, None]) - exp(x)) / (x[:, None] - x) for x = -t * lam, exp(x) where they tie;
// K and Q (n, n).
//
// With d = x_k - x_m the quotient is exp((x_k + x_m) / 2) sinh(d / 2) / (d / 2): nothing overflows,
// ties are exact, and the difference of exponentials is taken only where it loses no digits.
inline void add_divided_differences(Index n, const double* __restrict lam, double t,
                                    const double* __restrict Q, double* __restrict K) {
  std::vector<double> whole(n), half(n);
  for (Index k = 0; k < n; ++k) whole[k] = std::exp(-t * lam[k]);
  for (Index k = 0; k < n; ++k) half[k] = std::exp(-0.5 * t * lam[k]);
  const double* __restrict e = whole.data();
  const double* __restrict root = half.data();
  for (Index k = 0; k < n; ++k) {
    const double lam_k = lam[k], e_k = e[k], root_k = root[k];
    for (Index m = 0; m < n; ++m) {
      const double d = t * (lam[m] - lam_k);
      const bool is_far = d * d > 1.0;
      const double far = (e_k - e[m]) / (is_far ? d : 1.0);
      const double near = root_k * root[m] * sinhc(0.25 * d * d);
      K[k * n + m] += Q[k * n + m] * (is_far ? far : near);
    }
  }
}

}  // namespace heatgraph
