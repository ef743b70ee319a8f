"""What a command says: results to standard output, everything else to standard error."""

from __future__ import annotations

import glob
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sklearn.exceptions import ConvergenceWarning

from heatgraph.cli import INTERRUPTED
from heatgraph.cli.options import option_of
from heatgraph.errors import ParameterError
from heatgraph.files import escaped, to_json

ERROR = 2
ERRORS = (ValueError, OSError, ImportError, MemoryError)  # that the user can mend


@dataclass(frozen=True)
class Output:
    """How much a command says, and in which form; ``warnings`` are those that it has told."""

    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no notes and no progress.")] = (
        False
    )
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False
    warnings: list[str] = field(default_factory=list, compare=False)

    def note(self, text: str) -> None:
        """An aside, on standard error."""
        if not self.quiet:
            _console(stderr=True).print(_text(text), soft_wrap=True, style="dim")

    def warn(self, text: str) -> None:
        """What the user has to know even if quiet, on standard error."""
        _console(stderr=True).print(_text(f"heatgraph: {_one_line(text)}"), soft_wrap=True)

    def warning(self, text: str) -> None:
        """A warning, on standard error and for the summary."""
        self.warnings.append(_one_line(text))
        self.warn(f"warning: {text}")

    def show(self, summary: Mapping[str, Any], lines: Iterable[str | Table]) -> None:
        """The result: the summary as JSON, or the lines for a reader."""
        if self.json:
            typer.echo(to_json(summary))
            return
        for line in lines:
            if isinstance(line, Table):
                _console().print(line)
            else:
                _console().print(_text(line), soft_wrap=True)

    @property
    def shows_progress(self) -> bool:
        """Whether someone is there to watch a bar."""
        return not self.quiet and Console(stderr=True).is_terminal

    @contextmanager
    def warnings_told(self) -> Iterator[None]:
        """Warnings as one line each.  Not converging is left out: the summary has it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
        for warning in caught:
            if not issubclass(warning.category, (ConvergenceWarning, PendingDeprecationWarning)):
                self.warning(str(warning.message))

    @contextmanager
    def errors_told(
        self, checkpoint: Path | None = None, stopped: str = "stopped; nothing was written"
    ) -> Iterator[None]:
        """One line on standard error and exit code 2 for what the user can mend.

        ``checkpoint`` is a file that a stopped command leaves and goes on from; ``stopped``
        is said where there is none.
        """
        try:
            yield
        except KeyboardInterrupt:
            if checkpoint is not None and _left(checkpoint):
                self.warn(
                    f"stopped; there are no results yet, but {checkpoint} is kept: the same "
                    "command goes on from there"
                )
            else:
                self.warn(stopped)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            # An error of a task that a cluster ran, of whatever type, has a note on where.
            if self.debug or not (isinstance(error, ERRORS) or hasattr(error, "__notes__")):
                raise
            self.warn(f"error: {_message(error)}")
            raise typer.Exit(ERROR) from None


def counted(n: int, thing: str) -> str:
    """So many of a thing, in the singular or the plural."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _text(text: str) -> Text:
    """Text for the terminal, to which names from files must not give orders."""
    return Text(escaped(text))


def _console(stderr: bool = False) -> Console:
    # Made anew each time: standard output may have been redirected since the last.
    return Console(stderr=stderr, highlight=False)


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table; a column whose title ends in a space is aligned right."""
    table = Table(box=None, pad_edge=True, header_style="bold")
    for title in titles:
        right = title.endswith(" ")
        table.add_column(title.strip(), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    return table


def _left(checkpoint: Path) -> bool:
    """Whether there is such a file, or one of a stage, whose name has an ending more."""
    pattern = f"{glob.escape(str(checkpoint))}.*"
    return checkpoint.exists() or bool(glob.glob(pattern))


def _message(error: BaseException) -> str:
    if isinstance(error, ParameterError):
        return error.told_as(option_of(error.parameter))
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])


def _one_line(text: str) -> str:
    return " ".join(text.split())
