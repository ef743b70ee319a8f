"""What a long computation leaves behind, so that it can go on after its process has died.

A solver knows no files: it hands records to a keeper, under names, and asks for them when it is
started again.  A name holds what was finished there; what lies within it (the stages that led to
it, the state of the one under way) is then no longer needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["FORGETFUL", "Keeper", "Record", "thick", "thin"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Record:
    """Facts that JSON can hold, and arrays."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Keeper(Protocol):
    """One name in the store of a computation."""

    def within(self, name: str, /) -> Keeper:
        """The keeper of a stage of this one."""
        ...

    def get(self) -> Record | None:
        """What was left under this name, or None."""
        ...

    def put(self, record: Record, /) -> None:
        """Leave a record here; whatever lies within is dropped."""
        ...

    @property
    def due(self) -> bool:
        """Whether enough time has passed for the state of a running stage to be worth keeping."""
        ...


class _Forgetful:
    """Keeps nothing."""

    due = False

    def within(self, name: str, /) -> Keeper:
        return self

    def get(self) -> Record | None:
        return None

    def put(self, record: Record, /) -> None:
        pass


FORGETFUL: Keeper = _Forgetful()


def thin(codes: Array) -> dict[str, NDArray[Any]]:
    """An array that is mostly zeros, as the entries that are not; every bit comes back.

    By their bits: a negative zero is kept for what it is.
    """
    flat = np.ascontiguousarray(codes).reshape(-1)
    where = np.flatnonzero(flat.view(np.int64))
    return {"where": where.astype("<i8"), "what": flat[where].astype("<f8")}


def thick(arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> Array:
    """The array that :func:`thin` took apart."""
    flat = np.zeros(int(np.prod(shape)))
    where, what = arrays["where"], arrays["what"]
    if where.shape != what.shape or (
        where.size and not 0 <= where.min() <= where.max() < flat.size
    ):
        raise ValueError(f"its codes do not fit the shape {shape}")
    flat[where] = what
    return flat.reshape(shape)
