"""The paper's own algorithm, to the letter: the reference the fast solver is tested against."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heatgraph.arrays import Array
from heatgraph.graph.candidates import CandidateEdges
from heatgraph.solvers.driver import iterate
from heatgraph.solvers.result import Monitor, Progress, Solution, Status
from heatgraph.solvers.simplex_qp import LaplacianQP

CUT = 1e-4  # the weight above which the paper counts an edge
# Of the natural unit of the curvature in L: within a small factor of what the backtracking settles
# on; and a floor, so that the constant does not vanish where no step is taken any more.
FIRST_GUESS, LEAST_GUESS = 1e-2, 1e-6
ROUNDING = 10.0 * float(np.finfo(float).eps)  # of the energy of X: how well the fit is known
INVALID = 1e-9  # a weight of the start may be below 0 by this


@dataclass(frozen=True, eq=False)
class PaperOptions:
    """What the paper leaves open in its two algorithms; ``LearnHeat(solver=PaperOptions(...))``.

    Parameters
    ----------
    gamma : tuple of 3 floats
        The factors on the Lipschitz constants of the steps on H, L and tau.  The paper says only
        that each exceeds 1; 1.1 follows its ``eta``.
    eta : float
        Base of the growth of ``C_2`` in the backtracking on L (Algorithm 2); the paper's is 1.1.
    first_sources : array (n_signals, n_scales, n_nodes), optional
        Sources at the start, in the units of the signals.  The paper does not say; zeros by
        default.

    Examples
    --------
    >>> PaperOptions(eta=1.5).gamma
    (1.1, 1.1, 1.1)
    """

    gamma: tuple[float, float, float] = (1.1, 1.1, 1.1)
    eta: float = 1.1
    first_sources: Array | None = None

    def __post_init__(self) -> None:
        factors: tuple[float, ...] = self.gamma
        if len(factors) != 3 or not min(factors) > 1.0:
            raise ValueError(f"gamma must be three numbers > 1, got {self.gamma}")
        if not self.eta > 1.0:
            raise ValueError(f"eta must be > 1, got {self.eta}")

    def H0(self, shape: tuple[int, int, int], unit: float = 1.0) -> Array:
        """The sources at the start.

        Parameters
        ----------
        shape : tuple of int
            (n_scales, n_nodes, n_signals).
        unit : float
            What the signals were divided by.

        Returns
        -------
        ndarray (n_scales, n_nodes, n_signals)
            ``first_sources`` in the solver's order of axes, or zeros.
        """
        if self.first_sources is None:
            return np.zeros(shape)
        given = np.asarray(self.first_sources, dtype=np.float64)
        S, N, M = shape
        if given.shape != (M, S, N) or not np.isfinite(given).all():
            raise ValueError(
                f"first_sources must be finite and {(M, S, N)} in shape, one block per signal, got "
                f"shape {given.shape}"
            )
        return np.ascontiguousarray(given.transpose(1, 2, 0)) / unit


@dataclass(frozen=True)
class Point:
    """An iterate with what is derived from ``L`` and ``tau``.

    ``L`` (N, N), ``H`` (S, N, M), ``tau`` (S,), the spectral decomposition ``lam`` (N,), ``chi``
    (N, N) of ``L``, the dictionary ``D`` (N, S N).
    """

    L: Array
    H: Array
    tau: Array
    lam: Array
    chi: Array
    D: Array

    @classmethod
    def at(cls, L: Array, H: Array, tau: Array) -> Point:
        lam, chi = np.linalg.eigh(L)
        return cls(L, H, tau, lam, chi, _dictionary(lam, chi, tau))

    @property
    def stacked_H(self) -> Array:
        """The paper's ``H``, (S N, M): the blocks one above the other."""
        return self.H.reshape(-1, self.H.shape[2])

    def with_tau(self, tau: Array) -> Point:
        return replace(self, tau=tau, D=_dictionary(self.lam, self.chi, tau))


@dataclass(frozen=True, eq=False)
class _State:
    """An iterate, the guess of ``C_2`` for the next one, and the objective so far."""

    point: Point
    C_2: float
    history: tuple[float, ...]


