"""``heatgraph.learn``: both models on the same folds and gaps, and the better one kept."""

from copy import copy
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import LedoitWolf

import heatgraph
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import HeatCovariance, LearnHeat, ModelComparison
from heatgraph.estimators import choosing_model as choosing
from heatgraph.estimators.hidden import which_hidden
from heatgraph.estimators.progress import STAGE
from heatgraph.solvers.result import Status
from heatgraph.storage import load_model, save_model

NAMES = list("abcdef")
SPARSE = {"n_scales": 1, "alpha": 0.05, "beta": 0.05, "tol": 1e-2}
HOPELESS = choosing.HOPELESS
GAUSSIAN = {"shrinkage": 0.05, "penalty": 1.0}


def signals_of(n_sources, n_signals=36, noise=0.02):
    X, _ = make_heat_signals(
        make_graph("ring", 6, 0), [2.0], n_signals, n_sources, noise, random_state=1
    )
    return pd.DataFrame(X + 3.0, columns=NAMES)


def give_parameters(patched):
    patched.setitem(choosing.MODELS, "sparse", partial(LearnHeat, **SPARSE))
    patched.setitem(choosing.MODELS, "gaussian", partial(HeatCovariance, **GAUSSIAN))
    patched.setattr(choosing, "HOPELESS", np.inf)


@pytest.fixture
def quick(monkeypatch):
    """Models whose parameters are given: to choose them takes seconds."""
    give_parameters(monkeypatch)


@pytest.fixture(scope="module")
def learned():
    """The model of ``signals_of(6)``, for tests that only look at it."""
    with pytest.MonkeyPatch.context() as patched:
        give_parameters(patched)
        return heatgraph.learn(signals_of(6))


@pytest.fixture
def fits(monkeypatch):
    """The estimators that were fitted, each with its signals and the stage it was in."""
    found = []
    for kind in (LearnHeat, HeatCovariance):
        fit = kind.fit

        def spy(self, X, *args, fit=fit, **options):
            found.append((type(self).__name__, np.asarray(X), STAGE.get(), self))
            return fit(self, X, *args, **options)

        monkeypatch.setattr(kind, "fit", spy)
    return found


def test_the_numbers_are_those_of_the_folds(learned):
    X, model = signals_of(6), learned
    values = X.to_numpy()
    hidden = which_hidden(values, np.random.default_rng(0))
    estimators = {
        "gaussian": HeatCovariance(**GAUSSIAN),
        "sparse": LearnHeat(**SPARSE, fit_intercept=True, positive=False),
    }
    errors = {}
    total = np.zeros(36)
    for name, estimator in estimators.items():
        errors[name] = np.zeros(36)
        for held_out in np.split(np.arange(36), 3):
            rest = X.drop(index=held_out)
            gaps = X.iloc[held_out].mask(hidden[held_out])
            missed = (values[held_out] - estimator.fit(rest).impute(gaps).to_numpy()) ** 2
            errors[name][held_out] = np.where(hidden[held_out], missed, 0.0).sum(axis=1)
            around = (values[held_out] - rest.mean().to_numpy()) ** 2
            total[held_out] = np.where(hidden[held_out], around, 0.0).sum(axis=1)
    found = model.comparison_
    for name, error in errors.items():
        share, standard_error = found.missed(name)
        assert share == pytest.approx(error.sum() / total.sum(), rel=1e-8)
        left = error - share * total
        assert standard_error == pytest.approx(left.std() * 6 / total.sum(), rel=1e-8)
    without = np.zeros(36)
    for held_out in np.split(np.arange(36), 3):
        rest = np.delete(values, held_out, axis=0)
        model_of_all = LedoitWolf().fit(rest)
        for m in held_out:
            h, o = hidden[m], ~hidden[m]
            C, u = model_of_all.covariance_, rest.mean(axis=0)
            guess = u[h] + C[np.ix_(h, o)] @ np.linalg.solve(C[np.ix_(o, o)], values[m, o] - u[o])
            without[m] = np.sum((values[m, h] - guess) ** 2)
    assert found.no_graph == pytest.approx(without.sum() / total.sum(), rel=1e-6)
    less = errors[found.kept] - without
    spread = (less - less.sum() / total.sum() * total).std()
    assert found.no_graph_error == pytest.approx(6 * spread / total.sum(), rel=1e-6)
    floor = 1e-3 * total.mean()
    ratios = np.log((errors["sparse"] + floor) / (errors["gaussian"] + floor))
    assert found.log_ratio == pytest.approx(ratios.mean(), rel=1e-6)
    assert found.log_ratio_error == pytest.approx(ratios.std() / 6, rel=1e-6)
    assert found.kept == ("sparse" if ratios.mean() < 0 else "gaussian")
    assert type(model) is type(estimators[found.kept])
    assert found.n_signals == 36


