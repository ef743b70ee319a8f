"""``heatgraph impute``: gaps are filled, observed values are kept."""

import json

import numpy as np
import pandas as pd
import pytest

from heatgraph.storage import load_model


@pytest.fixture
def gappy(frame, tmp_path):
    """Signals with a day each and a fifth of their values hidden, and the mask."""
    hidden = np.random.default_rng(0).random(frame.shape) < 0.2
    table = frame.mask(hidden)
    table.insert(0, "day", [f"day {k}" for k in range(len(frame))])
    table.to_csv(tmp_path / "gaps.csv", index=False)
    return tmp_path / "gaps.csv", hidden


LABELS = ("day", "when", "town")


def read_exact(path):
    """The table with every digit of its numbers, of which some versions of pandas drop the last."""
    cells = pd.read_csv(path, dtype=str)
    return cells.apply(lambda one: one if one.name in LABELS else one.map(float))


def test_what_is_missing_is_what_the_model_says(run, learned, frame, gappy, tmp_path):
    path, hidden = gappy
    out = tmp_path / "full.csv"
    summary = json.loads(run("impute", learned / "result", path, "-o", out, "--json").stdout)
    assert summary["n_filled"] == hidden.sum()
    filled = read_exact(out)
    assert filled.columns.tolist() == ["day", *frame.columns]
    assert filled["day"].tolist() == [f"day {k}" for k in range(len(frame))]
    values = filled[list(frame.columns)].to_numpy()
    np.testing.assert_array_equal(values[~hidden], frame.to_numpy()[~hidden])
    model = load_model(learned / "result" / "model.npz")
    expected = model.impute(frame.mask(hidden))
    np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_it_is_said_how_well(run, learned, gappy, tmp_path):
    done = run("impute", learned / "result", gappy[0], "-o", tmp_path / "full.csv")
    assert "Filled" in done.stdout
    assert "of their variance" in done.stdout
    assert "warning" not in done.stderr


def test_a_node_that_learn_never_saw_is_told(run, frame, tmp_path):
    frame.assign(voss=None).to_csv(tmp_path / "s.csv", index=False)
    given = ("--alpha", 0.01, "--beta", 0.01, "--scales", "1,3")
    told = run("learn", tmp_path / "s.csv", "-o", tmp_path / "out", *given).stderr
    assert "never observed" in told
    done = run("impute", tmp_path / "out", tmp_path / "s.csv", "-o", tmp_path / "f.csv", "--json")
    (warning,) = json.loads(done.stdout)["warnings"]
    assert "filled in without knowledge" in warning
    assert "['voss']" in warning
    assert done.stderr.count("voss") == 1


def test_an_earlier_result_is_kept(refused, run, learned, gappy, tmp_path):
    out = tmp_path / "full.csv"
    out.write_text("mine")
    assert "--force" in refused("impute", learned / "result", gappy[0], "-q", "-o", out)
    assert out.read_text() == "mine"
    run("impute", learned / "result", gappy[0], "-o", out, "--force")
    assert out.read_text() != "mine"


def test_unknown_nodes_are_refused(refused, learned, frame, tmp_path):
    frame.rename(columns={"oslo": "paris"}).to_csv(tmp_path / "other.csv", index=False)
    out = tmp_path / "full.csv"
    assert "'paris'" in refused("impute", learned / "result", tmp_path / "other.csv", "-o", out)
    assert not out.exists()


