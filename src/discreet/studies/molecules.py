"""Security against performance on molecules, as in section 4.3 of "An Indicator of Membership Inference Security in
Post-Training Quantized Models": small networks on embeddings, eight quantizers, r and task performance beside it.

The embeddings are others than the paper's four unless the user brings those; so tables are laid beside the paper's to
compare what quantization does, not the absolute figures.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from discreet import embedders
from discreet._spread import Stopped, spread
from discreet._types import Float
from discreet.backends import Backend
from discreet.data import molecules as sets
from discreet.data.molecule_set import MoleculeSet
from discreet.data.samples import DataError
from discreet.indicator import RunIndicator
from discreet.ranking import Ranking, rank_runs
from discreet.store import Store
from discreet.studies.molecules_elsewhere import Material, make_units
from discreet.studies.molecules_plan import SCALES, MoleculeScale, Parts, deal, prepared, subset
from discreet.studies.molecules_unit import VARIANTS, UnitResult, load_unit, run_unit

__all__ = ["Measured", "Molecules", "TaskData", "molecules", "write_smiles"]

Embedder = str | embedders.Embedder | Callable[[str], object]


@dataclass(frozen=True, eq=False)
class TaskData:
    """A task and how its molecules are dealt out.

    Attributes:
        data: The molecules.
        parts: Their parts.
        y: Labels as trained on: classes, or numbers standardised over the training molecules.
    """

    data: MoleculeSet
    parts: Parts
    y: Float[np.ndarray, " molecule"]

    @property
    def loss(self) -> str:
        """``"bce"`` or ``"mse"``."""
        return "bce" if self.data.task == "classification" else "mse"

    @property
    def truth(self) -> Float[np.ndarray, " validated"]:
        """Labels of the validation molecules."""
        return self.y[self.parts.validation]

    @property
    def constant_loss(self) -> float:
        """Loss of the best constant prediction on the validation molecules: entropy in nats, or variance."""
        if self.loss == "mse":
            return float(self.truth.var(dtype=np.float64))
        share = np.array([self.truth.mean(dtype=np.float64), 1 - self.truth.mean(dtype=np.float64)])
        return float(-(share * np.log(share)).sum())


@dataclass(frozen=True, eq=False)
class Measured:
    """One task on one embedder, all runs.

    Attributes:
        task: Name of the task.
        embedder: Spec string.
        ranking: r of every variant.
        outputs: Raw outputs on the validation molecules, at the checkpoint of lowest full-precision loss.
        own: The same at each variant's own best checkpoint.
        step: Epoch of the former, by run.
    """

    task: str
    embedder: str
    ranking: Ranking
    outputs: Float[np.ndarray, "variant run sample"]
    own: Float[np.ndarray, "variant run sample"]
    step: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Molecules:
    """What the study measured.

    Attributes:
        scale: How large it was.
        tasks: The tasks, by name.
        measured: Every task on every embedder.
        left_out: What was not run, and why.
        seed: Of everything.
    """

    scale: MoleculeScale
    tasks: Mapping[str, TaskData]
    measured: tuple[Measured, ...]
    left_out: Mapping[str, str]
    seed: int


def molecules(
    folder: str | Path,
    *,
    scale: MoleculeScale | str = "small",
    csv: Mapping[str, str | Path] | None = None,
    named: Collection[str] = (),
    seed: int = 0,
    workers: int | None = None,
    backend: Backend | None = None,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> Molecules:
    """Train, quantize and measure; what is finished in ``folder`` is not done again.

    A task or embedder that cannot be had is left out, with the reason, as long as others are left.

    Args:
        folder: The run directory.
        scale: A scale or its name.
        csv: Tables of the user by the name of the task; tasks that the scale does not name are added to it.
        named: Tasks and embedders that were asked for by name: one that cannot be had is an error.
        seed: Of everything.
        workers: How many units (some runs on one task and embedder) at a time; None: one a core.
        backend: Where they are made; None: here. The bytes do not depend on it.
        progress: Called with what is being done, and the share of all work that is done.

    Raises:
        ValueError: Unknown scale.
        DataError: No task or no embedder can be had, or one that was asked for by name cannot.
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {scale!r}")
        scale = SCALES[scale]
    store = Store(folder)
    with store.lock():
        progress("reading molecules", 0.0)
        tasks, left_out = _tasks(scale, csv or {}, named, seed)
        vectors = _vectors(store, scale, tasks, named, left_out, progress)
        units = [
            _Unit(name, embedder, tuple(range(at, min(at + scale.at_once, scale.runs))))
            for name in tasks
            for embedder in _named(scale)
            if (name, embedder) in vectors
            for at in range(0, scale.runs, scale.at_once)
        ]
        keys = {unit: _key(store, unit, tasks[unit.task], vectors, scale, seed) for unit in units}
        if backend is not None:
            make_units(backend, store, Material(units, keys, tasks, vectors, scale, seed), progress)
        _do(store, units, keys, tasks, vectors, scale, seed, workers, progress)
        progress("ranking", 0.97)
        found = tuple(
            _measured(name, embedder, tasks[name], parts, seed)
            for (name, embedder) in vectors
            if (
                parts := [
                    load_unit(store.path(keys[u])) for u in units if (u.task, u.embedder) == (name, embedder)
                ]
            )
        )
    return Molecules(scale, tasks, found, left_out, seed)


