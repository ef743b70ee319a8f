"""Hourly temperatures at stations around Brittany in January 2014."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from heatgraph.datasets.fetch import PathLike, PublicFile, find_file
from heatgraph.datasets.geography import PlacedSignals, prepared_form, read_table

FIRST, LAST = pd.Timestamp("2014-01-01T00:00"), pd.Timestamp("2014-01-31T23:00")
KELVIN = 273.15
# The stations of the prepared table: those that missed no hour of that month.
STATIONS = (
    22016001, 22092001, 22135001, 22147006, 22168001, 22219003, 22247002, 22261002, 22266001,
    22282001, 22372001, 29151004, 29158001, 29163003, 29168001, 29214001, 29263002, 29276001,
    29278001, 29293001, 35228001, 44069002, 44168001, 44184001, 56007001, 56009001, 56017003,
    56069001, 56081003, 56159001, 56165003, 56178003, 56185001, 56240003, 56243001, 56251001,
    85163001,
)  # fmt: skip


def _read_archive(path: Path) -> pd.DataFrame:
    """The rows of that January in an archive of ten years; temperatures in degrees Celsius."""
    fields = ["NUM_POSTE", "NOM_USUEL", "LAT", "LON", "AAAAMMJJHH", "T"]
    kinds = {"NUM_POSTE": str, "AAAAMMJJHH": str}
    parts = pd.read_csv(path, sep=";", usecols=fields, dtype=kinds, chunksize=200_000)
    rows = pd.concat([part[part["AAAAMMJJHH"].str.startswith("201401")] for part in parts])
    if rows.empty:
        raise ValueError("it has no row of January 2014")
    hour = pd.to_datetime(rows["AAAAMMJJHH"], format="%Y%m%d%H", utc=True)
    return rows.assign(NUM_POSTE=rows["NUM_POSTE"].str.strip().str.zfill(8), hour=hour)


# Météo-France renews these archives, so that no checksum would hold.
DEPARTMENTS = tuple(
    PublicFile(
        f"molene/H_{number}_2010-2019.csv.gz",
        "https://object.files.data.gouv.fr/meteofrance/data/synchro_ftp/BASE/HOR/"
        f"H_{number}_2010-2019.csv.gz",
        check=_read_archive,
    )
    for number in (22, 29, 35, 44, 56, 85)
)
FORMS = {
    "prepared": (
        "molene/molene_temperature_K_hourly_jan2014.csv",
        "molene/weather_stations.csv",
    ),
    "original": tuple(file.name for file in DEPARTMENTS),
}
PROVENANCE = "Météo-France, hourly air temperature, Licence Ouverte"


def load_molene(data_home: PathLike | None = None) -> PlacedSignals:
    """Load 744 hourly temperatures, in kelvin, at 37 stations in and around Brittany.

    Parameters
    ----------
    data_home : str or path-like, optional
        A folder of data to read, without which (and without the environment variable
        ``HEATGRAPH_DATA``) the original is downloaded and kept.  It has the prepared table
        (``molene/molene_temperature_K_hourly_jan2014.csv`` and ``molene/weather_stations.csv``),
        or else Météo-France's archives of the departments (``molene/H_22_2010-2019.csv.gz``, ...),
        from which the same stations are taken.

    Returns
    -------
    PlacedSignals
        By the hour, in UTC.  The prepared list of stations has no coordinates for five of the 37
        (NaN); ``.placed()`` leaves those out.

    Raises
    ------
    OSError
        If the files are not there, or cannot be downloaded.
    """
    paths = prepared_form(data_home, FORMS)
    if paths is not None:
        return _prepared(*paths)
    return _original([find_file(file, data_home) for file in DEPARTMENTS])


def _prepared(table: Path, stations: Path) -> PlacedSignals:
    signals = read_table(table, _read_hours)
    places = read_table(stations, _read_stations)
    unknown = [code for code in signals.columns if code not in places.index]
    places = places.reindex(signals.columns)
    places["title"] = places["title"].fillna(pd.Series(unknown, unknown))
    note = f"; the list of stations has no place for {', '.join(unknown)}" if unknown else ""
    return PlacedSignals(signals, places, PROVENANCE + note)


def _read_hours(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, dtype={"date": str}).set_index("date").astype(float)
    # The dates were once numbers: 20140101000000.0
    stamps = [text.split(".")[0] for text in table.index]
    table.index = pd.to_datetime(stamps, format="%Y%m%d%H%M%S", utc=True)
    table.index.name = "hour"
    return table


def _read_stations(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, dtype={"Numéro": str, "Latitude": str, "Longitude": str}).set_index(
        "Numéro"
    )
    table.index.name = None
    return pd.DataFrame(
        {
            "lon": [_degrees(text) for text in table["Longitude"]],
            "lat": [_degrees(text) for text in table["Latitude"]],
            "title": table["Nom"],
        },
        index=table.index,
    )


def _degrees(text: str) -> float:
    """``48°51'18N`` as a number, south and west negative."""
    found = re.fullmatch(r"(\d+)°(\d+)'(\d+)\"?([NSEWO])", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an angle of the form 48°51'18N")
    degrees, minutes, seconds = map(int, found.groups()[:3])
    sign = 1.0 if found.group(4) in "NE" else -1.0
    return sign * (degrees + minutes / 60.0 + seconds / 3600.0)


def _original(archives: list[Path]) -> PlacedSignals:
    rows = pd.concat([read_table(path, _read_archive) for path in archives])
    rows = rows[rows["NUM_POSTE"].isin([str(number) for number in STATIONS])]
    # pivot, unlike pivot_table, refuses two values for one hour.
    wide = rows.pivot(index="hour", columns="NUM_POSTE", values="T")  # noqa: PD010
    signals = (wide + KELVIN).reindex(pd.date_range(FIRST, LAST, freq="h", tz="UTC", name="hour"))
    signals.columns.name = None
    places = rows.drop_duplicates("NUM_POSTE").set_index("NUM_POSTE").loc[signals.columns]
    places = places.rename(columns={"LON": "lon", "LAT": "lat", "NOM_USUEL": "title"})
    note = "from the archives of the departments"
    return PlacedSignals(signals, places[["lon", "lat", "title"]], f"{PROVENANCE}; {note}")
