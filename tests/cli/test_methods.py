"""``heatgraph learn --method``: the methods that LearnHeat is compared with."""

import json

import numpy as np
import pandas as pd
import pytest

from heatgraph.baselines import (
    DiffusionPolytope,
    GeneralizedLaplacian,
    GraphicalLassoGraph,
    HeatFilter,
    LakeTenenbaum,
    SmoothGraph,
    SpectralTemplates,
)
from heatgraph.storage import load_model

METHODS = {
    "smooth": SmoothGraph,
    "templates": SpectralTemplates,
    "glasso": GraphicalLassoGraph,
    "laplacian": GeneralizedLaplacian,
    "lake": LakeTenenbaum,
    "filter": HeatFilter,
    "polytope": DiffusionPolytope,
}


# On these few smooth signals scikit-learn's solver ends above its own tolerance.
@pytest.mark.filterwarnings("ignore:GraphicalLassoGraph")
@pytest.mark.parametrize("method", METHODS)
def test_the_folder_holds_the_result(run, signals, frame, tmp_path, method):
    out = tmp_path / "out"
    done = run("learn", signals, "-o", out, "--method", method, "--n-edges", 4, "--json")
    summary = json.loads(done.stdout)
    direct = METHODS[method](n_edges=4).fit(frame)
    assert (summary["method"], summary["n_edges"]) == (method, direct.graph_.n_edges)
    assert {path.name for path in out.iterdir()} == {
        "convergence.png", "edges.csv", "graph.graphml", "graph.png", "model.npz", "summary.json"
    }  # fmt: skip
    model = load_model(out / "model.npz")
    assert type(model) is METHODS[method]
    assert model.graph_ == direct.graph_
    assert np.array_equal(model.laplacian_, direct.laplacian_)
    assert model.get_params() == direct.get_params()
    if hasattr(model, "score"):
        assert model.score(frame) == direct.score(frame)


def test_what_is_printed(run, signals, tmp_path):
    done = run("learn", signals, "-o", tmp_path / "out", "--method", "smooth", "--beta", 0.1)
    assert "Learned a graph of 6 nodes and" in done.stdout
    assert "beta 0.1" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--method", "best"],
            "--method must be one of heat, smooth, templates, glasso, laplacian",
        ),
        (["--method", "smooth", "--scales", "1,2"], "--scales has no meaning"),
        (["--method", "templates", "--tol", "0.1"], "--tol has no meaning"),
        (["--method", "templates", "--hold-scales"], "--hold-scales has no meaning"),
        (["--method", "glasso", "--candidates", "2"], "--candidates has no meaning"),
    ],
)
def test_foreign_options_are_refused(refused, signals, tmp_path, options, message):
    assert message in refused("learn", signals, "-o", tmp_path / "out", *options)


def test_models_without_sources_say_so(run, refused, signals, tmp_path):
    run("learn", signals, "-o", tmp_path / "out", "--method", "smooth")
    assert "without sources" in refused("sources", tmp_path / "out", signals)


def test_every_model_that_predicts_fills_gaps(run, refused, signals, frame, tmp_path):
    run("learn", signals, "-o", tmp_path / "out", "--method", "laplacian", "--n-edges", 4)
    gaps = frame.copy()
    gaps.iloc[::3, 1] = np.nan
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    run("impute", tmp_path / "out", tmp_path / "gaps.csv", "-o", tmp_path / "full.csv")
    filled = pd.read_csv(tmp_path / "full.csv")
    model = GeneralizedLaplacian(n_edges=4).fit(frame)
    np.testing.assert_allclose(filled, model.impute(gaps), rtol=1e-9)
    run("learn", signals, "-o", tmp_path / "none", "--method", "polytope", "--n-edges", 4)
    line = refused("impute", tmp_path / "none", tmp_path / "gaps.csv", "-o", tmp_path / "f.csv")
    assert "a DiffusionPolytope, which predicts no values; learn a model with --method heat" in line


@pytest.mark.parametrize("method", ["smooth", "templates", "glasso", "filter", "polytope"])
def test_gaps_are_not_for_all(refused, frame, tmp_path, method):
    gaps = frame.copy()
    gaps.iloc[0, 0] = None
    gaps.to_csv(tmp_path / "s.csv", index=False)
    line = refused("learn", tmp_path / "s.csv", "-q", "-o", tmp_path / "out", "--method", method)
    name = METHODS[method].__name__
    assert f"the table holds NaN in 1 entries, and {name} takes complete signals only" in line


@pytest.mark.parametrize("method", ["laplacian", "lake"])
def test_gaps_are_for_gaussian_methods(run, frame, tmp_path, method):
    gaps = frame.copy()
    gaps.iloc[0, 0] = None
    gaps.to_csv(tmp_path / "s.csv", index=False)
    done = run("learn", tmp_path / "s.csv", "-o", tmp_path / "out", "--method", method, "--json")
    assert json.loads(done.stdout)["status"] == "converged"
