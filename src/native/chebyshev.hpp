// Polynomials of a sparse symmetric matrix, applied to blocks of W columns.
//
// A block is (N, W), row after row: the W values of one node are Lanes, which fill kRegisters vector
// registers.  T is double, or float with twice the W; sums over many nodes are double in both.

#pragma once

#include <cstdint>
#include <new>

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
constexpr std::int64_t kRows = 256;  // nodes that are summed in T before they are added in double

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

// (A V)[i].
template <typename T, int W>
inline Lanes<T, W> times_row(const Operator<T>& A, const T* __restrict V, std::int64_t i) {
  Lanes<T, W> sum = Lanes<T, W>::zero();
  sum.add(A.diagonal[i], V + i * W);
  for (std::int64_t p = A.indptr[i]; p < A.indptr[i + 1]; ++p)
    sum.add(A.values[p], V + static_cast<std::int64_t>(A.indices[p]) * W);
  return sum;
}

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

// Memory that one block needs, allocated once for many blocks: kTerms terms, one after the other.
template <typename T, int W>
struct Workspace {
  AlignedArray<T> terms;
  explicit Workspace(std::int64_t n) : terms(n * kTerms * W) {}
};

// V_k = T_k(A) X from the two terms before it, into `now`; returns sum_il X[i, l] V_k[i, l].
template <typename T, int W>
double next_term(const Operator<T>& A, std::int64_t k, const T* __restrict X,
                 const T* __restrict earlier, const T* __restrict before, T* __restrict now) {
  double along = 0.0;
  for (std::int64_t first = 0; first < A.n; first += kRows) {
    Lanes<T, W> sum = Lanes<T, W>::zero();
    for (std::int64_t i = first; i < A.n && i < first + kRows; ++i) {
      const Lanes<T, W> x = Lanes<T, W>::load(X + i * W);
      Lanes<T, W> row = k == 0 ? x : times_row<T, W>(A, before, i);
      if (k > 1) row.recur(earlier + i * W);
      row.store(now + i * W);
      sum.add_product(x, row);
    }
    along += sum.total();
  }
  return along;
}

// Y[i, r, :] += sum_t C[r, t] terms[t, i, :]; rows of C are `stride` apart.
template <typename T, int W>
void combine(std::int64_t n, std::int64_t R, const T* __restrict terms, const T* __restrict C,
             std::int64_t stride, bool is_first, T* __restrict Y) {
  for (std::int64_t i = 0; i < n; ++i) {
    Lanes<T, W> term[kTerms];
    for (int t = 0; t < kTerms; ++t) term[t] = Lanes<T, W>::load(terms + (t * n + i) * W);
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
  T* terms = work.terms.data();
  const auto place = [&](std::int64_t k) { return terms + ((k + kTerms) % kTerms) * A.n * W; };
  for (std::int64_t first = 0; first < n_terms; first += kTerms) {
    for (std::int64_t k = first; k < first + kTerms; ++k) {
      const double along = next_term<T, W>(A, k, X, place(k - 2), place(k - 1), place(k));
      if (moments != nullptr) moments[k] += along;
    }
    combine<T, W>(A.n, R, terms, C + first, n_terms, first == 0, Y);
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