def solve_paper(
    X: Array,
    candidates: CandidateEdges,
    L0: Array,
    tau0: Array,
    *,
    alpha: float,
    beta: float,
    learn_scales: bool,
    max_iter: int = 1000,
    tol: float = 1e-4,
    options: PaperOptions | None = None,
    unit: float = 1.0,
    monitor: Monitor | None = None,
) -> Solution:
    r"""Learn the graph by the paper's LearnHeat (its Algorithms 1 and 2).

    .. math::
        \min_{L, H, \tau} \|X - \sum_s e^{-\tau_s L} H_s\|_F^2 + \alpha \|H\|_1 + \beta \|L\|_F^2
        \quad \text{s.t.} \quad \mathrm{tr} L = N,\ L_{ij} \le 0\ (i \ne j),\ L 1 = 0,\ \tau \ge 0

    Proximal alternating linearised minimisation: one proximal gradient step on ``H``, one on
    ``L`` (a quadratic program, solved by SCS), one on ``tau``.  Kept close to the letter and not
    to speed.  The atoms are raw, as in the paper, so ``tau`` is not identified: with
    ``learn_scales`` the smallest scale drifts towards 0 and the dictionary towards the identity,
    held back only by the large constant of the step on ``tau``.

    Parameters
    ----------
    X : array (N, M)
        Signals, one a column.
    candidates : CandidateEdges
        The edges that may carry weight.
    L0 : array (N, N)
        A valid Laplacian of trace N on the candidates, the start.
    tau0 : array (S,)
        Scales at the start, or for good when ``learn_scales`` is False.
    alpha, beta : float
        Weights of ``||H||_1`` and ``||L||_F^2``.
    learn_scales : bool
        Whether to take the step on ``tau``.
    max_iter : int
        Iteration limit; the paper's is 1000.
    tol : float
        The paper's rule: stop once the objective changes by less than ``tol``, in absolute
        value, over an iteration.  It is no stationarity residual: small steps stop it early.
        With 0 it runs exactly ``max_iter`` iterations.
    options : PaperOptions, optional
        What the paper leaves open: gamma, eta and the first sources.
    unit : float
        What the signals were divided by, and the first sources of the options are to be.
    monitor : Monitor, optional
        Called after every iteration.

    Returns
    -------
    Solution
        With status CONVERGED by the paper's rule, and no residual (NaN).

    Examples
    --------
    >>> import numpy as np
    >>> from heatgraph.graph.candidates import CandidateEdges
    >>> from heatgraph.solvers.palm import solve_paper
    >>> edges = CandidateEdges.complete(3)
    >>> fit = solve_paper(
    ...     np.eye(3), edges, edges.laplacian(np.full(3, 0.5)), np.array([1.0]),
    ...     alpha=0.1, beta=0.1, learn_scales=False, max_iter=5, tol=0.0,
    ... )
    >>> fit.n_iter, str(fit.status), bool(np.isclose(fit.w.sum(), 1.5))
    (5, 'max_iter', True)
    """
    options = PaperOptions() if options is None else options
    gamma, eta = options.gamma, options.eta
    _check(X, candidates, L0, tau0)
    H = options.H0((tau0.size, *X.shape), unit)
    qp = LaplacianQP(candidates)
    point = Point.at(L0, H, tau0.copy())
    # Differs from the paper: Algorithm 2 names no initial guess of C_2.  The first is a share of
    # the natural unit of the curvature; then the last one accepted over eta, so that the constant
    # can fall as well as rise.
    curvature = float(np.sum(X**2) * tau0.max() ** 2) or 1.0

    def step(state: _State) -> _State:
        p = step_H(X, state.point, alpha, gamma[0])
        p, C_2 = step_L(X, p, qp, beta, state.C_2, gamma[1], eta)
        if learn_scales:
            p = step_tau(X, p, gamma[2])
        history = (*state.history, objective(X, p, alpha, beta))
        return _State(p, max(C_2 / eta, LEAST_GUESS * curvature), history)

    def terminate(state: _State) -> Status | None:
        history = state.history
        if len(history) > 1 and abs(history[-1] - history[-2]) < tol:
            return Status.CONVERGED
        return Status.MAX_ITER if len(history) > max_iter else None

    def report(state: _State) -> None:
        n_iter = len(state.history) - 1
        if monitor is not None and n_iter > 0:
            n_edges = int(np.sum(candidates.weights(state.point.L) > CUT))
            monitor(Progress(n_iter, max_iter, state.history[-1], n_edges, float("nan")))

    # Each step descends, so the last complete iterate is the best so far.
    start = _State(point, FIRST_GUESS * curvature, (objective(X, point, alpha, beta),))
    end, status = iterate(start, step, terminate, report)
    point, h = end.point, np.ascontiguousarray(end.point.H.transpose(2, 0, 1))
    return Solution(
        w=candidates.weights(point.L),
        tau=point.tau,
        codes=h.reshape(len(h), -1),
        objective=np.array(end.history),
        status=status,
        n_iter=len(end.history) - 1,
    )


