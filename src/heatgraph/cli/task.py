"""What ``heatgraph learn`` is asked to fit: its options, and the estimator that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heatgraph.baselines import (
    DiffusionPolytope,
    GeneralizedLaplacian,
    GraphicalLassoGraph,
    HeatFilter,
    LakeTenenbaum,
    SmoothGraph,
    SpectralTemplates,
)
from heatgraph.cli.options import option_of
from heatgraph.estimators import HeatCovariance, LearnHeat
from heatgraph.estimators.choosing_model import MODELS, choose_model, stage_files
from heatgraph.estimators.hidden import ESTIMATOR_OF

METHODS: dict[str, tuple[type[Any], ...]] = {
    "heat": (LearnHeat, HeatCovariance),
    "smooth": (SmoothGraph,),
    "templates": (SpectralTemplates,),
    "glasso": (GraphicalLassoGraph,),
    "laplacian": (GeneralizedLaplacian,),
    "lake": (LakeTenenbaum,),
    "filter": (HeatFilter,),
    "polytope": (DiffusionPolytope,),
}
IMPUTE = tuple(name for name, kinds in METHODS.items() if hasattr(kinds[0], "impute"))
FOLDS = 3  # by which the models of heat are compared unless given, as heatgraph.learn does


@dataclass(frozen=True)
class Task:
    """A method, for heat the model, and the parameters that were given; ``notes`` are for users.

    ``cv`` is the number of folds, where it was given.
    """

    method: str
    model: str | None
    parameters: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    cv: int | None = None

    def with_candidates(self, candidates: Any) -> Task:
        """The same with the pairs that may be edges, where any were given."""
        if candidates is None:
            return self
        return replace(self, parameters={**self.parameters, "candidates": candidates})

    @property
    def checkpoints(self) -> list[Path]:
        """The files that the fit may leave."""
        path = self.parameters.get("checkpoint")
        if path is None:
            return []
        return stage_files(path, self.cv or FOLDS) if self.model == "auto" else [path]

    def fit(self, X: Any, verbose: int, groups: Any = None) -> Any:
        """The fitted model."""
        if self.model is not None:
            given = {**self.parameters, "verbose": verbose}
            return choose_model(X, self.model, self.cv, given, groups)
        return METHODS[self.method][0](**self.parameters, verbose=verbose).fit(X)


def asked(method: str, model: str | None, options: Mapping[str, Any]) -> Task:
    """The task of these options, of which None was not given; what has no meaning is an error."""
    if method not in METHODS:
        raise ValueError(f"--method must be one of {', '.join(METHODS)}; got {method!r}")
    given = {key: value for key, value in options.items() if value is not None}
    if method == "heat":
        cv, _ = given.pop("cv", None), given.pop("groups", None)
        return replace(_asked_of_heat(model, given), cv=cv)
    if model is not None:
        raise ValueError(f"--model has no meaning with --method {method}")
    known = METHODS[method][0]().get_params()
    foreign = [option_of(key) for key in given if key not in known]
    if foreign:
        raise ValueError(f"{', '.join(foreign)} has no meaning with --method {method}")
    return Task(method, None, given)


def _asked_of_heat(model: str | None, given: dict[str, Any]) -> Task:
    """An option that one model alone has implies it; the model refuses those that it lacks."""
    if "scales" in given:
        given.setdefault("n_scales", len(given["scales"]))
    known = {name: kind().get_params().keys() for name, kind in MODELS.items()}
    own = [key for key in given if not all(key in keys for keys in known.values())]
    if model is not None or not own:
        return Task("heat", model or "auto", given)
    model = next(name for name, keys in known.items() if own[0] in keys)
    told = f"{', '.join(map(option_of, own))} {'implies' if len(own) == 1 else 'imply'}"
    return Task("heat", model, given, (f"{told} --model {model}, so that no models are compared",))


def method_of(model: Any) -> str:
    """The ``--method`` that a fitted model is of."""
    return next(name for name, kinds in METHODS.items() if type(model) in kinds)


def model_of(model: Any) -> str | None:
    """The ``--model`` of a model of heat."""
    return next((name for name, kind in ESTIMATOR_OF.items() if type(model).__name__ == kind), None)


def value(text: str | None) -> float | str | None:
    """A whole number, a number, or a word that the estimator knows."""
    if text is None:
        return None
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def read_scales(text: str | None) -> tuple[float, ...] | None:
    """Numbers between commas."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"--scales must be numbers separated by commas, such as 2.5,4; got {text!r}"
        ) from None
