"""One method on one random problem: the same at every call, and scored as the metrics score."""

import numpy as np
import pytest

from heatgraph.experiments import Readings, Settings
from heatgraph.experiments.figure5 import locate
from heatgraph.experiments.paper_settings import grid, noise_std, problem
from heatgraph.experiments.synthetic_runs import (
    CUT,
    PATHS,
    as_graph,
    as_weights,
    draw,
    no_truth,
    path,
    weights_at,
)
from heatgraph.metrics import EdgeScores, edge_scores

QUICK = Settings(quick=True)


def test_noise_moves_neither_graph_nor_sources():
    clean, noisy = (draw(**problem(QUICK, "er", 3, noisy=noise)) for noise in (False, True))
    assert np.array_equal(as_weights(clean.graph), as_weights(noisy.graph))
    assert np.array_equal(clean.sources, noisy.sources)
    noise = noisy.signals - clean.signals
    assert noise.std() == pytest.approx(0.02, rel=0.2)


def test_instances_seeds_and_models_differ():
    specs = [
        problem(QUICK, "er", 0, noisy=False),
        problem(QUICK, "er", 1, noisy=False),
        problem(Settings(quick=True, seed=1), "er", 0, noisy=False),
        problem(QUICK, "rbf", 0, noisy=False),
    ]
    drawn = [draw(**spec).signals for spec in specs]
    assert len({signals.tobytes() for signals in drawn}) == len(drawn)
    assert np.array_equal(draw(**specs[0]).signals, drawn[0])


def test_readings_reach_the_graphs():
    def edges(kind, **readings):
        spec = problem(QUICK, kind, 0, noisy=False, readings=Readings(**readings))
        return draw(**spec).graph.n_edges

    assert edges("rbf", rbf="distance") > edges("rbf", rbf="weight")
    assert edges("ba", ba=1) == 7
    assert edges("ba", ba=2) == 12
    assert noise_std(Readings(noise="variance")) == pytest.approx(np.sqrt(0.02))
    # A reading of other models leaves the cell as it is.
    other = problem(QUICK, "er", 0, noisy=False, readings=Readings(rbf="distance", ba=1))
    assert other == problem(QUICK, "er", 0, noisy=False)


@pytest.mark.parametrize("method", PATHS)
def test_a_path_scores_every_row(method):
    spec = problem(QUICK, "rbf", 0, noisy=False)
    rows = grid(method, True)
    result = path(spec, method, rows)
    f = [scores[0] for scores in result["scores"]]
    assert len(f) == len(result["n_edges"]) == len(result["statuses"]) == len(rows)
    assert max(f) > 0.85
    best = int(np.argmax(f))
    w = np.array(weights_at(spec, method, rows[best])["weights"])
    graph = as_graph(w, 8, CUT)
    assert graph.n_edges == result["n_edges"][best]
    assert list(edge_scores(draw(**spec).graph, graph)) == result["scores"][best]


def test_noise_in_decibels():
    spec = problem(QUICK, "er", 0, noisy=True, readings=Readings(noise="13dB"))
    clean = draw(**problem(QUICK, "er", 0, noisy=False)).signals
    noise = draw(**spec).signals - clean
    measured = 10.0 * np.log10(np.mean(clean**2) / np.mean(noise**2))
    assert measured == pytest.approx(13.0, abs=1.0)  # of 240 draws


def test_scales_are_learned_or_held():
    spec = problem(QUICK, "er", 0, noisy=False)
    held, learned = (
        path(spec, method, [[0.01, 0.01]])["scales"][0]
        for method in ("paper", "paper, scales learned")
    )
    assert list(held) == list(draw(**spec).scales)
    assert learned[0] < held[0]


def test_an_infeasible_epsilon_scores_nothing():
    result = path(problem(QUICK, "er", 0, noisy=True), "templates", [[0.0], [0.02]])
    assert result["statuses"][0] == "infeasible"
    assert result["scores"][0] == list(EdgeScores(0.0, 0.0, 0.0, 0.0, 1.0))


def test_an_estimator_as_it_comes():
    spec = problem(QUICK, "ba", 0, noisy=True)
    result = no_truth(spec, "smooth")
    graph = as_graph(result["weights"], 8)
    assert graph.n_edges == result["n_edges"]
    scores = edge_scores(draw(**spec).graph, graph)
    assert scores.f_measure == pytest.approx(result["scores"][0])


def test_sources_are_found_on_the_true_graph_and_not_on_another():
    spec = problem(QUICK, "rbf", 0, noisy=False)
    alphas = [0.1, 0.01]
    found = locate(spec, 0.3, 0, 30, None, alphas)
    assert max(found["n_located"]) > 2.9
    assert max(found["f_measure"]) > 0.9
    other = draw(**problem(QUICK, "rbf", 1, noisy=False)).graph
    lost = locate(spec, 3.0, 0, 30, as_weights(other).tolist(), alphas)
    assert max(lost["n_located"]) < max(locate(spec, 3.0, 0, 30, None, alphas)["n_located"])
