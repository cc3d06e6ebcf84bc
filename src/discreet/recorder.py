"""Quantize and measure while a model trains, so that no checkpoint needs to be kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._content import content_of, versions_of
from discreet._types import Bool, Num
from discreet.batches import Batches, measure_batches
from discreet.device import Device
from discreet.fingerprint import fingerprints
from discreet.forward import Model, Stack, count
from discreet.measure import inputs, measure_stack, stack_of
from discreet.quantizers import Quantizer, parse, quantize, quantize_stack
from discreet.recorder_parts import InFolder, InMemory, Parts
from discreet.records import Record, merge_runs
from discreet.sparse_inputs import SparseRows

__all__ = ["Recorder"]

_AT_ONCE = 1 << 26  # bytes of quantized weights held at a time

Quantizers = Sequence[str | Quantizer] | Mapping[str, str | Quantizer]


class Recorder:
    """Measures quantized checkpoints as they arise.

    Args:
        x: Inputs of the evaluation samples, or ``Batches`` where a model is not asked as ``model(x)``.
        y: Their labels.
        quantizers: Specs (or quantizers), each a variant named by its spec; a mapping gives other names.
        run: Label of the training run; for stacks one label a model.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        every: Measure only steps that this divides.
        model: The architecture of stacks, for ``step_stack``.
        folder: Run directory where each step is kept as it is measured. A recorder with the same settings takes the
            steps found there as its own; a killed run loses the step in flight at most. None: in memory.
        sample: Ids of the samples; 0, 1, 2, … when None.
        member: Which samples trained which run, [run, sample].
        about: JSON to keep with the record, such as ``n_train`` or a seed.
        dtype: Of loss and margin, ``"float32"`` or ``"float64"``; both are computed in float64.
        workers: Threads; None: one a core. Results do not depend on it.
        on: Where forward passes run, and how precisely; by default where the model is. Not for ``Batches``.

    Raises:
        ValueError: A quantizer twice, another number of labels than samples, or a setting out of range.

    Example:
        >>> recorder = Recorder(torch.zeros(5, 8), torch.tensor([0, 1, 0, 1, 0]), ["full", "sign"])
        >>> model = nn.Linear(8, 1)
        >>> recorder.step(model), recorder.step(model)
        (True, True)
        >>> recorder.record().signals["loss"].shape
        (4, 5)
    """

    def __init__(
        self,
        x: Tensor | np.ndarray | Batches,
        y: Tensor | np.ndarray,
        quantizers: Quantizers = ("full",),
        *,
        run: str | Sequence[str] = "0",
        task: str = "bce",
        every: int = 1,
        model: Model | None = None,
        folder: str | Path | None = None,
        sample: Num[np.ndarray, " sample"] | Sequence[str] | None = None,
        member: Bool[np.ndarray, "run sample"] | None = None,
        about: Mapping[str, Any] | None = None,
        dtype: str = "float32",
        workers: int | None = None,
        on: Device = Device(),  # noqa: B008 (frozen)
    ) -> None:
        if every < 1:
            raise ValueError(f"every: expected at least 1, got {every}")
        if dtype not in ("float32", "float64"):
            raise ValueError(f"dtype: expected float32 or float64, got {dtype!r}")
        if len(x) != len(y):
            raise ValueError(f"y: expected one label for each of {len(x)} samples, got {len(y)}")
        self.runs = (run,) if isinstance(run, str) else tuple(run)
        if isinstance(x, Batches) and on != Device():
            raise ValueError(
                f"on: batches are measured where the model is, as it computes; expected none, got {on}"
            )
        self.quantizers = _named(quantizers)
        self.task, self.every, self.model, self.workers = task, every, model, workers
        self.on = on
        self.overhead = 0.0
        """Seconds spent in ``step`` and ``step_stack`` so far."""
        self._x, self._y = x if isinstance(x, Batches) else _here(x), _here(y)
        self._ready: Tensor | SparseRows | None = None
        self._dtype = np.dtype(dtype).type
        self._sample = np.arange(len(y)) if sample is None else np.asarray(sample)
        self._member = member
        self._about = dict(about or {}) | self._settings()
        self._steps = 0
        self._parts: Parts = InMemory()
        if folder is not None:
            content = {"about": self._about, "runs": self.runs, "sample": self._sample, "member": member}
            self._parts = InFolder(folder, content)

    @property
    def steps(self) -> tuple[float, ...]:
        """The steps measured so far, ascending, those found in the folder included."""
        return tuple(step for step, _ in self._parts.all())

    def step(self, model: nn.Module, step: float | int | None = None) -> bool:
        """Measure one model, of the one run, now.

        Args:
            model: The model in training; it is left as it is.
            step: Number of the checkpoint; counted from 1 when None.

        Returns:
            Whether it was measured: ``every`` may skip it.

        Raises:
            ValueError: The recorder has several runs, or holds other weights for this step.
        """
        self._steps += 1
        number = float(self._steps if step is None else step)
        if number % self.every:
            return False
        if len(self.runs) != 1:
            raise ValueError(f"run: a single model is one run, but the recorder has {len(self.runs)}")
        names = list(full := stack_of(model))

        def variants() -> Iterator[tuple[str, Stack]]:
            for name, quantizer in self.quantizers.items():
                dense = quantize(model, quantizer).dense
                yield name, {key: dense[key][None] if key in dense else full[key] for key in names}

        self._timed(number, model, full, variants())
        return True

    def step_stack(self, step: float | int, params: Mapping[str, Tensor]) -> bool:
        """Measure all runs at once; ``train(..., on_checkpoint=recorder.step_stack)`` does so after each epoch.

        Args:
            step: Number of the checkpoint.
            params: One model a run.

        Returns:
            Whether it was measured: ``every`` may skip it.

        Raises:
            ValueError: No ``model`` was given, another number of models than runs, or other weights for this step.
        """
        if float(step) % self.every:
            return False
        if self.model is None:
            raise ValueError("model: give the recorder the architecture of the stack")
        if count([params]) != len(self.runs):
            raise ValueError(
                f"run: expected one label for each of {count([params])} models, got {len(self.runs)}"
            )
        variants = ((name, quantize_stack(params, each)) for name, each in self.quantizers.items())
        self._timed(float(step), self.model, params, variants)
        return True

    def record(self, out: str | Path | None = None) -> Record:
        """All steps measured so far as one record.

        Args:
            out: Where to write it, by a streaming copy; None for a record in memory.

        Raises:
            ValueError: Nothing was measured yet.
        """
        parts = [part for _, part in self._parts.all()]
        if not parts:
            raise ValueError("record: nothing was measured yet")
        return merge_runs(parts, out)

    def _timed(self, step: float, model: Model, full: Stack, variants: Iterator[tuple[str, Stack]]) -> None:
        start = time.perf_counter()
        given = fingerprints(full, self.workers)
        kept = self._parts.get(step)
        if kept is None:
            self._parts.put(step, self._measure(step, model, given, variants))
        elif not np.array_equal(kept.signals["weights_hash"][: len(given)], given):
            raise ValueError(
                f"step {step:g}: other weights were measured before; a recorder (and its folder) is for one training"
            )
        self.overhead += time.perf_counter() - start

    def _measure(
        self, step: float, model: Model, given: np.ndarray, variants: Iterator[tuple[str, Stack]]
    ) -> Record:
        hashes: dict[str, np.ndarray] = {}
        signals: dict[str, list[np.ndarray]] = {}
        for group in _groups(variants):
            hashes |= {name: fingerprints(stack, self.workers) for name, stack in group.items()}
            for name, values in self._ask(model, group).items():
                signals.setdefault(name, []).append(values.swapaxes(0, 1).reshape(-1, values.shape[-1]))
        variants_, runs = len(hashes), len(self.runs)
        return Record(
            run=self.runs * variants_,
            step=np.full(variants_ * runs, step),
            variant=tuple(name for name in hashes for _ in range(runs)),
            sample=self._sample,
            signals={name: np.concatenate(values) for name, values in signals.items()}
            | {
                "label": self._y.numpy(),
                "params_hash": np.concatenate(list(hashes.values())),
                "weights_hash": np.tile(given, variants_),
            },
            axes={
                "params_hash": ("row",),
                "weights_hash": ("row",),
                "label": ("sample", "target")[: self._y.ndim],
            },
            member=self._member,
            about=self._about,
        )

    def _ask(self, model: Model, group: dict[str, Stack]) -> dict[str, np.ndarray]:
        if isinstance(self._x, Batches):
            if not isinstance(model, nn.Module):
                raise ValueError(f"model: batches are for a module, got {type(model).__name__}")
            return measure_batches(model, group, self._x, self._y, self.task, self._dtype)
        if self._ready is None:
            self._ready = inputs(model, self._x)
        return measure_stack(
            model,
            group,
            self._ready,
            self._y,
            self.task,
            dtype=self._dtype,
            workers=self.workers,
            on=self.on,
        )

    def _settings(self) -> dict[str, Any]:
        """What the figures depend on besides the weights."""
        return {
            "task": self.task,
            "quantizers": {name: content_of(each) for name, each in self.quantizers.items()},
            "x_sha256": self._x.digest() if isinstance(self._x, Batches) else _digest(self._x),
            "y_sha256": _digest(self._y),
            "dtype": np.dtype(self._dtype).name,
            "torch": torch.__version__,
            **versions_of("discreet"),
        } | self.on.to_json()


def _named(quantizers: Quantizers) -> dict[str, Quantizer]:
    if isinstance(quantizers, str):
        raise ValueError(
            f"quantizers: expected several specs, got the one text {quantizers!r}; put it in a list"
        )
    pairs = quantizers.items() if isinstance(quantizers, Mapping) else ((None, each) for each in quantizers)
    named: dict[str, Quantizer] = {}
    for name, each in pairs:
        quantizer = parse(each) if isinstance(each, str) else each
        label = str(quantizer) if name is None else name
        if label in named:
            raise ValueError(f"quantizers: {label!r} occurs twice")
        named[label] = quantizer
    if not named:
        raise ValueError("quantizers: expected at least one, got none")
    return named


def _groups(variants: Iterator[tuple[str, Stack]]) -> Iterator[dict[str, Stack]]:
    """Variants to be measured together: as many as fit the memory meant for them, one at least."""
    group: dict[str, Stack] = {}
    size = 0
    for name, stack in variants:
        own = sum(value.nbytes for value in stack.values())
        if group and size + own > _AT_ONCE:
            yield group
            group, size = {}, 0
        group[name] = stack
        size += own
    yield group


def _here(values: Any) -> Tensor:
    """As a tensor in the memory of the processor, wherever a training keeps it."""
    return torch.as_tensor(values).detach().cpu()


def _digest(values: Tensor) -> str:
    return hashlib.sha256(values.contiguous().reshape(-1).view(torch.uint8).numpy().data).hexdigest()
