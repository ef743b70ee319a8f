"""Kernels ``g(lam, tau)`` of a Laplacian: what a source becomes, by heat or otherwise.

A dictionary is ``[g(L, tau_1) ... g(L, tau_S)]``; heat, ``exp(-tau lam)``, is one choice.  A kernel
is any object with ``value`` and ``slope`` in lam, of an array of eigenvalues ``lam >= 0`` and a
time ``tau > 0``.  It depends on their product only, because a graph with half the weights and
twice the time is the same model, and ``value(0, tau) = 1``.  So its slope in tau is ``lam / tau``
times that in lam.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from heatgraph.arrays import Array
from heatgraph.errors import ParameterError

APART = 0.5  # tau times the distance of eigenvalues whose quotient has all its digits
ZEROS = 0.0, 20.0, 2001  # tau lam at which a zero is looked for, and how many
POINTS = 8  # at which the slope is integrated between nearer ones: so short a way is exact


class Kernel(Protocol):
    """What a kernel offers: its value and its slope.

    Any object with these two methods can be passed as ``kernel``.
    """

    def value(self, lam: Array, tau: float, /) -> Array: ...
    def slope(self, lam: Array, tau: float, /) -> Array: ...


@dataclass(frozen=True)
class HeatKernel:
    """``exp(-tau lam)``: heat after a time.

    Examples
    --------
    >>> HeatKernel().value(np.array([0.0, 1.0]), 2.0).round(4)
    array([1.    , 0.1353])
    """

    def value(self, lam: Array, tau: float) -> Array:
        return np.asarray(np.exp(-tau * lam))

    def slope(self, lam: Array, tau: float) -> Array:
        return -tau * self.value(lam, tau)


@dataclass(frozen=True)
class IdentityKernel:
    """``(1 + exp(-tau lam)) / 2``: half of a source diffuses, and half stays where it is.

    Examples
    --------
    >>> IdentityKernel().value(np.array([0.0, 1.0]), 2.0).round(4)
    array([1.    , 0.5677])
    """

    def value(self, lam: Array, tau: float) -> Array:
        return np.asarray(0.5 + 0.5 * np.exp(-tau * lam))

    def slope(self, lam: Array, tau: float) -> Array:
        return np.asarray(-0.5 * tau * np.exp(-tau * lam))


@dataclass(frozen=True)
class WaveKernel:
    """``cos(sqrt(tau lam))``: a wave that starts at rest, after the time ``sqrt(tau)``.

    It solves ``x'' = -L x``.  As a function of ``lam`` it is as smooth at 0 as anywhere.

    Examples
    --------
    >>> WaveKernel().value(np.array([0.0, 1.0]), 2.0).round(4)
    array([1.    , 0.1559])
    """

    def value(self, lam: Array, tau: float) -> Array:
        return np.asarray(np.cos(np.sqrt(tau * lam)))

    def slope(self, lam: Array, tau: float) -> Array:
        # sin(z) / z, with numpy's factor of pi.
        return np.asarray(-0.5 * tau * np.sinc(np.sqrt(tau * lam) / np.pi))


@dataclass(frozen=True)
class MaternKernel:
    """``(1 + tau lam)^-nu``: a Matern field on the graph; the smaller ``nu``, the rougher.

    Parameters
    ----------
    nu : float
        Smoothness, > 0.

    Examples
    --------
    >>> MaternKernel(nu=2.0).value(np.array([0.0, 1.0]), 2.0).round(4)
    array([1.    , 0.1111])
    """

    nu: float = 2.0

    def __post_init__(self) -> None:
        if not 0.0 < self.nu < np.inf:
            raise ValueError(f"nu must be a finite number > 0, got {self.nu!r}.")

    def value(self, lam: Array, tau: float) -> Array:
        return np.asarray((1.0 + tau * lam) ** -self.nu)

    def slope(self, lam: Array, tau: float) -> Array:
        return np.asarray(-self.nu * tau * (1.0 + tau * lam) ** (-self.nu - 1.0))


@dataclass(frozen=True)
class SteadyKernel(MaternKernel):
    """``(1 + tau lam)^-1/2``: heat released at random all the time, of which some is lost.

    The steady state of ``dx = -(L + I / tau) x dt + dW`` has a covariance in proportion to
    ``(I + tau L)^-1``, the square of this kernel.
    """

    nu: float = 0.5


@dataclass(frozen=True)
class TikhonovKernel(MaternKernel):
    """``1 / (1 + tau lam)``: sources smoothed by Tikhonov's penalty ``tau x^T L x``.

    Parameters
    ----------
    nu : float
        1, which makes it this kernel; another value is that of :class:`MaternKernel`.

    Examples
    --------
    >>> TikhonovKernel().value(np.array([0.0, 1.0]), 2.0).round(4)
    array([1.    , 0.3333])
    """

    nu: float = 1.0


KERNELS: dict[str, Kernel] = {
    "heat": HeatKernel(),
    "diffusion-plus-identity": IdentityKernel(),
    "steady": SteadyKernel(),
    "tikhonov": TikhonovKernel(),
    "matern": MaternKernel(),
    "wave": WaveKernel(),
}
# What "auto" chooses from, from smooth to rough: heat, which is the limit of (1 + tau lam / nu)^-nu
# for large nu, then nu = 1, then nu = 1/2.
KERNEL_CHOICE = ("heat", "tikhonov", "steady")
# Where an own kernel is looked at before it is used.
PROBED, PROBED_TIME = np.array([0.0, 0.3, 1.0, 4.0]), 0.7


def is_auto(kernel: Any) -> bool:
    """Whether the kernel is to be chosen."""
    return isinstance(kernel, str) and kernel == "auto"


def kernel_of(kernel: Any) -> Kernel:
    """The kernel of a name, or an object that is one."""
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            names = ", ".join(map(repr, KERNELS))
            raise ParameterError("kernel", f"must be one of {names}, or a kernel, got {kernel!r}.")
        return KERNELS[kernel]
    missing = [n for n in ("value", "slope") if not callable(getattr(kernel, n, None))]
    if missing or isinstance(kernel, type):
        raise ValueError(
            f"kernel must have the methods value and slope, {kernel!r} "
            f"{'is a class: make an object of it' if not missing else 'lacks ' + missing[0]}."
        )
    _check_values(kernel)
    return kernel


def _check_values(kernel: Any) -> None:
    """Of a kernel that is not ours: 1 at 0, and a function of ``tau lam``."""
    here = np.asarray(kernel.value(PROBED, PROBED_TIME), dtype=np.float64)
    if here.shape != PROBED.shape or not np.isclose(here[0], 1.0):
        raise ValueError(
            f"kernel: value(lam, tau) must have the shape of lam and be 1 at lam = 0, {kernel!r} "
            f"gives {here!r} at {PROBED!r}."
        )
    if not np.allclose(here, kernel.value(0.5 * PROBED, 2.0 * PROBED_TIME)):
        raise ValueError(
            f"kernel: value(lam, tau) must depend on the product tau * lam only, and {kernel!r} "
            "gives another value for half of lam and twice tau."
        )


def times_before_zero(kernel: Kernel, shares: Array) -> Array | None:
    """``tau lam`` at which a kernel has come down from 1 to these shares, before it changes sign.

    To a percent or so.  None for a kernel that does not change its sign.
    """
    at = np.linspace(*ZEROS)
    value = kernel.value(at, 1.0)
    past = np.flatnonzero(value <= 0.0)
    if not past.size:
        return None
    falling = slice(past[0], None, -1)
    return np.interp(shares, value[falling], at[falling])


@dataclass(frozen=True)
class Power:
    """``g(lam, tau)^2``, the variance that white sources have after a kernel."""

    kernel: Kernel

    def values(self, lam: Array, tau: Array) -> Array:
        """(S, N)."""
        if isinstance(self.kernel, HeatKernel):
            return np.asarray(np.exp(-2.0 * np.outer(tau, lam)))
        return np.array([np.square(self.kernel.value(lam, t)) for t in tau.tolist()])

    def slopes_in_log_tau(self, lam: Array, tau: Array) -> Array:
        """``tau d/dtau`` of it, (S, N)."""
        if isinstance(self.kernel, HeatKernel):
            return -2.0 * np.outer(tau, lam) * self.values(lam, tau)
        g = self.kernel
        return np.array([2.0 * lam * g.value(lam, t) * g.slope(lam, t) for t in tau.tolist()])

    def differences(self, lam: Array, tau: float) -> Array:
        """Divided differences between eigenvalues, (N, N)."""
        if isinstance(self.kernel, HeatKernel):
            return exp_divided_differences(lam, 2.0 * tau)
        g = self.kernel
        return divided_differences(
            lambda at: np.square(g.value(at, tau)),
            lambda at: 2.0 * g.value(at, tau) * g.slope(at, tau),
            lam,
            APART / tau,
        )


def divided_differences(value: Any, slope: Any, lam: Array, apart: float) -> Array:
    """``(f(lam_k) - f(lam_l)) / (lam_k - lam_l)`` (N, N), the slope at ties.

    Where two points are less than ``apart`` from each other, this is the mean of the slope between
    them, by Gauss and Legendre's rule: no difference of close numbers is taken.

    Examples
    --------
    >>> divided_differences(np.sin, np.cos, np.array([0.0, 1e-12, 1.0]), 0.5).round(4)
    array([[1.    , 1.    , 0.8415],
           [1.    , 1.    , 0.8415],
           [0.8415, 0.8415, 0.5403]])
    """
    difference = lam[:, None] - lam[None, :]
    f = value(lam)
    far = np.abs(difference) >= apart
    found = np.zeros_like(difference)
    np.divide(f[:, None] - f[None, :], difference, out=found, where=far)
    i, j = np.nonzero(~far)
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    between = 0.5 * (lam[i] + lam[j]) + 0.5 * (lam[i] - lam[j]) * nodes[:, None]
    found[i, j] = 0.5 * weights @ slope(between)
    return found


def exp_divided_differences(lam: Array, t: float) -> Array:
    """``(exp(-t lam_k) - exp(-t lam_l)) / (lam_k - lam_l)`` (N, N), ``-t exp(-t lam_k)`` at ties.

    With ``d = t |lam_k - lam_l|`` this is ``-t exp(-t min(lam_k, lam_l)) (1 - exp(-d)) / d``, in
    which nothing overflows and no difference of close numbers is taken.

    Examples
    --------
    >>> exp_divided_differences(np.array([0.0, 0.0, 1.0]), 2.0).round(4)
    array([[-2.    , -2.    , -0.8647],
           [-2.    , -2.    , -0.8647],
           [-0.8647, -0.8647, -0.2707]])
    """
    d = t * np.abs(lam[:, None] - lam[None, :])
    apart = d > 0.0
    quotient = np.ones_like(d)
    np.divide(-np.expm1(-d), d, out=quotient, where=apart)
    return -t * np.exp(-t * np.minimum(lam[:, None], lam[None, :])) * quotient