def test_the_better_model_is_kept_and_fitted_on_all(quick, fits, monkeypatch):
    X = signals_of(6)
    model = heatgraph.learn(X)
    assert isinstance(model, HeatCovariance)
    assert model.comparison_.kept == "gaussian"
    assert model.n_signals_ == 36
    stages = [(name, stage) for name, _, stage, _ in fits]
    assert stages[0] == ("HeatCovariance", "gaussian model, all signals: ")
    assert stages[1] == ("HeatCovariance", "gaussian model, fold 1/3: ")
    assert stages[-1] == ("LearnHeat", "sparse model, fold 3/3: ")
    rows = [len(X) for _, X, _, _ in fits]
    assert rows == [36, 24, 24, 24, 24, 24, 24]
    for one, other in zip(fits[1:4], fits[4:7], strict=True):
        assert np.array_equal(one[1], other[1])
    monkeypatch.setattr(HeatCovariance, "impute", lambda self, X: X.fillna(1e3))
    fits.clear()
    model = heatgraph.learn(X)
    assert isinstance(model, LearnHeat)
    assert model.comparison_.kept == "sparse"
    assert model.fit_intercept
    assert np.allclose(model.location_, X.mean(), atol=0.3)
    assert (fits[-1][2], len(fits[-1][1])) == ("sparse model, all signals: ", 36)


def test_a_model_that_is_clearly_worse_is_not_fitted_on_every_fold(quick, fits, monkeypatch):
    monkeypatch.setattr(choosing, "HOPELESS", HOPELESS)
    monkeypatch.setattr(LearnHeat, "impute", lambda self, X: X.fillna(1e3))
    model = heatgraph.learn(signals_of(6))
    assert isinstance(model, HeatCovariance)
    assert model.comparison_.kept == "gaussian"
    assert model.comparison_.n_signals == 12
    assert model.comparison_.difference > 0.0


def test_a_level_is_no_matter(quick, learned):
    other = heatgraph.learn(signals_of(6) + np.arange(6.0) * 50.0)
    for name in ("sparse", "gaussian"):
        share = other.comparison_.missed(name)[0]
        assert share == pytest.approx(learned.comparison_.missed(name)[0], rel=0.02)


def test_one_line_is_told(quick, capsys):
    model = heatgraph.learn(signals_of(6), verbose=1)
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line == str(model.comparison_)
    assert line.startswith(
        "Kept the gaussian model (HeatCovariance): in a typical held-out signal its squared error"
    )
    heatgraph.learn(signals_of(6), model="gaussian")
    assert capsys.readouterr().err == ""


def test_a_path_is_refused_without_a_word_on_the_number_of_signals(recwarn):
    with pytest.raises(ValueError, match="X is a path; read it first"):
        heatgraph.learn("signals.csv")
    assert not [w for w in recwarn if "too few" in str(w.message)]


@pytest.mark.parametrize(("error", "is_told"), [(0.1, False), (0.6, True)])
def test_a_difference_that_may_be_chance_is_told(error, is_told):
    comparison = ModelComparison(0.3, 0.05, 0.2, 0.05, 0.01, 40.0, 0.4, 1.0, error)
    assert ('model="sparse" (--model sparse) learns the other' in str(comparison)) == is_told


@pytest.mark.parametrize("model", ["sparse", "gaussian"])
def test_a_model_that_is_named_is_fitted_alone(quick, fits, model):
    found = heatgraph.learn(signals_of(6), model=model, n_edges=4)
    assert len(fits) == 1
    assert found.comparison_ is None
    assert found.graph_.n_edges == 4
    assert found.fit_intercept


