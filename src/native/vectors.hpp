// Loops over arrays that the others are made of. W is the number of doubles in a vector register: a
// sum is taken in W partial sums, which the compiler keeps in one register.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace heatgraph {

using Index = std::int64_t;

// x @ y
template <int W>
inline double dot(Index n, const double* __restrict x, const double* __restrict y) {
  double sum[W] = {};
  Index j = 0;
  for (; j + W <= n; j += W)
    for (int l = 0; l < W; ++l) sum[l] += x[j + l] * y[j + l];
  double total = 0.0;
  for (int l = 0; l < W; ++l) total += sum[l];
  for (; j < n; ++j) total += x[j] * y[j];
  return total;
}

// y -= factor * x
inline void subtract(Index n, double factor, const double* __restrict x, double* __restrict y) {
  for (Index j = 0; j < n; ++j) y[j] -= factor * x[j];
}

// y -= f[0] * x0 + f[1] * x1 + f[2] * x2 + f[3] * x3, in one pass over y
inline void subtract4(Index n, const double* f, const double* __restrict x0,
                      const double* __restrict x1, const double* __restrict x2,
                      const double* __restrict x3, double* __restrict y) {
  const double f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3];
  for (Index j = 0; j < n; ++j)
    y[j] = y[j] - f0 * x0[j] - f1 * x1[j] - f2 * x2[j] - f3 * x3[j];
}

// max(abs(x))
template <int W>
inline double largest(Index n, const double* __restrict x) {
  double most[W] = {};
  Index j = 0;
  for (; j + W <= n; j += W)
    for (int l = 0; l < W; ++l) {
      const double size = std::abs(x[j + l]);
      most[l] = size > most[l] ? size : most[l];
    }
  double all = 0.0;
  for (int l = 0; l < W; ++l) all = std::max(all, most[l]);
  for (; j < n; ++j) all = std::max(all, std::abs(x[j]));
  return all;
}

}  // namespace heatgraph
