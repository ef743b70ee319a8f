// Polynomials of a sparse symmetric matrix, applied to blocks of W columns.
//
// A block is (N, W), row after row: the W values of one node fill one vector register, and the
// compiler turns every loop over W into one instruction.

#pragma once

#include <cstdint>

#include "vectors.hpp"

namespace heatgraph {

// A, with the spectrum in [-1, 1]: off-diagonal entries in compressed rows, the diagonal apart.
struct Operator {
  std::int64_t n;
  const std::int64_t* indptr;   // (n + 1)
  const std::int32_t* indices;  // (nnz)
  const double* values;         // (nnz)
  const double* diagonal;       // (n)
};

// Pairs of nodes, listed at their first node.
struct Pairs {
  const std::int64_t* indptr;  // (n + 1)
  const std::int32_t* ends;    // (n_pairs), the second node
  const std::int64_t* number;  // (n_pairs), where the result goes
};

constexpr int kTerms = 8;  // Chebyshev terms that are combined at once: fewer passes over Y

// (A V)[i], a row of W values.
template <int W>
inline void times_row(const Operator& A, const double* __restrict V, std::int64_t i,
                      double* __restrict row) {
  double sum[W];
  for (int l = 0; l < W; ++l) sum[l] = A.diagonal[i] * V[i * W + l];
  for (std::int64_t p = A.indptr[i]; p < A.indptr[i + 1]; ++p) {
    const double a = A.values[p];
    const double* there = V + static_cast<std::int64_t>(A.indices[p]) * W;
    for (int l = 0; l < W; ++l) sum[l] += a * there[l];
  }
  for (int l = 0; l < W; ++l) row[l] = sum[l];
}

// Memory that one block needs, allocated once for many blocks.
template <int W>
struct Workspace {
  AlignedArray even, odd, terms;
  explicit Workspace(std::int64_t n) : even(n * W), odd(n * W), terms(n * kTerms * W) {}
};

// V_k = T_k(A) X from the two before it, into `now`, which held V_{k-2}, and into the place of this
// term, `kTerms` rows apart; returns along[l] = sum_i X[i, l] V_k[i, l].
template <int W>
void next_term(const Operator& A, std::int64_t k, const double* __restrict X,
               const double* __restrict before, double* __restrict now, double* __restrict term,
               double* __restrict along) {
  double sum[W] = {};
  for (std::int64_t i = 0; i < A.n; ++i) {
    double row[W];
    if (k == 0) {
      for (int l = 0; l < W; ++l) row[l] = X[i * W + l];
    } else {
      times_row<W>(A, before, i, row);
      if (k > 1)
        for (int l = 0; l < W; ++l) row[l] = 2.0 * row[l] - now[i * W + l];
    }
    for (int l = 0; l < W; ++l) now[i * W + l] = row[l];
    for (int l = 0; l < W; ++l) term[i * kTerms * W + l] = row[l];
    for (int l = 0; l < W; ++l) sum[l] += X[i * W + l] * row[l];
  }
  for (int l = 0; l < W; ++l) along[l] = sum[l];
}

// Y[i, r, :] += sum_t C[r, t] terms[i, t, :]; rows of C are `stride` apart.
template <int W>
void combine(std::int64_t n, std::int64_t R, const double* __restrict terms,
             const double* __restrict C, std::int64_t stride, bool is_first,
             double* __restrict Y) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double* term = terms + i * kTerms * W;
    for (std::int64_t r = 0; r < R; ++r) {
      const double* c = C + r * stride;
      double* out = Y + (i * R + r) * W;
      double sum[W];
      for (int l = 0; l < W; ++l) sum[l] = is_first ? 0.0 : out[l];
      for (int l = 0; l < W; ++l) sum[l] += c[0] * term[0 * W + l];
      for (int l = 0; l < W; ++l) sum[l] += c[1] * term[1 * W + l];
      for (int l = 0; l < W; ++l) sum[l] += c[2] * term[2 * W + l];
      for (int l = 0; l < W; ++l) sum[l] += c[3] * term[3 * W + l];
      for (int l = 0; l < W; ++l) sum[l] += c[4] * term[4 * W + l];
      for (int l = 0; l < W; ++l) sum[l] += c[5] * term[5 * W + l];
      for (int l = 0; l < W; ++l) sum[l] += c[6] * term[6 * W + l];
      for (int l = 0; l < W; ++l) sum[l] += c[7] * term[7 * W + l];
      for (int l = 0; l < W; ++l) out[l] = sum[l];
    }
  }
}

// Y[i, r, :] = sum_k C[r, k] (T_k(A) X)[i, :] and, where `moments` is given,
// moments[k] += sum_il X[i, l] (T_k(A) X)[i, l].
// X (n, W), C (R, n_terms), Y (n, R, W); n_terms is a multiple of kTerms.
template <int W>
void polynomials(const Operator& A, const double* X, const double* C, std::int64_t n_terms,
                 std::int64_t R, double* Y, double* moments, Workspace<W>& work) {
  for (std::int64_t first = 0; first < n_terms; first += kTerms) {
    for (std::int64_t t = 0; t < kTerms; ++t) {
      const std::int64_t k = first + t;
      double* before = (k % 2 ? work.even : work.odd).data();
      double* now = (k % 2 ? work.odd : work.even).data();
      double along[W];
      next_term<W>(A, k, X, before, now, work.terms.data() + t * W, along);
      if (moments != nullptr)
        for (int l = 0; l < W; ++l) moments[k] += along[l];
    }
    combine<W>(A.n, R, work.terms.data(), C + first, n_terms, first == 0, Y);
  }
}

// g[number] += sum_r signs[r] ||Y[i, r, :] - Y[j, r, :]||^2 over the pairs (i, j).
template <int W>
void pair_distances(const Pairs& pairs, std::int64_t n, const double* __restrict Y,
                    const double* __restrict signs, std::int64_t R, double* __restrict g) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double* here = Y + i * R * W;
    for (std::int64_t p = pairs.indptr[i]; p < pairs.indptr[i + 1]; ++p) {
      const double* there = Y + static_cast<std::int64_t>(pairs.ends[p]) * R * W;
      double sum[W] = {};
      for (std::int64_t r = 0; r < R; ++r) {
        const double sign = signs[r];
        for (int l = 0; l < W; ++l) {
          const double apart = here[r * W + l] - there[r * W + l];
          sum[l] += sign * apart * apart;
        }
      }
      double total = 0.0;
      for (int l = 0; l < W; ++l) total += sum[l];
      g[pairs.number[p]] += total;
    }
  }
}

}  // namespace heatgraph
