"""How the fitted attributes of each estimator are stored, and what a stored model must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from heatgraph.baselines import (
    DiffusionPolytope,
    GeneralizedLaplacian,
    GraphicalLassoGraph,
    HeatFilter,
    LakeTenenbaum,
    SmoothGraph,
    SpectralTemplates,
)
from heatgraph.estimators import HeatCovariance, LearnHeat
from heatgraph.estimators.large_covariance import set_operators
from heatgraph.kernels.spectral import Power, kernel_of
from heatgraph.models.atoms import ATOMS
from heatgraph.models.penalties import PENALTIES

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True)
class Kind:
    """How the fitted attributes of an estimator are stored.

    ``arrays`` gives each one letter per dimension: the same letter is the same size throughout,
    ``N`` the number of nodes.  ``graphs`` are on these nodes; ``numbers`` are of the type given;
    ``tables`` are data frames of numbers, or None.  ``added`` are arrays (N,) that older files do
    not have, each with the array that takes its place there, or the number.  ``compared`` if
    :func:`heatgraph.learn` may have compared the model with another.
    """

    estimator: type[Any]
    graphs: tuple[str, ...]
    arrays: Mapping[str, str]
    numbers: Mapping[str, type]
    check: Callable[[Any], None]
    compared: bool = False
    tables: tuple[str, ...] = ()
    added: Mapping[str, str | float] = field(default_factory=dict)


def _check_learn_heat(model: Any) -> None:
    if model.atoms not in ATOMS:
        raise ValueError(f"its atoms are {model.atoms!r}, not one of {', '.join(ATOMS)}")
    if model.penalty not in ("auto", *PENALTIES):
        raise ValueError(f"its penalty is {model.penalty!r}, not one of {', '.join(PENALTIES)}")
    penalties = model.alpha_, model.beta_, model.predicting_alpha_
    if (model.scales_ < 0).any() or not all(penalty >= 0 for penalty in penalties):
        raise ValueError("its scales or penalties are negative")
    if not isinstance(model.n_jobs, int | None):
        raise ValueError(f"its n_jobs is {model.n_jobs!r}, not a number")
    if not isinstance(model.positive, bool) or not isinstance(model.fit_intercept, bool):
        raise ValueError("its parameters positive and fit_intercept are not both true or false")
    _check_laplacian(model)


def _check_smooth_graph(model: Any) -> None:
    if not isinstance(model.alpha, int | float) or not model.alpha > 0:
        raise ValueError(f"its alpha is {model.alpha!r}, not a number > 0")
    _check_laplacian(model)


def _check_laplacian(model: Any) -> None:
    L = model.laplacian_
    if sp.issparse(L):  # made from the weights as the file was read
        return
    if not np.allclose(L, model.weights_.laplacian().toarray(), atol=1e-9 * np.abs(L).max()):
        raise ValueError("its Laplacian is not that of its weights")


def _check_heat_covariance(model: Any) -> None:
    _check_laplacian(model)
    if (model.scales_ < 0).any() or (model.source_variances_ < 0).any():
        raise ValueError("its scales or variances are negative")
    if not model.noise_variance_ >= 0 or not 0 <= model.shrinkage_ < 1 or not model.penalty_ >= 0:
        raise ValueError("its noise, shrinkage or penalty is out of range")
    if not model.covariance_.size:  # of the sparse engine: operators, made from the rest
        model.solver_ = "sparse"
        set_operators(model)
        return
    model.solver_ = "dense"
    lam, U = np.linalg.eigh(model.laplacian_)
    f = model.source_variances_ @ Power(kernel_of(model.kernel)).values(lam, model.scales_)
    C = (U * (f + model.noise_variance_)) @ U.T
    if not np.allclose(model.covariance_, C, atol=1e-6 * np.abs(C).max()):
        raise ValueError("its covariance is not that of its graph")


# What every estimator has: a Laplacian, its graphs, and how the fit ended.
ARRAYS = {"laplacian_": "NN", "objective_": "T"}
NUMBERS = {"residual_": float, "n_iter_": int}
GAUSSIAN = {"precision_": "NN", "location_": "N", "node_means_": "N"}


def _kind(
    estimator: type[Any],
    arrays: Mapping[str, str],
    numbers: tuple[str, ...] = (),
    check: Callable[[Any], None] = _check_laplacian,
    **more: Any,
) -> Kind:
    """What an estimator has besides that; ``numbers`` are the names of its floats."""
    return Kind(
        estimator,
        ("graph_", "weights_"),
        {**ARRAYS, **arrays},
        {**NUMBERS, **dict.fromkeys(numbers, float), **more.pop("others", {})},
        check,
        **more,
    )


KINDS = {
    kind.estimator.__name__: kind
    for kind in (
        _kind(
            HeatCovariance,
            {
                **GAUSSIAN,
                "covariance_": "NN",
                "n_observed_": "N",
                "second_moment_": "NN",
                "scales_": "S",
                "source_variances_": "S",
            },
            ("noise_variance_", "shrinkage_", "penalty_", "cut_", "n_signals_", "n_effective_"),
            _check_heat_covariance,
            others={"relaxed_": bool},
            compared=True,
            tables=("selection_", "edge_table_"),
            added={"n_observed_": 1.0},
        ),
        _kind(
            LearnHeat,
            {
                "scales_": "S",
                "sources_": "MSN",
                "location_": "N",
                "node_means_": "N",
                "n_observed_": "N",
            },
            ("alpha_", "beta_", "predicting_alpha_", "cut_"),
            _check_learn_heat,
            compared=True,
            tables=("selection_", "stretches_"),
            added={"location_": 0.0, "node_means_": "location_", "n_observed_": 1.0},
        ),
        _kind(
            SmoothGraph,
            {"node_means_": "N"},
            ("beta_",),
            _check_smooth_graph,
            added={"node_means_": 0.0},
        ),
        _kind(SpectralTemplates, {"eigenvectors_": "NN"}, ("penalty_", "eps_")),
        _kind(GraphicalLassoGraph, GAUSSIAN, ("alpha_",), added={"node_means_": "location_"}),
        _kind(GeneralizedLaplacian, GAUSSIAN),
        _kind(LakeTenenbaum, GAUSSIAN, ("beta_", "variance_")),
        _kind(HeatFilter, {**GAUSSIAN, "scales_": "S"}, ("variance_", "cut_")),
        _kind(
            DiffusionPolytope,
            {"diffusion_": "NN", "eigenvectors_": "NN", "eigenvalues_": "N"},
        ),
    )
}
