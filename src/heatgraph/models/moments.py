"""All that a Gaussian model needs of its signals: a count, a mean and a scatter matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from heatgraph.arrays import Array, Ints


@dataclass(frozen=True, eq=False)
class Moments:
    """``count`` signals, their mean (N,), and ``sum (x - mean)(x - mean)^T`` (N, N).

    Moments of two sets of signals add up to those of both; chunks, streams and folds are sums.
    """

    count: float
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, X: Array) -> Moments:
        """Of complete signals (M, N)."""
        mean = X.mean(axis=0)
        centred = X - mean
        return cls(float(len(X)), mean, centred.T @ centred)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        apart = other.mean - self.mean
        between = self.count * other.count / count * np.outer(apart, apart)
        mean = self.mean + other.count / count * apart
        return Moments(count, mean, self.scatter + other.scatter + between)

    def decayed(self, factor: float) -> Moments:
        """As if there had been ``factor`` times as many signals."""
        return Moments(factor * self.count, self.mean, factor * self.scatter)

    def around(self, location: Array) -> Array:
        """The second moment ``mean (x - location)(x - location)^T``, (N, N)."""
        apart = self.mean - location
        return self.scatter / self.count + np.outer(apart, apart)


@dataclass(frozen=True, eq=False)
class Conditional:
    """Signals of which the same entries are missing, and what the others say of these.

    ``rows`` are numbers of signals, ``missing`` of nodes; ``mean`` (rows, missing) and
    ``covariance`` (missing, missing) are conditional.
    """

    rows: Ints
    missing: Ints
    mean: Array
    covariance: Array


def gap_patterns(X: Array) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Numbers of the signals of which the same nodes are missing, of these nodes, of the others."""
    patterns, which = np.unique(np.isnan(X), axis=0, return_inverse=True)
    for k, missing in enumerate(patterns):
        yield np.flatnonzero(which.ravel() == k), np.flatnonzero(missing), np.flatnonzero(~missing)


def condition(X: Array, location: Array, C: Array) -> Iterator[Conditional]:
    """The missing entries of signals (M, N) given the others, one pattern of them at a time."""
    for rows, m, o in gap_patterns(X):
        gain = np.linalg.solve(C[np.ix_(o, o)], C[np.ix_(o, m)])
        mean = location[m] + (X[np.ix_(rows, o)] - location[o]) @ gain
        left = C[np.ix_(m, m)] - C[np.ix_(m, o)] @ gain
        yield Conditional(rows, m, mean, 0.5 * (left + left.T))


def expected_moments(X: Array, location: Array, C: Array) -> Moments:
    """The moments of signals with missing entries, expected under ``N(location, C)``.

    The expectation step of EM.  The slope of the likelihood of what was observed is that of the
    likelihood of these moments.
    """
    filled, spread = X.copy(), np.zeros_like(C)
    for part in condition(X, location, C):
        filled[np.ix_(part.rows, part.missing)] = part.mean
        spread[np.ix_(part.missing, part.missing)] += part.rows.size * part.covariance
    known = Moments.of(filled)
    return Moments(known.count, known.mean, known.scatter + spread)


def log_likelihoods(X: Array, location: Array, C: Array) -> Array:
    """``log N(x_seen; location, C)`` of what was observed of each signal, (M,)."""
    size, log_det, form = _densities(X, location, C)
    return -0.5 * (size * np.log(2.0 * np.pi) + log_det + form)


def rescaled_log_likelihood(X: Array, location: Array, C: Array) -> float:
    """The largest mean of ``log N(x_seen; location, a C)`` over ``a > 0``.

    The best ``a`` is the mean of ``(x - u)^T C^-1 (x - u)`` per entry observed.
    """
    size, log_det, form = _densities(X, location, C)
    a = form.sum() / size.sum()
    constant = np.log(2.0 * np.pi) + np.log(a) + 1.0
    return -0.5 * float(constant * size.mean() + log_det.mean())


def _densities(X: Array, location: Array, C: Array) -> tuple[Array, Array, Array]:
    """Of what was observed of each signal: ``n``, ``log det C`` and ``(x - u)^T C^-1 (x - u)``."""
    size, log_det, form = np.empty((3, len(X)))
    for rows, _, o in gap_patterns(X):
        root = np.linalg.cholesky(C[np.ix_(o, o)])
        white = np.linalg.solve(root, (X[np.ix_(rows, o)] - location[o]).T)
        size[rows], log_det[rows] = o.size, 2.0 * np.log(np.diag(root)).sum()
        form[rows] = np.square(white).sum(axis=0)
    return size, log_det, form
