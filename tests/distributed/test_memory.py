"""What a worker keeps of freed memory: fewer pages are fetched anew."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from heatgraph.distributed import memory

PROGRAM = """
import resource, sys
import numpy as np
from heatgraph.distributed.memory import keep_freed

if sys.argv[1] == "keep":
    keep_freed(32 * 2**20)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

np.ones(2**17)  # a megabyte: NumPy asks for huge pages, which hide the effect, from four on
before = faults()
for _ in range(20):
    np.ones(2**17)
print(faults() - before)
"""


def faults_of(how, **variables):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | variables,
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of Linux' C library")
def test_arrays_are_made_where_the_last_ones_were():
    dask = {"MALLOC_TRIM_THRESHOLD_": "65536"}
    usual = faults_of("leave", **dask)
    if usual < 1000:
        pytest.skip("this C library keeps freed memory whatever it is told")
    assert faults_of("keep", **dask) < usual / 5


LIBRARIES = """
import numpy as np
import numba
from pyarrow import compute
from heatgraph.distributed import memory

@numba.njit
def total(x):
    return x.sum()

x = np.arange(4.0)
total(x)
before, mapped = memory._sizes()
returned = memory.unload()
after, left = memory._sizes()
assert returned > 32 * 2**20, returned
assert mapped - left > 0.9 * returned, (mapped, left, returned)
assert before - after > 0.9 * returned, (before, after, returned)

# All of it still works: what was compiled, what is compiled now, and what was never in memory.
@numba.njit
def product(x):
    return x.prod()

assert total(x) == 6.0 and product(x) == 0.0
assert compute.sum([1, 2, 3]).as_py() == 6
assert np.allclose(np.linalg.eigh(np.diag(x))[0], x)
print("done")
"""

linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the system does not tell what is in memory"
)


@linux_only
def test_libraries_that_were_returned_come_back():
    done = subprocess.run(
        [sys.executable, "-c", LIBRARIES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


class TestWhenLibrariesAreReturned:
    @pytest.fixture
    def returned(self, monkeypatch):
        calls = []
        monkeypatch.setattr(memory, "unload", lambda: calls.append(1))
        return calls

    @pytest.mark.parametrize(
        ("limit", "resident", "mapped", "times"),
        [
            (220, 150, 100, 1),
            (220, 100, 90, 0),  # far from the limit
            (220, 210, 20, 0),  # nothing to be gained
            (0, 500, 100, 0),  # no limit
        ],
    )
    def test_near_the_limit(self, monkeypatch, returned, limit, resident, mapped, times):
        monkeypatch.setattr(memory, "_limit", lambda: limit * 2**20)
        monkeypatch.setattr(memory, "_sizes", lambda: (resident * 2**20, mapped * 2**20))
        memory.give_back_libraries()
        assert len(returned) == times

    def test_not_outside_a_worker(self, returned):
        memory.give_back_libraries()
        assert not returned

    @linux_only
    def test_sizes_are_those_of_this_process(self):
        import psutil

        resident, mapped = memory._sizes()
        assert resident == pytest.approx(psutil.Process().memory_info().rss, rel=0.05)
        assert 0 < mapped < resident