def step_H(X: Array, p: Point, alpha: float, gamma: float) -> Point:
    """Soft threshold of a gradient step, with ``c_t = gamma C_1`` (Algorithm 1, lines 5-6)."""
    c = gamma * lipschitz_H(p)
    z = p.H - gradient_H(X, p) / c
    return replace(p, H=np.sign(z) * np.maximum(np.abs(z) - alpha / c, 0.0))


def step_L(
    X: Array, p: Point, qp: LaplacianQP, beta: float, C_2: float, gamma: float, eta: float
) -> tuple[Point, float]:
    """The quadratic program with ``d_t = gamma C_2``, and Algorithm 2 to find ``C_2``.

    Returns the point and the accepted constant.  ``C_2`` on entry is the initial guess.
    """
    Z, G = fit(X, p), gradient_L(X, p)
    # Differs from the paper: the inequality has a slack.  Z is a sum of squares of entries of the
    # size of X, and is known no better than this.
    rounding = ROUNDING * float(np.sum(X**2))
    k = 1
    while True:
        d = gamma * C_2
        new = Point.at(qp.solve(p.L, G, d, beta), p.H, p.tau)
        step = new.L - p.L
        length = float(np.sum(step**2))
        linear = float(np.sum(G * step))
        # The descent lemma: Z(L+) <= Z(L) + <grad, L+ - L> + C_2/2 ||L+ - L||^2.
        if fit(X, new) <= Z + linear + 0.5 * C_2 * length + rounding:
            break
        # To the letter: the exponent grows, so the k-th trial has eta^(k(k+1)/2).
        C_2 *= eta**k
        k += 1
    # Differs from the paper: a step that does not lower the program is not taken.  L_t is feasible,
    # so the minimiser has a value no higher; where SCS's tolerance exceeds the length of the step
    # that can fail, and L_t is the better answer.
    spread = beta * (float(np.sum(new.L**2)) - float(np.sum(p.L**2)))
    if linear + 0.5 * d * length + spread > 0.0:
        return p, C_2
    return new, C_2


def step_tau(X: Array, p: Point, gamma: float) -> Point:
    """A projected gradient step with ``e_t = gamma C_3`` (Algorithm 1, lines 10-12)."""
    e = gamma * lipschitz_tau(X, p)
    if e == 0.0:  # H = 0: no signal depends on tau
        return p
    return p.with_tau(np.maximum(-(gradient_tau(X, p) - e * p.tau) / e, 0.0))


def fit(X: Array, p: Point) -> float:
    """``Z = ||X - D H||_F^2``."""
    R = residual(X, p)
    return float(np.vdot(R, R))


def residual(X: Array, p: Point) -> Array:
    """``X - D H``, (N, M)."""
    return np.asarray(X - p.D @ p.stacked_H)


def objective(X: Array, p: Point, alpha: float, beta: float) -> float:
    """``Z + alpha ||H||_1 + beta ||L||_F^2``.

    Differs from the paper: its ``f(H)`` lacks alpha, which its own threshold alpha / c_t has;
    its indicator of the feasible set is 1 on the set, which must be 0 (every iterate is in it).
    """
    return fit(X, p) + alpha * float(np.sum(np.abs(p.H))) + beta * float(np.sum(p.L**2))


def gradient_H(X: Array, p: Point) -> Array:
    """``-2 D^T (X - D H)``, (S, N, M)."""
    return (p.D.T @ (-2.0 * residual(X, p))).reshape(p.H.shape)


def lipschitz_H(p: Point) -> float:
    """``C_1 = ||2 D^T D||_F``.

    The same as ``||2 D D^T||_F``, and ``D D^T = sum_s exp(-2 tau_s L)``.
    """
    squares = np.exp(-2.0 * np.outer(p.tau, p.lam)).sum(axis=0)
    return 2.0 * float(np.sqrt(squares @ squares))


def gradient_L(X: Array, p: Point) -> Array:
    """The gradient of ``Z`` in a symmetric ``L``, (N, N).

    The paper has S + S^2 traces, ``-2 sum_s grad tr(H_s X^T exp(-tau_s L)) + sum_{s,r} grad
    tr(H_r H_s^T exp(-(tau_s + tau_r) L))``.  By the product rule they add up to S,
    ``-2 sum_s grad tr(H_s R^T exp(-tau_s L))`` with the residual ``R = X - D H`` held, each by
    Proposition 1.
    """
    R_hat = p.chi.T @ residual(X, p)
    G = np.zeros_like(p.L)
    for H_s, tau_s in zip(p.chi.T @ p.H, p.tau, strict=True):
        G += (2.0 * tau_s) * (R_hat @ H_s.T) * divided_difference(-tau_s * p.lam)
    # Differs from the paper: Proposition 1 is the gradient over all matrices, not symmetric when
    # A is not; over symmetric L the gradient is its symmetric part (the same inner products).
    return p.chi @ (0.5 * (G + G.T)) @ p.chi.T


