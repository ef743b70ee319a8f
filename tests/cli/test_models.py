"""``heatgraph learn --model``, and the other commands on what it leaves."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

from heatgraph.estimators import HeatCovariance, LearnHeat
from heatgraph.estimators import choosing_model as choosing
from heatgraph.storage import load_model

GAUSSIAN = ("--model", "gaussian", "--shrinkage", 0.01, "--penalty", 1)
FILES = {"convergence.png", "edges.csv", "graph.graphml", "graph.png", "model.npz", "summary.json"}
CHOICE = {"selection.csv", "selection.png"}


@pytest.fixture
def quick(monkeypatch):
    """Models whose parameters are given: to choose them takes seconds."""
    sparse = partial(LearnHeat, n_scales=1, alpha=0.05, beta=0.05)
    gaussian = partial(HeatCovariance, shrinkage=0.01, penalty=1.0)
    monkeypatch.setitem(choosing.MODELS, "sparse", sparse)
    monkeypatch.setitem(choosing.MODELS, "gaussian", gaussian)


@pytest.fixture(scope="module")
def everywhere(run, frame, tmp_path_factory):
    """Signals with gaps, and a Gaussian model learned from them."""
    folder = tmp_path_factory.mktemp("gaussian")
    gaps = frame + 5.0
    gaps.iloc[::4, 1] = np.nan
    gaps.iloc[1, 2:4] = np.nan
    gaps.to_csv(folder / "signals.csv", index=False)
    run("learn", folder / "signals.csv", "-o", folder / "result", *GAUSSIAN)
    return folder


def test_auto_is_the_default_and_says_which_was_kept(run, quick, frame, tmp_path):
    (frame + 20.0).to_csv(tmp_path / "s.csv", index=False)
    done = run("learn", tmp_path / "s.csv", "-o", tmp_path / "out", "-q", "--tol", 1e-2)
    model = load_model(tmp_path / "out")
    assert str(model.comparison_) in done.stdout.splitlines()
    assert done.stderr == ""  # no warning of the level
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    compared = summary["comparison"]
    assert summary["model"] == compared["kept"] == model.comparison_.kept
    for name in ("sparse", "gaussian"):
        assert tuple(compared[name].values()) == model.comparison_.missed(name)
    assert compared["n_signals"] == 30
    assert summary["warnings"] == []


def test_a_gaussian_model_leaves_its_files(run, signals, frame, tmp_path):
    done = run("learn", signals, "-o", tmp_path / "out", "--model", "gaussian", "--json")
    summary = json.loads(done.stdout)
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES | CHOICE
    direct = HeatCovariance().fit(frame)
    assert load_model(tmp_path / "out").graph_ == direct.graph_
    assert (summary["method"], summary["model"], summary["comparison"]) == (
        "heat",
        "gaussian",
        None,
    )
    assert summary["shrinkage"] == direct.shrinkage_
    assert summary["noise_variance"] == direct.noise_variance_
    assert summary["strongest_edges"][0]["confidence"] <= 1.0
    assert "confidence" in (tmp_path / "out" / "edges.csv").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (["--alpha", 0.05, "--beta", 0.05], "sparse"),
        (["--shrinkage", 0.1, "--penalty", 2], "gaussian"),
        (["--shrinkage", 0.1, "--penalty", "auto", "--cut", "significance"], "gaussian"),
    ],
)
def test_options_of_one_model_imply_it(run, signals, tmp_path, options, model):
    done = run("learn", signals, "-o", tmp_path / "out", "--tol", 1e-2, *options)
    assert f"--model {model}, so that no models are compared" in done.stderr
    fitted = load_model(tmp_path / "out")
    assert isinstance(fitted, LearnHeat if model == "sparse" else HeatCovariance)
    assert fitted.fit_intercept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "best"], "--model must be one of 'auto', 'gaussian', 'sparse'"),
        (["--model", "gaussian", "--alpha", 1], "--alpha is no parameter of HeatCovariance"),
        (["--model", "gaussian", "--scales", "1,2"], "--scales is no parameter of HeatCov"),
        (["--model", "gaussian", "--bootstrap", 3], "--bootstrap is no parameter of HeatCov"),
        (["--model", "gaussian", "--penalty", "l1"], "--penalty must be a number >= 0 or"),
        (["--model", "gaussian", "--n-scales", "auto"], "--n-scales must be an integer"),
        (
            ["--model", "sparse", "--shrinkage", 0.1],
            "--shrinkage is no parameter of LearnHeat",
        ),
        (
            ["--model", "sparse", "--cut", "significance"],
            "--cut must be a number >= 0 or one of",
        ),
        (["--model", "auto", "--alpha", 1], "--alpha is no parameter that both models have"),
        (["--penalty", "log"], "--penalty is no parameter that both models have"),
        (["--alpha", 1, "--shrinkage", 0.1], "--shrinkage is no parameter of LearnHeat"),
        (["--shrinkage", 2], "--shrinkage must be below 1"),
        (["--shrinkage", "much"], '--shrinkage must be a number >= 0 or "auto"'),
        (["--method", "smooth", "--model", "auto"], "--model has no meaning with --method smooth"),
        (["--method", "smooth", "--shrinkage", 0.1], "--shrinkage has no meaning with --method"),
    ],
)
def test_foreign_options_are_refused(refused, signals, tmp_path, options, message):
    assert message in refused("learn", signals, "-q", "-o", tmp_path / "out", *options)


def test_few_signals_are_left_to_the_gaussian_model(run, frame, tmp_path):
    frame[:5].to_csv(tmp_path / "s.csv", index=False)
    done = run("learn", tmp_path / "s.csv", "-q", "-o", tmp_path / "out", "--json")
    summary = json.loads(done.stdout)
    assert summary["model"] == "gaussian"
    assert any("5 signals are too few" in text for text in summary["warnings"])
    assert "5 signals are too few" in done.stderr


def test_ctrl_c_in_the_comparison_keeps_the_gaussian_model(
    run, quick, signals, tmp_path, monkeypatch
):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    checkpoint, out = tmp_path / "fit", tmp_path / "out"
    given = ("learn", signals, "-o", out, "--checkpoint", checkpoint)
    with monkeypatch.context() as patched:
        patched.setattr(LearnHeat, "fit", stopped)
        done = run(*given, code=130)
    assert "was not compared" in done.stdout
    assert f"{checkpoint} is kept" in done.stderr
    assert json.loads((out / "summary.json").read_text())["comparison"]["sparse"]["missed"] is None
    assert (tmp_path / "fit.gaussian").exists()
    run(*given, "--force")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "signals.csv"]
    assert load_model(out).comparison_.is_complete


def test_parquet_files_are_compared_on_a_sample(run, quick, frame, tmp_path, workers):
    for k, rows in enumerate((frame[:20], frame[20:])):
        rows.to_parquet(tmp_path / f"{k}.parquet")
    files = tmp_path / "0.parquet", tmp_path / "1.parquet"
    done = run("learn", *files, "-o", tmp_path / "out", "--tol", 1e-2, "--json")
    summary = json.loads(done.stdout)
    assert summary["n_signals"] == summary["comparison"]["n_signals"] == len(frame)


class TestSources:
    def test_are_means_at_every_node(self, run, everywhere):
        done = run("sources", everywhere / "result", everywhere / "signals.csv", "--json")
        summary = json.loads(done.stdout)
        assert (summary["model"], summary["largest_gap"]) == ("gaussian", None)
        assert len(summary["top"]) == 3 * 30
        model = load_model(everywhere / "result")
        means = model.transform(pd.read_csv(everywhere / "signals.csv"))
        first = summary["top"][0]
        assert first["strength"] == pytest.approx(means[0][np.abs(means[0]).argmax()])
        done = run("sources", everywhere / "result", everywhere / "signals.csv")
        assert "Found the mean heat released at each of 6 nodes, given each of 30" in done.stdout

    def test_have_a_folder(self, run, everywhere, tmp_path):
        run("sources", everywhere / "result", everywhere / "signals.csv", "-o", tmp_path / "out")
        assert json.loads((tmp_path / "out" / "summary.json").read_text())["warnings"] == []
        assert len((tmp_path / "out" / "sources.csv").read_text().splitlines()) == 1 + 30 * 6


class TestImpute:
    def test_gives_standard_deviations(self, run, everywhere, tmp_path):
        given = pd.read_csv(everywhere / "signals.csv")
        filled, std = tmp_path / "filled.csv", tmp_path / "std.csv"
        arguments = ("impute", everywhere / "result", everywhere / "signals.csv", "-o", filled)
        done = run(*arguments, "--std", std, "--json")
        model = load_model(everywhere / "result")
        mean, spread = model.impute(given, return_std=True)
        pd.testing.assert_frame_equal(pd.read_csv(filled), mean)
        pd.testing.assert_frame_equal(pd.read_csv(std), spread)
        assert ((pd.read_csv(std) > 0) == given.isna()).all(axis=None)
        summary = json.loads(done.stdout)
        assert summary["files"] == [str(filled), str(std)]
        assert summary["predicted"] == pytest.approx(model.score_hidden(given), rel=1e-12)

    def test_needs_a_gaussian_model_for_them(self, refused, learned, everywhere, tmp_path):
        filled = tmp_path / "filled.csv"
        sparse = ("impute", learned / "result", learned / "signals.csv", "-q", "-o", filled)
        assert "--std needs a Gaussian model" in refused(*sparse, "--std", tmp_path / "std.csv")
        same = ("impute", everywhere / "result", everywhere / "signals.csv", "-q", "-o", filled)
        assert "give them a file each" in refused(*same, "--std", filled)
