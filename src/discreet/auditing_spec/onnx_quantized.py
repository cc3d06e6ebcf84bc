"""What ONNX Runtime makes of the checkpoints that ship: exported, quantized to int8, kept, and run as files."""

from __future__ import annotations

import copy
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Num
from discreet.artefacts.onnx_file import save_onnx
from discreet.auditing_spec.existing import sha_of
from discreet.auditing_spec.onnx_files import run_onnx, size_of
from discreet.auditing_spec.outputs import record_of
from discreet.auditing_spec.training import TrainingUnit
from discreet.initial import as_model
from discreet.mlp import MLP
from discreet.records import Record
from discreet.runs.keeping import load_weights
from discreet.runs.units import Tick

__all__ = ["NAMES", "QuantizedUnit", "quantize_onnx"]

NAMES = {"dynamic": "onnx int8 dynamic", "static": "onnx int8 static"}
"""Names of the variants that ONNX Runtime makes."""
_CALIBRATION = 256


@dataclass(frozen=True, eq=False)
class QuantizedUnit:
    """Runs that train together, and int8 files of what they ship. See ``Unit``.

    Attributes:
        inner: The runs.
        kinds: ``"dynamic"``, ``"static"`` or both.
    """

    inner: TrainingUnit
    kinds: tuple[str, ...]

    @property
    def name(self) -> str:
        """See ``Unit``."""
        return self.inner.name

    @property
    def runs(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return self.inner.runs

    @property
    def ticks(self) -> int:
        """See ``Unit``."""
        return self.inner.ticks + 1

    @property
    def weights(self) -> tuple[str, ...]:
        """Keys of the shipped weights of each run."""
        return self.inner.weights

    @cached_property
    def files(self) -> Mapping[tuple[str, str], str]:
        """Keys of the int8 files, by run and kind."""
        import onnxruntime

        work = self.inner.work
        return {
            (run, kind): work.store.key(
                f"onnx/run-{run}-int8-{kind}.onnx",
                weights=weights,
                kind=kind,
                calibration=work.panel.validation[:_CALIBRATION] if kind == "static" else None,
                onnxruntime=onnxruntime.__version__,
            )
            for run, weights in zip(self.runs, self.weights, strict=True)
            for kind in self.kinds
        }

    def _records(self, folder: str) -> tuple[str, ...]:
        work, panel = self.inner.work, self.inner.work.panel
        at, which = (panel.evaluation, None) if folder == "trajectory" else (panel.released, panel.which)
        return tuple(
            work.store.key(
                f"{folder}/run-{run}-onnx.safetensors",
                files=[self.files[run, kind] for kind in self.kinds],
                samples=at,
                which=which,
                about=panel.about,
            )
            for run in self.runs
        )

    @property
    def trajectory(self) -> tuple[str, ...]:
        """See ``Unit``."""
        own = () if self.inner.shadow else self._records("trajectory")
        return (*self.inner.trajectory, *own)

    @property
    def release(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return (*self.inner.release, *self._records("release"))

    @property
    def keys(self) -> tuple[str, ...]:
        """See ``Unit``."""
        own = () if self.inner.shadow else self._records("trajectory")
        return (*self.inner.keys, *self.files.values(), *own, *self._records("release"))

    @property
    def sizes(self) -> dict[str, dict[str, Any]]:
        """What the files of the first run take on disk, by variant."""
        store = self.inner.work.store
        return {NAMES[kind]: size_of(store.path(self.files[self.runs[0], kind])) for kind in self.kinds}

    def do(self, tick: Tick) -> None:
        """See ``Unit``."""
        self.inner.do(tick)
        work, panel = self.inner.work, self.inner.work.panel
        members = work.member(self.inner.numbers)
        nobody = np.zeros(len(panel.evaluation), bool)
        for row, run in enumerate(self.runs):
            step = self._make_files(row)
            parts = [(self._records("release")[row], panel.released, members[row], panel.which)]
            if not self.inner.shadow:
                parts.append((self._records("trajectory")[row], panel.evaluation, nobody, None))
            for key, at, member, which in parts:
                work.store.make(
                    key,
                    lambda aside, told=(run, step, at, member, which): self._record(*told).save(aside),
                )
        tick()

    def _make_files(self, row: int) -> float:
        """Make the int8 files of a run; returns the step that ships."""
        work, run = self.inner.work, self.runs[row]
        weights, step = load_weights(work.store.path(self.weights[row]))
        if all(work.store.has(self.files[run, kind]) for kind in self.kinds):
            return step
        built = as_model(work.panel.network)
        module: nn.Module = built.module() if isinstance(built, MLP) else copy.deepcopy(built)
        module.load_state_dict(weights, strict=False)
        x = work.panel.x[torch.from_numpy(work.panel.validation[:_CALIBRATION])]
        made = quantize_onnx(module, x, self.kinds)
        for kind, data in made.items():
            work.store.make(self.files[run, kind], lambda aside, data=data: aside.write_bytes(data))
        return step

    def _record(self, run: str, step: float, at: np.ndarray, member: np.ndarray, which: Any) -> Record:
        work = self.inner.work
        x = work.panel.x[torch.from_numpy(at)]
        paths = {NAMES[kind]: work.store.path(self.files[run, kind]) for kind in self.kinds}
        task = work.panel.task
        ask = {name: run_onnx(path, task, are_probabilities=False) for name, path in paths.items()}
        outputs = {name: logits(x) for name, logits in ask.items()}
        hashes = np.array([int(sha_of(path)[:16], 16) for path in paths.values()], np.uint64)
        return record_of(work.panel, at, run, step, outputs, member, which=which, hashes=hashes)


def quantize_onnx(
    module: nn.Module, x: Num[Tensor, " row *rest"], kinds: tuple[str, ...]
) -> dict[str, bytes]:
    """Export a module and quantize the file to int8.

    Args:
        module: Takes one tensor and returns one.
        x: Inputs to compare the export on, and for ``"static"`` to calibrate on, at least 2 rows.
        kinds: ``"dynamic"`` (weights; activations as they come) or ``"static"`` (activations by calibration).

    Returns:
        Files, by kind.

    Raises:
        ArtefactError: PyTorch cannot export the module.
        ModuleNotFoundError: onnx, onnxscript or onnxruntime is not installed (the extra ``onnx``).
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static

    class Rows(CalibrationDataReader):
        """The calibration samples, in small batches."""

        def __init__(self) -> None:
            self.left: Iterator[Tensor] = iter(x.split(32))

        def get_next(self) -> dict[str, np.ndarray] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
            piece = next(self.left, None)
            return None if piece is None else {"x": piece.numpy()}

    found = {}
    with tempfile.TemporaryDirectory() as scratch, _quiet():
        source = Path(scratch) / "full.onnx"
        save_onnx(source, module, x[:8])
        for kind in kinds:
            target = Path(scratch) / f"{kind}.onnx"
            if kind == "dynamic":
                quantize_dynamic(source, target, weight_type=QuantType.QInt8)
            else:
                quantize_static(source, target, Rows(), weight_type=QuantType.QInt8)
            found[kind] = target.read_bytes()
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the quantizer's advice, which speaks of other ways to call it."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(before)