def divided_difference(x: Array) -> Array:
    """``B_ij = (exp x_i - exp x_j) / (x_i - x_j)``, and ``exp x_i`` where they are equal.

    Proposition 1: ``grad tr(A exp(nu L)) = nu chi ((chi^T A^T chi) o B) chi^T`` with ``x = nu
    lam``.  Differs from the paper: the last lines of its proof write ``exp(-Lambda)`` for
    ``exp(Lambda)``; the statement is right.
    Written ``exp(max) (1 - exp(-d)) / d`` with ``d = |x_i - x_j|``: the printed quotient loses
    every digit when two eigenvalues are close but not equal.
    """
    d = np.abs(x[:, None] - x[None, :])
    apart = d > 0.0
    quotient = np.divide(-np.expm1(-d), d, out=np.ones_like(d), where=apart)
    return np.exp(np.maximum(x[:, None], x[None, :])) * quotient


def gradient_tau(X: Array, p: Point) -> Array:
    """``2 tr(H_s X^T L E_s) - 2 sum_s' tr(H_s' H_s^T L E_s E_s')`` with ``E = exp(-tau L)``, (S,).

    The traces are taken in the eigenbasis of L.
    """
    decay = np.exp(-np.outer(p.tau, p.lam))
    H_hat = p.chi.T @ p.H
    with_X = np.einsum("sim,im->si", H_hat, p.chi.T @ X)
    gram = np.einsum("sim,rim->sri", H_hat, H_hat)
    first = np.einsum("si,si,i->s", with_X, decay, p.lam)
    second = np.einsum("sri,si,ri,i->s", gram, decay, decay, p.lam)
    return 2.0 * np.asarray(first - second)


def lipschitz_tau(X: Array, p: Point) -> float:
    """``C_3 = max_s' ||L||_2^2 (2 ||H_s'||_F ||X||_F + 4 sum_s ||H_s'||_F ||H_s||_F)``.

    The row sums of a bound on the Hessian.  ``||L||_2`` is the largest eigenvalue, which is at
    hand; the paper names Lanczos or the power method for large graphs.  The last formula of the
    paper is right, though its derivation is not.  Differs from the paper: the diagonal of the
    Hessian has
    ``4 tr(H_s H_s^T L^2 exp(-2 tau_s L))``, printed with ``exp(-tau_s L)``; the bounds on its
    entries have ``||L||_2^2``, printed ``||L^2||_2^2``, and a factor 2 off the diagonal, left
    out; and the Hessian need not be positive semidefinite, which the row sums do not need.
    """
    norms = np.sqrt(np.sum(p.H**2, axis=(1, 2)))
    rows = 2.0 * norms * np.linalg.norm(X) + 4.0 * norms * norms.sum()
    return float(np.max(np.abs(p.lam)) ** 2 * rows.max())


def _dictionary(lam: Array, chi: Array, tau: Array) -> Array:
    """``D = [exp(-tau_1 L) ... exp(-tau_S L)]``, (N, S N), through the spectrum of L."""
    return np.hstack([(chi * np.exp(-tau_s * lam)) @ chi.T for tau_s in tau])


def _check(
    X: Array,
    candidates: CandidateEdges,
    L0: Array,
    tau0: Array,
) -> None:
    """Refuse a start from which the descent would not hold."""
    n = candidates.n_nodes
    w = candidates.weights(L0) if L0.shape == (n, n) else np.array([-1.0])
    checks = [
        ("X", X.ndim == 2 and X.shape[0] == n, f"({n}, n_signals) in shape, got {X.shape}"),
        (
            "L0",
            w.min() >= -INVALID
            and np.isclose(np.trace(L0), n)
            and np.allclose(L0, candidates.laplacian(w)),
            f"a Laplacian of {n} nodes with trace {n} and weights on the candidates only",
        ),
        ("tau0", tau0.ndim == 1 and tau0.size > 0 and tau0.min() >= 0.0, "(S,) and >= 0"),
    ]
    for name, valid, remedy in checks:
        if not valid:
            raise ValueError(f"{name} must be {remedy}")
