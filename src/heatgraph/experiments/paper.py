"""What the paper reports, with the place that it comes from.

Thanou, Dong, Kressner and Frossard, "Learning heat diffusion graphs", 2017.
"""

from __future__ import annotations

from heatgraph.metrics import EdgeScores

__all__ = ["FIGURE2", "FIGURE2_ERRORS", "TABLES"]

# Table I, "Graph learning performance for clean data", and Table II, the same for noisy data:
# F-measure, precision, recall, NMI, l2 weight error, by the model of the graph and the method.
TABLES: dict[str, dict[tuple[str, str], EdgeScores]] = {
    "table1": {
        ("rbf", "heat"): EdgeScores(0.9779, 0.9646, 0.9920, 0.8977, 0.2887),
        ("rbf", "templates"): EdgeScores(0.9911, 0.9905, 0.9919, 0.9550, 0.2081),
        ("rbf", "smooth"): EdgeScores(0.8760, 0.8662, 0.8966, 0.5944, 0.4287),
        ("er", "heat"): EdgeScores(0.9303, 0.8786, 0.9908, 0.7886, 0.3795),
        ("er", "templates"): EdgeScores(0.8799, 0.8525, 0.9157, 0.65831, 0.3968),
        ("er", "smooth"): EdgeScores(0.7397, 0.6987, 0.8114, 0.4032, 0.5284),
        ("ba", "heat"): EdgeScores(0.9147, 0.8644, 0.9757, 0.7538, 0.4009),
        ("ba", "templates"): EdgeScores(0.8477, 0.7806, 0.9351, 0.6009, 0.3469),
        ("ba", "smooth"): EdgeScores(0.6969, 0.6043, 0.8459, 0.3587, 0.5880),
    },
    "table2": {
        ("rbf", "heat"): EdgeScores(0.9429, 0.9518, 0.9355, 0.7784, 0.3095),
        ("rbf", "templates"): EdgeScores(0.8339, 0.8184, 0.8567, 0.5056, 0.3641),
        ("rbf", "smooth"): EdgeScores(0.8959, 0.7738, 0.9284, 0.5461, 0.4572),
        ("er", "heat"): EdgeScores(0.8217, 0.7502, 0.9183, 0.5413, 0.3698),
        ("er", "templates"): EdgeScores(0.8195, 0.7662, 0.8905, 0.5331, 0.3809),
        ("er", "smooth"): EdgeScores(0.6984, 0.5963, 0.8690, 0.3426, 0.5172),
        ("ba", "heat"): EdgeScores(0.8155, 0.7503, 0.8986, 0.5258, 0.4036),
        ("ba", "templates"): EdgeScores(0.8254, 0.7613, 0.9068, 0.5451, 0.3980),
        ("ba", "smooth"): EdgeScores(0.7405, 0.6800, 0.8230, 0.3980, 0.5899),
    },
}

# Section V-A.2, the text about Figure 2: the F-measure on the one RBF graph that is drawn.  The
# noisy smooth panel has no number.
FIGURE2: dict[tuple[str, str], float | None] = {
    ("clean", "heat"): 0.9784,
    ("clean", "templates"): 0.9927,
    ("clean", "smooth"): 0.9173,
    ("noisy", "heat"): 0.9552,
    ("noisy", "templates"): 0.8451,
    ("noisy", "smooth"): None,
}

# The same text, "in terms of the Frobenius difference of the edge weights".
FIGURE2_ERRORS = {("noisy", "heat"): 0.2642, ("noisy", "templates"): 0.3546}
