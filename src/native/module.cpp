// The compiled core, one module per instruction set; heatgraph.kernels.native chooses among them.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <vector>

#include "chebyshev.hpp"
#include "divided_differences.hpp"
#include "lasso.hpp"
#include "quadratic_model.hpp"

namespace nb = nanobind;
using namespace heatgraph;

namespace {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Longs = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ints = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bools = nb::ndarray<const bool, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Blocks = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using OutVector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using OutBlocks = nb::ndarray<T, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

constexpr int kRegister = HEATGRAPH_WIDTH / kRegisters;  // doubles of one vector register

// Columns of one block: as many numbers as fill two registers.
template <typename T>
constexpr int kWidth = HEATGRAPH_WIDTH * static_cast<int>(sizeof(double) / sizeof(T));

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Compressed rows that stay inside their arrays: a wrong index would read foreign memory.
void check_rows(const Longs& indptr, const Ints& ends) {
  const auto n = static_cast<std::int64_t>(indptr.shape(0)) - 1;
  require(n >= 0 && indptr(0) == 0, "indptr must begin with 0");
  for (std::int64_t i = 0; i < n; ++i) require(indptr(i) <= indptr(i + 1), "indptr must ascend");
  require(indptr(n) == static_cast<std::int64_t>(ends.shape(0)), "indptr must end at the last entry");
  for (std::size_t p = 0; p < ends.shape(0); ++p)
    require(0 <= ends(p) && ends(p) < n, "an index is not a node");
}

template <typename T>
std::vector<T> rounded(const double* from, std::size_t size) {
  return std::vector<T>(from, from + size);
}

// The operator in the precision of the blocks, with the memory that it points to.
template <typename T>
struct OwnedOperator {
  std::vector<T> values, diagonal;
  Operator<T> A;
  OwnedOperator(const Longs& indptr, const Ints& indices, const Doubles& v, const Doubles& d)
      : values(rounded<T>(v.data(), v.shape(0))), diagonal(rounded<T>(d.data(), d.shape(0))) {
    check_rows(indptr, indices);
    require(v.shape(0) == indices.shape(0), "one value per index");
    require(d.shape(0) + 1 == indptr.shape(0), "one diagonal entry per row");
    A = {static_cast<std::int64_t>(d.shape(0)), indptr.data(), indices.data(), values.data(),
         diagonal.data()};
  }
};

template <typename T>
void check_blocks(const Operator<T>& A, const Blocks<T>& X, const Matrix& C) {
  require(C.shape(0) > 0 && C.shape(1) > 0 && C.shape(1) % kTerms == 0,
          "C must be (R, n_terms), n_terms a multiple of TERMS");
  require(X.shape(1) == static_cast<std::size_t>(A.n) && X.shape(2) == kWidth<T>,
          "X must be (n_blocks, n, WIDTH), twice the WIDTH in single precision");
}

// out[b, i, r, :] = sum_k C[r, k] (T_k(A) X[b])[i, :]
template <typename T>
void apply(Longs indptr, Ints indices, Doubles values, Doubles diagonal, Blocks<T> X, Matrix C,
           OutBlocks<T> out) {
  const OwnedOperator<T> owned(indptr, indices, values, diagonal);
  const Operator<T>& A = owned.A;
  check_blocks<T>(A, X, C);
  const std::size_t R = C.shape(0), size = A.n * R * kWidth<T>;
  require(out.shape(0) == X.shape(0) && out.shape(1) == X.shape(1) && out.shape(2) == R &&
              out.shape(3) == kWidth<T>,
          "out must be (n_blocks, n, R, WIDTH)");
  nb::gil_scoped_release release;
  const std::vector<T> c = rounded<T>(C.data(), C.size());
  Workspace<T, kWidth<T>> work(A);
  for (std::size_t b = 0; b < X.shape(0); ++b)
    polynomials<T, kWidth<T>>(A, X.data() + b * A.n * kWidth<T>, c.data(), C.shape(1), R,
                              out.data() + b * size, nullptr, work);
}

// moments[k] += <X, T_k(A) X>;  g[e] += sum_r signs[r] ||Y_r[i] - Y_r[j]||^2 over the pairs,
// Y_r = sum_k C[r, k] T_k(A) X.
template <typename T>
void quadratic(Longs indptr, Ints indices, Doubles values, Doubles diagonal, Longs pair_indptr,
               Ints ends, Longs number, Blocks<T> X, Matrix C, Doubles signs, OutVector moments,
               OutVector g) {
  const OwnedOperator<T> owned(indptr, indices, values, diagonal);
  const Operator<T>& A = owned.A;
  check_blocks<T>(A, X, C);
  check_rows(pair_indptr, ends);
  const std::size_t R = C.shape(0);
  require(pair_indptr.shape(0) == indptr.shape(0), "pairs must be on the nodes of the operator");
  require(number.shape(0) == ends.shape(0), "one number per pair");
  require(signs.shape(0) == R, "one sign per factor");
  require(moments.shape(0) == C.shape(1), "one moment per term");
  for (std::size_t p = 0; p < number.shape(0); ++p)
    require(0 <= number(p) && number(p) < static_cast<std::int64_t>(g.shape(0)),
            "a number is not a place of g");
  nb::gil_scoped_release release;
  const Pairs pairs{pair_indptr.data(), ends.data(), number.data()};
  const std::vector<T> c = rounded<T>(C.data(), C.size()), s = rounded<T>(signs.data(), R);
  Workspace<T, kWidth<T>> work(A);
  AlignedArray<T> Y(A.n * R * kWidth<T>);
  for (std::size_t b = 0; b < X.shape(0); ++b) {
    polynomials<T, kWidth<T>>(A, X.data() + b * A.n * kWidth<T>, c.data(), C.shape(1), R, Y.data(),
                              moments.data(), work);
    pair_distances<T, kWidth<T>>(pairs, A.n, Y.data(), s.data(), R, g.data());
  }
}

// h and its report (value, duality gap), row by row, for rows of C; `a` has one row for all or each.
// Where `observed` has columns, of the observed rows of D.
template <bool Positive>
void lasso_rows(Gram& gram, const Matrix& C, const Matrix& a, const Doubles& energy, double tol,
                const Bools& observed, OutMatrix& h, OutMatrix& report) {
  const Index K = C.shape(1), N = observed.shape(1);
  Lasso<kRegister, Positive> lasso(K, gram);
  for (Index m = 0; m < static_cast<Index>(C.shape(0)); ++m) {
    if (N > 0) gram.observe(observed.data() + m * N);
    const double* bounds = a.data() + (a.shape(0) > 1 ? m * K : 0);
    const LassoEnd end =
        lasso.solve(C.data() + m * K, bounds, energy(m), h.data() + m * K, tol);
    report(m, 0) = end.value;
    report(m, 1) = end.gap;
  }
}

void lasso(Matrix G, Matrix C, Matrix a, Doubles energy, double tol, bool positive, Matrix D,
           Bools observed, OutMatrix h, OutMatrix report) {
  const std::size_t M = C.shape(0), K = C.shape(1);
  require(G.shape(0) == K && G.shape(1) == K, "G must be (K, K)");
  require(a.shape(1) == K && (a.shape(0) == 1 || a.shape(0) == M), "a must be (1 or M, K)");
  require(energy.shape(0) == M, "one energy per signal");
  require(h.shape(0) == M && h.shape(1) == K, "h must be (M, K)");
  require(report.shape(0) == M && report.shape(1) == 2, "report must be (M, 2)");
  require(observed.shape(0) == M && D.shape(0) == observed.shape(1) && D.shape(1) == K,
          "D must be (N, K) and observed (M, N)");
  nb::gil_scoped_release release;
  const Index N = observed.shape(1);
  Gram gram(K, G.data(), N, D.data());
  (positive ? lasso_rows<true> : lasso_rows<false>)(gram, C, a, energy, tol, observed, h, report);
}

// y, a point of the valid set, towards the minimiser of a QuadraticModel.
void minimise_model(Doubles g, Doubles metric, Matrix V, Matrix middle, double sigma, double total,
                    std::int64_t n, int max_steps, double tol, OutVector y) {
  const std::size_t size = y.shape(0), r = V.shape(0);
  require(g.shape(0) == size && metric.shape(0) == size, "one slope and one metric per coordinate");
  require(r == 0 || V.shape(1) == size, "V must be (r, size)");
  require(middle.shape(0) == r && middle.shape(1) == r, "middle must be (r, r)");
  require(0 <= n && n <= static_cast<Index>(size), "n must be at most the number of coordinates");
  nb::gil_scoped_release release;
  const QuadraticModel model{static_cast<Index>(size), n, static_cast<Index>(r), total, sigma,
                             g.data(), metric.data(), V.data(), middle.data()};
  ModelMinimiser<kRegister>(model).run(y.data(), max_steps, tol);
}

// K = sum over s of Q[s] times the divided differences of exp at -t[s] lam.
void divided_differences(Doubles lam, Doubles t, Blocks<double> Q, OutMatrix K) {
  const std::size_t N = lam.shape(0);
  require(Q.shape(0) == t.shape(0), "one matrix per time");
  require(Q.shape(1) == N && Q.shape(2) == N, "Q must be (S, N, N)");
  require(K.shape(0) == N && K.shape(1) == N, "K must be (N, N)");
  nb::gil_scoped_release release;
  std::fill(K.data(), K.data() + N * N, 0.0);
  for (std::size_t s = 0; s < t.shape(0); ++s)
    add_divided_differences(N, lam.data(), t(s), Q.data() + s * N * N, K.data());
}

template <typename T>
void bind(nb::module_& m) {
  m.def("apply", &apply<T>, nb::arg("indptr"), nb::arg("indices"), nb::arg("values"),
        nb::arg("diagonal"), nb::arg("X").noconvert(), nb::arg("C"), nb::arg("out").noconvert());
  m.def("quadratic", &quadratic<T>, nb::arg("indptr"), nb::arg("indices"), nb::arg("values"),
        nb::arg("diagonal"), nb::arg("pair_indptr"), nb::arg("ends"), nb::arg("number"),
        nb::arg("X").noconvert(), nb::arg("C"), nb::arg("signs"),
        nb::arg("moments").noconvert(), nb::arg("g").noconvert());
}

// The highest x86-64 level (1 to 4) that this processor has; 1 elsewhere.
int processor_level() {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? 4 : v3 ? 3 : 1;
#else
  return 1;
#endif
}

}  // namespace

NB_MODULE(HEATGRAPH_MODULE, m) {
  m.attr("WIDTH") = HEATGRAPH_WIDTH;
  m.attr("TERMS") = kTerms;
  m.def("processor_level", &processor_level);
  bind<double>(m);
  bind<float>(m);
  m.def("divided_differences", &divided_differences, nb::arg("lam"), nb::arg("t"), nb::arg("Q"),
        nb::arg("K").noconvert());
  m.def("lasso", &lasso, nb::arg("G"), nb::arg("C"), nb::arg("a"), nb::arg("energy"),
        nb::arg("tol"), nb::arg("positive"), nb::arg("D"), nb::arg("observed"),
        nb::arg("h").noconvert(), nb::arg("report").noconvert());
  m.def("minimise_model", &minimise_model, nb::arg("g"), nb::arg("metric"), nb::arg("V"),
        nb::arg("middle"), nb::arg("sigma"), nb::arg("total"), nb::arg("n"), nb::arg("max_steps"),
        nb::arg("tol"), nb::arg("y").noconvert());
}