@pytest.mark.filterwarnings("ignore:HeatCovariance")  # so few show no graph
def test_few_signals_are_left_to_the_gaussian_model(fits):
    X = signals_of(6)
    with pytest.warns(UserWarning, match="5 signals are too few to hold some out"):
        model = heatgraph.learn(X[:5])
    assert isinstance(model, HeatCovariance)
    assert model.comparison_ is None
    with pytest.warns(UserWarning, match="1 signals are too few"):
        assert not heatgraph.learn(X[:1]).fit_intercept


def test_many_nodes_are_left_to_the_gaussian_model(monkeypatch, quick, fits):
    monkeypatch.setattr(choosing, "LARGE", 6)
    with pytest.warns(UserWarning, match="6 nodes are too many to compare the models on"):
        model = heatgraph.learn(signals_of(6) - 3.0)
    assert isinstance(model, HeatCovariance)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "best"}, "model must be one of 'auto', 'gaussian', 'sparse'"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"alpha": 0.1}, 'alpha is no parameter that both models have; pass model="sparse"'),
        ({"shrinkage": 0.1}, 'pass model="gaussian"'),
        ({"penalty": "l1"}, "penalty is no parameter that both models have"),
        ({"model": "gaussian", "alpha": 0.1}, "alpha is no parameter of HeatCovariance"),
        ({"modle": "sparse"}, r"modle is no parameter of either model; did you mean model\?"),
        ({"alhpa": 0.1}, r"alhpa is no parameter of either model; did you mean alpha\?"),
        ({"colour": "red"}, r"colour is no parameter of either model\.$"),
        ({"model": "sparse", "n_edge": 3}, r"no parameter of LearnHeat; did you mean n_edges\?"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        heatgraph.learn(signals_of(6), **options)


@pytest.mark.parametrize("named", [True, False])
def test_nodes_in_other_units_are_named(quick, named):
    X = signals_of(6)
    names = list(X.columns)
    mixed = X.assign(**{names[2]: 1e3 * X[names[2]], names[4]: 0.1 * X[names[4]]})
    most, least = map(repr, (names[2], names[4])) if named else ("2", "4")
    told = rf"node {most} varies .* times as much as node {least}\..*divide each column"
    with pytest.warns(UserWarning, match=told):
        heatgraph.learn(mixed if named else mixed.to_numpy(), model="gaussian")


def test_a_constant_node_is_in_no_other_unit(quick, recwarn):
    """The standard deviation of equal values is not quite zero."""
    X = signals_of(6)
    heatgraph.learn(X.assign(**{X.columns[2]: 0.1}), model="gaussian")
    told = [str(warning.message) for warning in recwarn]
    assert any("constant" in message for message in told)
    assert not any("varies" in message for message in told)


class TestStopped:
    def stop(self, monkeypatch, kind, when):
        fit = kind.fit

        def stopped(self, X, *args, **options):
            if when(X):
                raise KeyboardInterrupt
            return fit(self, X, *args, **options)

        monkeypatch.setattr(kind, "fit", stopped)

    def test_while_the_sparse_model_is_compared(self, quick, monkeypatch):
        self.stop(monkeypatch, LearnHeat, lambda X: True)
        with pytest.warns(UserWarning, match="stopped before the models were compared"):
            model = heatgraph.learn(signals_of(6))
        assert isinstance(model, HeatCovariance)
        assert model.status_ is Status.INTERRUPTED
        assert model.n_signals_ == 36
        assert not model.comparison_.is_complete
        assert np.isnan(model.comparison_.sparse)
        assert "was not compared" in str(model.comparison_)

    def test_while_the_gaussian_model_is_compared(self, quick, monkeypatch):
        self.stop(monkeypatch, HeatCovariance, lambda X: len(X) < 36)
        with pytest.warns(UserWarning, match="stopped before"):
            model = heatgraph.learn(signals_of(6))
        assert (model.status_, model.comparison_) == (Status.INTERRUPTED, None)

    def test_while_the_better_model_is_fitted(self, quick, monkeypatch):
        monkeypatch.setattr(HeatCovariance, "impute", lambda self, X: X.fillna(1e3))
        self.stop(monkeypatch, LearnHeat, lambda X: len(X) == 36)
        with pytest.warns(UserWarning, match="stopped before the sparse model"):
            model = heatgraph.learn(signals_of(6))
        assert isinstance(model, HeatCovariance)
        assert model.status_ is Status.INTERRUPTED
        assert model.comparison_.kept == "sparse"


def test_checkpoints_are_gone_on_from(quick, fits, tmp_path):
    X, path = signals_of(6), tmp_path / "fit"
    first = heatgraph.learn(X, checkpoint=path)
    left = {file.name for file in tmp_path.iterdir()}
    assert left <= {file.name for file in choosing.stage_files(path)}
    assert {"fit.gaussian", "fit.sparse-fold3"} <= left
    again = heatgraph.learn(X, checkpoint=path)
    assert again.comparison_ == first.comparison_


def test_a_dask_collection_is_compared_on_a_sample(quick, fits, monkeypatch):
    da = pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    monkeypatch.setattr(choosing, "SAMPLE", 24)
    X = signals_of(6).to_numpy() - 3.0
    model = heatgraph.learn(da.from_array(X, chunks=(12, 6)))
    assert isinstance(model, HeatCovariance)
    assert model.comparison_.n_signals == 24
    assert [len(X) for _, X, _, _ in fits[1:]] == [16] * 6
    assert model.n_signals_ == 36
    assert not any(one.fit_intercept for name, _, _, one in fits if name == "LearnHeat")
    with pytest.warns(UserWarning, match="LearnHeat learns no level of the nodes from a Dask"):
        heatgraph.learn(da.from_array(X, chunks=(36, 6)), model="sparse", tol=0.1)


@pytest.mark.filterwarnings("ignore:LearnHeat learns no level")
def test_gaps_on_dask_are_left_to_the_sparse_model(quick):
    da = pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    X = signals_of(6).to_numpy() - 3.0
    X[2, 3] = np.nan
    with pytest.warns(UserWarning, match="missing values in memory only"):
        model = heatgraph.learn(da.from_array(X, chunks=(36, 6)), tol=0.1)
    assert isinstance(model, LearnHeat)


class TestComparison:
    def test_a_tie_is_the_gaussian_models(self):
        same = np.array([1.0, 2.0])
        assert ModelComparison.of(same, same, same, np.array([4.0, 4.0])).kept == "gaussian"

    def test_a_few_signals_that_nobody_can_predict_do_not_decide(self):
        rng = np.random.default_rng(0)
        gaussian, total = rng.uniform(1.0, 2.0, 50), np.full(50, 10.0)
        sparse = 0.1 * gaussian
        sparse[:2], gaussian[:2] = 900.0, 20.0  # their only source is hidden
        found = ModelComparison.of(gaussian, sparse, gaussian, total)
        assert found.sparse > found.gaussian
        assert found.kept == "sparse"
        assert "A few signals hold most of the errors, in which the gaussian one" in str(found)
        assert "may be chance" not in str(found)

    def test_of_an_older_file_goes_by_the_shares(self):
        older = ModelComparison(0.2, 0.05, 0.3, 0.05, 0.01, 40.0, 0.4)
        assert older.kept == "sparse"
        assert str(older) == (
            "Kept the sparse model (LearnHeat): on held-out signals it misses 20% ± 5% of the "
            "variance of hidden entries, the gaussian one 30% ± 5%."
        )

    def test_the_difference_is_paired(self):
        rng = np.random.default_rng(0)
        total = np.full(50, 10.0)
        common = rng.exponential(size=50)
        found = ModelComparison.of(common, common + 0.1, common, total)
        assert found.difference == pytest.approx(0.01)
        assert found.difference_error == pytest.approx(0.0, abs=1e-12)
        assert found.gaussian_error > 0.005

    def test_is_kept_by_a_saved_model(self, learned, tmp_path):
        model = copy(learned)
        save_model(model, tmp_path / "model.npz")
        assert load_model(tmp_path / "model.npz").comparison_ == model.comparison_
        model.fit(signals_of(6))
        assert model.comparison_ is None
        save_model(model, tmp_path / "model.npz")
        assert load_model(tmp_path / "model.npz").comparison_ is None
