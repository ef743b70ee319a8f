"""The Uber experiment: groups of edges, the null of shuffled hours, the verdicts."""

import json

import numpy as np
import pandas as pd
import pytest

from heatgraph.datasets.new_york import zone_names
from heatgraph.experiments import Settings, get_experiment
from heatgraph.experiments.uber import GROUPS, READINGS, SLOTS, verdicts_of
from heatgraph.experiments.uber_fits import learn_slot, shares
from heatgraph.graph import Graph


@pytest.fixture
def home(tmp_path):
    """Pickups of the prepared form, which at night are at the airports only."""
    rng = np.random.default_rng(0)
    names = zone_names()
    (tmp_path / "uber").mkdir()
    (tmp_path / "taxi_yellow").mkdir()
    features = [
        {
            "type": "Feature",
            "properties": {"zone29": n, "zone29_name": n, "lon": -74 + k / 99, "lat": 40.7},
            "geometry": {"type": "Polygon", "coordinates": [[[-74, 40], [-73, 40], [-73, 41]]]},
        }
        for k, n in enumerate(names)
    ]
    (tmp_path / "uber/zones29.geojson").write_text(json.dumps({"features": features}))
    (tmp_path / "uber/zones29_adjacency.csv").write_text(f"a,b\n{names[0]},{names[1]}\n")
    hours = pd.date_range("2014-09-01", periods=720, freq="h")
    table = pd.DataFrame(rng.poisson(20, (720, 29)), columns=names)
    night = hours.hour < 7
    airports = [n for n in names if n.startswith("AP")]
    level = rng.poisson(200, night.sum())
    for name in airports:
        table.loc[night, name] = level
    table.insert(0, "hour_start_local", hours.strftime("%Y-%m-%d %H:%M:%S"))
    for path in (
        "uber/uber_sep2014_hourly_29zones.csv",
        "taxi_yellow/yellow_sep2014_hourly_29zones.csv",
    ):
        table.to_csv(tmp_path / path, index=False)
    return tmp_path


def test_edges_are_grouped_by_their_ends():
    names = ["MN01", "MN02", "BK01", "QN01", "AP1"]
    graph = Graph([(0, 1), (0, 2), (2, 3), (0, 4), (3, 4)], [1, 2, 3, 4, 5], 5, names)
    assert shares(graph) == {
        "airports": pytest.approx(9 / 15),
        "boroughs and Manhattan": pytest.approx(2 / 15),
        "inside Manhattan": pytest.approx(1 / 15),
        "elsewhere": pytest.approx(3 / 15),
    }


def slot(home, name, draw=None, reading="counts"):
    return learn_slot(str(home), "", "uber", reading, name, 0.1, 0.002, draw, 0)


def test_a_slot_takes_its_weekday_hours(home):
    # 22 weekdays in that month.
    assert [slot(home, name)["n_signals"] for name in ("0-7", "16-19")] == [154, 66]


def test_shuffled_hours_are_as_many_and_others(home):
    own, first, second = slot(home, "16-19"), slot(home, "16-19", 0), slot(home, "16-19", 1)
    assert first["n_signals"] == own["n_signals"]
    assert first["weights"] != own["weights"]
    assert first["weights"] != second["weights"]
    assert slot(home, "16-19", 0) == first


def test_zones_that_move_together_are_joined(home):
    found = slot(home, "0-7", reading="levelled")
    graph = Graph(found["edges"], found["weights"], 29, zone_names())
    mutual = [w for (i, j), w in zip(graph.edges, graph.weights, strict=True) if min(i, j) >= 26]
    assert sum(mutual) / graph.weights.sum() > 0.05


def table(**special):
    rows = []
    for group in GROUPS:
        for name in SLOTS:
            share, p = special.get(f"{group} {name}", (0.2, 0.5))
            rows.append(
                {"source": "uber", "reading": "counts", "slot": name, "group": group,
                 "share": share, "null_mean": 0.2, "p": p}
            )  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("special", "leads", "holds"),
    [
        ({"airports 0-7": (0.4, 0.05)}, True, True),
        ({"airports 0-7": (0.4, 0.10)}, True, False),
        ({"airports 0-7": (0.4, 0.05), "airports 19-24": (0.5, 0.5)}, False, False),
    ],
)
def test_a_reading_holds_only_beyond_other_slots_and_chance(special, leads, holds):
    verdict = verdicts_of(table(**special)).set_index("claim").loc["airports early in the morning"]
    assert (bool(verdict["leads_other_slots"]), bool(verdict["holds"])) == (leads, holds)


def test_the_rush_hours_are_both_needed():
    group = READINGS["boroughs and Manhattan in the rush hours"][0]
    one = table(**{f"{group} 7-10": (0.4, 0.05)})
    both = table(**{f"{group} 7-10": (0.4, 0.05), f"{group} 16-19": (0.3, 0.05)})
    claim = "boroughs and Manhattan in the rush hours"
    assert not verdicts_of(one).set_index("claim").loc[claim, "holds"]
    assert verdicts_of(both).set_index("claim").loc[claim, "holds"]


@pytest.mark.slow
def test_run(home):
    outcome = get_experiment("uber").run(Settings(quick=True, data_home=home))
    assert set(outcome.figures) == {"figure8", "yellow", "shares"}
    assert "RECONSTRUCTED" in outcome.page
    assert len(outcome.tables["readings"]) == 9
    assert outcome.tables["shares"].groupby(["source", "reading", "slot"])[
        "share"
    ].sum().to_numpy() == pytest.approx(1.0)
