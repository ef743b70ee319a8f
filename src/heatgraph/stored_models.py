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
    not have, each with the array that takes its place there, or "" for zeros.  ``compared`` if
    :func:`heatgraph.learn` may have compared the model with another.
    """

    estimator: type[Any]
    graphs: tuple[str, ...]
    arrays: Mapping[str, str]
    numbers: Mapping[str, type]
    check: Callable[[Any], None]
    compared: bool = False
    tables: tuple[str, ...] = ()
    added: Mapping[str, str] = field(default_factory=dict)


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


# The kernels that a file may name, by class: an object of a user's own class is not stored.

GAUSSIAN = {
    "laplacian_": "NN",
    "precision_": "NN",
    "location_": "N",
    "node_means_": "N",
    "objective_": "T",
}
KINDS = {
    "HeatCovariance": Kind(
        HeatCovariance,
        graphs=("graph_", "weights_"),
        arrays={
            "laplacian_": "NN",
            "covariance_": "NN",
            "precision_": "NN",
            "second_moment_": "NN",
            "location_": "N",
            "node_means_": "N",
            "scales_": "S",
            "source_variances_": "S",
            "objective_": "T",
        },
        numbers={
            "residual_": float,
            "n_iter_": int,
            "noise_variance_": float,
            "shrinkage_": float,
            "penalty_": float,
            "relaxed_": bool,
            "cut_": float,
            "n_signals_": float,
            "n_effective_": float,
        },
        check=_check_heat_covariance,
        compared=True,
        tables=("selection_", "edge_table_"),
    ),
    "LearnHeat": Kind(
        LearnHeat,
        graphs=("graph_", "weights_"),
        arrays={
            "laplacian_": "NN",
            "scales_": "S",
            "sources_": "MSN",
            "location_": "N",
            "node_means_": "N",
            "objective_": "T",
        },
        numbers={
            "residual_": float,
            "n_iter_": int,
            "alpha_": float,
            "beta_": float,
            "predicting_alpha_": float,
            "cut_": float,
        },
        check=_check_learn_heat,
        compared=True,
        tables=("selection_", "stretches_"),
        added={"location_": "", "node_means_": "location_"},
    ),
    "SmoothGraph": Kind(
        SmoothGraph,
        graphs=("graph_", "weights_"),
        arrays={"laplacian_": "NN", "node_means_": "N", "objective_": "T"},
        numbers={"residual_": float, "n_iter_": int, "beta_": float},
        check=_check_smooth_graph,
        added={"node_means_": ""},
    ),
    "SpectralTemplates": Kind(
        SpectralTemplates,
        graphs=("graph_", "weights_"),
        arrays={"laplacian_": "NN", "eigenvectors_": "NN", "objective_": "T"},
        numbers={"residual_": float, "n_iter_": int, "penalty_": float, "eps_": float},
        check=_check_laplacian,
    ),
    "GraphicalLassoGraph": Kind(
        GraphicalLassoGraph,
        graphs=("graph_", "weights_"),
        arrays=GAUSSIAN,
        numbers={"residual_": float, "n_iter_": int, "alpha_": float},
        check=_check_laplacian,
        added={"node_means_": "location_"},
    ),
    "GeneralizedLaplacian": Kind(
        GeneralizedLaplacian,
        graphs=("graph_", "weights_"),
        arrays=GAUSSIAN,
        numbers={"residual_": float, "n_iter_": int},
        check=_check_laplacian,
    ),
    "LakeTenenbaum": Kind(
        LakeTenenbaum,
        graphs=("graph_", "weights_"),
        arrays=GAUSSIAN,
        numbers={"residual_": float, "n_iter_": int, "beta_": float, "variance_": float},
        check=_check_laplacian,
    ),
    "HeatFilter": Kind(
        HeatFilter,
        graphs=("graph_", "weights_"),
        arrays={**GAUSSIAN, "scales_": "S"},
        numbers={"residual_": float, "n_iter_": int, "variance_": float, "cut_": float},
        check=_check_laplacian,
    ),
    "DiffusionPolytope": Kind(
        DiffusionPolytope,
        graphs=("graph_", "weights_"),
        arrays={
            "laplacian_": "NN",
            "diffusion_": "NN",
            "eigenvectors_": "NN",
            "eigenvalues_": "N",
            "objective_": "T",
        },
        numbers={"residual_": float, "n_iter_": int},
        check=_check_laplacian,
    ),
}
