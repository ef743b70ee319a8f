// Polynomials of a sparse symmetric matrix, applied to blocks of W columns.
//
// A block is (N, W), row after row: the W values of one node are Lanes, which fill kRegisters vector
// registers.  T is double, or float with twice the W; sums over many nodes are double in both.

#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

namespace heatgraph {

// A, with the spectrum in [-1, 1]: off-diagonal entries in compressed rows, the diagonal apart.
template <typename T>
struct Operator {
  std::int64_t n;
  const std::int64_t* indptr;   // (n + 1)
  const std::int32_t* indices;  // (nnz)
  const T* values;              // (nnz)
  const T* diagonal;            // (n)
};

// Pairs of nodes, listed at their first node.
struct Pairs {
  const std::int64_t* indptr;  // (n + 1)
  const std::int32_t* ends;    // (n_pairs), the second node
  const std::int64_t* number;  // (n_pairs), where the result goes
};

constexpr int kTerms = 8;  // Chebyshev terms that are kept and combined at once: few passes over Y
constexpr std::int64_t kRows = 256;  // of a tile, which is summed in T before it is added in double

constexpr int kRegisters = 2;  // that the values of one node fill: fewer reads of indices

// One register of numbers of type T. GCC would rather vectorise the loops around a loop over its
// numbers, and is slower then.
#if defined(__GNUC__)
template <typename T, int L>
struct RegisterOf {
  typedef T type __attribute__((vector_size(sizeof(T) * L), aligned(alignof(T)), may_alias));
};
template <typename T, int L>
using Register = typename RegisterOf<T, L>::type;
#else
template <typename T, int L>
struct Register {
  T at[L];
  T& operator[](int l) { return at[l]; }
  Register& operator+=(const Register& other) {
    for (int l = 0; l < L; ++l) at[l] += other.at[l];
    return *this;
  }
  friend Register operator-(Register a, const Register& b) {
    for (int l = 0; l < L; ++l) a.at[l] -= b.at[l];
    return a;
  }
  friend Register operator*(Register a, const Register& b) {
    for (int l = 0; l < L; ++l) a.at[l] *= b.at[l];
    return a;
  }
  friend Register operator*(T c, Register a) {
    for (int l = 0; l < L; ++l) a.at[l] *= c;
    return a;
  }
};
#endif

// The W values of one node.
template <typename T, int W>
struct Lanes {
  using Part = Register<T, W / kRegisters>;
  Part part[kRegisters];

  static Lanes zero() {
    Lanes lanes;
    for (int p = 0; p < kRegisters; ++p) lanes.part[p] = Part{};
    return lanes;
  }
  static Lanes load(const T* from) {
    Lanes lanes;
    for (int p = 0; p < kRegisters; ++p) lanes.part[p] = reinterpret_cast<const Part*>(from)[p];
    return lanes;
  }
  void store(T* to) const {
    for (int p = 0; p < kRegisters; ++p) reinterpret_cast<Part*>(to)[p] = part[p];
  }
  // this += c * from
  void add(T c, const T* from) {
    for (int p = 0; p < kRegisters; ++p) part[p] += c * reinterpret_cast<const Part*>(from)[p];
  }
  // this += c * other
  void add(T c, const Lanes& other) {
    for (int p = 0; p < kRegisters; ++p) part[p] += c * other.part[p];
  }
  // this += one * other
  void add_product(const Lanes& one, const Lanes& other) {
    for (int p = 0; p < kRegisters; ++p) part[p] += one.part[p] * other.part[p];
  }
  // this += c * (one - other)^2
  void add_square(T c, const T* one, const T* other) {
    for (int p = 0; p < kRegisters; ++p) {
      const Part apart =
          reinterpret_cast<const Part*>(one)[p] - reinterpret_cast<const Part*>(other)[p];
      part[p] += c * (apart * apart);
    }
  }
  // this = 2 this - earlier
  void recur(const T* earlier) {
    for (int p = 0; p < kRegisters; ++p)
      part[p] = T(2) * part[p] - reinterpret_cast<const Part*>(earlier)[p];
  }
  double total() const {
    double sum = 0.0;
    for (int p = 0; p < kRegisters; ++p) {
      Part one = part[p];
      for (int l = 0; l < W / kRegisters; ++l) sum += one[l];
    }
    return sum;
  }
};

// Rows of W numbers begin at multiples of 64 bytes, so that no load crosses a cache line.
template <typename T>
class AlignedArray {
 public:
  explicit AlignedArray(std::int64_t size)
      : data_(static_cast<T*>(::operator new(size * sizeof(T), kAlignment))) {}
  ~AlignedArray() { ::operator delete(data_, kAlignment); }
  AlignedArray(const AlignedArray&) = delete;
  AlignedArray& operator=(const AlignedArray&) = delete;
  T* data() { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  T* data_;
};

// Which tiles of kRows rows a tile reads: terms are computed a few tiles at a time, each as far as the
// term before it allows, so that what they read is still in the cache.
struct Tiles {
  std::vector<std::int64_t> reach;  // tiles of the term before that all up to this one need
  std::int64_t window = 1;  // rows of a term that are needed at one time: a power of two, or all

