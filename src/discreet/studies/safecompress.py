"""The experiments of "Safety and Performance, Why not Both?" (2022) on tasks that fit a laptop, with the controls."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from discreet._json import dumps, loads
from discreet._spread import one_torch_thread
from discreet.backends.processes import Processes
from discreet.ensemble import Diverged
from discreet.methods import fit
from discreet.paper_protocol import paper_protocol
from discreet.release_audit import assess
from discreet.store import Store, content_hash
from discreet.studies.compression_grid import METHOD, Grid, grid
from discreet.studies.compression_tasks import TASKS, setting
from discreet.studies.safecompress_plan import SCALES, WHITE, Row, SafeScale, rows

__all__ = ["GRIDS", "Cell", "SafeStudy", "safecompress"]

GRIDS = ("tab20", "fashion")


@dataclass(frozen=True, eq=False)
class Cell:
    """What came of a row.

    Attributes:
        row: Which.
        found: What ``release_audit.assess`` said, as plain data.
        epochs: Passes in which the models were trained.
        spent: Passes in all.
        seconds: Of processor time.
        notes: What is to be known.
        epsilon: If it is differentially private.
        history: Of SafeCompress.
    """

    row: Row
    found: Mapping[str, Any]
    epochs: float
    spent: float
    seconds: float
    notes: tuple[str, ...]
    epsilon: tuple[float, float] | None
    history: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class SafeStudy:
    """What the study found.

    Attributes:
        scale: How much was run.
        seed: Of everything.
        cells: In the order of the plan.
        left_out: Rows that could not be run, and why.
        grids: Sparse times bits, and densities published together.
    """

    scale: SafeScale
    seed: int
    cells: tuple[Cell, ...]
    left_out: tuple[tuple[Row, str], ...]
    grids: tuple[Grid, ...] = ()


def safecompress(
    folder: str | Path,
    *,
    scale: SafeScale | str = "small",
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> SafeStudy:
    """Train and audit every method on every task.

    Args:
        folder: The run directory; what is there is not made again, and a row that was cut short goes on.
        scale: A scale or its name.
        seed: Of everything.
        workers: Rows at a time; more than one are done in processes, each with one torch thread. On the tasks that
            fit a laptop one process takes one thread too, so that the numbers do not depend on it.
        progress: Called with what is being done, and the share of all rows that is done.

    Raises:
        ValueError: No such scale.
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {scale!r}")
        scale = SCALES[scale]
    store, plan = Store(folder), rows(scale)
    grids = [_Grids(task, runs) for task, runs in scale.tasks.items() if scale.every and task in GRIDS]
    with store.lock():
        told = _made(store, (*plan, *grids), seed, workers, progress)
    cells, left_out = [], []
    for row in plan:
        match told[row]:
            case str() as why:
                left_out.append((row, why))
            case found:
                cells.append(_cell(row, found))
    return SafeStudy(
        scale,
        seed,
        tuple(cells),
        tuple(left_out),
        tuple(Grid(**found) for each in grids if not isinstance(found := told[each], str)),
    )


@dataclass(frozen=True)
class _Grids:
    """Sparse times bits on one task: the piece of work that is no row."""

    task: str
    runs: int


_Piece = Row | _Grids
_Told = Mapping[str, Any] | str
"""What a piece of work found, as plain data, or why it could not be done."""


