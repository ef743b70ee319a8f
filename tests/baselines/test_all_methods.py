"""What every method does alike: the checks of scikit-learn, and input that none takes."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from heatgraph.baselines import (
    DiffusionPolytope,
    GeneralizedLaplacian,
    GraphicalLassoGraph,
    HeatFilter,
    LakeTenenbaum,
    SmoothGraph,
    SpectralTemplates,
)

METHODS = [
    DiffusionPolytope(),
    GeneralizedLaplacian(),
    GraphicalLassoGraph(alpha=0.1),
    HeatFilter(),
    LakeTenenbaum(beta=0.1),
    SmoothGraph(beta=0.1),
    SpectralTemplates(),
]
OTHER_FORMS = [
    GeneralizedLaplacian("combinatorial"),
    GraphicalLassoGraph(),
    SmoothGraph(),
    SmoothGraph(degrees="log"),
    SpectralTemplates(form="epsilon"),
]
TAKE_GAPS = (GeneralizedLaplacian, LakeTenenbaum)
# Few random signals have few edges, and say little of a covariance.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings(r"ignore:\w+. no pair of nodes is joined"),
    pytest.mark.filterwarnings("ignore:SpectralTemplates. .* signals have a covariance of rank"),
]


@parametrize_with_checks(METHODS)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHER_FORMS)
def test_scikit_learn_accepts_its_other_forms(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_bad_input_is_named(method, rng):
    X = rng.standard_normal((20, 4))
    for parameters, message in (
        ({"n_edges": 7}, "n_edges must be at most the 6 pairs"),
        ({"n_edges": 0}, "n_edges must be an integer >= 1"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1"),
        ({"tol": 0.0}, "tol must be a finite number > 0"),
    ):
        if parameters.keys() <= method.get_params().keys():
            with pytest.raises(ValueError, match=message):
                clone(method).set_params(**parameters).fit(X)
    with pytest.raises(ValueError, match="minimum of 2"):
        clone(method).fit(X[:, :1])
    if not isinstance(method, TAKE_GAPS):
        with pytest.raises(ValueError, match=r"NaN in 4 entries.*LearnHeat"):
            clone(method).fit(np.where(np.eye(4) > 0, np.nan, 1.0))
