"""Masked prediction for signals that are smooth, or Gaussian, on a graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heatgraph.selection.masked_prediction import HiddenPart

__all__ = ["interpolation_errors", "predict_hidden", "smoothing_form"]

Array = NDArray[np.float64]

RIDGE = 1e-10  # of the largest entry: a part of the graph that is wholly hidden is predicted as 0


def smoothing_form(L: Array, a: float) -> Array:
    """The quadratic form ``I - (I + a L)^-1``.

    It is what is left of ``||x - y||^2 + a y^T L y`` when the best ``y`` is put in.  Its minimiser
    in the hidden entries of ``x`` is there the Tikhonov interpolation of the visible ones: the fit
    is perfect where ``x`` is free.
    """
    n = L.shape[0]
    return np.asarray(np.eye(n) - np.linalg.inv(np.eye(n) + a * L))


def predict_hidden(Q: Array, part: HiddenPart) -> Array:
    """The hidden entries that minimise ``x^T Q x`` given the visible ones; (N, M), 0 elsewhere.

    ``x_h = -Q_hh^-1 (Q x_v)_h``: a system of the size of what is hidden, a signal.  With the
    precision matrix of a Gaussian this is its conditional mean.  Every signal has to hide the same
    number of entries, as complete signals do.
    """
    N, M = part.hidden.shape
    rows = np.nonzero(part.hidden.T)[1].reshape(M, -1)
    pull = np.take_along_axis((Q @ part.visible.X).T, rows, axis=1)
    blocks = Q[rows[:, :, None], rows[:, None, :]]
    blocks += RIDGE * (np.abs(Q).max() or 1.0) * np.eye(rows.shape[1])
    predicted = np.zeros((M, N))
    np.put_along_axis(predicted, rows, np.linalg.solve(blocks, -pull[:, :, None])[:, :, 0], axis=1)
    return predicted.T


def interpolation_errors(Q: Array, part: HiddenPart) -> tuple[Array, Array]:
    """Squared error and energy of each signal's hidden entries, (M,) each."""
    error = part.truth - predict_hidden(Q, part)
    return np.einsum("nm,nm->m", error, error), np.einsum("nm,nm->m", part.truth, part.truth)


def sparsest_within_error(errors: Array) -> int:
    """The first row of ``errors`` (P, M) no worse than the best by more than a standard error.

    Rows are choices, the sparsest graph first; columns the signals, over which the differences are
    paired.  Prediction forgives edges too many, so the very best choice has more than it needs.
    """
    excess = errors - errors[errors.sum(axis=1).argmin()]
    spread = excess.std(axis=1) * np.sqrt(errors.shape[1])
    return int(np.flatnonzero(excess.sum(axis=1) <= spread)[0])
