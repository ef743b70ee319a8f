"""Kernels other than heat: slopes by finite differences, divided differences at near ties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from heatgraph.kernels.spectral import (
    KERNELS,
    MaternKernel,
    Power,
    divided_differences,
    exp_divided_differences,
    kernel_of,
    times_before_zero,
)

LAM = np.array([0.0, 0.0, 1e-13, 0.3, 0.3 + 1e-9, 0.7, 2.0, 2.2, 30.0])
TESTED = {**KERNELS, "rough": MaternKernel(0.7)}


@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("tau", [0.1, 1.0, 7.0])
def test_slopes_are_those_of_the_values(name, tau):
    g, h = TESTED[name], 1e-6
    # Around lam + h: a kernel need not be defined below 0.
    in_lam = (g.value(LAM + 2 * h, tau) - g.value(LAM, tau)) / (2 * h)
    assert g.slope(LAM + h, tau) == pytest.approx(in_lam, abs=1e-7)
    assert g.value(np.zeros(1), tau) == 1.0


@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("tau", [0.1, 1.0, 7.0])
def test_powers_are_squares(name, tau):
    power, g, h = Power(TESTED[name]), TESTED[name], 1e-6
    assert power.values(LAM, np.array([tau]))[0] == pytest.approx(g.value(LAM, tau) ** 2)
    up, down = (power.values(LAM, np.array([tau * np.exp(s)]))[0] for s in (h, -h))
    slopes = power.slopes_in_log_tau(LAM, np.array([tau]))[0]
    assert slopes == pytest.approx((up - down) / (2 * h), abs=1e-7)


@pytest.mark.parametrize("name", ["tikhonov", "matern"])
@pytest.mark.parametrize("tau", [0.1, 1.0, 7.0])
def test_differences_keep_their_digits(name, tau):
    """Of (1 + tau lam)^-k they are known: a sum of products, without a difference."""
    k = int(2 * TESTED[name].nu)
    u = 1.0 / (1.0 + tau * LAM)
    exact = -tau * sum(np.outer(u ** (j + 1), u ** (k - j)) for j in range(k))
    found = Power(TESTED[name]).differences(LAM, tau)
    assert found == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("tau", [0.1, 1.0, 7.0])
def test_differences_of_waves_keep_their_digits(tau):
    """``cos^2(z)`` is ``(1 + cos 2z) / 2``, and a difference of cosines a product of sines."""
    z = np.sqrt(tau * LAM)
    plus, minus = z[:, None] + z, z[:, None] - z
    sinc = np.sinc(plus / np.pi) * np.sinc(minus / np.pi)
    assert Power(KERNELS["wave"]).differences(LAM, tau) == pytest.approx(-tau * sinc, abs=1e-12)


def test_the_general_formula_agrees_with_that_of_heat():
    tau = 2.5
    general = divided_differences(
        lambda at: np.exp(-tau * at), lambda at: -tau * np.exp(-tau * at), LAM, 0.5 / tau
    )
    assert general == pytest.approx(exp_divided_differences(LAM, tau), rel=1e-12)


def test_times_before_the_zero_of_waves():
    shares = np.array([1.5, 1.0, 0.99, 0.5, 0.01])
    times = times_before_zero(TESTED["wave"], shares)
    assert times[0] == 0.0
    assert TESTED["wave"].value(times[1:], 1.0) == pytest.approx(shares[1:], abs=1e-3)
    others = [times_before_zero(kernel, shares) for kernel in TESTED.values()]
    assert sum(found is not None for found in others) == 1


@dataclass(frozen=True)
class Halfway:
    """Half of the source stays where it is."""

    def value(self, lam, tau):
        return 0.5 + 0.5 * np.exp(-tau * lam)

    def slope(self, lam, tau):
        return -0.5 * tau * np.exp(-tau * lam)


def test_any_object_with_slopes_is_a_kernel():
    own = Halfway()
    assert kernel_of(own) is own
    square = own.value(LAM, 1.0) ** 2
    gaps = LAM[:, None] - LAM
    far = np.abs(gaps) > 0.1
    naive = (square[:, None] - square)[far] / gaps[far]
    assert Power(own).differences(LAM, 1.0)[far] == pytest.approx(naive)


class Doubled(Halfway):
    def value(self, lam, tau):
        return 2.0 * np.exp(-tau * lam)


class SquaredTime(Halfway):
    def value(self, lam, tau):
        return np.exp(-(tau**2) * lam)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("cold", "kernel must be one of 'heat', .*'tikhonov', 'matern', 'wave'"),
        (Doubled(), "be 1 at lam = 0"),
        (SquaredTime(), "depend on the product tau . lam only"),
        (3.0, "lacks value"),
        (MaternKernel, "is a class: make an object"),
    ],
)
def test_what_is_no_kernel_is_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel_of(kernel)


def test_the_exponent_is_positive():
    with pytest.raises(ValueError, match="nu must be a finite number > 0"):
        MaternKernel(0.0)
