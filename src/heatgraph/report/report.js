// The page's own script: it fills the pictures that Bokeh draws and answers the controls.
// Names are data: they reach the page as text (textContent, canvas), never as markup.
"use strict";
(async () => {
  const el = (id) => document.getElementById(id);
  const read = (id) => JSON.parse(el(id).textContent);
  const unpack = (Type, text) =>
    text === null ? null : new Type(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const data = read("data"), pictures = read("pictures");
  const { names, scales, labels } = data, n = names.length;
  const rank = unpack(Int32Array, data.rank), merges = unpack(Int32Array, data.merges);
  const [from, to] = [unpack(Int32Array, data.from), unpack(Int32Array, data.to)];
  const weight = unpack(Float32Array, data.weight), found = unpack(Float32Array, data.confidence);
  const views = { signal: unpack(Float32Array, data.values), fit: unpack(Float32Array, data.fit) };
  const times = data.times && Array.from(unpack(Float64Array, data.times));
  const sources = data.sources.map((column, k) => unpack(k < 3 ? Int32Array : Float32Array, column));
  const total = weight.length, heaviest = weight[total - 1] || 1;
  const MARKERS = ["circle", "square", "diamond", "triangle", "inverted_triangle", "hex"];
  const SHAPES = ["○", "□", "◇", "△", "▽", "⬡"];
  const state = { kept: data.kept, signal: 0, view: views.signal ? "signal" : "fit", node: null, edge: null };

  // Small helpers: numbers as text, elements as trees.
  const number = (v) => (Number.isFinite(v) ? String(+v.toPrecision(3)) : "not observed");
  const plural = (k, one, many) => `${k.toLocaleString("en")} ${k === 1 ? one : many}`;
  const percent = (v) => `${Math.round(100 * v)} %`;
  const make = (tag, content, properties = {}) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...[content].flat());
    return made;
  };
  const link = (text, action) => make("button", text, { type: "button", className: "link", onclick: action });
  const table = (head, rows) => {
    const row = (cells, tag) => make("tr", cells.map((cell, k) => make(tag, cell, { className: k ? "number" : "" })));
    return make("table", [make("thead", row(head, "th")), make("tbody", rows.map((cells) => row(cells, "td")))]);
  };
  // Of a Gaussian model, one minus the p-value of the edge; else the share of resamples that have it.
  const small = (p) => (p < 1e-4 ? "< 0.0001" : String(+p.toPrecision(2)));
  const share = (v) => (!Number.isFinite(v) ? "" : data.gaussian ? small(1 - v) : percent(v));
  const certainty = (e) => (found && share(found[e]) ? (data.gaussian ? share(found[e]) : `in ${share(found[e])} of resamples`) : "");
  const shareTitle = data.gaussian ? "p-value" : "found in";

  await Bokeh.embed.embed_items(pictures.docs, pictures.items);
  const doc = Bokeh.documents[Bokeh.documents.length - 1];
  const model = (name) => doc.get_model_by_name(name);
  const { x, y } = model("nodes").data;
  if (innerWidth < 700) { // a phone: no room for numbers along the axes
    model("graph").height = Math.round(1.05 * innerWidth);
    for (const axis of [...model("graph").below, ...model("graph").left]) axis.visible = false;
  }

  // The colours of text and background, in pictures as on the page.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = (isDark) => {
    const colours = { ink: isDark ? "#ececef" : "#1d1d1f", paper: isDark ? "#16171a" : "#ffffff", accent: isDark ? "#6db8ee" : "#0072b2", land: isDark ? "#2a2b30" : "#efede8" };
    document.documentElement.toggleAttribute("data-dark", isDark);
    for (const one of doc.all_models) {
      let colour = null;
      for (const tag of one.tags ?? []) {
        if (tag in colours) colour = colours[tag];
        else if (colour) one.setv({ [tag]: one[tag]?.value === undefined ? colour : { value: colour } });
      }
    }
  };
  paint(dark.matches);
  // A canvas cannot be painted anew in time for paper: there the style turns dark pictures light.
  dark.addEventListener("change", () => matchMedia("print").matches || paint(dark.matches));

  // Edges, lightest first: a cut keeps the last ones.
  const column = (f) => Array.from({ length: total }, (_, e) => f(e));
  const edges = {
    x0: column((e) => x[from[e]]), y0: column((e) => y[from[e]]),
    x1: column((e) => x[to[e]]), y1: column((e) => y[to[e]]),
    ...Object.fromEntries([["a", x, 0.2], ["b", y, 0.2], ["c", x, 0.8], ["d", y, 0.8]].map(([key, at, share]) =>
      [key, column((e) => (1 - share) * at[from[e]] + share * at[to[e]])])),
    row: column((e) => rank[from[e]]), column: column((e) => rank[to[e]]),
    width: column((e) => 0.7 + (4.3 * weight[e]) / heaviest / Math.sqrt(1 + total / 4000)),
    ink: column((e) => 0.15 + (0.75 * weight[e]) / heaviest), weight: Array.from(weight),
    from: column((e) => names[from[e]]), to: column((e) => names[to[e]]),
    found: column((e) => certainty(e) || "not measured"),
    // Heads of arrows, where edges have a direction: a triangle points up before it is turned.
    turn: column((e) => Math.atan2(y[to[e]] - y[from[e]], (x[to[e]] - x[from[e]]) * data.squeeze) - Math.PI / 2),
    head: column((e) => 7 + (7 * weight[e]) / heaviest),
  };
  // One edge a step of the slider; where there are more, by logarithms, and few edges have room.
  const STEPS = Math.min(total, 1000), many = total > STEPS;
  const countAt = (place) => (many ? Math.round(Math.expm1((place * Math.log1p(total)) / STEPS)) : place);
  const placeOf = (count) => (many ? Math.round((STEPS * Math.log1p(count)) / Math.log1p(total)) : count);
  el("cut").max = STEPS;
  const first = () => total - state.kept; // the lightest edge that is kept
  const drawCut = () => {
    model("edges").data = Object.fromEntries(Object.entries(edges).map(([key, all]) => [key, all.slice(first())]));
    const lightest = state.kept ? weight[first()] : 2 * heaviest, learned = state.kept === data.kept;
    // As learned, the cut is the one that "What was run" tells, which may be below the lightest edge kept.
    const cut = learned ? data.cut ?? lightest : lightest;
    model("cut").location = learned ? model("learned").location : lightest;
    const pieces = n - merges.filter((k) => k <= state.kept).length;
    el("cut-says").textContent = `${plural(state.kept, "edge", "edges")}, ${plural(pieces, "piece", "pieces")}` +
      (state.kept ? `; cut at weight ${number(cut)}` : "") +
      (state.kept && number(cut) !== number(lightest) ? `, the lightest edge kept has ${number(lightest)}` : "");
    el("kept").value = state.kept;
    if (countAt(+el("cut").value) !== state.kept) el("cut").value = placeOf(state.kept);
    el("cut").setAttribute("aria-valuetext", el("cut-says").textContent);
    drawDetails();
  };
  const keep = (k) => {
    state.kept = Math.min(total, Math.max(0, Math.round(k) || 0));
    if (state.edge !== null && state.edge < first()) state.edge = null;
    drawCut();
  };

  // Nodes: coloured by the signal, its fit, or what is between them.
  const signed = (values) => values.some((v) => v < 0);
  const valuesOf = (view) => {
    const row = (all) => all.subarray(state.signal * n, (state.signal + 1) * n);
    if (view !== "difference") return row(views[view]);
    const [seen, fit] = [row(views.signal), row(views.fit)];
    return seen.map((v, k) => v - fit[k]);
  };
  const sourcesHere = () => {
    const here = [];
    if (sources.length) sources[0].forEach((m, k) => m === state.signal && here.push(k));
    return here.sort((a, b) => Math.abs(sources[3][b]) - Math.abs(sources[3][a]));
  };
  const size = Math.max(4, Math.min(16, 170 / Math.sqrt(n)));
  const drawSignal = () => {
    const values = labels.length ? Array.from(valuesOf(state.view)) : Array(n).fill(NaN);
    if (labels.length) {
      // One scale for all views of a signal, so that a small difference looks small.
      const all = Array.from(valuesOf(views.signal ? "signal" : "fit")).filter(Number.isFinite);
      const [low, high] = [Math.min(...all), Math.max(...all)];
      // Zero is on the scale if at least half of the scale is left to the signal, which kelvins would not have.
      const least = low <= high - low ? 0 : low;
      const top = signed(all) ? Math.max(-low, high) : high - least || 1;
      const both = state.view === "difference" || signed(all);
      model("colours").setv({ palette: both ? data.signed : data.positive, low: both ? -top : least, high: both ? top : least + top });
    }
    model("nodes").data = {
      x: Array.from(x), y: Array.from(y), size: Array(n).fill(size), value: values, name: names,
      solid: values.map((v) => (Number.isFinite(v) ? 1 : 0.35)),
      shown: values.map((v) => (labels.length ? number(v) : "no signal")),
    };
    const here = sourcesHere();
    model("rings").data = {
      x: here.map((k) => x[sources[2][k]]), y: here.map((k) => y[sources[2][k]]),
      size: here.map((k) => size + 8 + 6 * sources[1][k]), marker: here.map((k) => MARKERS[sources[1][k] % 6]),
    };
    if (labels.length) {
      el("signal").value = state.signal;
      const says = `${labels[state.signal]} (${state.signal + 1} of ${labels.length})`;
      el("signal-says").textContent = says;
      el("signal").setAttribute("aria-valuetext", says);
      const sum = !scales.length ? "" : data.gaussian ? "heat from every node, the strongest ringed" : plural(here.length, "source", "sources");
      const fit = data.explained ? `${percent(data.explained[state.signal])} of it explained` : "";
      el("fit-says").textContent = [sum, fit].filter(Boolean).join("; ");
      el("key").replaceChildren(...here.slice(0, 12).flatMap((k) => [
        `${SHAPES[sources[1][k] % 6]} source `, link(names[sources[2][k]], () => choose(sources[2][k])),
        `, strength ${number(sources[3][k])}, spread for time ${number(scales[sources[1][k]])}. `]));
    }
    drawDetails();
  };

  // Names: all of them on a small graph; on a large one those of what is chosen.
  const [left, end] = x.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
  const margin = 0.1 * (end - left);
  const drawNames = (near) => {
    const named = new Set(n <= 60 ? names.keys() : [...near, ...sourcesHere().map((k) => sources[2][k])].slice(0, 40));
    const list = [...named];
    model("names").data = {
      x: list.map((k) => x[k]), y: list.map((k) => y[k]), text: list.map((k) => data.short[k] ?? names[k]),
      // At the border a name leans inwards, or it would leave the picture.
      align: list.map((k) => (x[k] > end - margin ? "right" : x[k] < left + margin ? "left" : "center")),
    };
  };
  // A node over time, where the signals have dates.
  const drawSeries = () => {
    const k = state.node ?? 0, along = (all) => times.map((_, m) => (all ? all[m * n + k] : NaN));
    model("now").location = times[state.signal];
    if (el("series-says").textContent === names[k]) return;
    el("series-says").textContent = names[k];
    model("series").data = { time: times, signal: along(views.signal), fit: along(views.fit) };
  };
  const neighbours = (k) => {
    const near = [];
    for (let e = total - 1; e >= first(); e--) if (from[e] === k || to[e] === k) near.push(e);
    return near;
  };
  const drawDetails = () => {
    const marked = state.node !== null ? neighbours(state.node) : state.edge !== null ? [state.edge] : [];
    model("chosen").data = Object.fromEntries(["x0", "y0", "x1", "y1", "width"].map((key) =>
      [key, marked.map((e) => edges[key][e] + (key === "width" ? 1.5 : 0))]));
    const at = state.node === null ? [] : [state.node];
    model("mark").data = { x: at.map((k) => x[k]), y: at.map((k) => y[k]), size: at.map(() => size + 5) };
    const ends = marked.flatMap((e) => [from[e], to[e]]);
    drawNames(state.node !== null ? [state.node, ...ends] : ends);
    el("node").value = state.node ?? "";
    if (times) drawSeries();
    el("details").replaceChildren(...(state.node !== null ? aboutNode(state.node, marked)
      : state.edge !== null ? aboutEdge(state.edge) : [make("p", data.invitation, { className: "hint" })]));
  };
  const aboutNode = (k, near) => {
    const parts = [make("h3", names[k])];
    if (labels.length) {
      const said = [["signal", "value"], ["fit", "fit"]].filter(([view]) => views[view])
        .map(([view, word]) => `${word} ${number(valuesOf(view)[k])}`);
      parts.push(make("p", `In ${labels[state.signal]}: ${said.join(", ")}.`));
    }
    const spread = near.reduce((sum, e) => sum + weight[e], 0);
    parts.push(make("p", `${plural(near.length, "neighbour", "neighbours")}, of total weight ${number(spread)}.`));
    if (scales.length) parts.push(...aboutSources(k));
    if (near.length) {
      const rows = near.slice(0, 40).map((e) => {
        const other = from[e] === k ? to[e] : from[e];
        const cells = [link(names[other], () => choose(other)), link(number(weight[e]), () => chooseEdge(e))];
        return found ? [...cells, share(found[e])] : cells;
      });
      parts.push(table(found ? ["neighbour", "weight", shareTitle] : ["neighbour", "weight"], rows));
      if (near.length > 40) parts.push(make("p", `… and ${near.length - 40} lighter ones.`));
    }
    return parts;
  };
  const aboutSources = (k) => {
    const mine = [];
    sources[2].forEach((node, at) => node === k && mine.push(at));
    const signals = new Set(mine.map((at) => sources[0][at]));
    const text = `${data.gaussian ? "Among the strongest sources" : "A source"} of ${signals.size} of the ${plural(labels.length, "signal", "signals")} shown.`;
    mine.sort((a, b) => Math.abs(sources[3][b]) - Math.abs(sources[3][a]));
    const items = mine.slice(0, 5).map((at) => make("li", [
      link(labels[sources[0][at]], () => step(sources[0][at])),
      `: strength ${number(sources[3][at])}, time ${number(scales[sources[1][at]])}`]));
    return [make("p", text), ...(items.length ? [make("ul", items)] : [])];
  };
  const aboutEdge = (e) => [
    make("h3", `${names[from[e]]} – ${names[to[e]]}`),
    make("p", `Weight ${number(weight[e])}, number ${total - e} of ${data.learned.toLocaleString("en")} by weight.`),
    make("p", !certainty(e) ? data.unmeasured : data.gaussian ? `Its p-value: ${certainty(e)}.` : `Found ${certainty(e)}.`),
    make("p", [link(names[from[e]], () => choose(from[e])), " · ", link(names[to[e]], () => choose(to[e]))]),
  ];
  const choose = (k) => { Object.assign(state, { node: k, edge: null }); drawDetails(); };
  const chooseEdge = (e) => { Object.assign(state, { node: null, edge: e }); drawDetails(); };

  // A click may hit a node and the edges below it: the node is meant.
  const picked = (source) => source.selected.indices;
  const clicked = () => {
    const [node] = picked(model("nodes")), [edge] = picked(model("edges"));
    if (node === undefined && edge === undefined) return;
    for (const name of ["nodes", "edges"]) model(name).selected.indices = [];
    if (node !== undefined) choose(node);
    else chooseEdge(first() + edge);
  };
  for (const name of ["nodes", "edges"])
    model(name).selected.properties.indices.change.connect(() => setTimeout(clicked));

  el("cut").addEventListener("input", (event) => keep(countAt(+event.target.value)));
  el("kept").max = total;
  el("kept").addEventListener("change", (event) => keep(+event.target.value));
  el("cut-reset").addEventListener("click", () => keep(data.kept));
  names.forEach((name, k) => el("node").append(make("option", name, { value: String(k) })));
  el("node").addEventListener("change", (event) =>
    event.target.value === "" ? Object.assign(state, { node: null, edge: null }) && drawDetails() : choose(+event.target.value));

  const step = (m) => { state.signal = ((m % labels.length) + labels.length) % labels.length; drawSignal(); };
  if (labels.length) {
    el("signal").max = labels.length - 1;
    el("signal").addEventListener("input", (event) => step(+event.target.value));
    el("back").addEventListener("click", () => step(state.signal - 1));
    el("next").addEventListener("click", () => step(state.signal + 1));
    el("view").addEventListener("change", (event) => { state.view = event.target.value; drawSignal(); });
    let timer = null;
    el("play").addEventListener("click", () => {
      timer = timer === null ? setInterval(() => step(state.signal + 1), 900) : clearInterval(timer) ?? null;
      el("play").textContent = timer === null ? "Play" : "Pause";
    });
  } else model("bar").visible = false;
  drawSignal();
  drawCut();
  document.documentElement.dataset.ready = "yes";
})();
