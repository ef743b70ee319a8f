"""The experiments of the paper, each by its name."""

from heatgraph.experiments.base import Experiment, Outcome, Readings, Settings
from heatgraph.experiments.writing import write_outcome

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Outcome",
    "Readings",
    "Settings",
    "get_experiment",
    "write_outcome",
]

# In the order of the paper.  The modules are imported when an experiment runs.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("table1", "Three methods on clean signals, five scores", "tables", True),
        Experiment("table2", "Three methods on noisy signals, five scores", "tables", True),
        Experiment("figure1", "A signal on a graph, decomposed into heat sources", "figure1"),
        Experiment("figure2", "The Laplacians learned of an RBF graph, side by side", "figure2"),
        Experiment("figure3", "F against the number of signals", "figure3"),
        Experiment("figure4", "Number of edges and F over alpha and beta", "figure4"),
        Experiment("figure5", "Sources recovered over the diffusion time", "figure5"),
        Experiment("long_times", "For long diffusions like the smooth model?", "long_times"),
        Experiment("etex", "Figures 6 and 7: a tracer over Europe, and its prediction", "etex"),
        Experiment("uber", "Figure 8: pickups in New York by the part of the day", "uber"),
        Experiment("molene", "Temperatures around Brittany: where heat is a fair model", "molene"),
    )
}


def get_experiment(name: str) -> Experiment:
    """Find an experiment by its name."""
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
