"""Which signals are held out: at random, or in blocks where they follow each other in time.

Neighbours in time are alike.  If one of two is held out and the other is learned from, a model
that knows nothing predicts the first by the second.  So where consecutive rows are correlated,
contiguous blocks are held out, and the rows next to a block are left out altogether.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.fft import irfft, next_fast_len, rfft
from sklearn.model_selection import GroupKFold

from heatgraph.arrays import Array, Ints, Mask

N_FOLDS = 3  # where the caller names no number
LEVEL = 0.01  # of the test that consecutive rows are not correlated
CONFIDENCE = 0.95  # that correlated errors are below their bounds
FORGOTTEN = 0.1  # autocorrelation below which two rows count as independent
SMALL_SHARE = 0.25  # of the lags so far: autocorrelations below that for as many stay there
FEWEST_SMALL = 2  # and for more lags than this
FIRST_LAGS = 3  # one of whose autocorrelations is large, of either sign, where rows are correlated
WIDEST_GAP = 0.1  # of the rows: the gap on either side of a block is no wider
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)  # of the largest value of a column
FEWEST_ROWS = 12  # with fewer, the autocorrelation is not estimated


@dataclass(frozen=True, eq=False)
class Split:
    """The signals to learn from, and those held out, by their numbers in ascending order."""

    train: Ints
    test: Ints


@dataclass(frozen=True, eq=False)
class Folds:
    """How the signals are held out in turn; ``ordered`` if neighbours are correlated.

    The errors of correlated signals are no independent draws, so that only the means over
    ``splits`` say how certain a score is.
    """

    splits: Sequence[Split]
    ordered: bool = False

    def is_below(self, excess: Sequence[Array]) -> bool:
        """Whether errors minus their bounds, one array per fold, are negative beyond chance.

        By two standard errors of the sum over the signals (a choice among several is better than
        nothing by one without merit); where signals are correlated, by a t-test over the folds.
        """
        if not self.ordered:
            each = np.concatenate(excess)
            return bool(each.sum() + 2.0 * each.std() * np.sqrt(each.size) < 0.0)
        means = np.array([part.mean() for part in excess])
        error = means.std(ddof=1) / np.sqrt(means.size)
        return bool(means.mean() + stats.t.ppf(CONFIDENCE, means.size - 1) * error < 0.0)


def autocorrelation(X: Array, lag: int = 1) -> float:
    """The correlation of rows ``lag`` apart of ``X`` (M, N), in the mean over the columns.

    Around the mean of each column; pairs of which one is NaN are left out, columns that do not
    vary too.
    """
    centred = _around_means(X)
    pairs = centred[:-lag] * centred[lag:]
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = _means(np.square(centred))
        rho = _means(pairs) / variance
    there = np.isfinite(rho)
    return float(rho[there].mean()) if there.any() else 0.0


def _means(X: Array) -> Array:
    """The mean of each column without its NaN; 0 where there is nothing else."""
    seen = np.isfinite(X)
    return np.where(seen, X, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)


def _around_means(X: Array) -> Array:
    """``X`` around the mean of each column; what rounding leaves of a constant one is zero."""
    around = X - _means(X)
    around[:, still_columns(X)] = 0.0
    return around


def still_columns(X: Array) -> Mask:
    """Which columns (N,) of ``X`` hold one value alone, beside rounding and NaN.

    By their smallest and largest, as the mean of many equal values may be far from them.
    """
    least, most = 0.5 * np.fmin.reduce(X, axis=0), 0.5 * np.fmax.reduce(X, axis=0)
    return np.asarray(most - least <= ROUNDING * np.maximum(np.abs(least), np.abs(most)))


def is_ordered(X: Array) -> bool:
    """Whether consecutive rows are correlated by more than chance.

    One column of independent rows has a lag-one autocorrelation of standard deviation
    ``1 / sqrt(M)``; the columns may be copies of each other, so that their mean counts as one.
    """
    M = len(X)
    if M < FEWEST_ROWS:
        return False
    return bool(autocorrelation(X) > stats.norm.ppf(1.0 - LEVEL) / np.sqrt(M))


def independent_share(X: Array) -> float:
    """How many independent rows count as much as one of ``X`` (M, N), at most 1.

    Where rows are correlated, a second moment of ``M`` of them is as uncertain as one of
    ``M / (1 + 2 sum_k (1 - k / M) rho_k^2)`` independent rows, with ``rho_k`` the autocorrelation
    (Bartlett's formula, one ``rho_k`` for all nodes).  The sum ends once ``rho_k`` has stayed small
    for a quarter of all lags, and for more than ``FEWEST_SMALL``: where rows oscillate, it crosses
    zero in every half of a period.  With a short period the first may be zero or negative.
    """
    M = len(X)
    if M < FEWEST_ROWS:
        return 1.0
    each, total, small = _autocorrelations(X)[1:], 1.0, 0
    bound = stats.norm.ppf(1.0 - 0.5 * LEVEL / FIRST_LAGS) / np.sqrt(M)
    if not is_ordered(X) and np.abs(each[:FIRST_LAGS]).max() <= bound:
        return 1.0
    for lag, rho in enumerate(each.tolist(), 1):
        small = small + 1 if abs(rho) < FORGOTTEN else 0
        if small > max(FEWEST_SMALL, SMALL_SHARE * lag):
            break
        total += 2.0 * (1.0 - lag / M) * rho * rho
    return 1.0 / total


def _autocorrelations(X: Array) -> Array:
    """:func:`autocorrelation` at every lag, (M,), by Fourier transforms."""
    M, rho, n = len(X), [], next_fast_len(2 * len(X), real=True)

    def sums(z: Array) -> Array:
        products: Array = irfft(np.square(np.abs(rfft(z, n))), n)[:M]
        return products

    for column in _around_means(X).T:
        seen = np.isfinite(column)
        z = np.where(seen, column, 0.0)
        # By a power of two, so that squares are in range and no bit changes.
        z = np.ldexp(z, -int(np.frexp(np.abs(z).max())[1]))
        energy = float(z @ z)
        if energy > 0.0:
            rho.append(sums(z) / np.maximum(np.rint(sums(seen.astype(np.float64))), 1.0))
            rho[-1] *= seen.sum() / energy
    return np.mean(rho, axis=0) if rho else np.zeros(M)


def make_folds(
    X: Array,
    cv: Any = None,
    groups: Any = None,
    *,
    rng: np.random.Generator | None = None,
) -> Folds:
    """Hold out the rows of ``X`` (M, N) in turn.

    ``cv`` is the number of folds, or anything of scikit-learn's with ``split(X, y, groups)``.
    Signals of one of ``groups`` (M,) are held out together.  Without a generator to draw folds
    from, they are contiguous in any case.

    Examples
    --------
    >>> walk = np.cumsum(np.random.default_rng(0).standard_normal((40, 3)), axis=0)
    >>> folds = make_folds(walk, 4, rng=np.random.default_rng(0))
    >>> folds.ordered, folds.splits[1].test.tolist()
    (True, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    >>> folds.splits[1].train.tolist()[:8], folds.splits[1].train.tolist()[8:10]
    ([0, 1, 2, 3, 4, 5, 24, 25], [26, 27])
    """
    M = len(X)
    if M < 2:
        raise ValueError(
            "X has a single signal (1 sample), which leaves none to predict; pass numbers for "
            "alpha, beta and n_scales."
        )
    follows = is_ordered(X)
    if hasattr(cv, "get_n_splits"):
        return Folds([Split(*pair) for pair in _sorted(cv.split(X, None, groups))], follows)
    n = N_FOLDS if cv is None else cv
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 2:
        raise ValueError(f"cv must be an integer >= 2 or a splitter of scikit-learn, got {cv!r}.")
    n_folds = min(int(n), M)
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (M,):
            raise ValueError(f"groups must have one label per signal, ({M},), got {labels.shape}.")
        n_folds = min(n_folds, np.unique(labels).size)
        if n_folds < 2:
            raise ValueError("groups: all signals are of one group, which leaves none to hold out.")
        pairs = GroupKFold(n_folds).split(X, None, labels)
        return Folds([Split(*pair) for pair in _sorted(pairs)], follows)
    if follows or rng is None:
        return Folds(_blocks(M, n_folds, _gap(X) if follows else 0), follows)
    tests = [np.sort(test) for test in np.array_split(rng.permutation(M), n_folds)]
    return Folds([Split(np.setdiff1d(np.arange(M), test), test) for test in tests])


def _sorted(pairs: Any) -> list[tuple[Ints, Ints]]:
    found = [(np.sort(np.asarray(a, np.intp)), np.sort(np.asarray(b, np.intp))) for a, b in pairs]
    if len(found) < 2:
        raise ValueError("cv must give at least two folds.")
    return found


def _gap(X: Array) -> int:
    """How many rows it takes for the autocorrelation to be forgotten."""
    widest = max(1, int(WIDEST_GAP * len(X)))
    for lag in range(1, widest + 1):
        if autocorrelation(X, lag) < FORGOTTEN:
            return lag
    return widest


def _blocks(M: int, n_folds: int, gap: int) -> list[Split]:
    rows = np.arange(M)
    splits = []
    for test in np.array_split(rows, n_folds):
        far = (rows < test[0] - gap) | (rows > test[-1] + gap)
        train = rows[far]
        # So few rows that the gap takes all: the block alone is left out.
        splits.append(Split(train if train.size else np.setdiff1d(rows, test), test))
    return splits
