"""Sphinx configuration."""

from importlib.metadata import version as installed_version

project = "heatgraph"
author = "The heatgraph developers"
copyright = "2026, The heatgraph developers"
release = installed_version("heatgraph")
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Parameters are described in the class docstring; types there read better than annotations.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# autodoc lists the members itself.
numpydoc_show_class_members = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"heatgraph {release}"
html_static_path = ["_static"]