def write_smiles(
    path: str | Path,
    scale: MoleculeScale,
    csv: Mapping[str, str | Path] | None = None,
    seed: int = 0,
    named: Collection[str] = (),
) -> int:
    """Write the molecules of a study, one SMILES a line, for embedders that run elsewhere.

    Returns:
        How many were written.

    Raises:
        DataError: No task can be had, or one in ``named`` cannot.
    """
    from discreet._json import save

    tasks, _ = _tasks(scale, csv or {}, named, seed)
    every = list(dict.fromkeys(smiles for task in tasks.values() for smiles in task.data.smiles))
    save(path, "\n".join(every) + "\n")
    return len(every)


@dataclass(frozen=True)
class _Unit:
    task: str
    embedder: str
    runs: tuple[int, ...]


def _named(scale: MoleculeScale) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scale.embedders))


def _tasks(
    scale: MoleculeScale, csv: Mapping[str, str | Path], named: Collection[str], seed: int
) -> tuple[dict[str, TaskData], dict[str, str]]:
    found, left_out = {}, {}
    for name in dict.fromkeys((*scale.tasks, *csv)):
        try:
            data = sets.load(name, csv)
        except DataError as error:
            if name in csv or name in named or not sets.known(name):  # a slip of the user's, not passed over
                raise
            left_out[name] = str(error)
            continue
        parts, y = deal(data, scale, seed), data.label
        if data.task == "regression":
            pool = y[parts.pool]
            y = (y - pool.mean()) / (pool.std() or 1.0)
        found[data.name] = TaskData(data, parts, y.astype(np.float32))
    if not found:
        raise DataError(f"tasks: none can be had; {'; '.join(left_out.values())}")
    return found, left_out


def _vectors(
    store: Store,
    scale: MoleculeScale,
    tasks: Mapping[str, TaskData],
    named: Collection[str],
    left_out: dict[str, str],
    progress: Callable[[str, float], None],
) -> dict[tuple[str, str], Float[np.ndarray, "molecule feature"]]:
    """Vectors of every task by every embedder, as networks are given them."""
    found = {}
    for embedder in _named(scale):
        for name, task in tasks.items():
            progress(f"{embedder} of {name}", 0.01)
            try:
                x = _embedded(store, embedder, task.data.smiles)
            except DataError as error:
                if embedder in named:
                    raise DataError(f"embedder {embedder}, which was asked for: {error}") from None
                left_out[embedder if embedder not in left_out else f"{embedder}, {name}"] = str(error)
                continue
            found[name, embedder] = prepared(x, task.parts.pool)
    if not found:
        raise DataError(f"embedders: none can be had; {'; '.join(left_out.values())}")
    return {(name, e): found[name, e] for name in tasks for e in _named(scale) if (name, e) in found}


