"""Tables as people have them: read rightly and told, or one question with the option that answers.

Each table is written to a file as it would come from a spreadsheet or a logger.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from heatgraph.cli.tables import TableOptions, read_signals

TOWNS = ["oslo", "bergen", "moss", "voss"]


@pytest.fixture
def values():
    return np.random.default_rng(0).normal(10.0, 3.0, (9, 4)).round(2)


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "signals.csv"
        text = content if isinstance(content, str) else content.to_csv(index=False)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def told(table):
    return "; ".join(table.notes)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y %H:%M", "%b %d, %Y"])
def test_dates_first(file, values, form):
    days = pd.date_range("2024-01-01", periods=9).strftime(form)
    frame = pd.DataFrame(values, columns=TOWNS)
    frame.insert(0, "when", days)
    table = read_signals(file(frame), TableOptions())
    assert table.names == tuple(TOWNS)
    assert table.labels == tuple(days)
    assert np.array_equal(table.values, values)
    assert "column 'when' labels the signals and is not a node" in told(table)


class TestThousands:
    def test_between_commas_in_quotes(self, file):
        text = 'a,b\n"1,234","12,345.5"\n"2,000,000",17\n'
        table = read_signals(file(text), TableOptions())
        assert table.values.tolist() == [[1234.0, 12345.5], [2e6, 17.0]]
        assert "',' separates thousands ('1,234' is read as 1234)" in told(table)

    def test_points_and_decimal_commas(self, file):
        table = read_signals(file("a;b\n1.234,5;17,25\n2.000.000;3\n"), TableOptions())
        assert table.values.tolist() == [[1234.5, 17.25], [2e6, 3.0]]

    def test_spaces(self, file):
        table = read_signals(file("a;b\n1 234,5;17\n2 000;3\n"), TableOptions())
        assert table.values.tolist() == [[1234.5, 17.0], [2000.0, 3.0]]

    def test_what_can_be_read_in_two_ways_is_asked(self, file):
        path = file("a;b\n1,234;5,678\n2,345;6,789\n")
        with pytest.raises(ValueError, match=r"'1,234' may be 1234 or 1\.234; say --thousands ,"):
            read_signals(path, TableOptions())
        assert read_signals(path, TableOptions(thousands=",")).values[0].tolist() == [1234, 5678]
        assert read_signals(path, TableOptions(decimal=",")).values[0].tolist() == [1.234, 5.678]


def test_semicolons_with_decimal_commas_and_dates_with_points(file, values):
    frame = pd.DataFrame(values, columns=TOWNS).map(lambda x: f"{x:.2f}".replace(".", ","))
    frame.insert(0, "Datum", pd.date_range("2024-01-01", periods=9).strftime("%d.%m.%Y"))
    table = read_signals(file(frame.to_csv(index=False, sep=";")), TableOptions())
    assert np.array_equal(table.values, values)
    assert table.names == tuple(TOWNS)
    assert "separated by semicolons" in told(table)
    assert "',' marks decimals" in told(table)


class TestTwoLinesOfNames:
    def test_units(self, file, values):
        rows = pd.DataFrame(values).to_csv(index=False, header=False)
        table = read_signals(file("oslo,bergen,moss,voss\n°C,°C,°C,°C\n" + rows), TableOptions())
        assert table.names == tuple(TOWNS)
        assert np.array_equal(table.values, values)
        assert "second line ('°C', ...) was taken for units and left out" in told(table)

    def test_groups_above_names(self, file, values):
        rows = pd.DataFrame(values).to_csv(index=False, header=False)
        table = read_signals(file("east,,west,\noslo,bergen,moss,voss\n" + rows), TableOptions())
        assert table.names == tuple(TOWNS)
        assert "names of the columns are on its second line" in told(table)

    def test_names_of_both_lines_together(self, file, values):
        rows = pd.DataFrame(values).to_csv(index=False, header=False)
        text = "oslo,oslo,moss,moss\nair,sea,air,sea\n" + rows
        table = read_signals(file(text), TableOptions())
        assert table.names == ("oslo air", "oslo sea", "moss air", "moss sea")


class TestCoordinates:
    def test_of_each_row_suggest_that_rows_are_nodes(self, file, values):
        frame = pd.DataFrame(values.T, columns=[f"v{k}" for k in range(9)])
        frame.insert(0, "town", TOWNS)
        frame.insert(1, "lat", [59.9, 60.4, 59.4, 60.6])
        frame.insert(2, "lon", [10.7, 5.3, 10.7, 6.4])
        path = file(frame)
        with pytest.raises(ValueError, match=r"are its rows nodes \('oslo', .*say --transpose"):
            read_signals(path, TableOptions())
        table = read_signals(path, TableOptions(transpose=True))
        assert table.names == tuple(TOWNS)
        assert np.array_equal(table.values, values)
        assert table.coordinates.loc["bergen", ["longitude", "latitude"]].tolist() == [5.3, 60.4]
        table = read_signals(path, TableOptions(transpose=False))
        assert table.n_nodes == 9
        assert "columns 'lat', 'lon' hold coordinates and are not nodes" in told(table)

    def test_in_the_first_rows_are_no_signals(self, file, values):
        frame = pd.DataFrame(np.vstack([[59.9, 60.4, 59.4, 60.6], [10.7, 5.3, 10.7, 6.4], values]))
        frame.columns = TOWNS
        frame.insert(0, "", ["lat", "lon", *pd.date_range("2024-01-01", periods=9).astype(str)])
        table = read_signals(file(frame), TableOptions())
        assert np.array_equal(table.values, values)
        assert len(table.labels) == 9
        assert "rows 'lon' and 'lat' are coordinates, not signals" in told(table)
        assert table.coordinates.loc["oslo", "longitude"] == 10.7


class TestGaps:
    @pytest.mark.parametrize("gap", [-99, -999, -9999, -99.9, 9999, -32768, 1e20])
    def test_values_that_loggers_write(self, file, values, gap):
        values[[1, 4, 4], [0, 2, 3]] = gap
        path = file(pd.DataFrame(values, columns=TOWNS))
        table = read_signals(path, TableOptions())
        assert np.isnan(table.values).sum() == 3
        assert f"3 values of {gap:g} stand for gaps (--missing none" in told(table)
        assert not np.isnan(read_signals(path, TableOptions(missing=["none"])).values).any()

    @pytest.mark.parametrize("cell", ["-", "--", "?", "#N/A", "NULL"])
    def test_cells_that_stand_for_nothing(self, file, values, cell):
        frame = pd.DataFrame(values, columns=TOWNS).astype(str)
        frame.loc[[2, 5], "moss"] = cell
        table = read_signals(file(frame), TableOptions())
        assert np.argwhere(np.isnan(table.values)).tolist() == [[2, 2], [5, 2]]

    def test_a_value_among_others_is_a_value(self, file):
        path = file("a,b\n-999,-500\n-1500,200\n-900,3\n")
        assert not np.isnan(read_signals(path, TableOptions()).values).any()
        table = read_signals(path, TableOptions(missing=["-500", "3"]))
        assert np.isnan(table.values).sum() == 2
        with pytest.raises(ValueError, match="--missing must be a number"):
            read_signals(path, TableOptions(missing=["x"]))


def test_a_constant_column_is_warned_of(file, values):
    values[:, 2] = 7.0
    table = read_signals(file(pd.DataFrame(values, columns=TOWNS)), TableOptions())
    assert table.names == tuple(TOWNS)
    (warning,) = table.warnings
    assert warning.startswith("the column 'moss' never changes (it is 7)")


def with_summaries(values):
    frame = pd.DataFrame(values, columns=TOWNS)
    frame.insert(0, "day", [f"day {k}" for k in range(9)])
    frame["Total"] = frame[TOWNS].sum(axis=1).round(2)
    frame.loc[9] = ["mean", *frame.iloc[:, 1:].mean().round(2)]
    return frame


def test_sums_and_means_of_the_others_are_left_out(file, values, tmp_path):
    frame = with_summaries(values)
    table = read_signals(file(frame), TableOptions())
    np.testing.assert_array_equal(table.values, values)
    assert (table.names, table.labels[-1]) == (tuple(TOWNS), "day 8")
    assert "the column 'Total' and the row 'mean' are summaries of the others and left out" in (
        told(table)
    )
    assert not table.warnings
    table.give_back(tmp_path / "back.csv", table.values)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "back.csv"), frame[:9])


def test_a_total_that_the_model_knows_is_a_node(file, values):
    known = TableOptions(nodes=(*TOWNS, "Total"))
    assert read_signals(file(with_summaries(values)), known).names == (*TOWNS, "Total")


def test_what_is_called_a_sum_and_is_none_is_warned_of(file, values):
    frame = with_summaries(values)
    frame["Total"] *= 1.5
    frame.loc[9, TOWNS] += 1.0
    warnings = read_signals(file(frame), TableOptions()).warnings
    assert [warning.split(" may be")[0] for warning in warnings] == ["column 'Total'", "row 'mean'"]


def test_columns_that_the_user_leaves_out(file, values):
    frame = pd.DataFrame(values, columns=TOWNS).assign(quality=["good"] * 8 + ["4"], stuck=7.0)
    table = read_signals(file(frame), TableOptions(leave_out=["quality", "stuck"]))
    np.testing.assert_array_equal(table.values, values)
    assert not table.warnings
    with pytest.raises(ValueError, match="no column 'stuk' for --leave-out; it has 'oslo'"):
        read_signals(file(frame), TableOptions(leave_out=["stuk"]))


def test_a_separator_at_the_end_of_each_line_makes_no_node(file, values):
    text = "\n".join(
        line + "," for line in pd.DataFrame(values, columns=TOWNS).to_csv(index=False).split()
    )
    table = read_signals(file(text), TableOptions())
    assert table.names == tuple(TOWNS)
    assert "1 empty column without a name left out" in told(table)


def test_units_in_the_cells_are_no_numbers(file, values):
    frame = pd.DataFrame(values, columns=TOWNS).map(lambda value: f"{value} %")
    with pytest.raises(ValueError, match=r"no column of numbers: column 'voss' has '.* %'"):
        read_signals(file(frame), TableOptions())


def test_shares_have_a_dash_for_their_unit(file, values):
    rows = pd.DataFrame(values).to_csv(index=False, header=False)
    table = read_signals(file("oslo,bergen,moss,voss\n-,-,-,-\n" + rows), TableOptions())
    assert np.array_equal(table.values, values)


@pytest.mark.parametrize("above", ["# logger 7\n", "# logger 7, roof\n# firmware\n"])
def test_lines_above_the_names_come_with_a_remedy(file, values, above):
    path = file(above + pd.DataFrame(values, columns=TOWNS).to_csv(index=False))
    with pytest.raises(ValueError, match="remove what stands above the names of the columns"):
        read_signals(path, TableOptions())


class TestNodesAsRows:
    @pytest.mark.parametrize("times", ["2024-01-0{}", "t{}", "week {}"])
    def test_rows_of_names_and_columns_of_times_are_asked_about(self, file, values, times):
        frame = pd.DataFrame(values.T, columns=[times.format(k + 1) for k in range(9)])
        frame.insert(0, "place", TOWNS)
        path = file(frame)
        with pytest.raises(ValueError, match=r"If so, say --transpose; .* --no-transpose"):
            read_signals(path, TableOptions())
        assert read_signals(path, TableOptions(transpose=True)).names == tuple(TOWNS)
        assert read_signals(path, TableOptions(transpose=False)).n_nodes == 9

    def test_fewer_signals_than_nodes_are_warned_of(self, file, values):
        table = read_signals(
            file(pd.DataFrame(values.T, columns=list("abcdefghi"))), TableOptions()
        )
        assert any("fewer signals (4) than nodes (9)" in warning for warning in table.warnings)


@pytest.mark.parametrize("name", ["week", "step", "t", "obs", "run", "Trial", "year"])
@pytest.mark.parametrize("repeated", [False, True])
def test_columns_that_number_the_signals(file, values, name, repeated):
    frame = pd.DataFrame(values, columns=TOWNS)
    frame.insert(0, name, np.arange(9) % 4 if repeated else np.arange(9))
    table = read_signals(file(frame), TableOptions())
    assert table.names == tuple(TOWNS)
    assert f"column '{name}' labels the signals" in told(table)


def test_several_columns_of_labels(file, values):
    frame = pd.DataFrame(values, columns=TOWNS)
    frame.insert(0, "week", np.arange(9) % 3)
    frame.insert(0, "year", 2020 + np.arange(9) // 3)
    frame["remark"] = list("abcdefghi")
    path = file(frame)
    table = read_signals(path, TableOptions())
    assert table.names == tuple(TOWNS)
    assert table.labels[4] == "2021 1 e"
    given = TableOptions(index_column=["week", "remark"])
    assert read_signals(path, given).names == ("year", *TOWNS)
    table.give_back(path.parent / "back.csv", table.values)
    pd.testing.assert_frame_equal(pd.read_csv(path.parent / "back.csv"), frame)


@pytest.mark.parametrize("measured", [["value"], ["temperature", "humidity"]])
def test_one_row_per_node_and_time_is_refused(file, values, measured):
    frame = pd.DataFrame(
        [(town, day) for day in range(9) for town in TOWNS], columns=["town", "day"]
    )
    for k, name in enumerate(measured):
        frame[name] = values.ravel() + k
    with pytest.raises(ValueError, match=r"one row for each pair of column 'town' and .*pivot"):
        read_signals(file(frame), TableOptions())


def test_learn_says_what_it_took_for_what(run, frame, tmp_path):
    table = frame.copy()
    table.insert(0, "week", np.arange(len(table)) % 10)
    table["moss"] = 1.0
    table.to_csv(tmp_path / "signals.csv", index=False, sep=";", decimal=",")
    places = pd.DataFrame({"name": frame.columns, "x": range(6), "y": [0, 1, 0, 1, 0, 1]})
    places.to_csv(tmp_path / "places.csv", index=False)
    done = run(
        *("learn", tmp_path / "signals.csv", "--output", tmp_path / "out"),
        *("--model", "gaussian", "--shrinkage", 0.1, "--penalty", 0, "--max-iter", 3),
        *("--coordinates", tmp_path / "places.csv"),
    )
    told = " ".join(done.stderr.split())
    assert "column 'week' labels the signals" in told
    assert "marks decimals" in told
    assert "warning: the column 'moss' never changes" in told
    assert "HeatCovariance: constant" not in told  # the same again


def test_learn_refuses_coordinates_of_other_nodes_before_it_fits(refused, signals, tmp_path):
    (tmp_path / "places.csv").write_text("name,x,y\noslo,0,1\n")
    line = refused(
        *("learn", signals, "--output", tmp_path / "out", "--quiet"),
        *("--coordinates", tmp_path / "places.csv"),
    )
    assert "coordinates must name every node" in line


def test_clocks_that_are_put_forward_are_times(file, values):
    frame = pd.DataFrame(values, columns=TOWNS)
    hours = pd.date_range("2024-03-30T22:00", periods=9, freq="h", tz="Europe/Berlin")
    frame.insert(0, "timestamp", [hour.isoformat() for hour in hours])
    assert read_signals(file(frame), TableOptions()).names == tuple(TOWNS)


@pytest.mark.parametrize("day", ["%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y"])
def test_days_and_clocks_in_two_columns_label_the_signals(file, values, day):
    hours = pd.date_range("2024-01-01", periods=8, freq="12h")
    frame = pd.DataFrame(values[:8], columns=TOWNS)
    frame.insert(0, "time", hours.strftime("%H:%M"))
    frame.insert(0, "date", hours.strftime(day))
    table = read_signals(file(frame), TableOptions())
    assert table.names == tuple(TOWNS)
    assert table.labels[1] == hours[1].strftime(f"{day} %H:%M")


class TestQuestionsNameAllLabels:
    """The option that answers says which columns are labels, all of them."""

    def test_where_a_clock_is_beside_labels(self, file, values):
        frame = pd.DataFrame(values, columns=TOWNS)
        frame.insert(0, "decimal", 1950.0 + np.arange(9) / 12)
        frame.insert(0, "month", np.arange(9) + 1)
        frame.insert(0, "year", 1950)
        with pytest.raises(ValueError, match="column 'decimal', which rises") as asked:
            read_signals(file(frame), TableOptions())
        yes, no = str(asked.value).split("if it is a node")
        assert "say --index-column year --index-column month --index-column decimal;" in yes
        assert no == ", say --index-column year --index-column month."

    def test_where_a_cell_is_no_number(self, file, values):
        frame = pd.DataFrame(values, columns=TOWNS)
        frame.insert(0, "species", list("abcabcabc"))
        frame["sex"] = ["f", "m", "", "f", "m", "", "f", "m", "4"]
        with pytest.raises(
            ValueError,
            match=r"--index-column species --index-column sex if it .* or --leave-out sex$",
        ):
            read_signals(file(frame), TableOptions())


def test_years_as_r_writes_them_are_times(file, values):
    frame = pd.DataFrame(values.T, columns=[f"X{1950 + 4 * k}" for k in range(9)])
    frame.insert(0, "", TOWNS)
    with pytest.raises(ValueError, match="If so, say --transpose"):
        read_signals(file(frame), TableOptions())


def test_nodes_in_rows_are_called_by_their_names(file, values):
    frame = pd.DataFrame(values.T, columns=[f"t{k}" for k in range(9)])
    frame.insert(0, "name", TOWNS)
    frame.insert(1, "id", [17, 4, 9, 2])
    table = read_signals(file(frame), TableOptions(transpose=True))
    assert table.names == tuple(TOWNS)
    frame["name"] = ["oslo", "oslo", "moss", "moss"]
    table = read_signals(file(frame), TableOptions(transpose=True))
    assert table.names == ("oslo 17", "oslo 4", "moss 9", "moss 2")


def test_the_numbers_of_rows_that_r_writes_are_no_part_of_a_label(file, values):
    days = pd.date_range("2024-01-01", periods=9).astype(str)
    frame = pd.DataFrame(values, columns=TOWNS)
    frame.insert(0, "date", days)
    frame.insert(0, "", np.arange(1, 10))
    assert read_signals(file(frame), TableOptions()).labels == tuple(days)


class TestCodes:
    def test_few_whole_numbers_among_measurements_are_warned_of(self, file):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.normal(size=(40, 3)).round(3), columns=TOWNS[:3])
        frame["quality"] = rng.integers(0, 3, 40)
        (warning,) = read_signals(file(frame), TableOptions()).warnings
        assert warning.startswith("the column 'quality' has 3 whole numbers only (0 to 2)")
        assert not read_signals(file(frame), TableOptions(leave_out=["quality"])).warnings

    def test_counts_beside_counts_are_not(self, file):
        counts = np.random.default_rng(0).integers(0, 5, (40, 4))
        assert not read_signals(file(pd.DataFrame(counts, columns=TOWNS)), TableOptions()).warnings


def test_a_first_line_of_numbers_and_words_is_told(file, values):
    rows = pd.DataFrame(values).to_csv(index=False, header=False)
    table = read_signals(file("150,4,setosa,virginica\n" + rows), TableOptions())
    assert table.names == ("150", "4", "setosa", "virginica")
    assert "its first line ('150', '4', 'setosa', ...) was taken for names" in told(table)
    plain = read_signals(file("day,1,2,3\n2024-01-01,1.5,2,3\n2024-01-02,1,2,4\n"), TableOptions())
    assert "first line" not in told(plain)


def test_several_constant_columns_are_warned_of_at_once(file, values):
    values[:, 2:] = 7.0
    (warning,) = read_signals(file(pd.DataFrame(values, columns=TOWNS)), TableOptions()).warnings
    assert warning.startswith("the column 'moss' and 1 more never change (the first is 7)")


def test_coordinates_alone_are_no_signals(file):
    path = file("town,country,lat,lon\noslo,NO,59.9,10.7\nbergen,NO,60.4,5.3\n")
    with pytest.raises(ValueError, match="no column of numbers besides coordinates"):
        read_signals(path, TableOptions())
