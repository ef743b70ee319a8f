// The lasso on a Gram matrix, solved exactly by an active set:
//
//     minimise  ||x - D h||^2 + sum_j a_j |h_j|   over h, or over h >= 0.
//
// Only G = D.T @ D, c = D.T @ x and q = D.T @ (x - D @ h) enter. The support is kept small and
// independent, the minimiser on it is solved for by Cholesky, and atoms enter only where |q_j|
// exceeds its bound a_j / 2 by the most; a start whose support is right costs one small solve.

#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "cholesky.hpp"
#include "vectors.hpp"

namespace heatgraph {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMaxRounds = 1000;
constexpr int kMaxIdle = 10;  // rounds that do not lower the value: dependent atoms taking turns
// Atoms enter together where their excess is at least this share of the largest one.
constexpr double kEntryShare = 0.3;
// The duality gap is computed once no |q_j| exceeds its bound by more than this share of it.
constexpr double kGapWorth = 0.1;
constexpr double kRounding = 1e-14;  // an excess this small, relative to max |c|, is rounding
// A pivot this far below its diagonal marks an atom spanned by the others. As small as rounding
// lets it be: the step that drops such an atom raises the fit by up to this times its square.
constexpr double kDependent = 1e-14;

// G = D.T @ D, given whole; of some rows of D alone it is made row by row, as atoms enter.
class Gram {
 public:
  Gram(Index K, const double* G, Index N, const double* D) : K_(K), N_(N), G_(G), D_(D) {}

  // From now on, of the rows of D (N, K) where `observed` (N) is true.
  void observe(const bool* observed) {
    chosen_.clear();
    for (Index n = 0; n < N_; ++n)
      if (observed[n]) chosen_.push_back(n);
    is_whole_ = static_cast<Index>(chosen_.size()) == N_;
    if (is_whole_) return;
    made_.resize(K_ * K_);
    is_made_.assign(K_, false);
  }

  const double* row(Index j) {
    if (is_whole_) return G_ + j * K_;
    if (!is_made_[j]) make(j);
    return made_.data() + j * K_;
  }

 private:
  // G[j] = D[chosen, j] @ D[chosen]
  void make(Index j) {
    double* out = made_.data() + j * K_;
    std::fill(out, out + K_, 0.0);
    const Index* n = chosen_.data();
    const Index* end = n + chosen_.size();
    for (; n + 4 <= end; n += 4) {
      const double* D[4] = {D_ + n[0] * K_, D_ + n[1] * K_, D_ + n[2] * K_, D_ + n[3] * K_};
      const double minus[4] = {-D[0][j], -D[1][j], -D[2][j], -D[3][j]};
      subtract4(K_, minus, D[0], D[1], D[2], D[3], out);
    }
    for (; n < end; ++n) subtract(K_, -D_[*n * K_ + j], D_ + *n * K_, out);
    is_made_[j] = true;
  }

  Index K_, N_;
  const double *G_, *D_;
  bool is_whole_ = true;
  std::vector<double> made_;
  std::vector<char> is_made_;
  std::vector<Index> chosen_;
};

struct LassoEnd {
  double value, gap;
};

// Works on one signal after the other, in memory that it keeps.
template <int W, bool Positive>
class Lasso {
 public:
  Lasso(Index K, Gram& gram) : K_(K), gram_(gram), q_(K), y_(K), d_(K), b_(K), support_(K) {}

  // From h and in place; where Positive, h >= 0 on entry.
  LassoEnd solve(const double* c, const double* a, double energy, double* h, double tol) {
    c_ = c, a_ = a, h_ = h, energy_ = energy;
    list_support();
    const double negligible = kRounding * largest<W>(K_, c), widest = 0.5 * largest<W>(K_, a);
    double best = kInfinity;
    int idle = 0;
    for (int round = 0; round < kMaxRounds; ++round) {
      descend_on_support();
      const double worst = largest_excess();
      if (worst <= std::max(kGapWorth * widest, negligible)) {
        const LassoEnd end = duality_gap();
        idle = end.value < best ? 0 : idle + 1;
        best = std::min(best, end.value);
        if (end.gap <= tol * energy || idle >= kMaxIdle || worst <= negligible) return end;
      }
      activate(kEntryShare * worst);
    }
    return duality_gap();
  }

 private:
  // The part of a correlation that asks for a code: either sign, or the positive one only.
  static double pull(double q) { return Positive ? q : std::abs(q); }

  // support = flatnonzero(h)
  void list_support() {
    n_ = 0;
    for (Index j = 0; j < K_; ++j)
      if (h_[j] != 0.0) support_[n_++] = j;
    factor_.clear();
    solved_ = 0;
  }

