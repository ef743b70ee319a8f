"""Errors that say which parameter they are about."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class ParameterError(ValueError):
    """A parameter that cannot be used.

    ``parameter`` is its name, so that a caller under another name, such as the command line, can
    tell the ``reason`` of its own option.

    Examples
    --------
    >>> error = ParameterError("n_edges", "must be an integer >= 1, got 0.")
    >>> str(error)
    'n_edges must be an integer >= 1, got 0.'
    >>> error.told_as("--n-edges")
    '--n-edges must be an integer >= 1, got 0.'
    """

    def __init__(self, parameter: str, reason: str) -> None:
        super().__init__(parameter, reason)  # both, so that a pickle can make it again
        self.parameter = parameter
        self.reason = reason

    def __str__(self) -> str:
        return self.told_as(self.parameter)

    def told_as(self, name: str) -> str:
        """The message, the parameter being called ``name``."""
        return f"{name}{self.reason}" if self.reason.startswith(":") else f"{name} {self.reason}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message on an unknown word: the known one that is most like it, if any is.

    Examples
    --------
    >>> did_you_mean("modle", ["model", "cv"])
    '; did you mean model?'
    >>> did_you_mean("colour", ["model", "cv"])
    ''
    """
    alike = get_close_matches(word, known, n=1)
    return f"; did you mean {alike[0]}?" if alike else ""


def needed(package: str, use: str, install: str) -> Any:
    """Import an optional package, or say what needs it and how to install it.

    Examples
    --------
    >>> needed("polonium", "the experiment", "lead")
    Traceback (most recent call last):
    ...
    ImportError: the experiment needs polonium, which is not installed: pip install lead
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{use} needs {package}, which is not installed: pip install {install}"
        ) from error
