"""The docstrings of what a user can call name every parameter, every result, every attribute."""

import inspect
import warnings
from functools import cached_property
from importlib import import_module

import numpy as np
import pytest

from heatgraph.datasets import make_graph, make_heat_signals

docscrape = pytest.importorskip(
    "numpydoc.docscrape", reason="it comes with the documentation's tools"
)

# Modules and what they offer; of those without an ellipsis, the names that the API page lists.
OFFERED = {
    "heatgraph": ...,
    "heatgraph.baselines": ...,
    "heatgraph.comparison": ...,
    "heatgraph.datasets": ...,
    "heatgraph.estimators": ...,
    "heatgraph.files": ["read_arrays", "write_arrays", "write_atomically", "write_folder"],
    "heatgraph.kernels.spectral": [
        "HeatKernel",
        "IdentityKernel",
        "MaternKernel",
        "TikhonovKernel",
        "WaveKernel",
    ],
    "heatgraph.metrics": ...,
    "heatgraph.plotting": ...,
    "heatgraph.report": ...,
    "heatgraph.solvers.result": ["Progress", "Solution"],
    "heatgraph.storage": ...,
}
# These read files from elsewhere, or what the function beside them has written.
NO_EXAMPLE = {"load_etex", "load_molene", "load_uber", "load_yellow_cab", "read_arrays"}
OF_KERNELS = {"slope", "value"}  # described once, of all kernels


def _offered():
    for module, names in OFFERED.items():
        home = import_module(module)
        for name in home.__all__ if names is ... else names:
            thing = getattr(home, name)
            if inspect.isclass(thing):
                yield name, thing
            elif inspect.isfunction(thing):
                yield f"{thing.__module__}.{name}", thing


def _methods(kind):
    """The public methods that a class of heatgraph defines or has from another one."""
    for name in dir(kind):
        given = inspect.getattr_static(kind, name)
        if name.startswith("_") or isinstance(given, property | cached_property):
            continue
        found = inspect.unwrap(getattr(kind, name))
        ours = (getattr(found, "__module__", None) or "").startswith("heatgraph")
        if inspect.isroutine(found) and ours and name not in OF_KERNELS:
            yield f"{kind.__name__}.{name}", found


THINGS = dict(_offered())
CLASSES = {name: thing for name, thing in THINGS.items() if inspect.isclass(thing)}
ESTIMATORS = {name: kind for name, kind in CLASSES.items() if hasattr(kind, "fit")}
CALLED = {name: thing for name, thing in THINGS.items() if name not in CLASSES}
METHODS = dict(method for kind in CLASSES.values() for method in _methods(kind))


def _sections(thing):
    return docscrape.NumpyDocString(inspect.getdoc(thing) or "")


def _named(*entries):
    """The names of parameters or attributes, of which one entry may have several."""
    return {name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")}


def _parameters(thing):
    return set(inspect.signature(thing).parameters) - {"self", "cls"}


@pytest.mark.parametrize("name", [*THINGS, *METHODS])
def test_it_has_a_summary(name):
    assert any(_sections({**THINGS, **METHODS}[name])["Summary"])


@pytest.mark.parametrize("name", [*CALLED, *METHODS])
def test_every_parameter_is_described(name):
    thing = {**CALLED, **METHODS}[name]
    assert _named(*_sections(thing)["Parameters"]) == _parameters(thing)


@pytest.mark.parametrize("name", CLASSES)
def test_every_parameter_of_a_class_is_described(name):
    """Where the class is what a function returns, as an attribute."""
    sections = _sections(CLASSES[name])
    described = _named(*sections["Parameters"], *sections["Attributes"])
    assert _parameters(CLASSES[name]) <= described


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_of_an_estimator_exists(name):
    assert _named(*_sections(ESTIMATORS[name])["Parameters"]) == _parameters(ESTIMATORS[name])


@pytest.mark.parametrize("name", [*CALLED, *METHODS])
def test_what_is_returned_is_described(name):
    thing = {**CALLED, **METHODS}[name]
    sections = _sections(thing)
    returns = inspect.signature(thing).return_annotation not in (None, "None")
    assert bool(sections["Returns"] or sections["Yields"]) == returns


@pytest.mark.parametrize("name", [*CALLED, *ESTIMATORS, "Graph"])
def test_there_is_an_example(name):
    found = any(">>>" in line for line in _sections(THINGS[name])["Examples"])
    assert found == (THINGS[name].__name__ not in NO_EXAMPLE)


@pytest.fixture(scope="module")
def signals():
    graph = make_graph("er", 6, random_state=0)
    return make_heat_signals(graph, [2.0], 60, 3, 0.05, random_state=0)[0]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_a_fit_sets_is_described(name, signals):
    quick = {"alpha": 0.05, "beta": 0.05} if name == "LearnHeat" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fit so small
        model = ESTIMATORS[name](**quick).fit(signals - np.mean(signals, axis=0))
    found = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
    described = _named(*_sections(ESTIMATORS[name])["Attributes"])
    assert found - {"n_features_in_", "feature_names_in_"} <= described
    assert all(hasattr(model, key) for key in described if key.endswith("_"))