class TestTheTableComesBack:
    def impute(self, run, learned, path, out, *options):
        run("impute", learned / "result", path, "-o", out, *options)
        return out

    def test_with_its_own_order_of_columns(self, run, learned, frame, tmp_path):
        turned = frame[frame.columns[::-1]].copy()
        turned.insert(3, "when", [f"w{k}" for k in range(len(frame))])
        turned.iloc[0, 1] = np.nan
        turned.to_csv(tmp_path / "s.csv", index=False)
        out = self.impute(
            run, learned, tmp_path / "s.csv", tmp_path / "f.csv", "--index-column", "when"
        )
        back = read_exact(out)
        assert back.columns.tolist() == turned.columns.tolist()
        assert np.isfinite(back.iloc[0, 1])
        back.iloc[0, 1] = np.nan
        pd.testing.assert_frame_equal(back, turned, check_exact=True)

    def test_with_nodes_in_rows(self, run, learned, frame, tmp_path):
        turned = frame[frame.columns[::-1]].T.rename_axis("town")
        turned.columns = [f"day {k}" for k in range(len(frame))]
        turned.to_csv(tmp_path / "s.csv")
        out = self.impute(run, learned, tmp_path / "s.csv", tmp_path / "f.csv", "--transpose")
        back = read_exact(out).set_index("town")
        pd.testing.assert_frame_equal(back, turned, check_exact=True)

    def test_with_semicolons_and_decimal_commas(self, run, learned, frame, tmp_path):
        frame.to_csv(tmp_path / "s.csv", index=False, sep=";", decimal=",")
        out = self.impute(run, learned, tmp_path / "s.csv", tmp_path / "f.csv", "--decimal", ",")
        assert out.read_text(encoding="utf-8") == (tmp_path / "s.csv").read_text(encoding="utf-8")

    def test_as_parquet_with_dates(self, run, learned, frame, tmp_path):
        dated = frame.set_axis(pd.date_range("2020-01-01", periods=len(frame), name="day"))
        dated.to_parquet(tmp_path / "s.parquet")
        out = self.impute(run, learned, tmp_path / "s.parquet", tmp_path / "f.parquet")
        pd.testing.assert_frame_equal(pd.read_parquet(out), dated, check_freq=False)
        dated.reset_index().to_parquet(tmp_path / "s.parquet")
        out = self.impute(run, learned, tmp_path / "s.parquet", tmp_path / "g.parquet")
        pd.testing.assert_frame_equal(pd.read_parquet(out), dated.reset_index())

    def test_without_names(self, run, learned, frame, tmp_path):
        np.save(tmp_path / "s.npy", frame.to_numpy())
        out = self.impute(run, learned, tmp_path / "s.npy", tmp_path / "f.npy")
        np.testing.assert_array_equal(np.load(out), frame.to_numpy())
        out = self.impute(run, learned, tmp_path / "s.npy", tmp_path / "f.parquet")
        assert pd.read_parquet(out).columns.tolist() == [str(k) for k in range(frame.shape[1])]
        out = self.impute(run, learned, tmp_path / "s.npy", tmp_path / "f.csv")
        assert pd.read_csv(out, header=None).shape == frame.shape

    def test_compressed_and_in_a_new_folder(self, run, learned, frame, tmp_path):
        frame.to_csv(tmp_path / "s.csv.gz", index=False)
        out = self.impute(run, learned, tmp_path / "s.csv.gz", tmp_path / "a" / "b" / "f.csv.gz")
        pd.testing.assert_frame_equal(read_exact(out), frame, check_exact=True)


def test_where_it_cannot_be_written(refused, learned, gappy, tmp_path):
    given = ("impute", learned / "result", gappy[0], "-o")
    assert "is a folder" in refused(*given, tmp_path)
    assert "is written as .csv, .tsv, .txt" in refused(*given, tmp_path / "full.xlsx")
    assert "not as no suffix" in refused(*given, tmp_path / "full")


def test_signals_without_any_value_stay_empty(run, refused, learned, frame, tmp_path):
    empty = frame.copy()
    empty.iloc[[2, 5]] = np.nan
    empty.iloc[3, 1] = np.nan
    empty.insert(0, "day", [f"day {k}" for k in range(len(frame))])
    empty.to_csv(tmp_path / "s.csv", index=False)
    given = ("impute", learned / "result", tmp_path / "s.csv", "-o", tmp_path / "full.csv")
    done = run(*given)
    assert "Filled 1 value of 30 signals" in done.stdout
    assert "2 signals had nothing observed and stay empty." in done.stdout
    assert "warning" not in done.stderr
    back = pd.read_csv(tmp_path / "full.csv").drop(columns="day")
    assert np.flatnonzero(back.isna().all(axis=1)).tolist() == [2, 5]
    assert back.isna().sum().sum() == 12
    empty.iloc[:, 1:] = np.nan
    empty.to_csv(tmp_path / "s.csv", index=False)
    assert "has no observed value" in refused(*given, "-q", "--force")
