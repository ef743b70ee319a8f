"""A few signals of every kind that is hard on arithmetic; `make hard-numbers` tries many."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from heatgraph import HeatCovariance, LearnHeat

path = Path(__file__).with_name("hard_numbers.py")
specification = importlib.util.spec_from_file_location("hard_numbers", path)
hard_numbers = importlib.util.module_from_spec(specification)
specification.loader.exec_module(hard_numbers)


@pytest.mark.parametrize("seed", range(7))
def test_a_valid_model_or_a_named_error(seed):
    kind, ends = hard_numbers.one(seed)
    assert kind == hard_numbers.KINDS[seed]
    assert set(ends.split()) <= {"fitted", "refused"}


@pytest.mark.filterwarnings("ignore:HeatCovariance. ")
def test_nodes_that_were_never_observed_together():
    X = np.full((6, 3), np.nan)
    X[range(6), [0, 0, 2, 1, 2, 2]] = [8.1, 4.1, -13.3, 1.3, 9.4, -14.0]
    model = HeatCovariance(penalty=0.0, shrinkage=0.0, fit_intercept=False).fit(X)
    hard_numbers.check(model, X, [])
    assert model.n_effective_ == 0.0


PATH = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"laplacian_": -PATH}, "negative weight"),
        ({"laplacian_": np.triu(PATH)}, "not symmetric"),
        ({"laplacian_": PATH + np.eye(3)}, "do not sum to 0"),
        ({"laplacian_": np.where(PATH > 1.0, np.inf, PATH)}, "laplacian_ is not finite"),
        ({"scales_": np.array([1.0, np.nan])}, "scales_ is not finite"),
        ({"noise_variance_": -1e-9}, "noise_variance_ is negative"),
        ({"covariance_": np.diag([1.0, 1.0, -0.1])}, "negative eigenvalue"),
        ({"covariance_": np.zeros((3, 3))}, "covariance_ is zero"),
    ],
)
def test_a_model_that_is_not_valid_is_a_finding(wrong, told, rng):
    right = {"laplacian_": PATH, "scales_": np.ones(1), "covariance_": np.eye(3)}
    X = rng.normal(size=(5, 3))
    hard_numbers.check(SimpleNamespace(**right), X, [])
    with pytest.raises(AssertionError, match=told):
        hard_numbers.check(SimpleNamespace(**{**right, **wrong}), X, [])


@pytest.mark.filterwarnings("ignore:LearnHeat. the mean of each:UserWarning")
@pytest.mark.filterwarnings("ignore:HeatCovariance. no edge:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        HeatCovariance(penalty=0.1, shrinkage=0.1),
        LearnHeat(n_scales=1, alpha=0.1, beta=1.0, tol=1e-2),
    ],
)
def test_nodes_with_the_same_signals_are_told(model, rng):
    X = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))
    X["copy of b"] = X["b"]
    with pytest.warns(UserWarning, match=r"the same signals.*\['b', 'copy of b'\]"):
        model.fit(X)
