"""A small part of `make test-faults`, for a write that is not whole."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="faults are injected by a library for Linux, compiled here",
)


def output_of(option):
    command = [sys.executable, str(Path(__file__).with_name("inject.py")), option]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_operation_that_is_made_to_fail_runs_without_faults():
    assert re.search(r"\d\d operations without faults", output_of("--writes"))


@pytest.mark.slow
def test_every_call_of_a_write_fails_in_turn():
    told = re.search(r"(\d+) faults injected in 2 operations", output_of("--quick"))
    assert told is not None
    assert int(told[1]) >= 20
