// The quadratic model of a projected quasi-Newton step:
//
//     minimise  g.(y - x) + (y - x).B (y - x) / 2
//     over      y[:n] >= 0, sum(y[:n]) = total, y[n:] >= 0,
//     B = sigma diag(metric) - V.T @ middle @ V,   V (r, size), the compact form of BFGS.

#pragma once

#include <algorithm>
#include <vector>

#include "vectors.hpp"

namespace heatgraph {

constexpr int kMaxPasses = 100;  // rounding can make a coordinate at the threshold come and go

struct QuadraticModel {
  Index size, n, r;
  double total, sigma;
  const double *g, *metric, *V, *middle;
};

struct Mass {
  double value = 0.0, slope = 0.0, count = 0.0;
};

template <int W>
class ModelMinimiser {
 public:
  explicit ModelMinimiser(const QuadraticModel& model)
      : model_(model), inverse_(model.size), slope_(model.g, model.g + model.size),
        d_(model.size), trial_(model.size), seen_(model.r), bent_(model.r) {
    for (Index k = 0; k < model.size; ++k) inverse_[k] = 1.0 / model.metric[k];
  }

  // Projected gradient steps from y and in place, each of Barzilai-Borwein length and exact along
  // its segment; until a step promises to fall by less than tol^2 times what the first one did.
  // Gradients and projections are in the metric. Rounding leaves sum(y[:n]) near total.
  void run(double* y, int max_steps, double tol) {
    double length = 1.0 / model_.sigma, first = 0.0;
    move(y, 0.0, length);
    for (int step = 0; step < max_steps; ++step) {
      const double theta = threshold(y);
      look(y, theta);
      const double fall = -dot<W>(model_.size, slope_.data(), d_.data());
      if (step == 0) first = fall;
      if (fall <= tol * tol * first) break;
      const double moved = square_in_metric();
      const double curvature = model_.sigma * moved - bend();
      const double share = curvature > fall ? fall / curvature : 1.0;
      if (curvature > 0.0) length = moved / curvature;
      move(y, share, length);
      if (curvature <= 0.0) break;  // convex but for rounding, which would lead ever further
    }
  }

 private:
  // d = maximum(trial - theta / metric, 0) - y, with theta = 0 from n on
  void look(const double* __restrict y, double theta) {
    const double* __restrict trial = trial_.data();
    const double* __restrict inverse = inverse_.data();
    double* __restrict d = d_.data();
    for (Index k = 0; k < model_.size; ++k) {
      const double to = trial[k] - (k < model_.n ? theta * inverse[k] : 0.0);
      d[k] = (to > 0.0 ? to : 0.0) - y[k];
    }
  }

  // (metric * d) @ d
  double square_in_metric() const {
    const double* __restrict d = d_.data();
    double sum[W] = {};
    Index k = 0;
    for (; k + W <= model_.size; k += W)
      for (int l = 0; l < W; ++l) sum[l] += model_.metric[k + l] * d[k + l] * d[k + l];
    double total = 0.0;
    for (int l = 0; l < W; ++l) total += sum[l];
    for (; k < model_.size; ++k) total += model_.metric[k] * d[k] * d[k];
    return total;
  }

  // seen = V @ d,  bent = middle @ seen;  returns seen @ bent
  double bend() {
    for (Index p = 0; p < model_.r; ++p)
      seen_[p] = dot<W>(model_.size, model_.V + p * model_.size, d_.data());
    for (Index p = 0; p < model_.r; ++p)
      bent_[p] = dot<W>(model_.r, model_.middle + p * model_.r, seen_.data());
    return dot<W>(model_.r, seen_.data(), bent_.data());
  }

  // y += share d,  slope += share B @ d,  trial = y - length slope / metric
  void move(double* __restrict y, double share, double length) {
    const Index size = model_.size;
    const double* __restrict metric = model_.metric;
    const double* __restrict inverse = inverse_.data();
    const double* __restrict d = d_.data();
    double* __restrict slope = slope_.data();
    double* __restrict trial = trial_.data();
    if (share > 0.0) {
      const double factor = share * model_.sigma;
      for (Index k = 0; k < size; ++k) y[k] += share * d[k];
      for (Index k = 0; k < size; ++k) slope[k] += factor * metric[k] * d[k];
      Index p = 0;
      for (; p + 4 <= model_.r; p += 4) {
        const double f[4] = {share * bent_[p], share * bent_[p + 1], share * bent_[p + 2],
                             share * bent_[p + 3]};
        const double* V = model_.V + p * size;
        subtract4(size, f, V, V + size, V + 2 * size, V + 3 * size, slope);
      }
      for (; p < model_.r; ++p) subtract(size, share * bent_[p], model_.V + p * size, slope);
    }
    for (Index k = 0; k < size; ++k) trial[k] = y[k] - length * inverse[k] * slope[k];
  }

  // theta with sum(maximum(trial - theta / metric, 0)[:n]) = total.
  //
  // Any set of coordinates gives a theta that is not too large; so Newton's steps from that of the
  // support of y only ever rise, and few are needed.
  double threshold(const double* y) const {
    const Mass start = mass_where(y, 0.0);
    double theta = (start.value - model_.total) / start.slope, last = -1.0;
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      const Mass mass = mass_where(trial_.data(), theta);
      if (mass.count == 0.0 || mass.count == last) break;
      theta += (mass.value - model_.total) / mass.slope;
      last = mass.count;
    }
    return theta;
  }

  // inside = near[:n] - theta / metric[:n] > 0: sum((trial - theta / metric)[inside]),
  // sum(1 / metric[inside]) and sum(inside)
  Mass mass_where(const double* near, double theta) const {
    const double* __restrict trial = trial_.data();
    const double* __restrict inverse = inverse_.data();
    double value[W] = {}, slope[W] = {}, count[W] = {};
    Index k = 0;
    // Zero or one times a number, not a choice between two: only that is done several at once.
    for (; k + W <= model_.n; k += W)
      for (int l = 0; l < W; ++l) {
        const double c = inverse[k + l];
        const double inside = near[k + l] - theta * c > 0.0 ? 1.0 : 0.0;
        value[l] += inside * (trial[k + l] - theta * c);
        slope[l] += inside * c;
        count[l] += inside;
      }
    Mass mass;
    for (int l = 0; l < W; ++l)
      mass.value += value[l], mass.slope += slope[l], mass.count += count[l];
    for (; k < model_.n; ++k)
      if (near[k] - theta * inverse[k] > 0.0) {
        mass.value += trial[k] - theta * inverse[k];
        mass.slope += inverse[k];
        mass.count += 1.0;
      }
    return mass;
  }

  const QuadraticModel& model_;
  std::vector<double> inverse_, slope_, d_, trial_, seen_, bent_;
};

}  // namespace heatgraph