  // max(abs(q) - a / 2, 0): how far correlations leave their bounds.
  double largest_excess() const {
    const double* __restrict q = q_.data();
    const double* __restrict a = a_;
    double most[W] = {};
    Index j = 0;
    for (; j + W <= K_; j += W)
      for (int l = 0; l < W; ++l) {
        const double excess = pull(q[j + l]) - 0.5 * a[j + l];
        most[l] = excess > most[l] ? excess : most[l];
      }
    double all = 0.0;
    for (int l = 0; l < W; ++l) all = std::max(all, most[l]);
    for (; j < K_; ++j) all = std::max(all, pull(q[j]) - 0.5 * a[j]);
    return all;
  }

  // q = c - G @ h
  void correlate() {
    double* __restrict q = q_.data();
    std::copy(c_, c_ + K_, q);
    Index k = 0;
    for (; k + 4 <= n_; k += 4) {
      const Index* j = support_.data() + k;
      const double h[4] = {h_[j[0]], h_[j[1]], h_[j[2]], h_[j[3]]};
      subtract4(K_, h, gram_.row(j[0]), gram_.row(j[1]), gram_.row(j[2]), gram_.row(j[3]), q);
    }
    for (; k < n_; ++k) subtract(K_, h_[support_[k]], gram_.row(support_[k]), q);
  }

  // Minimise exactly over the support with its signs held, dropping atoms that reach zero.
  //
  // Along each direction the objective falls as long as no sign changes; the first atom to reach
  // zero leaves, and the next direction is taken on what is left.
  void descend_on_support() {
    while (n_ > 0) {
      extend_factor();
      const bool independent = factor_.size() == n_;
      double reach = independent ? step_to_minimiser() : flat_step();
      if (independent && cross()) {
        drop_zeros();
        continue;
      }
      Index leaver = until_zero(reach);
      if (reach == kInfinity) {  // where nothing reaches zero it is flat, and as flat the other way
        for (Index k = 0; k < n_; ++k) y_[k] = -y_[k];
        leaver = until_zero(reach);
      }
      if (reach == kInfinity || !advance(reach, leaver)) break;
      drop_zeros();
    }
    correlate();
  }

  // The factor of G[support][:, support], up to an atom that those before it span; and what it is
  // solved for, c - sign(h) a / 2, of which the first `solved` entries are kept.
  void extend_factor() {
    factor_.reserve(n_);
    while (factor_.size() < n_) {
      const Index k = factor_.size();
      const double* row = gram_.row(support_[k]);
      for (Index m = 0; m <= k; ++m) d_[m] = row[support_[m]];
      if (!factor_.append(d_.data(), kDependent * d_[k])) break;
    }
    for (Index k = solved_; k < factor_.size(); ++k) {
      const Index j = support_[k];
      b_[k] = c_[j] - std::copysign(0.5 * a_[j], h_[j]);
    }
    factor_.solve_lower(b_.data(), solved_);
    solved_ = factor_.size();
  }

  // y = solve(G_AA, c_A - sign(h_A) a_A / 2) - h_A, to be taken once.
  double step_to_minimiser() {
    std::copy(b_.begin(), b_.begin() + n_, y_.begin());
    factor_.solve_upper(y_.data());
    for (Index k = 0; k < n_; ++k) y_[k] -= h_[support_[k]];
    return 1.0;
  }

  // y in the null space of G_AA, along which the objective is linear, down to the first sign
  // change. Its slope has a part of the fit: between nearly dependent atoms that is of the size of
  // the penalty's, and decides which of them stays.
  double flat_step() {
    const Index end = factor_.size() + 1;
    factor_.null_vector(y_.data());
    std::fill(y_.begin() + end, y_.begin() + n_, 0.0);
    double slope = 0.0;
    for (Index k = 0; k < end; ++k) {
      const Index j = support_[k];
      const double* row = gram_.row(j);
      double q = c_[j];
      for (Index m = 0; m < n_; ++m) q -= row[support_[m]] * h_[support_[m]];
      slope += (std::copysign(a_[j], h_[j]) - 2.0 * q) * y_[k];
    }
    if (slope > 0.0)
      for (Index k = 0; k < end; ++k) y_[k] = -y_[k];
    return kInfinity;
  }

  // Shorten `reach` to where the first atom reaches zero along y; returns its place, or -1.
  Index until_zero(double& reach) const {
    Index leaver = -1;
    for (Index k = 0; k < n_; ++k) {
      const double old = h_[support_[k]], step = y_[k];
      // Signs are compared, as the product of two tiny numbers is zero.
      if (!((old > 0.0 && step < 0.0) || (old < 0.0 && step > 0.0))) continue;
      const double until = -old / step;
      if (until <= reach) reach = until, leaver = k;
    }
    return leaver;
  }

