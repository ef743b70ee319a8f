"""What a worker keeps of freed memory: fewer pages are fetched anew."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
