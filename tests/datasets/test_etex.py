"""ETEX as prepared and as DATEM has it: the same numbers, missing where they are missing."""

import shutil

import numpy as np
import pandas as pd
import pytest

from heatgraph.datasets import load_etex
from heatgraph.datasets.fetch import HOME_VARIABLE

TABLE = """code,1994-10-23T15:00Z,1994-10-23T18:00Z
D10,0.0,
F21,0.9,1.5
B02,,
"""
STATIONS = """code,datem_id,name,lat,lon
F21,8021,Rennes,48.0667,-1.7333
D10,6010,Essen,51.4,6.9667
B02,2002,Elsenborn,50.4667,6.1833
"""
DATEM = r"""\datem\exp_data\etex\mea95t1.txt
year mn dy  shr  dur   lat     lon    pm40     stn
1994 10 23 1500 0300 51.40    6.97     0.0    6010
1994 10 23 1500 0300 48.07   -1.73   900.0    8021
1994 10 23 1800 0300 51.40    6.97    40.0    6010
1994 10 23 1800 0300 48.07   -1.73  1500.0    8021
"""


@pytest.fixture
def made(tmp_path):
    folder = tmp_path / "etex"
    folder.mkdir()
    (folder / "etex1_pmch_ng_m3.csv").write_text(TABLE)
    (folder / "etex1_stations.csv").write_text(STATIONS)
    (folder / "meas-t1.txt").write_text(DATEM)
    return tmp_path


def test_prepared(made):
    data = load_etex(made)
    assert data.signals.columns.tolist() == ["D10", "F21", "B02"]
    assert data.signals.index.strftime("%d %H:%M %Z").tolist() == ["23 15:00 UTC", "23 18:00 UTC"]
    assert data.signals["F21"].tolist() == [0.9, 1.5]
    assert data.signals["B02"].isna().all()
    assert data.places.loc["F21", "title"] == "Rennes"
    assert data.coordinates[1].tolist() == [-1.7333, 48.0667]
    assert "DATEM" in data.provenance


def without_prepared(made):
    """The folder as one has it who downloaded the file of DATEM only."""
    (made / "etex" / "etex1_pmch_ng_m3.csv").unlink()
    return made


def test_original_has_the_same_numbers(made):
    other, data = load_etex(made), load_etex(without_prepared(made))
    assert data.signals.columns.tolist() == ["D10", "F21"]
    assert data.signals.equals(other.signals[["D10", "F21"]].set_axis(data.signals.index))
    assert np.isnan(data.signals.loc[pd.Timestamp("1994-10-23T18:00Z"), "D10"])  # withdrawn


def test_the_environment_names_the_folder(made, monkeypatch):
    monkeypatch.setenv(HOME_VARIABLE, str(made))
    assert load_etex().signals.shape == (2, 3)


def test_without_a_folder_the_original_is_downloaded(made, monkeypatch):
    asked = []

    def found(file, data_home):
        asked.append((file.name, data_home))
        return made / file.name

    monkeypatch.setattr("heatgraph.datasets.etex.find_file", found)
    assert load_etex().signals.shape == (2, 2)
    assert asked == [("etex/meas-t1.txt", None)]


def test_an_empty_folder_is_told_what_it_lacks(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"lacks etex/etex1_pmch_ng_m3\.csv and"):
        load_etex(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("meas-t1.txt", DATEM.replace("6010", "9910"), "no country has the station 9910"),
        ("meas-t1.txt", DATEM.replace("40.0", "-9.0"), "negative concentration"),
        ("meas-t1.txt", DATEM + DATEM.splitlines()[-1] + "\n", "duplicate"),
        ("etex1_stations.csv", STATIONS.replace("B02", "B03"), r"lacks the stations \['B02'\]"),
        ("etex1_pmch_ng_m3.csv", TABLE.replace("0.9", "much"), "is not as expected"),
    ],
)
def test_a_damaged_file_is_refused(made, name, content, message):
    (made / "etex" / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        load_etex(without_prepared(made) if name == "meas-t1.txt" else made)


def test_real(data_home, tmp_path):
    data = load_etex(data_home)
    assert data.signals.shape == (30, 168)
    assert int(data.signals.isna().sum().sum()) == 1936
    assert int(data.signals.isna().all().sum()) == 9
    (tmp_path / "etex").mkdir()
    shutil.copy(data_home / "etex" / "meas-t1.txt", tmp_path / "etex")
    original = load_etex(tmp_path).signals
    assert original.shape == (30, 159)
    assert np.allclose(original, data.signals[original.columns], equal_nan=True)
