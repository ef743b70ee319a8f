"""The tests on each supported Python, and with the lowest versions that pyproject.toml declares.

Run with ``make test-matrix``, or ``nox --session "tests-3.13"`` for one of them.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
# Packages that the tests need but the library does not; their lowest versions are not our promise.
TEST_ONLY = ["test", "lint", "docs", "dev", "all"]

INSTALLED = ("--override-ini", "pythonpath=", "tests", "--dist", "worksteal")
# What the lowest matplotlib, scikit-learn and typer call, before it was deprecated.
OF_THEIR_TIME = ["click==8.2.*", "pyparsing<3.3", "pytest<9"]

NEIGHBOURS = ("tests/graph/test_neighbours.py", "tests/estimators/test_neighbours.py")

nox.options.sessions = ["tests", "lowest"]
nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "virtualenv"


def lowest_versions() -> list[str]:
    """The declared lower bounds as exact pins."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    stated = project["dependencies"] + [
        one for name, ones in extras.items() if name not in TEST_ONLY for one in ones
    ]
    found = (re.match(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?>=([0-9.]+)", one) for one in stated)
    # "8.2" means any 8.2.*, so that a yanked 8.2.0 does not matter.
    return sorted({f"{name[1]}=={name[2]}.*" for name in found if name})


def run_tests(session: nox.Session) -> None:
    """Run the tests of what is installed, in as many processes as there are cores.

    The sources beside the tests have no compiled core.
    """
    session.run("python", "-m", "pytest", *INSTALLED, "-n", "auto", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The default tests with the newest versions of everything."""
    session.install(".[test]")
    run_tests(session)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """The default tests with the lowest versions that the library promises to work with."""
    pins = Path(session.create_tmp()) / "lowest.txt"
    pins.write_text("\n".join([*lowest_versions(), *OF_THEIR_TIME]) + "\n")
    session.install("--constraint", str(pins), ".[test]")
    run_tests(session)


@nox.session(python=PYTHONS[0])
def neighbours(session: nox.Session) -> None:
    """The tests with packages that only some users have, and that take a gigabyte."""
    session.install(".[test]", "mne-connectivity", "torch", "torch-geometric")
    session.run("python", "-m", "pytest", *INSTALLED[:2], "-rs", *NEIGHBOURS, *session.posargs)
    for example in ("plot_7d_mne.py", "plot_7e_torch_geometric.py"):
        session.run("python", f"examples/{example}", env={"MPLBACKEND": "agg"})


@nox.session(python=PYTHONS[:-1])
def wheel(session: nox.Session) -> None:
    """Build a wheel from the source archive, and test it away from the sources."""
    session.install("build")
    where = Path(session.create_tmp()).resolve() / "dist"
    session.run("python", "-m", "build", "--outdir", str(where))
    newest = max(where.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    session.install(f"heatgraph[test] @ {newest.as_uri()}")
    session.run("python", "-m", "pytest", *INSTALLED, *session.posargs)
