"""What a fit of LearnHeat is asked to do, checked and resolved against the signals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.utils import check_random_state

from heatgraph.arrays import Array
from heatgraph.distributed.signals import DaskSignals
from heatgraph.errors import ParameterError
from heatgraph.estimators.fitted_graph import check_n_edges
from heatgraph.estimators.validation import (
    Names,
    check_choice,
    check_number,
    check_number_or,
    check_scales,
    columns_of,
    resolve_candidates,
)
from heatgraph.graph import CandidateEdges, Graph
from heatgraph.kernels.spectral import HeatKernel, Kernel, kernel_of
from heatgraph.models.heat import ATOMS, PENALTIES, AtomWeights, HeatObjective, Signals, units_of
from heatgraph.selection.choose_parameters import ALPHAS, BETAS, Grid
from heatgraph.solvers.palm import PaperOptions
from heatgraph.solvers.signal_model import SignalModel

SOLVERS = ("auto", "dense", "sparse", "paper")
MAX_ITER = {"dense": 2000, "paper": 1000}
MANY_NODES = 2000  # from which on the graph is learned without an array of all pairs
INITS = ("uniform", "random")
PENALTY_OF = {"unit": "log", "raw": "l1"}
FIRST_SCALES = (1.0, 3.0)  # the span that the scales start in where none are given
MOST_SCALES = 3  # that n_scales="auto" tries


@dataclass(frozen=True, eq=False)
class HeatParameters:
    """One fit: the problem in units where X has size 1, the start, the choices, the limits.

    ``alphas``, ``betas`` and ``starts`` are what is to be chosen from; a single one is given.
    ``model`` is what is assumed of the signals.  ``gaps`` are the signals before their gaps
    were filled, where they were.
    """

    candidates: CandidateEdges
    atoms: AtomWeights
    signals: Signals | DaskSignals
    w: Array
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    starts: tuple[Array, ...]
    learn_scales: bool
    penalty: str
    solver: str
    n_edges: int | None
    max_iter: int
    tol: float
    n_jobs: int
    rng: np.random.Generator
    model: SignalModel
    cv: Any = None
    groups: Any = None
    paper: PaperOptions | None = None
    unit: float = 1.0  # of the signals, which are divided by it
    kernel: Kernel | None = None
    gaps: Signals | None = None

    @property
    def unit_atoms(self) -> bool:
        return self.atoms is ATOMS["unit"]

    @property
    def grid(self) -> Grid | None:
        """What masked prediction has to choose from, or None where all is given.

        Scales that are learned start where they usually do: the choice should not depend on a
        second start that the caller gives.
        """
        if len(self.alphas) * len(self.betas) * len(self.starts) == 1:
            return None
        starts = self.starts
        if self.learn_scales:
            starts = tuple(first_scales(tau.size) for tau in starts)
        stretch = self.learn_scales and self.unit_atoms and self.n_edges is None
        return Grid(self.alphas, self.betas, starts, stretch)

    def objective(self, alpha: float, beta: float) -> HeatObjective:
        penalty = PENALTIES[self.penalty]
        return HeatObjective(self.candidates, alpha, beta, self.atoms, self.kernel, penalty)


def resolve(
    estimator: Any,
    X: Array | DaskSignals,
    unit: float,
    names: Names,
    groups: Any = None,
) -> HeatParameters:
    """Check every parameter of the estimator against ``X`` (n_signals, n_nodes), of unit size.

    The one place where signals turn from rows, as users pass them, to columns, as the
    mathematics writes them.
    """
    paper = estimator.solver if isinstance(estimator.solver, PaperOptions) else None
    solver = "paper" if paper or estimator.solver == "paper" else "dense"
    signals, rows = _signals_and_rows(estimator, X)
    candidates = resolve_candidates(estimator.candidates, rows, names)
    atoms, penalty = _penalty(estimator)
    if solver == "paper":
        _check_plain(estimator, 'solver="dense", got solver="paper"; pass solver="dense"')
        _check_paper(atoms, penalty, rows)
    max_iter, tol = MAX_ITER[solver], check_number("tol", estimator.tol)
    if estimator.max_iter is not None:
        max_iter = int(check_number("max_iter", estimator.max_iter, minimum=1, integer=True))
    alpha_unit, beta_unit = units_of(signals)
    rng = _generator(estimator.random_state)
    return HeatParameters(
        candidates=candidates,
        atoms=ATOMS[atoms],
        signals=signals,
        w=_start(estimator, candidates, names, rng),
        alphas=_choices("alpha", estimator.alpha, (unit,), ALPHAS, alpha_unit),
        betas=_choices("beta", estimator.beta, (unit, unit), BETAS, beta_unit),
        starts=_scales(estimator),
        learn_scales=bool(estimator.learn_scales),
        penalty=penalty,
        solver=solver,
        n_edges=check_n_edges(edge_count(estimator.n_edges, candidates.n_nodes), candidates),
        max_iter=max_iter,
        # Relative; but the paper's is absolute, in the squared units of the signals.
        tol=tol / unit / unit if solver == "paper" else tol,
        n_jobs=n_threads(estimator.n_jobs),
        rng=rng,
        model=SignalModel(bool(estimator.positive), bool(estimator.fit_intercept)),
        cv=estimator.cv,
        groups=None if groups is None else np.asarray(groups),
        paper=paper,
        unit=unit,
        kernel=other_kernel(estimator.kernel),
    )


def is_large(estimator: Any, X: Array | DaskSignals) -> bool:
    """Whether the graph is to be learned without an array of all pairs."""
    if isinstance(estimator.solver, PaperOptions):
        return False
    solver = check_choice("solver", estimator.solver, SOLVERS)
    if solver != "auto":
        return solver == "sparse"
    return not isinstance(X, DaskSignals) and X.shape[1] >= MANY_NODES


@dataclass(frozen=True, eq=False)
class LargeParameters:
    """One fit to a large graph: signals ``X`` (M, N) of size 1, what is given, the limits.

    ``alpha`` and ``tau`` are None where they are to be chosen; ``others`` are scales to try.
    """

    X: Array
    alpha: float | None
    tau: Array | None
    others: tuple[Array, ...]
    n_scales: int
    unit_atoms: bool
    penalty: str
    positive: bool
    tol: float
    n_threads: int
    kernel: Kernel
    rng: np.random.Generator


LARGE_PENALTIES = ("l1", "log")  # that the lasso of large graphs knows
# What only the dense solver has, and the value that asks for none of it.
DENSE_ONLY: dict[str, Any] = {
    "fit_intercept": False,
    "beta": "auto",
    "init": "uniform",
    "n_bootstrap": 0,
    "cv": None,
    "groups": None,
}


def resolve_large(estimator: Any, X: Any, unit: float, groups: Any) -> LargeParameters:
    """Check every parameter of the estimator that a fit to a large graph takes."""
    if isinstance(X, DaskSignals):
        raise ValueError(
            'solver="sparse" needs the signals in memory; use solver="dense" for a Dask collection.'
        )
    _check_not_silent(estimator, X)
    for name, without in DENSE_ONLY.items():
        value = groups if name == "groups" else getattr(estimator, name)
        if not (isinstance(value, type(without)) and value == without):
            raise ValueError(
                f'{name}={value!r} needs solver="dense", which takes up to some thousand nodes; '
                f"pass that, or {name}={without!r}."
            )
    starts = _scales(estimator)
    if len(starts) > 1:
        raise ValueError(
            'n_scales="auto" compares dozens of fits, which solver="sparse" does not; pass a '
            "number, such as n_scales=2."
        )
    given, learned = estimator.scales is not None, bool(estimator.learn_scales)
    tau = np.unique(starts[0])
    alphas = _choices("alpha", estimator.alpha, (unit,), ALPHAS, 1.0)
    atoms, penalty = _penalty(estimator)
    check_choice("penalty", penalty, LARGE_PENALTIES)
    return LargeParameters(
        X=X,
        alpha=alphas[0] if len(alphas) == 1 else None,
        tau=None if learned else tau,
        others=(tau,) if learned and given else (),
        n_scales=tau.size,
        unit_atoms=atoms == "unit",
        penalty=penalty,
        positive=bool(estimator.positive),
        tol=check_number("tol", estimator.tol, strict=True),
        n_threads=n_threads(estimator.n_jobs),
        kernel=kernel_of(estimator.kernel),
        rng=_generator(estimator.random_state),
    )


def _penalty(estimator: Any) -> tuple[str, str]:
    atoms = check_choice("atoms", estimator.atoms, tuple(ATOMS))
    penalty = check_choice("penalty", estimator.penalty, ("auto", *PENALTIES))
    return atoms, PENALTY_OF[atoms] if penalty == "auto" else penalty


def _signals_and_rows(
    estimator: Any, X: Array | DaskSignals
) -> tuple[Signals | DaskSignals, Array]:
    """The signals, and a matrix whose columns are as far apart as those of the signals."""
    if isinstance(X, DaskSignals):
        return X, _rows_on_cluster(estimator, X)
    if estimator.fit_intercept and len(X) == 1:
        raise ValueError(
            "fit_intercept=True takes a single signal (1 sample) for the level; pass two signals "
            "or more, or fit_intercept=False."
        )
    _check_not_silent(estimator, X)
    return Signals.from_missing(np.ascontiguousarray(X.T)), X


def _rows_on_cluster(estimator: Any, signals: DaskSignals) -> Array:
    """Of signals on a cluster, which only the dense solver takes, and only a plain model of."""
    if not signals.total_energy > 0.0:
        raise _no_signal(f"every observed entry is {_level(estimator)}")
    if estimator.solver not in ("auto", "dense"):
        raise ValueError(
            f'solver="{estimator.solver}" needs the signals in memory; use solver="dense" for a '
            "Dask collection."
        )
    _check_plain(estimator, "the signals in memory, got a Dask collection; pass X.compute()")
    if estimator.n_bootstrap:
        raise ParameterError(
            "n_bootstrap", "needs the signals in memory, got a Dask collection; pass a sample of it"
        )
    if not isinstance(estimator.candidates, (int, np.integer)):
        return np.empty((0, signals.n_nodes))
    lam, U = np.linalg.eigh(signals.gram)
    return np.sqrt(np.maximum(lam, 0.0))[:, None] * U.T


def _check_not_silent(estimator: Any, X: Array) -> None:
    if np.isnan(X).all():
        raise _no_signal("no entry was observed")
    if not np.nanmax(np.abs(X), initial=0.0) > 0.0:
        raise _no_signal(f"every observed entry is {_level(estimator)}")


def _level(estimator: Any) -> str:
    return "the mean of its node" if estimator.fit_intercept else "zero"


def _no_signal(seen: str) -> ParameterError:
    return ParameterError(
        "X", f"holds no signal: {seen}. A graph can only be learned from signals that vary."
    )


def other_kernel(kernel: Any) -> Kernel | None:
    """A kernel that is not heat's, checked; None for heat, which has an engine of its own."""
    found = kernel_of(kernel)
    return None if isinstance(found, HeatKernel) else found


