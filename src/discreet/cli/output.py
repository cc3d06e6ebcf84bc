"""Where results go: files that appear whole, tables on stdout, and a check before long work starts."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "STDOUT",
    "check_apart",
    "check_file",
    "check_folder",
    "console",
    "minutes",
    "progress",
    "say",
    "table",
    "write_json",
]

STDOUT = "-"
_WIDE = 160  # of a table that goes to a file or a pipe, where nothing needs to be cut


def check_file(path: Path | None) -> None:
    """Refuse, before any work, a file that could not be written.

    Raises:
        OSError: Its folder is missing or cannot be written, or it is itself a folder.
    """
    if path is None or str(path) == STDOUT:
        return
    if path.is_dir():
        raise OSError(21, "expected a file to write, got a folder", str(path))
    if not path.parent.is_dir():
        raise OSError(2, "the folder to write into does not exist", str(path.parent))
    from discreet._draft import regular

    _try(regular(path).parent)


def check_apart(outputs: Sequence[Path | None], inputs: Sequence[Path] = ()) -> None:
    """Refuse, before any work, an output that is an input or another output.

    Raises:
        OSError: Two of the paths are one file.
    """
    taken = {path.resolve() for path in inputs}
    for path in outputs:
        if path is None or str(path) == STDOUT:
            continue
        check_file(path)
        if path.resolve() in taken:
            raise OSError(22, "this file is read or written already; name another one", str(path))
        taken.add(path.resolve())


def minutes(budget: float) -> float:
    """A time budget as given on the command line.

    Raises:
        ValueError: It is not finite.
    """
    if not isfinite(budget):
        raise ValueError(f"--time-budget: expected minutes, or 0 for no limit, got {budget:g}")
    return budget


def check_folder(path: Path) -> None:
    """Make a folder if it is missing, and refuse one that cannot be written.

    Raises:
        OSError: It cannot be made or written, or a file stands in its place.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "a file stands where the folder should be" if path.is_file() else error.strerror
        raise OSError(error.errno, f"cannot make the folder: {reason}", str(path)) from error
    _try(path)


def _try(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(error.errno, f"cannot write into the folder: {error.strerror}", str(folder)) from error


def write_json(value: Any, path: Path | None) -> None:
    """Write JSON to a file, or to stdout for ``-``."""
    from discreet._json import dumps, save

    if path is None:
        return
    if str(path) == STDOUT:
        sys.stdout.write(dumps(value))
    else:
        save(path, dumps(value))


def console() -> Console:
    """A console on stdout that cuts nothing unless it is a terminal. Give it ``Text``, in which markup is text."""
    from rich.console import Console

    on_terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=not on_terminal, width=None if on_terminal else _WIDE)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print a table; columns named in ``right`` hold numbers."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in head:
        drawn.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console().print(drawn)


def say(*sentences: str) -> None:
    """Print sentences as a list, wrapped on a terminal."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    for sentence in sentences:
        if sys.stdout.isatty():
            out.print(Padding(Text(sentence), (0, 0, 0, 2)))
        else:
            out.print(Text(f"- {sentence}"))


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """A bar on stderr if that is a terminal, else nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    out = Console(stderr=True)
    if not out.is_terminal:
        yield lambda doing, share: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def show(doing: str, share: float) -> None:
            bar.update(task, description=doing, completed=share)

        yield show
