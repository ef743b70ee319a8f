"""What may be asked of an experiment."""

import pytest

from heatgraph.experiments import EXPERIMENTS, Readings, Settings, get_experiment


@pytest.mark.parametrize(
    "wrong",
    [{"seed": -1}, {"instances": 0}, {"n_jobs": 0}, {"scheduler": "tcp://nowhere:1"}],
)
def test_wrong_settings_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(**wrong)


@pytest.mark.parametrize("wrong", [{"rbf": "length"}, {"noise": "snr"}, {"ba": 3}])
def test_wrong_readings_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Readings(**wrong)


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match="figure1"):
        get_experiment("figure99")


def test_names_are_keys():
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