# What the paper's own solver and signals on a cluster do not have, and the value that asks for none
# of it.
MODEL_OPTIONS = {"fit_intercept": False, "positive": False, "kernel": "heat"}


def _check_plain(estimator: Any, needed: str) -> None:
    """Refuse these options, and say what they need."""
    for name, without in MODEL_OPTIONS.items():
        value = getattr(estimator, name)
        if other_kernel(value) is not None if name == "kernel" else value:
            raise ValueError(f"{name}={value!r} needs {needed}, or {name}={without!r}.")


def _check_paper(atoms: str, penalty: str, X: Array) -> None:
    if atoms != "raw" or penalty != "l1":
        raise ParameterError(
            "atoms", 'must be "raw", and penalty "l1", where solver is "paper": it has no other.'
        )
    if np.isnan(X).any():
        raise ValueError(
            'solver="paper" takes no missing entries; use solver="dense", or fill them.'
        )


def _generator(random_state: Any) -> np.random.Generator:
    """A generator from a seed, a generator, a RandomState or None, which stands for seed 0.

    The fit draws folds and hidden entries; without a seed it should still repeat.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, (int, np.integer)):
        seed = 0 if random_state is None else int(random_state)
        if seed < 0:
            raise ParameterError("random_state", f"must be an integer >= 0, got {seed}.")
        return np.random.default_rng(seed)
    try:
        return np.random.default_rng(check_random_state(random_state).randint(2**31))
    except ValueError:
        raise ParameterError(
            "random_state", f"must be an integer >= 0, a Generator or None, got {random_state!r}."
        ) from None


def edge_count(n_edges: Any, n_nodes: int) -> int | None:
    """A number of edges, or a multiple of the number of nodes written as "4N"."""
    if not isinstance(n_edges, str):
        return cast("int | None", n_edges)
    written = re.fullmatch(r"(\d+(?:\.\d+)?)\s*N", n_edges.strip())
    if written is None:
        raise ParameterError(
            "n_edges",
            f'must be a number of edges, or a multiple of the nodes as "4N", got {n_edges!r}.',
        )
    return max(1, round(float(written[1]) * n_nodes))


def _scales(estimator: Any) -> tuple[Array, ...]:
    """The scales to start from; several vectors where their number is to be chosen."""
    if isinstance(estimator.n_scales, str):
        if estimator.n_scales != "auto" or estimator.scales is not None:
            raise ParameterError(
                "n_scales",
                'must be an integer >= 1, or "auto" where no scales are given, got '
                f"{estimator.n_scales!r}.",
            )
        _check_learned(estimator)
        return tuple(first_scales(S) for S in range(1, MOST_SCALES + 1))
    S = int(check_number("n_scales", estimator.n_scales, minimum=1, integer=True))
    if estimator.scales is None:
        _check_learned(estimator)
        return (first_scales(S),)
    tau = check_scales(estimator.scales)
    if tau.size != S:
        raise ParameterError(
            "scales", f"has {tau.size} values but n_scales is {S}; pass n_scales={tau.size}."
        )
    return (tau,)


def first_scales(n: int) -> Array:
    """Where ``n`` scales start: small enough that heat is still local, and apart."""
    low, high = FIRST_SCALES
    return np.geomspace(low, high, n) if n > 1 else np.array([np.sqrt(low * high)])


def _check_learned(estimator: Any) -> None:
    if not estimator.learn_scales:
        raise ParameterError(
            "scales", "must be given to be held (learn_scales=False), e.g. (2, 4)."
        )


def _choices(
    name: str, value: Any, units: tuple[float, ...], grid: tuple[float, ...], grid_unit: float
) -> tuple[float, ...]:
    """One penalty in units where the signals have size 1, or the grid to choose it from."""
    given = check_number_or(name, value, ("auto",))
    if isinstance(given, str):
        return tuple(g * grid_unit for g in grid)
    for unit in units:  # one by one: the square of a unit may be out of range
        given /= unit
    if not np.isfinite(given):
        raise ParameterError(name, f'= {value!r} is too large for signals so small; try "auto".')
    return (given,)


def _start(
    estimator: Any,
    candidates: CandidateEdges,
    names: Names,
    rng: np.random.Generator,
) -> Array:
    """Weights to start from, on the simplex of the candidates."""
    total = 0.5 * candidates.n_nodes
    if isinstance(estimator.init, Graph):
        return _from_graph(estimator.init, candidates, names, total)
    if check_choice("init", estimator.init, INITS) == "uniform":
        return np.full(candidates.n_edges, total / candidates.n_edges)
    return _on_simplex(rng.uniform(size=candidates.n_edges), total)


def _from_graph(graph: Graph, candidates: CandidateEdges, names: Names, total: float) -> Array:
    node = np.argsort(columns_of("init", graph, candidates.n_nodes, names))  # of each column
    W = graph.adjacency()
    w: Array = np.asarray(W[node[candidates.i], node[candidates.j]], dtype=np.float64).ravel()
    if w.sum() <= 0.0:
        raise ParameterError("init", ": no edge of the graph is among the candidates.")
    return _on_simplex(w, total)


def _on_simplex(w: Array, total: float) -> Array:
    return w * (total / w.sum())


def n_threads(n_jobs: int | None) -> int:
    """``n_jobs`` as scikit-learn reads it: None is one, -1 is every core."""
    from joblib import effective_n_jobs

    if n_jobs == 0 or (n_jobs is not None and not isinstance(n_jobs, (int, np.integer))):
        raise ParameterError(
            "n_jobs", f"must be None, a number of threads or -1 for all, got {n_jobs!r}."
        )
    return int(effective_n_jobs(n_jobs))
