// The compiled core, one module per instruction set; heatgraph.kernels.native chooses among them.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

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
using Blocks = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Bools = nb::ndarray<const bool, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutVector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutBlocks = nb::ndarray<double, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

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

Operator operator_of(const Longs& indptr, const Ints& indices, const Doubles& values,
                     const Doubles& diagonal) {
  check_rows(indptr, indices);
  require(values.shape(0) == indices.shape(0), "one value per index");
  require(diagonal.shape(0) + 1 == indptr.shape(0), "one diagonal entry per row");
  return {static_cast<std::int64_t>(diagonal.shape(0)), indptr.data(), indices.data(),
          values.data(), diagonal.data()};
}

void check_blocks(const Operator& A, const Blocks& X, const Matrix& C) {
  require(C.shape(0) > 0 && C.shape(1) > 0 && C.shape(1) % kTerms == 0,
          "C must be (R, n_terms), n_terms a multiple of TERMS");
  require(X.shape(1) == static_cast<std::size_t>(A.n) && X.shape(2) == HEATGRAPH_WIDTH,
          "X must be (n_blocks, n, WIDTH)");
}

// out[b, i, r, :] = sum_k C[r, k] (T_k(A) X[b])[i, :]
void apply(Longs indptr, Ints indices, Doubles values, Doubles diagonal, Blocks X, Matrix C,
           OutBlocks out) {
  const Operator A = operator_of(indptr, indices, values, diagonal);
  check_blocks(A, X, C);
  const std::size_t R = C.shape(0), size = A.n * R * HEATGRAPH_WIDTH;
  require(out.shape(0) == X.shape(0) && out.shape(1) == X.shape(1) && out.shape(2) == R &&
              out.shape(3) == HEATGRAPH_WIDTH,
          "out must be (n_blocks, n, R, WIDTH)");
  nb::gil_scoped_release release;
  Workspace<HEATGRAPH_WIDTH> work(A.n);
  for (std::size_t b = 0; b < X.shape(0); ++b)
    polynomials<HEATGRAPH_WIDTH>(A, X.data() + b * A.n * HEATGRAPH_WIDTH, C.data(), C.shape(1), R,
                                 out.data() + b * size, nullptr, work);
}

// moments[k] += <X, T_k(A) X>;  g[e] += sum_r signs[r] ||Y_r[i] - Y_r[j]||^2 over the pairs,
// Y_r = sum_k C[r, k] T_k(A) X.
void quadratic(Longs indptr, Ints indices, Doubles values, Doubles diagonal, Longs pair_indptr,
               Ints ends, Longs number, Blocks X, Matrix C, Doubles signs, OutVector moments,
               OutVector g) {
  const Operator A = operator_of(indptr, indices, values, diagonal);
  check_blocks(A, X, C);
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
  Workspace<HEATGRAPH_WIDTH> work(A.n);
  AlignedArray Y(A.n * R * HEATGRAPH_WIDTH);
  for (std::size_t b = 0; b < X.shape(0); ++b) {
    polynomials<HEATGRAPH_WIDTH>(A, X.data() + b * A.n * HEATGRAPH_WIDTH, C.data(), C.shape(1), R,
                                 Y.data(), moments.data(), work);
    pair_distances<HEATGRAPH_WIDTH>(pairs, A.n, Y.data(), signs.data(), R, g.data());
  }
}

// h and its report (value, duality gap), row by row, for rows of C; `a` has one row for all or each.
// Where `observed` has columns, of the observed rows of D.
template <bool Positive>
void lasso_rows(Gram& gram, const Matrix& C, const Matrix& a, const Doubles& energy, double tol,
                const Bools& observed, OutMatrix& h, OutMatrix& report) {
  const Index K = C.shape(1), N = observed.shape(1);
  Lasso<HEATGRAPH_WIDTH, Positive> lasso(K, gram);
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
  ModelMinimiser<HEATGRAPH_WIDTH>(model).run(y.data(), max_steps, tol);
}

// K = sum over s of Q[s] times the divided differences of exp at -t[s] lam.
void divided_differences(Doubles lam, Doubles t, Blocks Q, OutMatrix K) {
  const std::size_t N = lam.shape(0);
  require(Q.shape(0) == t.shape(0), "one matrix per time");
  require(Q.shape(1) == N && Q.shape(2) == N, "Q must be (S, N, N)");
  require(K.shape(0) == N && K.shape(1) == N, "K must be (N, N)");
  nb::gil_scoped_release release;
  std::fill(K.data(), K.data() + N * N, 0.0);
  for (std::size_t s = 0; s < t.shape(0); ++s)
    add_divided_differences(N, lam.data(), t(s), Q.data() + s * N * N, K.data());
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
  m.def("apply", &apply, nb::arg("indptr"), nb::arg("indices"), nb::arg("values"),
        nb::arg("diagonal"), nb::arg("X"), nb::arg("C"), nb::arg("out").noconvert());
  m.def("divided_differences", &divided_differences, nb::arg("lam"), nb::arg("t"), nb::arg("Q"),
        nb::arg("K").noconvert());
  m.def("lasso", &lasso, nb::arg("G"), nb::arg("C"), nb::arg("a"), nb::arg("energy"),
        nb::arg("tol"), nb::arg("positive"), nb::arg("D"), nb::arg("observed"),
        nb::arg("h").noconvert(), nb::arg("report").noconvert());
  m.def("minimise_model", &minimise_model, nb::arg("g"), nb::arg("metric"), nb::arg("V"),
        nb::arg("middle"), nb::arg("sigma"), nb::arg("total"), nb::arg("n"), nb::arg("max_steps"),
        nb::arg("tol"), nb::arg("y").noconvert());
  m.def("quadratic", &quadratic, nb::arg("indptr"), nb::arg("indices"), nb::arg("values"),
        nb::arg("diagonal"), nb::arg("pair_indptr"), nb::arg("ends"), nb::arg("number"),
        nb::arg("X"), nb::arg("C"), nb::arg("signs"), nb::arg("moments").noconvert(),
        nb::arg("g").noconvert());
}
