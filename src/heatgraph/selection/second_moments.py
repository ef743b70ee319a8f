"""How likely held-out signals are, judged by the covariance that a graph and scales imply.

Sources that are independent, of variance ``v r_s`` at scale ``s``, and noise of variance ``sigma2``
make signals whose covariance has the eigenvectors of the Laplacian and the eigenvalues::

    f(lam) = v sum_s r_s g(tau_s, lam)^2 + sigma2,    g(tau, lam) = exp(-tau lam) for heat,

whatever the distribution of the sources, few of which may differ from zero.  So the Gaussian
likelihood with this covariance is largest, in expectation, at the true graph and scales.  The
prediction of hidden entries from sparse sources is not: it favours scales that are too long, since
the most likely sources are rougher than sources are in the mean.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from heatgraph.arrays import Array
from heatgraph.models.heat import Dictionary, Signals

MOST_UPDATES = 100
STEADY = 1e-9  # relative change of every variance in an update: more change the likelihood no more
LEAST = 1e-6  # of the mean variance: what v and sigma2 are at least


def surprise(D: Dictionary, signals: Signals, shares: Array) -> Array:
    """Minus twice the log-likelihood of each signal, up to a constant, (M,).

    ``shares`` (S,) are the ``r_s`` above, of sum 1; ``v`` and ``sigma2`` are those that make these
    signals most likely.  Entries that were not observed have no part in it.
    """
    U = D.kernel.U
    A = np.vstack([shares @ np.square(D.decay), np.ones(len(U))])
    f = fit_variances(A, _power(U, signals)) @ A
    if signals.observed is None:
        complete: Array = np.log(f).sum() + (np.square(U.T @ signals.X) / f[:, None]).sum(axis=0)
        return complete
    C = (U * f) @ U.T
    found = np.zeros(signals.X.shape[1])
    for m, seen in enumerate(signals.observed.T):
        factor = np.linalg.cholesky(C[np.ix_(seen, seen)])
        z = solve_triangular(factor, signals.X[seen, m], lower=True)
        found[m] = 2.0 * np.log(np.diagonal(factor)).sum() + z @ z
    return found


def fit_variances(A: Array, q: Array) -> Array:
    """Minimise ``sum_i log f_i + q_i / f_i``, ``f = v A``, over ``v >= 0`` (K,), ``A`` (K, N).

    By multiplicative updates (those of Itakura and Saito's distance): every ``v_k`` is multiplied
    with the ratio of the two parts of its derivative.
    """
    mean = float(q.mean())
    if not mean > 0.0:
        return np.ones(len(A))
    v = np.full(len(A), mean)
    for _ in range(MOST_UPDATES):
        f, before = v @ A, v
        v = np.maximum(v * (A @ (q / np.square(f))) / (A @ (1.0 / f)), LEAST * mean)
        if (np.abs(v - before) <= STEADY * before).all():
            break
    return v


def _power(U: Array, signals: Signals) -> Array:
    """The mean square of the signals along each eigenvector, (N,).

    With missing entries, of the second moment of every two nodes where both were observed.
    """
    if signals.observed is None:
        power: Array = np.square(U.T @ signals.X).mean(axis=1)
        return power
    seen = signals.observed.astype(np.float64)
    S = signals.X @ signals.X.T / np.maximum(seen @ seen.T, 1.0)
    floor = LEAST * float(np.trace(S)) / len(U)
    between: Array = np.einsum("in,ij,jn->n", U, S, U)
    return np.maximum(between, floor)
