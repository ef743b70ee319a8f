"""A small part of `make test-faults`, for a write that is not whole."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="faults are injected by a library for Linux, compiled here",
)
def test_every_call_of_a_write_fails_in_turn():
    command = [sys.executable, str(Path(__file__).with_name("inject.py")), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"(\d+) faults injected in 2 operations", done.stdout)
    assert told is not None, done.stdout
    assert int(told[1]) >= 20
