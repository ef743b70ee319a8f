"""What a code costs: the penalty of LearnHeat as a term of ``u``, the share that an atom has.

With ``u = omega_si |H_sim|``, the size of what atom ``(s, i)`` adds to signal ``m``, the penalty is
``alpha sum p(u)``.  ``p`` is increasing and concave, with ``p(0) = 0`` and ``p'(0) = 1``.  So its
tangent at any ``u0`` lies above it, and the tangent is an l1 penalty with a price of its own on
each code: the fit with any penalty is a series of l1 fits.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from heatgraph.arrays import Array


class Penalty(Protocol):
    """``alpha p(u)`` of each code, where ``p`` may depend on alpha."""

    @property
    def is_linear(self) -> bool:
        """Whether the penalty is its own tangent everywhere, as the l1 norm is."""
        ...

    def value(self, u: Array, alpha: float) -> Array:
        """``alpha p(u)`` of each entry."""
        ...

    def slope(self, u: Array, alpha: float) -> Array:
        """``p'(u)`` of each entry, in [0, 1]: the price of a code relative to that of l1."""
        ...


def tangent(penalty: Penalty, u: Array, alpha: float) -> tuple[Array, float]:
    """The slopes of a penalty at ``u``, and ``sum alpha (p(u) - p'(u) u)``.

    The second is the constant by which the tangent passes above its own l1 term.
    """
    slopes = penalty.slope(u, alpha)
    return slopes, float(np.sum(penalty.value(u, alpha) - alpha * slopes * u))


class L1:
    """``p(u) = u``: the paper's penalty.  It finds the sources and also shrinks them."""

    is_linear = True

    def value(self, u: Array, alpha: float) -> Array:
        return alpha * u

    def slope(self, u: Array, alpha: float) -> Array:
        return np.ones_like(u)


class LogSum:
    """``p(u) = e log(1 + u / e)`` with ``e = alpha``.

    ``e`` is the size at which an atom's share of a signal is no longer taken for noise.  Larger
    codes are hardly shrunk.

    Differs from the paper, whose penalty is the l1 norm: what that takes from the codes, the graph
    makes up for.
    """

    is_linear = False

    def value(self, u: Array, alpha: float) -> Array:
        return alpha * alpha * np.log1p(u / alpha) if alpha > 0.0 else np.zeros_like(u)

    def slope(self, u: Array, alpha: float) -> Array:
        return alpha / (alpha + u) if alpha > 0.0 else np.ones_like(u)


PENALTIES: dict[str, Penalty] = {"l1": L1(), "log": LogSum()}