  template <typename T>
  explicit Tiles(const Operator<T>& A) : reach((A.n + kRows - 1) / kRows) {
    const auto n_tiles = static_cast<std::int64_t>(reach.size());
    std::vector<std::int64_t> lowest(n_tiles);  // tile that this one or a later one reads
    for (std::int64_t s = 0; s < n_tiles; ++s) {
      std::int64_t low = s, high = s;
      for (std::int64_t p = A.indptr[s * kRows]; p < A.indptr[std::min((s + 1) * kRows, A.n)]; ++p) {
        low = std::min<std::int64_t>(low, A.indices[p] / kRows);
        high = std::max<std::int64_t>(high, A.indices[p] / kRows);
      }
      lowest[s] = low;
      reach[s] = std::max(high + 1, s > 0 ? reach[s - 1] : 0);
    }
    for (std::int64_t s = n_tiles - 1; s-- > 0;) lowest[s] = std::min(lowest[s], lowest[s + 1]);
    std::int64_t widest = 1;
    run([&](int t, std::int64_t s, std::int64_t last_done) {
      if (t == 0) widest = std::max(widest, s + 1 - lowest[last_done]);
    });
    while (window < widest * kRows) window *= 2;
    window = std::min(window, A.n);
  }

  // visit(t, s, done) for every term t of a group and every tile s, in an order in which a term never
  // overtakes what it reads; `done` tiles have all terms.
  template <typename Visit>
  void run(const Visit& visit) const {
    const auto n_tiles = static_cast<std::int64_t>(reach.size());
    std::int64_t done[kTerms] = {};
    while (done[kTerms - 1] < n_tiles) {
      if (done[0] < n_tiles) {
        visit(0, done[0], done[kTerms - 1]);
        ++done[0];
      }
      for (int t = 1; t < kTerms; ++t)
        for (; done[t] < n_tiles && reach[done[t]] <= done[t - 1]; ++done[t])
          visit(t, done[t], done[kTerms - 1]);
    }
  }
};

// Rows of a term; where only a window of them is kept, row i is at i modulo its size.
template <typename T, int W>
struct Rows {
  T* data;
  std::int64_t mask;
  T* at(std::int64_t i) const { return data + (i & mask) * W; }
};

// (A V)[i].
template <typename T, int W>
inline Lanes<T, W> times_row(const Operator<T>& A, const Rows<T, W> V, std::int64_t i) {
  Lanes<T, W> sum = Lanes<T, W>::zero();
  sum.add(A.diagonal[i], V.at(i));
  for (std::int64_t p = A.indptr[i]; p < A.indptr[i + 1]; ++p) sum.add(A.values[p], V.at(A.indices[p]));
  return sum;
}

// Memory that one block needs, allocated once for many blocks: kTerms terms.  The last two, which the
// next group starts from, are whole.
template <typename T, int W>
struct Workspace {
  const Tiles tiles;
  const std::int64_t n;
  AlignedArray<T> whole, windows;
  explicit Workspace(const Operator<T>& A)
      : tiles(A), n(A.n), whole(2 * A.n * W), windows((kTerms - 2) * tiles.window * W) {}

