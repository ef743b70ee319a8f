"""A result on disk survives a full disk, and a kill at any moment of the write of the next."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from heatgraph import LearnHeat
from heatgraph.storage import load_model, save_model

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")

WRITE = """
import sys
from heatgraph.storage import load_model, save_model
model = load_model(sys.argv[1])
while True:
    save_model(model, sys.argv[2])
    print("again", flush=True)
"""
REPLACE = """
import sys
from pathlib import Path
from heatgraph.files import write_folder
for k in range(10**9):
    with write_folder(sys.argv[2], replace=True, ours=["a", "b"]) as folder:
        (folder / "a").write_text(str(k))
        (folder / "b").write_text(str(k))
    if k == 0:
        print("again", flush=True)
"""
FILL = """
import os, resource, signal, sys
import numpy as np
from heatgraph.files import write_arrays
from heatgraph.storage import load_model, save_model
model = load_model(sys.argv[1])
save_model(model, sys.argv[2])
before = open(sys.argv[2], "rb").read()
if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))
else:
    free = os.statvfs(os.path.dirname(sys.argv[2]))
    with open(os.path.dirname(sys.argv[2]) + "/ballast", "wb") as file:
        file.write(bytes(max(free.f_bavail * free.f_frsize - len(before) // 2, 0)))
try:
    save_model(model, sys.argv[2])
except OSError as error:
    print("refused", error.errno)
assert open(sys.argv[2], "rb").read() == before
assert load_model(sys.argv[2]).n_iter_ == model.n_iter_
print(sorted(os.listdir(os.path.dirname(sys.argv[2]))))
"""


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.npz"
    X = np.random.default_rng(0).normal(size=(400, 8))
    save_model(LearnHeat(n_scales=1, alpha=0.5, beta=10.0, tol=1e-2).fit(X), path)
    return path


def kill_while(script, model_file, target, moments):
    for moment in moments:
        command = [sys.executable, "-c", script, str(model_file), str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"again\n"
            time.sleep(moment)
            process.kill()
            assert process.wait() == -signal.SIGKILL
        yield


@pytest.mark.slow
def test_a_model_file_survives_a_kill_during_the_write(model_file, tmp_path):
    rng = np.random.default_rng()  # another moment at every run
    target = tmp_path / "model.npz"
    wanted = load_model(model_file).laplacian_
    for _ in kill_while(WRITE, model_file, target, rng.uniform(0.0, 0.05, 1)):
        assert np.array_equal(load_model(target).laplacian_, wanted)


def test_a_folder_survives_a_kill_during_the_write(model_file, tmp_path):
    rng = np.random.default_rng()  # another moment at every run
    target = tmp_path / "result"
    for _ in kill_while(REPLACE, model_file, target, rng.uniform(0.0, 0.2, 1)):
        assert (target / "a").read_text() == (target / "b").read_text()


@pytest.mark.slow
def test_a_file_that_may_grow_no_larger(model_file, tmp_path):
    command = [sys.executable, "-c", FILL, str(model_file), str(tmp_path / "model.npz"), "limit"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["refused 27", "['model.npz']"]


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0,
    reason="no file system can be mounted here",
)
def test_a_full_file_system(model_file, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    size = 4 * model_file.stat().st_size
    mount = f"mount -t tmpfs -o size={size} tmpfs {disk} && exec "
    command = ["unshare", "-rm", "sh", "-c", mount + '"$@"', "sh"]
    command += [sys.executable, "-c", FILL, str(model_file), str(disk / "model.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["refused 28", "['ballast', 'model.npz']"]
