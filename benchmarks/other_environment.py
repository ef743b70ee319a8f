"""What ``make bench-scale`` asks of packages that are installed in ``.venv-real`` alone.

.venv-real/bin/python -m benchmarks.other_environment pipes OUT.npz
.venv-real/bin/python -m benchmarks.other_environment gglasso SIGNALS.npy OUT.npy
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-real" / "bin" / "python"
NETWORK = "networks/asce-tf-wdst/BWSN_Network_2.inp"


def ask(*words: str | Path, limit: float | None = None) -> None:
    """Run one of the functions below, there."""
    if not PYTHON.exists():
        raise FileNotFoundError(f"{PYTHON} is not there: make bench-scale makes it.")
    command = [str(PYTHON), "-m", "benchmarks.other_environment", *map(str, words)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=limit)


def pipes(output: str) -> None:
    """The junctions and pipes of the second network of the Battle of the Water Sensor Networks.

    12,527 nodes, with epyt; pipes side by side count once.
    """
    import epyt
    import networkx as nx
    import wntr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = wntr.network.WaterNetworkModel(str(Path(epyt.__file__).parent / NETWORK))
    graph = nx.convert_node_labels_to_integers(nx.Graph(network.to_graph()))
    edges = np.sort(np.array(graph.edges), axis=1)
    np.savez(output, n_nodes=graph.number_of_nodes(), edges=edges)


def gglasso(signals: str, output: str) -> None:
    """The precision by GGLasso's ADMM, at the penalty of :func:`penalty`."""
    from gglasso.solver.single_admm_solver import ADMM_SGL

    Z = np.load(signals)
    S, N = Z.T @ Z / len(Z), Z.shape[1]
    found, about = ADMM_SGL(S, penalty(*Z.shape), np.eye(N), verbose=False)
    print(about["status"])
    np.save(output, found["Theta"])


def penalty(n_signals: int, n_nodes: int) -> float:
    """``sqrt(log N / M)``, of signals of unit variance: the usual rate of a graphical lasso."""
    return float(np.sqrt(np.log(n_nodes) / n_signals))


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    {"pipes": pipes, "gglasso": gglasso}[name](*arguments)