def _made(
    store: Store,
    pieces: Sequence[_Piece],
    seed: int,
    workers: int,
    progress: Callable[[str, float], None],
) -> dict[_Piece, _Told]:
    """Do what is not kept yet, and read the rest."""
    keys = {piece: _key(store, piece, seed) for piece in pieces}
    missing = [piece for piece in pieces if not store.has(keys[piece])]
    left_out: dict[_Piece, str] = {}

    def keep(piece: _Piece, told: _Told) -> None:
        if isinstance(told, str):
            left_out[piece] = told
        else:
            store.make(keys[piece], lambda aside: aside.write_text(dumps(told), "utf-8"))

    already = len(pieces) - len(missing)
    if workers == 1:
        for number, piece in enumerate(missing, start=already):

            def tell(what: str, share: float, number: int = number, piece: _Piece = piece) -> None:
                progress(f"{_doing(piece)}: {what}", (number + min(1.0, share)) / len(pieces))

            keep(piece, _do(store.folder, piece, seed, tell))
    else:
        each = Processes(workers).each(_elsewhere, (store.folder, seed), missing)
        for count, (number, told) in enumerate(each, start=already + 1):
            keep(missing[number], told)
            progress(f"{_doing(missing[number])}: done", count / len(pieces))
    return {
        piece: left_out[piece] if piece in left_out else loads(store.path(keys[piece]).read_bytes())
        for piece in pieces
    }


def _doing(piece: _Piece) -> str:
    if isinstance(piece, _Grids):
        return f"{piece.task}, sparse times bits"
    return f"{piece.task}, {piece.name}, density {piece.density:g}{', wide' if piece.large else ''}"


def _elsewhere(shared: tuple[Path, int], piece: _Piece) -> _Told:
    """Do a piece of work in a process of its own, which writes nothing but what it needs to go on after a kill."""
    folder, seed = shared
    return _do(folder, piece, seed, lambda what, share: None)


def _do(folder: Path, piece: _Piece, seed: int, progress: Callable[[str, float], None]) -> _Told:
    threads = nullcontext() if piece.task in SCALES["paper"].tasks else one_torch_thread()
    try:
        with threads:
            if isinstance(piece, _Grids):
                return asdict(grid(piece.task, runs=piece.runs, seed=seed, progress=progress))
            return _run(folder, piece, seed, progress)
    except (ValueError, Diverged) as error:  # data that is not installed, a defence that does not fit
        return str(error)


def _content(piece: _Piece, seed: int) -> dict[str, Any]:
    """All that what is found depends on."""
    versions = {name: metadata.version(name) for name in ("discreet", "torch")}
    if isinstance(piece, _Grids):
        return {"runs": piece.runs, "seed": seed, "method": METHOD, "versions": versions}
    return {"row": asdict(piece) | {"method": piece.method}, "seed": seed, "versions": versions}


def _key(store: Store, piece: _Piece, seed: int) -> str:
    kind = "grids" if isinstance(piece, _Grids) else "rows"
    return store.key(f"{kind}/{piece.task}.json", **_content(piece, seed))


def _cell(row: Row, told: Mapping[str, Any]) -> Cell:
    epsilon = told["epsilon"]
    return Cell(
        row,
        told["found"],
        told["epochs"],
        told["spent"],
        told["seconds"],
        tuple(told["notes"]),
        None if epsilon is None else (epsilon[0], epsilon[1]),
        told["history"],
    )


def _run(folder: Path, row: Row, seed: int, progress: Callable[[str, float], None]) -> dict[str, Any]:
    given = setting(row.task, runs=row.runs, density=row.density, seed=seed, large=row.large)
    scratch = folder / "scratch" / content_hash(_content(row, seed))[:16]
    start = time.process_time()
    done = fit(row.method, replace(given, scratch=scratch), progress=progress)
    seconds = time.process_time() - start
    progress("audit", 1.0)
    found = assess(given, done.model, done.params).to_json()
    if row.name in WHITE and row.density == TASKS[row.task].densities[0] and not row.large:
        found["whitebox"] = assess(given, done.model, done.params, tests=["whitebox"]).to_json()
    augment = TASKS[row.task].augment
    if augment is not None:
        found["paper_protocol"] = paper_protocol(given, done.model, done.params, augment).to_json()
    shutil.rmtree(scratch, ignore_errors=True)
    return json.loads(
        json.dumps(
            {
                "found": found,
                "epochs": done.epochs,
                "spent": done.spent,
                "seconds": seconds,
                "notes": done.notes,
                "epsilon": done.epsilon,
                "history": dict(done.history) if row.method.startswith(("safecompress", "quantize")) else {},
            }
        )
    )
