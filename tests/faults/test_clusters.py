"""One run of every fault of a cluster, and a fit without enough memory; see the make targets."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason='needs pip install "heatgraph[dask]"')
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals and limits of Linux"),
]

HERE = Path(__file__).parent
specification = importlib.util.spec_from_file_location("clusters", HERE / "clusters.py")
clusters = importlib.util.module_from_spec(specification)
sys.modules["clusters"] = clusters  # which its dataclasses ask for
specification.loader.exec_module(clusters)


@pytest.mark.parametrize("fault", clusters.FAULTS)
def test_a_fit_on_a_broken_cluster_ends_right_or_names_the_cause(fault):
    if fault == "network cut" and not clusters.can_cut_networks():
        pytest.skip("cutting a network needs root and iproute2")
    found, wrong = clusters.run_fault(fault, 2)  # one by each estimator
    assert not wrong, wrong
    assert [one["model"] for one in found] == ["LearnHeat", "HeatCovariance"]


def test_a_fit_without_enough_memory_keeps_its_checkpoint():
    words = [sys.executable, str(HERE / "memory.py"), "--quick"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no checkpoint lost" in done.stdout
