"""The experiments of "Safety and Performance, Why not Both?" (2022) on tasks that fit a laptop, with the controls."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from discreet._json import dumps, loads
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
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> SafeStudy:
    """Train and audit every method on every task.

    Args:
        folder: The run directory; what is there is not made again, and a row that was cut short goes on.
        scale: A scale or its name.
        seed: Of everything.
        progress: Called with what is being done, and the share of all rows that is done.

    Raises:
        ValueError: No such scale.
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {scale!r}")
        scale = SCALES[scale]
    store, plan = Store(folder), rows(scale)
    cells, left_out = [], []
    with store.lock():
        for number, row in enumerate(plan):
            doing = f"{row.task}, {row.name}, density {row.density:g}{', wide' if row.large else ''}"

            def tell(what: str, share: float, number: int = number, doing: str = doing) -> None:
                progress(f"{doing}: {what}", (number + min(1.0, share)) / len(plan))

            try:
                cells.append(_cell(store, row, seed, tell))
            except (ValueError, Diverged) as error:  # data that is not installed, a defence that does not fit
                left_out.append((row, str(error)))
        grids = [
            _grid(store, task, runs, seed, lambda doing, share: progress(f"grid: {doing}", 1.0))
            for task, runs in scale.tasks.items()
            if scale.every and task in GRIDS
        ]
    return SafeStudy(scale, seed, tuple(cells), tuple(left_out), tuple(grids))


def _grid(store: Store, task: str, runs: int, seed: int, progress: Callable[[str, float], None]) -> Grid:
    key = store.key(f"grids/{task}.json", runs=runs, seed=seed, method=METHOD, versions=_versions())

    def write(aside: Path) -> None:
        aside.write_text(dumps(asdict(grid(task, runs=runs, seed=seed, progress=progress))), "utf-8")

    return Grid(**loads(store.make(key, write).read_bytes()))


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("discreet", "torch")}


def _cell(store: Store, row: Row, seed: int, progress: Callable[[str, float], None]) -> Cell:
    content = {
        "row": asdict(row) | {"method": row.method},
        "seed": seed,
        "versions": _versions(),
    }
    key = store.key(f"rows/{row.task}.json", **content)

    def write(aside: Path) -> None:
        aside.write_text(dumps(_run(store, row, seed, content_hash(content), progress)), "utf-8")

    told = loads(store.make(key, write).read_bytes())
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


def _run(
    store: Store, row: Row, seed: int, name: str, progress: Callable[[str, float], None]
) -> dict[str, Any]:
    given = setting(row.task, runs=row.runs, density=row.density, seed=seed, large=row.large)
    scratch = store.folder / "scratch" / name[:16]
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
