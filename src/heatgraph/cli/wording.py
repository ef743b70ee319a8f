"""The words of the estimators in those of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["as_options", "counted", "errors_as_options", "option_of"]

# Where an option is not called like the parameter that it sets.
OPTIONS = {
    "fit_intercept": "--intercept",
    "learn_scales": "--hold-scales",
    "n_bootstrap": "--bootstrap",
    "n_jobs": "--jobs",
    "random_state": "--seed",
}
PARAMETERS = (
    *OPTIONS,
    *("alpha", "beta", "scales", "n_scales", "atoms", "solver", "candidates", "n_edges", "penalty"),
    *("cut", "checkpoint", "max_iter", "tol", "shrinkage", "rbf", "noise", "ba"),
    *("cv", "methods", "truth"),
)
NAME = rf"\b({'|'.join(PARAMETERS)})"
# What a message may say of a parameter, and how the command line says it.
SAYINGS = (
    (r"\blearn_scales=False", lambda found: "--hold-scales"),
    (r"\bfit_intercept=False", lambda found: "--no-intercept"),
    (r"\bfit_intercept=True", lambda found: "--intercept"),
    (NAME + r'="([^"]*)"', lambda found: f"{option_of(found[1])} {found[2]}"),
    (
        NAME + r"=\(([^)]*)\)",
        lambda found: f"{option_of(found[1])} {found[2].replace(' ', '')}",
    ),
    (NAME + r"=(-?[\w.]*\w)", lambda found: f"{option_of(found[1])} {found[2]}"),
    (NAME + r"=\.*", lambda found: option_of(found[1])),
    (rf"`{NAME}`", lambda found: option_of(found[1])),
    (NAME + r"(?= must be )", lambda found: option_of(found[1])),
    (rf"^{NAME}(?=[: ])", lambda found: option_of(found[1])),
    (r"(?<= must be )None, ", lambda found: ""),
    (r"\bX\b", lambda found: "the table"),
    (r"\bgraph_", lambda found: "the graph"),
)


def option_of(parameter: str) -> str:
    """The option that sets a parameter."""
    return OPTIONS.get(parameter, f"--{parameter.replace('_', '-')}")


def as_options(text: str) -> str:
    """A message with its parameters as the options that set them."""
    for pattern, replacement in SAYINGS:
        text = re.sub(pattern, replacement, text)
    return text


@contextmanager
def errors_as_options() -> Iterator[None]:
    """Let a ValueError of the block name the options."""
    try:
        yield
    except ValueError as error:
        raise ValueError(as_options(str(error))) from error


def counted(n: int, thing: str) -> str:
    """So many of a thing, in the singular or the plural."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"
