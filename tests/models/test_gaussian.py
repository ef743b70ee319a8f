"""The likelihood of heat from Gaussian sources: value, gradient, information, symmetries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from heatgraph.graph import CandidateEdges
from heatgraph.kernels.spectral import KERNELS
from heatgraph.models import gaussian
from heatgraph.models.gaussian import GaussianHeat, HeatSpectrum, LogPenalty, mean_variance

N = 6
PAIRS = CandidateEdges.complete(N)
E = PAIRS.n_edges


def weights(kind, rng):
    match kind:
        case "random":
            return rng.uniform(0.1, 1.0, E)
        case "equal":  # all eigenvalues but one are tied
            return np.full(E, 0.4)
        case "in pieces":  # several zero eigenvalues
            return np.where((PAIRS.i < 3) == (PAIRS.j < 3), 0.7, 0.0)
        case "heavy":  # tau lam of a thousand
            w = rng.uniform(0.1, 0.2, E)
            w[::5] = 500.0
            return w


def others(S, rng, noise=0.05):
    """``log v``, ``log r`` and ``log sigma2``."""
    ratios = np.log(np.linspace(0.2, 0.6, S - 1))
    return np.concatenate([rng.normal(0.0, 0.3, S), ratios, [np.log(noise)]])


def moment(rng, M=9):
    X = rng.normal(size=(M, N)) @ rng.normal(size=(N, N))
    return X.T @ X / M


def dense_covariance(x, S):
    """``C`` from its definition, with scipy's matrix exponential."""
    L = PAIRS.laplacian(x[:E])
    v, tau = np.exp(x[E : E + S]), np.append(np.exp(x[E + S : -1]), 1.0)
    heat = sum(a * expm(-2.0 * t * L) for a, t in zip(v, tau, strict=True))
    return heat + np.exp(x[-1]) * np.eye(N)


def slope(function, x, step=1e-5):
    """Differences of second order, from one side: weights are not negative."""
    here = function(x)
    columns = [
        (4.0 * function(x + h) - function(x + 2.0 * h) - 3.0 * here) / (2.0 * step)
        for h in step * np.eye(x.size)
    ]
    return np.stack(columns, axis=-1)


def penalty_of(rng):
    return LogPenalty(2.0, rng.uniform(0.05, 0.3, E), 50.0)


@pytest.fixture(params=[1, 2, 3], ids=lambda S: f"S={S}")
def S(request):
    return request.param


class TestValue:
    def test_is_the_likelihood_of_scipy(self, rng, S):
        X = rng.normal(size=(20, N))
        x = np.concatenate([weights("random", rng), others(S, rng)])
        point = GaussianHeat(PAIRS, X.T @ X / 20, S).at(x)
        scipy = multivariate_normal(np.zeros(N), dense_covariance(x, S)).logpdf(X).mean()
        expected = -2.0 * scipy - N * np.log(2.0 * np.pi)
        assert point.value == pytest.approx(expected, rel=1e-12)
        assert point.misfit(X.T @ X / 20) == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(point.covariance, dense_covariance(x, S), atol=1e-12)
        np.testing.assert_allclose(point.precision @ point.covariance, np.eye(N), atol=1e-10)

    def test_rescaled_is_the_least_over_the_scale(self, rng, S):
        x = np.concatenate([weights("random", rng), others(S, rng)])
        point, other = GaussianHeat(PAIRS, moment(rng), S).at(x), moment(rng)

        def misfit(log_a):
            a = np.exp(log_a)
            return (
                np.linalg.slogdet(a * point.covariance)[1] + np.trace(point.precision @ other) / a
            )

        least = minimize_scalar(misfit, bounds=(-9.0, 9.0), options={"xatol": 1e-8})
        assert point.rescaled_misfit(other) == pytest.approx(least.fun, rel=1e-9)
        assert point.rescaled_misfit(7.0 * other) - point.rescaled_misfit(other) == pytest.approx(
            N * np.log(7.0)
        )

    def test_of_the_penalty(self, rng):
        w, plain = weights("random", rng), GaussianHeat(PAIRS, moment(rng))
        penalty = penalty_of(rng)
        x = np.concatenate([w, others(1, rng)])
        added = replace(plain, penalty=penalty).at(x).value - plain.at(x).value
        c, se = penalty.c, penalty.se
        assert added == pytest.approx(2.0 * c**2 / 50.0 * np.log(1.0 + w / (c * se)).sum())
        # A weight of zero is worth c standard deviations of the score: sqrt(I_ee) = 1 / se.
        np.testing.assert_allclose(50.0 / 2.0 * penalty.slope(np.zeros(E)), c / se)

    def test_spectrum(self):
        spectrum = HeatSpectrum(np.array([2.0, 3.0]), np.array([0.5, 1.0]), 0.1)
        np.testing.assert_allclose(spectrum.values(np.zeros(1)), [5.1])
        f = spectrum.values(np.array([2.0]))
        np.testing.assert_allclose(f, 2.0 * np.exp(-2.0) + 3.0 * np.exp(-4.0) + 0.1)


