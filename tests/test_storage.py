"""A model comes back from its file as it was, and a file that lies is refused."""

import io
import json
import pickle
import zipfile
from contextlib import suppress
from copy import copy

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from heatgraph.baselines import SpectralTemplates
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.estimators import LearnHeat, ModelComparison
from heatgraph.graph import Graph
from heatgraph.storage import load_model, save_model

NAMES = ["north", "Süd", "east", "west", "up"]


@pytest.fixture(scope="module")
def signals():
    X, _ = make_heat_signals(make_graph("ring", 5, 0), [1.0, 3.0], 30, 2, 0.01, 0)
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="module")
def model(signals):
    return LearnHeat(scales=(1.0, 3.0), tol=1e-3).fit(signals)


@pytest.fixture
def whole(model, tmp_path):
    """A good file, and the members it is made of."""
    path = tmp_path / "model.npz"
    save_model(model, path)
    with zipfile.ZipFile(path) as archive:
        return path, {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def array(member):
    return np.load(io.BytesIO(member))


def edit_header(members, change):
    header = json.loads(array(members["header.npy"]).tobytes())
    change(header)
    text = json.dumps(header).encode()
    return members | {"header.npy": npy(np.frombuffer(text, np.uint8))}


def test_signals_whose_squares_are_out_of_range(signals, tmp_path):
    huge = 1e200 * signals[:15]
    model = LearnHeat(n_scales=1, alpha=1e198).fit(huge)
    save_model(model, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert np.isinf(loaded.objective_).all()
    assert loaded.graph_ == model.graph_
    assert loaded.selection_.equals(model.selection_)
    assert np.array_equal(loaded.transform(huge), model.transform(huge))


def test_a_loaded_model_computes_the_same_bits(model, signals, whole):
    loaded = load_model(whole[0])
    assert type(loaded) is LearnHeat
    assert loaded.get_params() == model.get_params()
    sources = model.transform(signals)
    assert loaded.transform(signals).tobytes() == sources.tobytes()
    assert loaded.inverse_transform(sources).tobytes() == model.inverse_transform(sources).tobytes()
    assert loaded.score(signals) == model.score(signals)
    assert list(loaded.get_feature_names_out()) == list(model.get_feature_names_out())


def test_every_fitted_attribute_comes_back(model, whole):
    loaded = load_model(whole[0])
    assert set(vars(loaded)) == set(vars(model))
    for name, value in vars(model).items():
        other = getattr(loaded, name)
        assert type(other) is type(value), name
        if isinstance(value, np.ndarray):
            assert other.dtype == value.dtype
            assert np.array_equal(other, value)
        elif isinstance(value, pd.DataFrame):
            pd.testing.assert_frame_equal(other, value)
        else:
            assert other == value, name
    assert isinstance(model.selection_, pd.DataFrame)
    assert loaded.status_.advice


def test_the_same_model_gives_the_same_bytes(model, whole, tmp_path):
    save_model(model, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == whole[0].read_bytes()
    save_model(load_model(whole[0]), tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == whole[0].read_bytes()


def test_a_model_without_names(signals, tmp_path):
    X = signals.to_numpy()
    model = LearnHeat(n_scales=1, tol=1e-2).fit(X)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.graph_ == model.graph_
    assert loaded.graph_.names is None
    assert not hasattr(loaded, "feature_names_in_")
    assert np.array_equal(loaded.transform(X), model.transform(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("candidates", [("north", "Süd"), ("Süd", "up")]),
        ("candidates", np.ones((5, 5), dtype=bool)),
        ("candidates", 3),
        ("init", Graph([(0, 1), (1, 2)], [1.0, 2.0], n_nodes=5, names=NAMES)),
        ("random_state", 7),
        ("scales", [np.float64(1.0), 2]),
        ("alpha", np.float64(0.1)),
        ("tol", float("inf")),
    ],
)
def test_parameters_come_back(model, tmp_path, name, value):
    given = pickle.loads(pickle.dumps(model)).set_params(**{name: value})
    save_model(given, tmp_path / "m.npz")
    loaded = getattr(load_model(tmp_path / "m.npz"), name)
    if isinstance(value, np.ndarray):
        assert loaded.dtype == value.dtype
        assert np.array_equal(loaded, value)
    else:
        assert loaded == value


def test_parameters_that_json_cannot_hold(model, tmp_path):
    path = tmp_path / "m.npz"
    given = pickle.loads(pickle.dumps(model))
    save_model(given.set_params(random_state=np.random.default_rng(0)), path)
    assert load_model(path).random_state is None
    mask = sparse.coo_array(([1.0], ([0], [3])), shape=(5, 5))
    save_model(given.set_params(candidates=mask), path)
    assert load_model(path).candidates == [[0, 3]]
    pairs = pd.DataFrame([("north", "up")])
    save_model(given.set_params(candidates=pairs), path)
    assert load_model(path).candidates == [["north", "up"]]
    with pytest.raises(ValueError, match="the parameter init must be"):
        save_model(given.set_params(init=print), path)


def test_level_and_sign_of_the_sources_come_back(signals, tmp_path):
    settings = {"alpha": 0.05, "beta": 0.01, "scales": (1.0, 3.0), "learn_scales": False}
    X = signals + np.arange(5.0)
    model = LearnHeat(**settings, fit_intercept=True, positive=True).fit(X)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.fit_intercept
    assert loaded.positive
    assert np.array_equal(loaded.location_, model.location_)
    assert loaded.transform(X).tobytes() == model.transform(X).tobytes()
    assert loaded.transform(X).min() >= 0.0


@pytest.mark.parametrize(
    "comparison", [3, {"sparse": 0.1}, {"sparse": "much", "gaussian": 0.2, "n_signals": 3}]
)
def test_comparisons_that_lie(whole, comparison):
    path, members = whole
    rewrite(path, edit_header(members, lambda header: header.update(comparison=comparison)))
    with pytest.raises(ValueError, match="its comparison does not hold sparse"):
        load_model(path)


def test_a_comparison_that_was_stopped_comes_back(model, tmp_path):
    nan = float("nan")
    other = copy(model)
    other.comparison_ = ModelComparison(nan, nan, 0.2, 0.1, nan, 30.0)
    save_model(other, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz").comparison_
    assert not loaded.is_complete
    assert loaded.missed("gaussian") == (0.2, 0.1)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="must be fitted"):
        save_model(LearnHeat(), tmp_path / "m.npz")
    with pytest.raises(ValueError, match="must be one of HeatCovariance, LearnHeat"):
        save_model(object(), tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def drop(key):
    return lambda header: header.pop(key)


def put(key, value):
    return lambda header: header.update({key: value})


def put_in(group, key, value):
    return lambda header: header[group].update({key: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("version", 1), "its version is 1, the one known is 2"),
        (put("format", "heatgraph.Graph"), "does not say 'heatgraph.model'"),
        (
            put("estimator", "Oracle"),
            "it holds a 'Oracle', this version reads HeatCovariance, LearnHeat",
        ),
        (put("estimator", ["LearnHeat"]), "lacks estimator"),
        (drop("parameters"), "lacks parameters"),
        (drop("numbers"), "lacks numbers"),
        (put("numbers", {}), "its residual_ is None, not a number"),
        (put("n_nodes", "5"), "lacks n_nodes"),
        (put("n_nodes", 2**31 - 2), "does not go with the 2147483646 nodes"),
        (put("names", NAMES[:4]), "names must have one label per node"),
        (put("names", [*NAMES[:4], {}]), "names must be"),
        (put("names", "north"), "names must be a list"),
        (put("feature_names", NAMES[:4]), "feature names are not a list of 5"),
        (put("status", "perfect"), "'perfect' is not a valid Status"),
        (put_in("numbers", "alpha_", "much"), "its alpha_ is 'much', not a number"),
        (put_in("numbers", "alpha_", -1.0), "negative"),
        (put_in("numbers", "alpha_", "nan"), "negative"),
        (put_in("numbers", "n_iter_", 1.5), "its n_iter_ is 1.5"),
        (put_in("numbers", "alpha_", 10**400), "cannot load"),
        (put_in("parameters", "evil", 1), r"its parameters \['evil'\] are not known"),
        (put_in("parameters", "atoms", "none"), "its atoms are 'none'"),
        (put_in("parameters", "n_jobs", "all"), "its n_jobs is 'all'"),
        (put_in("parameters", "positive", "very"), "positive and fit_intercept are not both"),
        (put_in("parameters", "fit_intercept", 1), "positive and fit_intercept are not both"),
        (put_in("parameters", "init", {"kind": "pickle"}), "is not one that heatgraph writes"),
        (put_in("parameters", "init", {"kind": "array"}), "is not one that heatgraph writes"),
        (put_in("parameters", "tol", {"kind": "float", "value": "x"}), "cannot load"),
        (put_in("parameters", "init", {"kind": "graph", "n_nodes": 2, "names": None}), "lacks the"),
    ],
)
def test_headers_that_lie(whole, change, message):
    path, members = whole
    rewrite(path, edit_header(members, change))
    with pytest.raises(ValueError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    assert "learn the model anew" in str(caught.value)


def test_deep_headers(whole):
    path, members = whole
    nested = []
    for _ in range(400):
        nested = [nested]
    rewrite(path, edit_header(members, put_in("parameters", "init", nested)))
    load_model(path)


def with_nan(values):
    values = values.copy()
    values.flat[0] = np.nan
    return values


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("weights_.weights", with_nan, "weights must be positive and finite"),
        ("graph_.weights", lambda w: -w, "weights must be positive and finite"),
        ("graph_.edges", lambda e: e + 3, "below n_nodes = 5"),
        ("weights_.weights", lambda w: 2 * w, "its Laplacian is not that of its weights"),
        ("laplacian_", with_nan, "holds NaN or infinity"),
        ("laplacian_", lambda L: L[:4, :4], "does not go with the 5 nodes"),
        ("laplacian_", lambda L: L[0], "must be 2-dimensional"),
        ("scales_", lambda s: s[:1], "does not go with"),
        ("scales_", lambda s: -s, "negative"),
        ("sources_", lambda H: H[:, :0], "does not go with"),
        ("sources_", lambda H: H.astype(np.float32), "of dtype <f8"),
        ("objective_", lambda f: f[:0], "does not go with"),
        ("location_", lambda u: u[:4], "does not go with the 5 nodes"),
        ("location_", with_nan, "holds NaN or infinity"),
    ],
)
def test_arrays_that_lie(whole, field, change, message):
    path, members = whole
    name = f"{field}.npy"
    rewrite(path, members | {name: npy(change(array(members[name])))})
    with pytest.raises(ValueError, match=message):
        load_model(path)


def test_pickles_are_never_read(whole):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path, members = whole
    rewrite(path, members | {"scales_.npy": npy(np.array([Trap()]), allow_pickle=True)})
    with pytest.raises(ValueError, match="pickled objects"):
        load_model(path)


def test_a_number_of_nodes_that_no_array_has(signals, tmp_path):
    path = tmp_path / "model.npz"
    save_model(SpectralTemplates().fit(signals), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["laplacian_.npy"] = members["eigenvectors_.npy"] = npy(np.empty((0, 0)))
    rewrite(path, edit_header(members, put("n_nodes", 10**9)))
    with pytest.raises(ValueError, match="none of its fields has a value for each of the 1000000"):
        load_model(path)


def test_missing_and_foreign_fields(whole):
    path, members = whole
    without = {name: content for name, content in members.items() if name != "scales_.npy"}
    rewrite(path, edit_header(without, lambda header: header["fields"].remove("scales_")))
    with pytest.raises(ValueError, match=r"lacks the fields \['scales_'\]"):
        load_model(path)
    more = edit_header(members, lambda header: header["fields"].append("extra"))
    last = more.pop("header.npy")
    rewrite(path, more | {"extra.npy": npy(np.ones(1)), "header.npy": last})
    with pytest.raises(ValueError, match=r"unknown fields \['extra'\]"):
        load_model(path)


def test_a_flipped_byte_is_refused_or_harmless(whole, signals, model):
    path, _ = whole
    content = bytearray(path.read_bytes())
    before = model.transform(signals[:3])
    for k in range(0, len(content), 23):
        content[k] ^= 0xFF
        path.write_bytes(content)
        content[k] ^= 0xFF
        # Bytes of the zip that carry nothing (dates, attributes) change nothing.
        with suppress(ValueError):
            assert np.array_equal(load_model(path).transform(signals[:3]), before)


def test_a_missing_file_is_not_a_bad_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "model.npz")
