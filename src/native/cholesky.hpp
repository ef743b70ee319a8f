// The Cholesky factor of a matrix that gains and loses rows and columns.

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "vectors.hpp"

namespace heatgraph {

// R upper triangular with R.T @ R = A, in rows, so that every loop runs along memory.
template <int W>
class Cholesky {
 public:
  Index size() const { return n_; }
  void clear() { n_ = 0; }

  // Room for a matrix of this size; what is there stays.
  void reserve(Index size) {
    if (size <= stride_) return;
    const Index stride = std::max(size, 2 * stride_);
    std::vector<double> R(stride * stride);
    for (Index m = 0; m < n_; ++m)
      std::copy(row(m) + m, row(m) + n_, R.data() + m * stride + m);
    R_.swap(R);
    inverse_.resize(stride);
    stride_ = stride;
  }

  // A gains a last column, `column` (n + 1), which is overwritten:
  // r = solve(R.T, column[:n]),  R = [[R, r], [0, sqrt(column[n] - r @ r)]].
  // False, and A stays, where the square of the new pivot is not above `least`: the column is
  // spanned by the others.  Then r is what null_vector() needs.
  bool append(double* __restrict column, double least) {
    const Index k = n_;
    solve_lower(column, 0);
    for (Index m = 0; m < k; ++m) row(m)[k] = column[m];
    column[k] -= dot<W>(k, column, column);
    if (!(column[k] > least)) return false;
    row(k)[k] = std::sqrt(column[k]);
    inverse_[k] = 1.0 / row(k)[k];
    ++n_;
    return true;
  }

  // A loses row and column k: column k of R goes, and rotations of rows m and m + 1 take away the
  // entries that are then below the diagonal.
  void remove(Index k) {
    for (Index m = 0; m < k; ++m) std::copy(row(m) + k + 1, row(m) + n_, row(m) + k);
    for (Index m = k; m + 1 < n_; ++m) {
      double* __restrict here = row(m);
      double* __restrict next = row(m + 1);
      const double a = here[m + 1], b = next[m + 1];
      const double length = std::sqrt(a * a + b * b);
      const double cosine = a / length, sine = b / length;
      for (Index p = m + 2; p < n_; ++p) {
        const double x = here[p], y = next[p];
        here[p - 1] = cosine * x + sine * y;
        next[p] = cosine * y - sine * x;
      }
      here[m] = length;
      inverse_[m] = 1.0 / length;
    }
    --n_;
  }

  // b = solve(R.T, b), of which the first `solved` entries are solved already.
  void solve_lower(double* __restrict b, Index solved) const {
    Index m = 0;
    for (; m + 4 <= n_; m += 4) {  // four entries, and their part taken out of all that follow
      for (Index i = m; i < m + 4; ++i) eliminate(b, i, m + 4, solved);
      const Index from = std::max(m + 4, solved);
      subtract4(n_ - from, b + m, row(m) + from, row(m + 1) + from, row(m + 2) + from,
                row(m + 3) + from, b + from);
    }
    for (; m < n_; ++m) eliminate(b, m, n_, solved);
  }

  // b = solve(R, b)
  void solve_upper(double* __restrict b) const {
    for (Index k = n_ - 1; k >= 0; --k)
      b[k] = (b[k] - dot<W>(n_ - k - 1, row(k) + k + 1, b + k + 1)) * inverse_[k];
  }

  // y (n + 1) with [[A, a], [a.T, alpha]] @ y = 0, for a column that append() refused.
  void null_vector(double* __restrict y) const {
    for (Index m = 0; m < n_; ++m) y[m] = -row(m)[n_];
    solve_upper(y);
    y[n_] = 1.0;
  }

  // d @ A @ e, by way of R @ d and R @ e.
  double product(const double* d, const double* e) const {
    double sum = 0.0;
    for (Index m = 0; m < n_; ++m)
      sum += dot<W>(n_ - m, row(m) + m, d + m) * dot<W>(n_ - m, row(m) + m, e + m);
    return sum;
  }

 private:
  // Entry m of solve(R.T, b), and its part taken out of those that follow, up to `end`.
  void eliminate(double* __restrict b, Index m, Index end, Index solved) const {
    if (m >= solved) b[m] *= inverse_[m];
    for (Index p = std::max(m + 1, solved); p < end; ++p) b[p] -= b[m] * row(m)[p];
  }

  double* row(Index m) { return R_.data() + m * stride_; }
  const double* row(Index m) const { return R_.data() + m * stride_; }

  Index n_ = 0, stride_ = 0;
  std::vector<double> R_, inverse_;  // one over the diagonal
};

}  // namespace heatgraph
