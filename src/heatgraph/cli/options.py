"""Options that several commands share: each is defined here, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

# Where an option is not called like the parameter that it sets.
OPTIONS = {
    "X": "the table",
    "fit_intercept": "--intercept",
    "learn_scales": "--hold-scales",
    "n_bootstrap": "--bootstrap",
    "n_jobs": "--jobs",
    "random_state": "--seed",
}

Coordinates = Annotated[
    Path | None,
    typer.Option(
        help="CSV file with one row per node: its name, and longitude and latitude, or x and y."
    ),
]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace earlier results.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, or the folder of `learn`.")
]


@dataclass(frozen=True)
class TableOptions:
    """How a table is read; None lets its content decide.

    ``index_column`` are names, or ("none",); ``missing`` are values that stand for a gap, or
    ("none",); ``nodes`` are the columns that a model knows, ``groups`` is the one that says which
    signals belong together.
    """

    index_column: Annotated[
        list[str] | None,
        typer.Option(
            "--index-column",
            "--labels",
            help="Column that labels the signals, or none; may be given several times.",
        ),
    ] = None
    transpose: Annotated[
        bool | None, typer.Option(help="Whether nodes are rows, and signals columns.")
    ] = None
    header: Annotated[
        bool | None, typer.Option(help="Whether the first line of a CSV has names.")
    ] = None
    decimal: Annotated[str | None, typer.Option(help="Decimal mark of a CSV: . or ,")] = None
    thousands: Annotated[
        str | None, typer.Option(help="Mark that separates thousands in a CSV.")
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(
            "--missing",
            help="Value that stands for a gap, such as -999; may be given several times.",
        ),
    ] = None
    leave_out: Annotated[
        list[str] | None,
        typer.Option(help="Column that is not read; may be given several times."),
    ] = None
    nodes: tuple[str, ...] | None = None
    groups: str | None = None


@dataclass(frozen=True)
class FitOptions:
    """Which signals are held out together."""

    cv: Annotated[
        int | None,
        typer.Option(help="Number of folds of signals that are held out in turn; 3 by default."),
    ] = None
    groups: Annotated[
        str | None,
        typer.Option(
            help="Column that says which signals belong together, such as the subject: these are "
            "held out together."
        ),
    ] = None
    lag: Annotated[
        str | None,
        typer.Option(
            help="Add earlier values as columns: 1 for those of one row earlier, 1,2 "
            "for those of one and two rows earlier. With --groups, within each group."
        ),
    ] = None

    @property
    def lags(self) -> tuple[int, ...]:
        """The steps back that ``lag`` names."""
        parts = () if self.lag is None else self.lag.split(",")
        if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            raise ValueError(
                f"--lag must be a number of steps, or several such as 1,2; got {self.lag!r}"
            )
        return tuple(map(int, parts))


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command of typer an option for each option of its parameters that are dataclasses."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if hasattr(kind, "__dataclass_fields__")}
    parameters, names = [], {}
    for parameter in signature(command).parameters.values():
        if parameter.name not in groups:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        kind = groups[parameter.name]
        annotations = get_type_hints(kind, include_extras=True)
        options = [f for f in fields(kind) if hasattr(annotations[f.name], "__metadata__")]
        names[parameter.name] = [option.name for option in options]
        parameters += [
            Parameter(
                option.name,
                Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=annotations[option.name],
            )
            for option in options
        ]

    @wraps(command)
    def called(**given: Any) -> None:
        gathered = {
            group: groups[group](**{name: given.pop(name) for name in of_group})
            for group, of_group in names.items()
        }
        command(**given, **gathered)

    called.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called


def option_of(parameter: str) -> str:
    """The option that sets a parameter."""
    return OPTIONS.get(parameter, f"--{parameter.replace('_', '-')}")
