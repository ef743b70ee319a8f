"""Time the compared methods against the general tools that could replace them.

One run prints, for each problem and solver, the time (best of a few), the objective, the largest
violation of the constraints and the status, so that a fast wrong answer shows.

    python benchmarks/bench_baselines.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import cvxpy as cp
import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from heatgraph.baselines.log_degree_solver import log_degree_step, parameters_for_degree
from heatgraph.baselines.smooth_solver import smooth_graph_step
from heatgraph.baselines.templates_solver import (
    Templates,
    learn_templates_within,
    smallest_residual,
)
from heatgraph.datasets import make_graph, make_heat_signals
from heatgraph.graph.candidates import CandidateEdges

Answer = tuple[float, float, str]  # objective, violation, status


def best_time(run: Callable[[], Answer], repeats: int) -> tuple[float, Answer]:
    times, answer = [], (np.nan, np.nan, "")
    for _ in range(repeats):
        start = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - start)
    return min(times), answer


def report(problem: str, solver: str, seconds: float, answer: Answer, note: str = "") -> None:
    objective, violation, status = answer
    print(
        f"{problem:24s} {solver:26s} {1e3 * seconds:11.3f} ms  {objective:18.9g}"
        f"  {violation:9.1e}  {status:34s} {note}",
        flush=True,
    )


def signals(kind: str, n_nodes: int, noise: float = 0.0) -> np.ndarray:
    graph = make_graph(kind, n_nodes, random_state=0)
    X, _ = make_heat_signals(graph, [2.5, 4.0], 100, noise_std=noise, random_state=1)
    return X.T


def incidence(candidates: CandidateEdges) -> np.ndarray:
    edges = np.arange(candidates.n_edges)
    S = np.zeros((candidates.n_nodes, candidates.n_edges))
    S[candidates.i, edges] = S[candidates.j, edges] = 1.0
    return S


def conic_status(problem: cp.Problem) -> str:
    """With the solver's own time, for a fair part of the whole is cvxpy's modelling."""
    return f"{problem.status}, {1e3 * problem.solver_stats.solve_time:.1f} ms in the solver"


def smooth(n_nodes: int) -> None:
    """One graph step of GL-SigRep, at a density near the true one."""
    candidates = CandidateEdges.complete(n_nodes)
    z = candidates.squared_distances(signals("er", n_nodes))
    a, b, total = 1.0, 0.1 * float(np.median(z)), n_nodes / 2

    def ours() -> Answer:
        step = smooth_graph_step(z, a, b, candidates)
        return step.objective, abs(step.w.sum() - total), str(step.status)

    def conic(solver: str, **options: float) -> Answer:
        w = cp.Variable(candidates.n_edges)
        degrees = sparse.csr_array(incidence(candidates)) @ w
        value = a * z @ w + b * (2 * cp.sum_squares(w) + cp.sum_squares(degrees))
        problem = cp.Problem(cp.Minimize(value), [w >= 0, cp.sum(w) == total])
        problem.solve(solver=solver, **options)
        violation = max(abs(w.value.sum() - total), -w.value.min())
        return problem.value, violation, conic_status(problem)

    ours()
    seconds, answer = best_time(ours, 5)
    others = {"cvxpy + SCS (1e-6)": lambda: conic(cp.SCS, eps_abs=1e-6, eps_rel=1e-6)}
    if n_nodes <= 100:
        others["cvxpy + SCS (defaults)"] = lambda: conic(cp.SCS)
        others["cvxpy + Clarabel"] = lambda: conic(cp.CLARABEL)
    compare(f"smooth step N={n_nodes}", "dual Newton", seconds, answer, others)


def templates(n_nodes: int, form: str) -> None:
    """One convex program of the penalised or of the eps-form, from scratch."""
    candidates = CandidateEdges.complete(n_nodes)
    spectrum = Templates.from_signals(signals("er", n_nodes))
    least = smallest_residual(spectrum)
    eps, penalty, r = 2.0 * least.eps, 1.0, 1e-3 / (least.w + 1e-3)

    def penalised() -> Answer:
        point = spectrum.program(candidates, n_nodes / 2).solve(penalty * r)
        value = 0.5 * spectrum.residual(candidates.laplacian(point.w)) ** 2
        return value + penalty * float(r @ point.w), abs(point.w.sum() - n_nodes / 2), point.status

    def within() -> Answer:
        solution = learn_templates_within(spectrum, eps, n_reweights=1)
        return float(r @ solution.w), max(solution.eps - eps, 0.0), solution.status

    def conic(solver: str, **options: float) -> Answer:
        w, lam = cp.Variable(candidates.n_edges), cp.Variable(n_nodes)
        basis = np.stack([np.outer(v, v).ravel() for v in spectrum.V.T], axis=1)
        distance = laplacian_matrix(candidates) @ w - basis @ lam
        valid = [w >= 0, cp.sum(w) == n_nodes / 2]
        if form == "eps":
            problem = cp.Problem(cp.Minimize(r @ w), [*valid, cp.norm(distance) <= eps])
        else:
            value = 0.5 * cp.sum_squares(distance) + penalty * (r @ w)
            problem = cp.Problem(cp.Minimize(value), valid)
        problem.solve(solver=solver, **options)
        violation = max(-w.value.min(), abs(w.value.sum() - n_nodes / 2))
        if form == "eps":
            violation = max(violation, float(np.linalg.norm(distance.value)) - eps)
        return problem.value, violation, conic_status(problem)

    ours = within if form == "eps" else penalised
    ours()
    seconds, answer = best_time(ours, 5)
    others = {
        "cvxpy + Clarabel": lambda: conic(cp.CLARABEL),
        "cvxpy + SCS (1e-6)": lambda: conic(cp.SCS, eps_abs=1e-6, eps_rel=1e-6),
    }
    compare(f"templates {form} N={n_nodes}", "pivoting", seconds, answer, others)


def laplacian_matrix(candidates: CandidateEdges) -> sparse.csr_array:
    """``vec(L(w))`` as a sparse matrix."""
    n, i, j, e = (
        candidates.n_nodes,
        candidates.i,
        candidates.j,
        np.arange(candidates.n_edges),
    )
    rows = np.concatenate([i * n + j, j * n + i, i * n + i, j * n + j])
    values = np.repeat([-1.0, -1.0, 1.0, 1.0], e.size)
    return sparse.csr_array((values, (rows, np.tile(e, 4))), shape=(n * n, e.size))


def log_degree(n_nodes: int) -> None:
    """The log-degree model to the same objective, 1e-6 relative, by the published method."""
    candidates = CandidateEdges.complete(n_nodes)
    rng = np.random.default_rng(0)
    P = rng.random((n_nodes, 2))
    X = np.cos(3.0 * P @ rng.standard_normal((2, 100)) + 6.0 * rng.random(100))
    z = candidates.squared_distances(X)
    a, b = parameters_for_degree(z, 10, candidates)

    def ours() -> Answer:
        solution = log_degree_step(z, a, b, candidates)
        return solution.objective, max(0.0, -solution.w.min()), str(solution.status)

    ours()
    seconds, answer = best_time(ours, 5)
    others = {"primal-dual, NumPy": lambda: primal_dual(z, a, b, candidates, answer[0])}
    compare(f"log-degree N={n_nodes}", "dual Newton", seconds, answer, others)


def primal_dual(
    z: np.ndarray, a: float, b: float, candidates: CandidateEdges, goal: float
) -> Answer:
    """Forward-backward-forward of Komodakis and Pesquet, the published method, to ``goal``.

    In the normalised problem (a = b = 1), as its toolboxes run it.  The objective is looked at
    every 25th iteration, so that the check costs next to nothing.
    """
    theta, scale = 1.0 / np.sqrt(a * b), np.sqrt(a / b)
    c, n = 2.0 * theta * z, candidates.n_nodes
    i, j = candidates.i, candidates.j
    step = 0.9 / (2.0 + np.sqrt(2.0 * (n - 1)))
    w, d = np.zeros(c.size), np.zeros(n)
    for iteration in range(1, 20_001):
        y = w - step * (2.0 * w + d[i] + d[j])
        v = d + step * candidates.degrees(w)
        p = np.maximum(0.0, y - step * c)
        q = v - 0.5 * (v + np.sqrt(v * v + 4.0 * step))
        w = w - y + p - step * (2.0 * p + q[i] + q[j])
        d = d - v + q + step * candidates.degrees(p)
        if iteration % 25 == 0:
            degrees = scale * candidates.degrees(p)
            if degrees.min() > 0.0:
                v_ = scale * p
                value = float(2.0 * z @ v_ - a * np.log(degrees).sum() + b * v_ @ v_)
                if abs(value - goal) <= 1e-6 * abs(goal):
                    return value, 0.0, f"{iteration} iterations"
    return value, 0.0, "not reached"


def compare(
    problem: str,
    name: str,
    seconds: float,
    answer: Answer,
    others: dict[str, Callable[[], Answer]],
) -> None:
    report(problem, name, seconds, answer)
    for other, run in others.items():
        slow, reached = best_time(run, 5 if seconds < 0.01 else 2)
        report(problem, other, slow, reached, f"{slow / seconds:.0f} times slower")


def main() -> None:
    warnings.filterwarnings("ignore", message=".*may be inaccurate.*")
    print(f"{'problem':24s} {'solver':26s} {'time':>14s}  {'objective':>18s}  violation  status")
    for n_nodes in (20, 100, 300):
        smooth(n_nodes)
    for form in ("penalised", "eps"):
        for n_nodes in (20, 50):
            templates(n_nodes, form)
    log_degree(1000)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