def _embedded(store: Store, embedder: str, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
    """Vectors of molecules; those of the built-in embedders are kept, since theirs depend on nothing else."""
    if embedder.partition("(")[0] not in ("ecfp4", "descriptors", "rxnfp"):
        return embedders.embed(embedder, smiles)
    key = store.key(f"vectors/{embedder}.safetensors", smiles=list(smiles), embedder=embedder, **_versions())
    path = store.make(key, lambda aside: save_file({"x": embedders.embed(embedder, smiles)}, aside))
    return load_file(path)["x"]


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("discreet", "torch", "rdkit")}


def _key(
    store: Store,
    unit: _Unit,
    task: TaskData,
    vectors: Mapping[tuple[str, str], Float[np.ndarray, "molecule feature"]],
    scale: MoleculeScale,
    seed: int,
) -> str:
    content: dict[str, Any] = {
        "settings": scale.training(),
        "x": vectors[unit.task, unit.embedder],
        "y": task.y,
        "pool": task.parts.pool,
        "validation": task.parts.validation,
        "trained": [subset(task.parts, run, seed) for run in unit.runs],
        "runs": list(unit.runs),
        "variants": VARIANTS,
        "seed": seed,
        "versions": _versions(),
    }
    name = f"units/{unit.task}/{unit.embedder}-runs-{unit.runs[0]}-{unit.runs[-1]}.safetensors"
    return store.key(name, **content)


def _do(
    store: Store,
    units: Sequence[_Unit],
    keys: Mapping[_Unit, str],
    tasks: Mapping[str, TaskData],
    vectors: Mapping[tuple[str, str], Float[np.ndarray, "molecule feature"]],
    scale: MoleculeScale,
    seed: int,
    workers: int | None,
    progress: Callable[[str, float], None],
) -> None:
    """Make every unit that is not in the store yet, each on one core; Ctrl-C or a failure stops all of them."""
    stop, lock = threading.Event(), threading.Lock()
    # the longest first, so that no core is left with one at the end
    size = {
        u: len(u.runs) * tasks[u.task].parts.n_train * vectors[u.task, u.embedder].shape[1] for u in units
    }
    waiting = sorted((u for u in units if not store.has(keys[u])), key=lambda u: -size[u])
    total = sum(size.values()) or 1
    done = float(total - sum(size[unit] for unit in waiting))

    def work(unit: _Unit) -> None:
        def tick() -> None:
            nonlocal done
            if stop.is_set():
                raise Stopped
            with lock:
                done += size[unit] / scale.epochs
                progress(f"{unit.task}, {unit.embedder}", 0.05 + 0.92 * done / total)

        task = tasks[unit.task]
        x = vectors[unit.task, unit.embedder]
        try:
            store.make(
                keys[unit],
                lambda aside: run_unit(
                    x, task.y, task.loss, task.parts, scale, unit.runs, seed=seed, path=aside, on_epoch=tick
                ),
            )
        except BaseException:
            stop.set()
            raise

    # the pool is left to a thread of its own, so that Ctrl-C reaches this one while the pool waits
    with ThreadPoolExecutor(1) as helper:
        running = helper.submit(spread, work, waiting, workers)
        try:
            running.result()
        except BaseException:
            stop.set()
            raise


def _measured(name: str, embedder: str, task: TaskData, parts: Sequence[UnitResult], seed: int) -> Measured:
    runs: dict[str, dict[str, RunIndicator]] = {
        spec: {run: found for part in parts for run, found in part.indicators[spec].items()}
        for spec in VARIANTS
    }
    ranking = rank_runs(runs, n_train=task.parts.n_train, constant_loss=task.constant_loss, seed=seed)
    return Measured(
        name,
        embedder,
        ranking,
        np.concatenate([part.outputs for part in parts], axis=1),
        np.concatenate([part.own for part in parts], axis=1),
        tuple(int(step) for part in parts for step in part.step),
    )
