"""Temperatures as prepared and as Météo-France has them."""

import gzip

import numpy as np
import pandas as pd
import pytest

from heatgraph.datasets import load_molene
from heatgraph.datasets.molene import DEPARTMENTS

TABLE = """date,22016001,29151004
20140101000000.0,280.15,279.05
20140101010000.0,280.25,279.15
"""
STATIONS = """Numéro,Nom,Latitude,Longitude,Altitude
22016001,ILE-DE-BREHAT,48°51'18N,3°00'12W,25
"""
HEADER = "NUM_POSTE;NOM_USUEL;LAT;LON;ALTI;AAAAMMJJHH;RR1;T;QT\n"


@pytest.fixture
def made(tmp_path):
    folder = tmp_path / "molene"
    folder.mkdir()
    (folder / "molene_temperature_K_hourly_jan2014.csv").write_text(TABLE)
    (folder / "weather_stations.csv").write_text(STATIONS, encoding="utf-8")
    return tmp_path


def archives(folder, rows):
    """The archive of every department, with the same few rows."""
    for file in DEPARTMENTS:
        with gzip.open(folder / file.name, "wt", encoding="utf-8") as out:
            out.write(HEADER + (rows if "_22_" in file.name else OTHER))


OTHER = "35999999;NOWHERE;48;-2;1;2014010100;;1.0;1\n"
ROWS = """22016001;ILE-DE-BREHAT;48.855;-3.003333;25;2013123123;;7.5;1
22016001;ILE-DE-BREHAT;48.855;-3.003333;25;2014010100;;7.0;1
22016001;ILE-DE-BREHAT;48.855;-3.003333;25;2014010101;;;1
22016001;ILE-DE-BREHAT;48.855;-3.003333;25;2014020100;;9.5;1
"""


def test_prepared(made):
    data = load_molene(made)
    assert data.signals.shape == (2, 2)
    assert data.signals.index[1] == pd.Timestamp("2014-01-01T01:00Z")
    assert data.coordinates[0] == pytest.approx([-(3 + 12 / 3600), 48 + 51 / 60 + 18 / 3600])
    assert data.places["title"].tolist() == ["ILE-DE-BREHAT", "29151004"]


def test_a_station_without_a_place_is_told_and_can_be_left_out(made):
    data = load_molene(made)
    assert np.isnan(data.coordinates[1]).all()
    assert "no place for 29151004" in data.provenance
    assert data.placed().signals.columns.tolist() == ["22016001"]


def test_original(made):
    archives(made, ROWS)
    (made / "molene" / "weather_stations.csv").unlink()
    data = load_molene(made)
    assert data.signals.shape == (744, 1)
    column = data.signals["22016001"]
    assert column.iloc[0] == pytest.approx(280.15)
    assert column.iloc[1:].isna().all()
    assert data.coordinates.tolist() == [[-3.003333, 48.855]]


def test_an_archive_without_that_month_is_refused(made):
    archives(made, ROWS)
    path = made / DEPARTMENTS[0].name
    with gzip.open(path, "wt") as out:
        out.write(HEADER + ROWS.splitlines()[0] + "\n")
    with pytest.raises(ValueError, match="no row of January 2014"):
        DEPARTMENTS[0].check(path)


def test_an_angle_has_to_be_one(made):
    path = made / "molene" / "weather_stations.csv"
    path.write_text(STATIONS.replace("48°51'18N", "48.9"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"'48\.9' is not an angle"):
        load_molene(made)


def test_without_a_folder_the_archives_are_downloaded(made, monkeypatch):
    archives(made, ROWS)
    monkeypatch.setattr("heatgraph.datasets.molene.find_file", lambda file, home: made / file.name)
    assert load_molene().signals.shape == (744, 1)


def test_real(data_home):
    data = load_molene(data_home)
    assert data.signals.shape == (744, 37)
    assert not data.signals.isna().any(axis=None)
    assert data.signals.to_numpy().min() > 260
    placed = data.placed()
    assert placed.signals.shape == (744, 32)
    # Brittany and a little beyond.
    assert (np.abs(placed.coordinates - (-3.2, 48.0)) < (1.7, 1.2)).all()