class TestGradient:
    @pytest.mark.parametrize("penalised", [False, True])
    @pytest.mark.parametrize("kind", ["random", "equal", "in pieces"])
    def test_by_finite_differences(self, rng, S, kind, penalised):
        problem = GaussianHeat(PAIRS, moment(rng), S, penalty_of(rng) if penalised else None)
        x = np.concatenate([weights(kind, rng), others(S, rng)])
        expected = slope(lambda y: problem.at(y).value, x)
        found = problem.at(x).gradient
        np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())

    def test_where_heat_has_vanished(self, rng, S):
        """Long double would be needed to difference the value along the heavy edges only."""
        problem = GaussianHeat(PAIRS, moment(rng), S)
        x = np.concatenate([weights("heavy", rng), others(S, rng)])
        assert problem.at(x).lam[-1] > 1000.0
        expected = slope(lambda y: problem.at(y).value, x, 1e-4)
        found = problem.at(x).gradient
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())

    def test_vanishes_on_average_at_the_truth(self, rng, S):
        x = np.concatenate([weights("random", rng), others(S, rng)])
        C = dense_covariance(x, S)
        np.testing.assert_allclose(GaussianHeat(PAIRS, C, S).at(x).gradient, 0.0, atol=1e-11)


class TestInformation:
    def matrix(self, point):
        return np.stack([point.information(d) for d in np.eye(point.x.size)])

    @pytest.mark.parametrize("kind", ["random", "equal", "in pieces"])
    def test_is_the_mean_hessian(self, rng, S, kind):
        """At ``S = C`` the Hessian of ``phi`` is the information."""
        x = np.concatenate([weights(kind, rng), others(S, rng)])
        problem = GaussianHeat(PAIRS, dense_covariance(x, S), S)
        F = self.matrix(problem.at(x))
        expected = slope(lambda y: problem.at(y).gradient, x)
        np.testing.assert_allclose(F, expected, atol=1e-6 * np.abs(F).max())

    @pytest.mark.parametrize("kind", ["random", "equal", "in pieces", "heavy"])
    def test_symmetric_and_positive_with_its_diagonal(self, rng, S, kind):
        x = np.concatenate([weights(kind, rng), others(S, rng)])
        point = GaussianHeat(PAIRS, moment(rng), S).at(x)
        F = self.matrix(point)
        size = np.abs(F).max()
        np.testing.assert_allclose(F, F.T, atol=1e-12 * size)
        assert np.linalg.eigvalsh(F).min() > -1e-10 * size
        np.testing.assert_allclose(np.diag(F), point.diagonal, atol=1e-12 * size)

    @pytest.mark.parametrize("kind", ["random", "equal", "in pieces", "heavy"])
    @pytest.mark.parametrize("few", [0, 200])
    def test_between_some_is_a_part_of_it(self, rng, S, kind, few, monkeypatch):
        """Formed as a matrix or by products alone, of weights and of all else."""
        monkeypatch.setattr(gaussian, "FEW_PARAMETERS", few)
        x = np.concatenate([weights(kind, rng), others(S, rng)])
        point = GaussianHeat(PAIRS, moment(rng), S).at(x)
        F = self.matrix(point)
        for some in ([0, 3, 4, E, x.size - 1], [1, 2], [E], np.arange(x.size)):
            part = F[np.ix_(some, some)]
            found = point.information_between(np.array(some)) @ np.eye(len(some))[0]
            np.testing.assert_allclose(found, part[0], atol=1e-8 * np.abs(F).max())

    @pytest.mark.parametrize("heaviest", [1.0, 1e3])
    def test_few_columns_span_its_kernel(self, rng, heaviest):
        """Also where eigenvalues are far apart, so that the kernel is not smooth."""
        n = 3 * gaussian.COLUMNS
        w = rng.exponential(size=n * (n - 1) // 2) * 2.0 / n
        w[::97] *= heaviest
        problem = GaussianHeat(CandidateEdges.complete(n), np.eye(n))
        point = problem.at(np.concatenate([w, [0.0, -4.0]]))
        s, Q = point.curvature_terms
        assert len(s) < gaussian.COLUMNS
        np.testing.assert_allclose((Q.T * s) @ Q, point.kernel, atol=1e-8 * point.kernel.max())

    def test_does_not_know_the_signals(self, rng):
        x = np.concatenate([weights("random", rng), others(1, rng)])
        d = rng.normal(size=x.size)
        one, other = (GaussianHeat(PAIRS, moment(rng)).at(x).information(d) for _ in range(2))
        np.testing.assert_allclose(one, other, rtol=1e-12)


class TestSymmetries:
    def test_permuting_the_nodes(self, rng, S):
        order = rng.permutation(N)
        x = np.concatenate([weights("random", rng), others(S, rng)])
        second = moment(rng)
        point = GaussianHeat(PAIRS, second, S).at(x)
        L = PAIRS.laplacian(x[:E])[np.ix_(order, order)]
        permuted = np.concatenate([PAIRS.weights(L), x[E:]])
        other = GaussianHeat(PAIRS, second[np.ix_(order, order)], S).at(permuted)
        assert other.value == pytest.approx(point.value, rel=1e-12)
        np.testing.assert_allclose(other.gradient[E:], point.gradient[E:], atol=1e-10)
        np.testing.assert_allclose(
            np.sort(other.gradient[:E]), np.sort(point.gradient[:E]), atol=1e-10
        )

    def test_scaling_the_signals(self, rng, S):
        """Variances and noise scale along; nothing else moves."""
        x = np.concatenate([weights("random", rng), others(S, rng)])
        second, a = moment(rng), 1e6
        point = GaussianHeat(PAIRS, second, S).at(x)
        scaled = x.copy()
        scaled[E : E + S] += np.log(a)
        scaled[-1] += np.log(a)
        problem = GaussianHeat(PAIRS, a * second, S)
        other = problem.at(scaled)
        assert other.value - N * np.log(a) == pytest.approx(point.value, rel=1e-10)
        np.testing.assert_allclose(other.gradient, point.gradient, atol=1e-9)
        np.testing.assert_allclose(other.diagonal, point.diagonal, rtol=1e-9)
        assert problem.bounds[0][-1] == pytest.approx(np.log(1e-10 * mean_variance(a * second)))

    def test_candidates_only_shorten_the_weights(self, rng):
        keep = np.sort(rng.permutation(E)[:7])
        some = CandidateEdges(N, PAIRS.i[keep], PAIRS.j[keep])
        second, w = moment(rng), np.zeros(E)
        w[keep] = rng.uniform(0.1, 1.0, 7)
        x = np.concatenate([w, others(1, rng)])
        free = np.concatenate([keep, np.arange(E, x.size)])
        point = GaussianHeat(PAIRS, second).at(x)
        other = GaussianHeat(some, second).at(x[free])
        assert other.value == pytest.approx(point.value, rel=1e-12)
        np.testing.assert_allclose(other.gradient, point.gradient[free], atol=1e-11)
        np.testing.assert_allclose(other.diagonal, point.diagonal[free], rtol=1e-10)


class TestOtherKernels:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_edges_are_no_heavier_than_what_changes_the_kernel(self, rng, kernel):
        """Where a kernel is flat, a weight would grow for ever and change nothing."""
        g = KERNELS[kernel]
        heaviest = float(GaussianHeat(PAIRS, moment(rng), kernel=g).bounds[1][0])
        values = g.value(heaviest * np.linspace(0.2, 1.0, 9), 1.0)
        assert np.ptp(values) > 1e-12 if heaviest > 50.0 else np.ptp(values) < 1e-4

    @pytest.mark.parametrize("kernel", ["tikhonov", "matern"])
    @pytest.mark.parametrize("kind", ["random", "equal", "in pieces"])
    def test_gradient_is_that_of_finite_differences(self, rng, S, kernel, kind):
        x = np.concatenate([weights(kind, rng), others(S, rng)])
        problem = GaussianHeat(PAIRS, moment(rng), S, penalty_of(rng), KERNELS[kernel])
        expected = slope(lambda y: problem.at(y).value, x)
        assert problem.at(x).gradient == pytest.approx(expected, rel=1e-4, abs=1e-4)

    @pytest.mark.parametrize("kernel", ["tikhonov", "matern"])
    def test_covariance_and_information_are_those_of_the_definition(self, rng, S, kernel):
        x = np.concatenate([weights("random", rng), others(S, rng)])
        point = GaussianHeat(PAIRS, moment(rng), S, None, KERNELS[kernel]).at(x)
        nu = int(2 * KERNELS[kernel].nu)
        L = PAIRS.laplacian(x[:E])
        v, tau = np.exp(x[E : E + S]), np.append(np.exp(x[E + S : -1]), 1.0)
        inverses = [np.linalg.inv(np.eye(N) + t * L) for t in tau]
        C = sum(a * np.linalg.matrix_power(G, nu) for a, G in zip(v, inverses, strict=True))
        C = C + np.exp(x[-1]) * np.eye(N)
        assert point.covariance == pytest.approx(C)
        P, columns = np.linalg.inv(C), []
        for k in range(x.size):
            h = np.zeros(x.size)
            h[k] = 1e-6
            dC = (point.problem.at(x + h).covariance - point.covariance) / 1e-6
            columns.append(P @ dC)
        expected = [[np.trace(a @ b) for b in columns] for a in columns]
        found = [point.information(e) for e in np.eye(x.size)]
        assert np.array(found) == pytest.approx(np.array(expected), rel=1e-3, abs=1e-4)
        assert point.diagonal == pytest.approx(np.diag(expected), rel=1e-3, abs=1e-4)
