"""Train, compress and measure a bank, unit by unit, and join what was measured into one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from discreet._code import code_of
from discreet._content import content_of
from discreet.backends import Backend
from discreet.backends.keeping import make_elsewhere, moved
from discreet.bank.assignment import Assignment, assign, draw_calibration
from discreet.bank.compress import compress, is_calibrated
from discreet.bank.identity import identity
from discreet.bank.settings import BankSettings
from discreet.fingerprint import fingerprints
from discreet.forward import inputs
from discreet.initial import as_model
from discreet.losses import as_labels
from discreet.measure import measure_stack
from discreet.records import Record, join, laws
from discreet.signals import axes_of
from discreet.store import Store
from discreet.training import train

__all__ = ["bank"]


def bank(
    store: Store | str | Path,
    settings: BankSettings,
    x: Tensor | np.ndarray,
    y: Tensor | np.ndarray,
    *,
    public: np.ndarray | None = None,
    group: np.ndarray | None = None,
    sample: np.ndarray | None = None,
    workers: int | None = None,
    backend: Backend | None = None,
    progress: Callable[[float], None] | None = None,
) -> Record:
    """Return the release record of a bank, after making what is missing of it.

    Args:
        store: The run directory. It is locked while work is done.
        settings: The procedure and what is measured.
        x: Inputs of all samples.
        y: Labels, numbers.
        public: Positions of samples that train no model and that an attacker may learn from.
        group: Groups that a half must not cut, such as molecules of one scaffold; each sample its own when None.
        sample: Ids of the samples, each once; 0, 1, 2, … when None.
        workers: Threads; None: one a core. Results do not depend on it.
        backend: Where models are trained and measured; None: here. Nor on that.
        progress: Called with the share that is done.

    Returns:
        A memory-mapped record with a row for each model and variant, the signals asked for, ``label``, ``public`` (if
        any), ``family`` (if there are groups of several: their samples depend on each other), ``params_hash``,
        membership, and ``calibration`` if a variant was calibrated.

    Raises:
        ValueError: Data or settings that do not fit.
        Diverged: A model's parameters stopped being finite.
        StoreError: The directory cannot be used.

    Example:
        >>> import tempfile
        >>> from discreet.mlp import MLP
        >>> from discreet.recipe import Recipe
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.standard_normal((40, 8), dtype=np.float32), np.arange(40) % 2
        >>> plan = BankSettings(MLP((8, 4, 1)), Recipe(epochs=2), models=4, variants=("full", "sign"))
        >>> record = bank(tempfile.mkdtemp(), plan, x, y, public=np.arange(30, 40))
        >>> record.variants, record.member.sum(axis=1).tolist()
        (('full', 'sign'), [15, 15, 15, 15])
    """
    store = store if isinstance(store, Store) else Store(store)
    work = _Work(store, settings, torch.as_tensor(x), as_labels(y), public, group, sample, workers)
    tell = progress or (lambda share: None)
    work.check()
    with store.lock():
        units = work.units
        total, done, parts = len(units) * (len(settings.compressors) + 2), 0, []
        if backend is not None:
            _elsewhere(work, backend, tell)
        for unit in units:
            params = work.weights(unit)
            done += 2
            tell(done / total)
            for variant in settings.compressors:
                parts.append(work.measured(unit, variant, params))
                done += 1
                tell(done / total)
        ordered = [
            part for v in range(len(settings.compressors)) for part in parts[v :: len(settings.compressors)]
        ]
        key = store.key("release/bank.safetensors", parts=[key for key, _ in ordered])
        return Record.open(store.make(key, lambda aside: join([path for _, path in ordered], aside)))


def _elsewhere(work: _Work, backend: Backend, tell: Callable[[float], None]) -> None:
    """Make what is missing of the units on a backend; what is there is only read afterwards."""
    missing = [unit for unit in work.units if not all(map(work.store.has, work.keys(unit)))]
    gone = len(work.units) - len(missing)

    def done(number: int, seconds: float) -> None:
        del number, seconds
        nonlocal gone
        gone += 1
        tell(0.98 * gone / len(work.units))

    make_elsewhere(backend, work.store, _make_unit, work, missing, keys=work.keys, done=done)


def _make_unit(work: _Work, unit: range, store: Store) -> None:
    work = replace(moved(work, store), workers=1)
    params = work.weights(unit)
    for variant in work.settings.compressors:
        work.measured(unit, variant, params)


@dataclass(frozen=True, eq=False)
class _Work:
    """The data of a bank and how each of its artefacts is made."""

    store: Store
    settings: BankSettings
    x: Tensor
    y: Tensor
    public: np.ndarray | None
    group: np.ndarray | None
    sample: np.ndarray | None
    workers: int | None

    def check(self) -> None:
        """Refuse what does not fit before anything is trained."""
        if len(self._ids) != len(self.x):
            raise ValueError(
                f"sample: expected one id for each of {len(self.x)} samples, got {len(self._ids)}"
            )

    @cached_property
    def units(self) -> list[range]:
        """Models that are trained together."""
        models, size = self.settings.models, self.settings.unit
        return [range(start, min(start + size, models)) for start in range(0, models, size)]

    @cached_property
    def assignment(self) -> Assignment:
        """Who trains on what."""
        if not len(self.x) == len(self.y):
            raise ValueError(f"y: expected one label for each of {len(self.x)} samples, got {len(self.y)}")
        return assign(
            len(self.x), self.settings.models, public=self.public, group=self.group, seed=self.settings.seed
        )

    @cached_property
    def _training(self) -> dict[str, Any]:
        """All that trained weights depend on, but the models' numbers."""
        return {
            "model": identity(self.settings.model),
            "recipe": self.settings.recipe.to_json(),
            "loss": code_of(self.settings.recipe.loss),
            "seed": self.settings.seed,
            "x": self.x.numpy(),
            "y": self.y.numpy(),
            "versions": {name: metadata.version(name) for name in ("discreet", "torch")},
        }

    @cached_property
    def _content(self) -> str:
        """A key of the training without its models: the data is hashed once."""
        return self.store.key("content", **self._training)

    def _weights_key(self, unit: range) -> str:
        subsets = self.assignment.member[list(unit)]
        name = f"weights/models-{unit[0]}-{unit[-1]}.safetensors"
        return self.store.key(name, training=self._content, models=list(unit), subsets=subsets)

    def weights(self, unit: range) -> Callable[[], dict[str, Tensor]]:
        """Train a unit if it is not there; its weights are read when they are needed."""
        key = self._weights_key(unit)

        def write(aside: Path) -> None:
            subsets = np.stack([self.assignment.subset(model) for model in unit])
            params = train(
                self.settings.model,
                self.x,
                self.y,
                subsets,
                self.settings.recipe,
                seed=self.settings.seed,
                model_ids=list(unit),
                workers=self.workers,
            )
            aside.write_bytes(save({name: value.contiguous() for name, value in params.items()}))

        path = self.store.make(key, write)
        return lambda: load_file(path)

    def keys(self, unit: range) -> tuple[str, ...]:
        """All that a unit leaves in the store."""
        return (
            self._weights_key(unit),
            *(self._measured_key(unit, each) for each in self.settings.compressors),
        )

    def _measured_key(self, unit: range, variant: str) -> str:
        settings = self.settings
        return self.store.key(
            f"release/parts/models-{unit[0]}-{unit[-1]}-{variant[:40]}.safetensors",
            weights=self._weights_key(unit),
            variant=variant,
            compressor=content_of(settings.compressors[variant]),
            which=list(settings.which),
            queries=self._asked,
            task=settings.measured_as,
            calibration=self._calibration(unit, variant),
            calibrates=self._calibrates,
            public=self.assignment.public,
            family=self._family,
            sample=self._ids,
        )

    def measured(
        self, unit: range, variant: str, params: Callable[[], dict[str, Tensor]]
    ) -> tuple[str, Path]:
        """Compress and measure one variant of a unit if that is not there."""
        settings, compressor = self.settings, self.settings.compressors[variant]
        calibration = self._calibration(unit, variant)
        key = self._measured_key(unit, variant)

        def write(aside: Path) -> None:
            rows = None if calibration is None else [torch.from_numpy(each) for each in calibration]
            dense = compress(as_model(settings.model), params(), compressor, self.x, self.y, rows)
            self._record(unit, variant, dense, calibration).save(aside)

        return key, self.store.make(key, write)

    @cached_property
    def _ids(self) -> np.ndarray:
        return np.arange(len(self.x)) if self.sample is None else laws.ids(np.asarray(self.sample))

    @cached_property
    def _family(self) -> np.ndarray | None:
        """Numbers of groups, if any has several samples."""
        if self.group is None or len(np.unique(self.group)) == len(self.group):
            return None
        return np.unique(self.group, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def _asked(self) -> list[Any]:
        """Queries by name, code and what they make of the first samples: another function may have an old name."""
        queries = self.settings.queries or {}
        return [[name, code_of(query), query(self.x[:4]).numpy()] for name, query in queries.items()]

    @cached_property
    def _calibrates(self) -> bool:
        return any(map(is_calibrated, self.settings.compressors.values()))

    def _calibration(self, unit: range, variant: str) -> np.ndarray | None:
        settings = self.settings
        if not is_calibrated(settings.compressors[variant]) or not settings.calibration:
            return None
        return np.stack(
            [
                draw_calibration(
                    self.assignment, model, settings.calibration, settings.calibrate_on, settings.seed
                )
                for model in unit
            ]
        )

    def _record(
        self, unit: range, variant: str, dense: Mapping[str, Tensor], calibration: np.ndarray | None
    ) -> Record:
        settings = self.settings
        model = as_model(settings.model)
        found = measure_stack(
            model,
            {variant: dense},
            self.x if settings.queries else self._inputs,
            self.y,
            settings.measured_as,
            which=settings.which,
            queries=settings.queries,
            dtype=np.float32,
            workers=self.workers,
        )
        signals = {name: values[:, 0] for name, values in found.items()}
        axes = {name: axes_of(name, query=settings.queries is not None) for name in signals}
        signals |= {"label": self.y.numpy(), "params_hash": fingerprints(dense, self.workers)}
        axes |= {"params_hash": ("row",), "label": ("sample", "target")[: self.y.ndim]}
        if self.assignment.public.any():
            signals["public"] = self.assignment.public.astype(np.int8)
        if self._family is not None:
            signals["family"] = self._family
        flags = None
        if self._calibrates:
            flags = np.zeros((len(unit), 1, len(self.x)), bool)
            for row, rows in enumerate(() if calibration is None else calibration):
                flags[row, 0, rows] = True
        return Record(
            run=tuple(map(str, unit)),
            step=np.full(len(unit), float(settings.recipe.epochs)),
            variant=(variant,) * len(unit),
            sample=self._ids,
            signals=signals,
            axes=axes,
            member=self.assignment.member[list(unit)],
            calibration=flags,
            about={
                "task": settings.measured_as,
                "n_train": int(self.assignment.member[0].sum()),
                "recipe": settings.recipe.to_json(),
                "seed": settings.seed,
                "queries": list(settings.queries or ()),
            },
        )

    @cached_property
    def _inputs(self) -> Any:
        dtype = self.x.dtype if self.x.is_floating_point() else torch.float32
        return inputs(as_model(self.settings.model), self.x, dtype)
