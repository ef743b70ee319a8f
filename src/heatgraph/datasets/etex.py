"""ETEX-1: a tracer released near Rennes in October 1994, and where in Europe it was found."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from heatgraph.datasets.fetch import PathLike, PublicFile, find_file
from heatgraph.datasets.geography import PlacedSignals, prepared_form, read_table

# NOAA's server answers programs with an empty page at times; a browser gets the file.
MEASURED = PublicFile(
    "etex/meas-t1.txt",
    "https://www.arl.noaa.gov/wp-content/uploads/documents/datem/exp_data/etex/meas-t1.txt",
    "149fe7a6680103eb1dd0b78c6c3878546a307e6140bcef4333bbbf30f3b7685b",
)
FORMS = {
    "prepared": ("etex/etex1_pmch_ng_m3.csv", "etex/etex1_stations.csv"),
    "original": (MEASURED.name,),
}
# DATEM numbers the stations: the country, then two or three digits for the station.
COUNTRIES = {
    1: "A", 2: "B", 3: "BG", 4: "CH", 5: "CR", 6: "D", 7: "DK", 8: "F", 90: "H", 91: "N",
    92: "NL", 93: "PL", 94: "R", 95: "S", 96: "SF", 97: "SR", 98: "UK",
}  # fmt: skip
WITHDRAWN = ("D10", pd.Timestamp("1994-10-23T18:00Z"))
ACKNOWLEDGEMENT = (
    "European Tracer Experiment, first release (JRC), from the Data Archive of Tracer Experiments "
    "and Meteorology (DATEM) of the NOAA Air Resources Laboratory, to be acknowledged; one value "
    "(D10, second interval) left out, as JRC did"
)


def load_etex(data_home: PathLike | None = None) -> PlacedSignals:
    """Load the concentrations of a tracer over Europe, 30 means of three hours each.

    Parameters
    ----------
    data_home : str or path-like, optional
        A folder of data to read, without which (and without the environment variable
        ``HEATGRAPH_DATA``) the original is downloaded and kept.  It has the prepared table of 168
        stations with their names (``etex/etex1_pmch_ng_m3.csv`` and ``etex/etex1_stations.csv``),
        or else the file of DATEM (``etex/meas-t1.txt``), which has the 159 stations that measured.

    Returns
    -------
    PlacedSignals
        Concentrations in ng/m3, by the start of the interval in UTC; NaN where nothing was
        measured.

    Raises
    ------
    OSError
        If the files are not there, or cannot be downloaded.
    """
    paths = prepared_form(data_home, FORMS)
    return _original(find_file(MEASURED, data_home)) if paths is None else _prepared(*paths)


def _prepared(table: Path, stations: Path) -> PlacedSignals:
    wide = read_table(table, lambda path: pd.read_csv(path, index_col="code").astype(float))
    known = read_table(stations, lambda path: _places(pd.read_csv(path, index_col="code")))
    signals = wide.T
    signals.index = pd.to_datetime(signals.index, utc=True)
    signals.index.name, signals.columns.name = "start", None
    lost = [code for code in signals.columns if code not in known.index]
    if lost:
        raise ValueError(f"{stations} lacks the stations {lost} of {table}")
    return PlacedSignals(
        signals, known.loc[signals.columns], f"{ACKNOWLEDGEMENT}; stations as JRC lists them"
    )


def _places(stations: pd.DataFrame) -> pd.DataFrame:
    places = stations[["lon", "lat", "name"]].rename(columns={"name": "title"})
    places.index.name = None
    return places


def _original(path: Path) -> PlacedSignals:
    rows = read_table(path, _read_datem)
    # pivot, unlike pivot_table, refuses two values for one interval.
    wide = rows.pivot(index="start", columns="code", values="concentration")  # noqa: PD010
    signals = wide / 1000.0
    signals.columns.name = None
    places = rows.drop_duplicates("code").set_index("code")[["lon", "lat"]]
    places = places.loc[signals.columns].assign(title=list(signals.columns))
    if WITHDRAWN[0] in signals.columns and WITHDRAWN[1] in signals.index:
        signals.loc[WITHDRAWN[1], WITHDRAWN[0]] = float("nan")
    note = "the 159 stations that measured, named by their codes"
    return PlacedSignals(signals, places, f"{ACKNOWLEDGEMENT}; {note}")


def _read_datem(path: Path) -> pd.DataFrame:
    """Line 1 names the file, line 2 the columns; times are UTC, concentrations pg/m3."""
    names = ["year", "month", "day", "start", "duration", "lat", "lon", "concentration", "station"]
    rows = pd.read_csv(path, sep=r"\s+", skiprows=2, names=names)
    if rows[names].isna().any(axis=None) or not (rows["concentration"] >= 0).all():
        raise ValueError("a row lacks a field, or has a negative concentration")
    hour = pd.to_timedelta(rows["start"] // 100, unit="h")
    rows["start"] = pd.to_datetime(rows[["year", "month", "day"]], utc=True) + hour
    return rows.assign(code=[_code(number) for number in rows["station"]])


def _code(number: int) -> str:
    country = number // 1000 if number < 9000 else number // 100
    if country not in COUNTRIES:
        raise ValueError(f"no country has the station {number}")
    return f"{COUNTRIES[country]}{number % 100:02d}"