  Rows<T, W> term(int t) {
    if (t >= kTerms - 2) return {whole.data() + (t - kTerms + 2) * n * W, -1};
    return {windows.data() + t * tiles.window * W, tiles.window < n ? tiles.window - 1 : -1};
  }
};

// Some rows of V_k = T_k(A) X from the two terms before it; returns sum_il X[i, l] V_k[i, l] of them.
template <typename T, int W>
double next_rows(const Operator<T>& A, std::int64_t k, std::int64_t first, std::int64_t last,
                 const T* __restrict X, const Rows<T, W> earlier, const Rows<T, W> before,
                 const Rows<T, W> now) {
  Lanes<T, W> sum = Lanes<T, W>::zero();
  for (std::int64_t i = first; i < last; ++i) {
    const Lanes<T, W> x = Lanes<T, W>::load(X + i * W);
    Lanes<T, W> row = k == 0 ? x : times_row<T, W>(A, before, i);
    if (k > 1) row.recur(earlier.at(i));
    row.store(now.at(i));
    sum.add_product(x, row);
  }
  return sum.total();
}

// Y[i, r, :] += sum_t C[r, t] terms[t][i, :] in some rows; rows of C are `stride` apart.
template <typename T, int W>
void combine(std::int64_t first, std::int64_t last, std::int64_t R, const Rows<T, W>* terms,
             const T* __restrict C, std::int64_t stride, bool is_first, T* __restrict Y) {
  for (std::int64_t i = first; i < last; ++i) {
    Lanes<T, W> term[kTerms];
    for (int t = 0; t < kTerms; ++t) term[t] = Lanes<T, W>::load(terms[t].at(i));
    for (std::int64_t r = 0; r < R; ++r) {
      const T* c = C + r * stride;
      T* out = Y + (i * R + r) * W;
      Lanes<T, W> sum = is_first ? Lanes<T, W>::zero() : Lanes<T, W>::load(out);
      for (int t = 0; t < kTerms; ++t) sum.add(c[t], term[t]);
      sum.store(out);
    }
  }
}

// Y[i, r, :] = sum_k C[r, k] (T_k(A) X)[i, :] and, where `moments` is given,
// moments[k] += sum_il X[i, l] (T_k(A) X)[i, l].
// X (n, W), C (R, n_terms), Y (n, R, W); n_terms is a multiple of kTerms.
template <typename T, int W>
void polynomials(const Operator<T>& A, const T* X, const T* C, std::int64_t n_terms,
                 std::int64_t R, T* Y, double* moments, Workspace<T, W>& work) {
  Rows<T, W> terms[kTerms];
  for (int t = 0; t < kTerms; ++t) terms[t] = work.term(t);
  const auto place = [&](int t) { return terms[(t + kTerms) % kTerms]; };
  for (std::int64_t group = 0; group < n_terms; group += kTerms) {
    double along[kTerms] = {};
    work.tiles.run([&](int t, std::int64_t s, std::int64_t) {
      const std::int64_t first = s * kRows, last = std::min(first + kRows, A.n);
      along[t] += next_rows<T, W>(A, group + t, first, last, X, place(t - 2), place(t - 1), place(t));
      if (t == kTerms - 1)
        combine<T, W>(first, last, R, terms, C + group, n_terms, group == 0, Y);
    });
    if (moments != nullptr)
      for (int t = 0; t < kTerms; ++t) moments[group + t] += along[t];
  }
}

// g[number] += sum_r signs[r] ||Y[i, r, :] - Y[j, r, :]||^2 over the pairs (i, j).
template <typename T, int W>
void pair_distances(const Pairs& pairs, std::int64_t n, const T* __restrict Y,
                    const T* __restrict signs, std::int64_t R, double* __restrict g) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T* here = Y + i * R * W;
    for (std::int64_t p = pairs.indptr[i]; p < pairs.indptr[i + 1]; ++p) {
      const T* there = Y + static_cast<std::int64_t>(pairs.ends[p]) * R * W;
      Lanes<T, W> sum = Lanes<T, W>::zero();
      for (std::int64_t r = 0; r < R; ++r)
        sum.add_square(signs[r], here + r * W, there + r * W);
      g[pairs.number[p]] += sum.total();
    }
  }
}

}  // namespace heatgraph