  // h_A += reach y; whether an atom is at zero then.
  bool advance(double reach, Index leaver) {
    bool has_zero = false;
    for (Index k = 0; k < n_; ++k) {
      double& h = h_[support_[k]];
      const double moved = h + reach * y_[k];
      // Two that reach zero together: rounding must not take the other to the far side.
      const bool stays = k != leaver && moved != 0.0 && (moved > 0.0) == (h > 0.0);
      h = stays ? moved : 0.0;
      has_zero |= !stays;
    }
    return has_zero;
  }

  // Take the whole step, every atom that would change sign stopping at zero, if two or more stop
  // and the objective falls. Where sources are far apart their atoms reach zero without regard to
  // each other; to stop at the first one would solve for all of them again each time.
  //
  // The change is d.T @ G_AA @ (d + 2 h) - 2 c.d + sum_j a_j (|h_j + d_j| - |h_j|).
  bool cross() {
    Index crossing = 0;
    for (Index k = 0; k < n_; ++k) {
      const double old = h_[support_[k]];
      const bool crosses = old * (old + y_[k]) <= 0.0;
      d_[k] = crosses ? -old : y_[k];
      crossing += crosses;
    }
    if (crossing < 2) return false;
    double change = 0.0;
    for (Index k = 0; k < n_; ++k) {
      const Index j = support_[k];
      change += a_[j] * (std::abs(h_[j] + d_[k]) - std::abs(h_[j])) - 2.0 * c_[j] * d_[k];
      q_[k] = d_[k] + 2.0 * h_[j];
    }
    if (change + factor_.product(d_.data(), q_.data()) >= 0.0) return false;
    for (Index k = 0; k < n_; ++k) {
      double& h = h_[support_[k]];
      h = d_[k] == y_[k] ? h + d_[k] : 0.0;
    }
    return true;
  }

  // Take every atom at zero off the support: ties bring several there at once. What was solved
  // with the factor could be kept too, but not next to a nearly dependent atom, whose solution is
  // so large that little is left of the others in its rounding.
  void drop_zeros() {
    Index kept = 0;
    for (Index k = 0; k < n_; ++k) {
      if (h_[support_[k]] != 0.0) {
        support_[kept++] = support_[k];
      } else if (kept < factor_.size()) {
        factor_.remove(kept);
        solved_ = std::min(solved_, kept);
      }
    }
    n_ = kept;
  }

  // Bring in atoms whose excess is at least `share`, each at its minimiser, the soft threshold of
  // q_j at a_j / 2 over G_jj. Only those: each one that enters explains its neighbours, and a
  // support of dependent atoms is what makes coding slow.
  void activate(double share) {
    for (Index j = 0; j < K_; ++j) {
      const double excess = pull(q_[j]) - 0.5 * a_[j];
      if (excess < share || h_[j] != 0.0) continue;
      const double* row = gram_.row(j);
      if (row[j] <= 0.0 || excess <= 0.0) continue;
      h_[j] = std::copysign(excess / row[j], q_[j]);
      subtract(K_, h_[j], row, q_.data());
      support_[n_++] = j;
    }
  }

  // The value and the duality gap. The dual is max u.x - ||u||^2 / 4 over |D_j.u| <= a_j, or over
  // D_j.u <= a_j where Positive; u = 2 theta r with the largest feasible theta <= 1.
  LassoEnd duality_gap() const {
    double rx = energy_, rr = energy_, l1 = 0.0, theta = 1.0;  // r.x = ||x||^2 - c.h
    for (Index k = 0; k < n_; ++k) {
      const Index j = support_[k];
      rx -= c_[j] * h_[j];
      rr -= (c_[j] + q_[j]) * h_[j];
      l1 += a_[j] * std::abs(h_[j]);
    }
    for (Index j = 0; j < K_; ++j) {
      const double slope = 2.0 * pull(q_[j]);
      if (slope * theta > a_[j]) theta = a_[j] / slope;
    }
    rr = std::max(rr, 0.0);
    const double primal = rr + l1, dual = 2.0 * theta * rx - theta * theta * rr;
    return {primal, std::max(primal - dual, 0.0)};
  }

  Index K_, n_ = 0, solved_ = 0;
  Gram& gram_;
  const double *c_ = nullptr, *a_ = nullptr;
  double* h_ = nullptr;
  double energy_ = 0.0;
  std::vector<double> q_, y_, d_, b_;  // correlations, a step, scratch, what the factor solves
  std::vector<Index> support_;
  Cholesky<W> factor_;
};

}  // namespace heatgraph
