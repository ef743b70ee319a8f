"""What estimators say, in the words of the command line."""

import pytest

from heatgraph.cli.wording import as_options, counted


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("alpha must be a number >= 0, got -1.", "--alpha must be a number >= 0, got -1."),
        ("n_jobs must be None, a number or -1", "--jobs must be a number or -1"),
        ('use atoms="unit" now', "use --atoms unit now"),
        ("with learn_scales=False and scales=....", "with --hold-scales and --scales"),
        ("pass n_scales=3.", "pass --n-scales 3."),
        ("e.g. scales=(2, 4).", "e.g. --scales 2,4."),
        ("checkpoint: a.csv is not one", "--checkpoint: a.csv is not one"),
        ("X holds no signal", "the table holds no signal"),
        ("raise `max_iter` or `tol`.", "raise --max-iter or --tol."),
        ("the scales of the noise", "the scales of the noise"),
    ],
)
def test_parameters_become_options(said, told):
    assert as_options(said) == told


def test_one_is_singular():
    assert [counted(n, "signal") for n in (0, 1, 2)] == ["0 signals", "1 signal", "2 signals"]
