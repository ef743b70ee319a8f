"""Formulas as MathML, which browsers draw by themselves: no script, no network."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

FUNCTIONS = re.compile(r"<mi>(log|exp|cos|sin|sinh|min|max)</mi>")
SPACED = r'<mo lspace="0.17em" rspace="0.17em">\1</mo>'  # as TeX sets them: log v, not logv

logger = logging.getLogger(__name__)


def to_mathml(node: nodes.Node, display: str) -> str:
    """The formula of a node; one that is not understood is a warning, and so an error."""
    # The converter knows no larger size of this one sign.
    text = re.sub(r"(\\[Bb]igg?\s*)?\\\|", r"\\Vert ", node.astext())
    made = FUNCTIONS.sub(SPACED, convert(text, display=display))
    left = re.findall(r"\\[A-Za-z]+|>&<", made)
    if left:
        logger.warning("formula not understood at %s: %s", left, text, location=node)
    return made


def visit_math(self, node) -> None:
    self.body.append(to_mathml(node, "inline"))
    raise nodes.SkipNode


def visit_math_block(self, node) -> None:
    self.body.append(f'<div class="math">{to_mathml(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
