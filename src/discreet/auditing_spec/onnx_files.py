"""Deployed ONNX files as they are, run by ONNX Runtime: one more variant of their run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool, Int, Num
from discreet.artefacts.onnx_file import load_onnx
from discreet.auditing_spec.existing import sha_of
from discreet.auditing_spec.outputs import Logits, logits_of, record_of
from discreet.auditing_spec.work import OneRecordEach, Work
from discreet.runs.units import Tick

__all__ = ["ONNX", "DeployedUnit", "ask_onnx", "run_onnx", "size_of"]

ONNX = "onnx"
"""Name of the variant that is a deployed file."""
_ROWS = 512
_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
_TYPES |= {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}


@dataclass(frozen=True, eq=False)
class DeployedUnit(OneRecordEach):
    """A deployed file of one run. See ``Unit``.

    Attributes:
        work: What all units share.
        number: Of the run.
        path: The file.
        step: Of the checkpoint that it was made from.
        member: Which of the released samples it was trained on.
        are_probabilities: What it returns; None of several columns, where each row says it by its sum.
    """

    work: Work
    number: int
    path: Path
    step: float
    member: Bool[np.ndarray, " released"]
    are_probabilities: bool | None = None
    ticks: int = 1

    @property
    def name(self) -> str:
        """See ``Unit``."""
        return f"file {self.path.name} of run {self.number}"

    def kept(self) -> tuple[str, str]:
        """See ``OneRecordEach``."""
        store, panel = self.work.store, self.work.panel
        content = {
            "content": self.work.content,
            "file": sha_of(self.path),
            "about": panel.about,
            "run": self.number,
            "step": self.step,
            "are_probabilities": self.are_probabilities,
        }
        name = f"run-{self.number}-onnx.safetensors"
        return (
            store.key(f"trajectory/{name}", evaluation=panel.evaluation, **content),
            store.key(
                f"release/{name}", released=panel.released, member=self.member, which=panel.which, **content
            ),
        )

    def do(self, tick: Tick) -> None:
        """See ``Unit``."""
        panel, store = self.work.panel, self.work.store
        nobody = np.zeros(len(panel.evaluation), bool)
        parts = ((panel.evaluation, nobody, None), (panel.released, self.member, panel.which))
        for key, (at, member, which) in zip(self._kept, parts, strict=True):
            store.make(key, lambda aside, told=(at, member, which): self._record(*told).save(aside))
        tick()

    @cached_property
    def _ask(self) -> Callable[[Tensor], Logits]:
        return run_onnx(self.path, self.work.panel.task, are_probabilities=self.are_probabilities)

    def _record(self, at: Int[np.ndarray, " part"], member: np.ndarray, which: Any) -> Any:
        outputs = {ONNX: self._ask(self.work.panel.x[torch.from_numpy(at)])}
        label = np.array([int(sha_of(self.path)[:16], 16)], np.uint64)
        run = str(self.number)
        return record_of(self.work.panel, at, run, self.step, outputs, member, which=which, hashes=label)


def run_onnx(
    source: Path | bytes, task: str, *, are_probabilities: bool | None = None
) -> Callable[[Num[Tensor, " sample *rest"]], Logits]:
    """A function that runs an ONNX model: inputs in, logits out.

    Args:
        source: See ``ask_onnx``. Probabilities become logarithms.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        are_probabilities: See ``logits_of``.

    Raises:
        ArtefactError, ValueError: See ``ask_onnx``.
    """
    ask = ask_onnx(source)
    return lambda x: logits_of(ask(x), task, are_probabilities=are_probabilities)


def ask_onnx(
    source: Path | bytes,
) -> Callable[[Num[Tensor, " sample *rest"]], Num[np.ndarray, " sample *out"]]:
    """A function that runs an ONNX model: inputs in, outputs as they are.

    Args:
        source: The file, or its bytes; it takes one input, and its first floating output with a row a sample counts.

    Raises:
        ArtefactError: ONNX Runtime cannot read it.
        ValueError: It takes several inputs or has no such output.
    """
    session = load_onnx(source).session
    where = "the ONNX model" if isinstance(source, bytes) else str(source)
    (entry, *others), outputs = session.get_inputs(), session.get_outputs()
    if others:
        raise ValueError(f"{where}: expected a model of one input, got {1 + len(others)}")
    floating = [
        each.name for each in outputs if each.type in ("tensor(float)", "tensor(double)", "tensor(float16)")
    ]
    if not floating:
        got = ", ".join(f"{each.name}: {each.type}" for each in outputs)
        raise ValueError(f"{where}: expected logits or probabilities among the outputs, got {got}")
    rows = entry.shape[0] if entry.shape and isinstance(entry.shape[0], int) else _ROWS

    def ask(x: Tensor) -> np.ndarray:
        given = x.numpy().astype(_TYPES.get(entry.type, np.float32), copy=False)
        found = []
        for start in range(0, len(given), rows):
            piece = given[start : start + rows]
            missing = rows - len(piece) if rows != _ROWS else 0  # a fixed number of rows is filled up
            piece = np.concatenate([piece, piece[:1].repeat(missing, axis=0)]) if missing else piece
            try:
                (values,) = session.run(floating[:1], {entry.name: piece})
            except Exception as error:  # its errors share no class but this
                reason = " ".join(str(error).split())[:200]
                raise ValueError(f"{where}: ONNX Runtime cannot run it on these samples: {reason}") from error
            found.append(values[: len(piece) - missing])
        return np.concatenate(found)

    return ask


def size_of(path: Path) -> dict[str, Any]:
    """Bytes of a file, and bits for each number in it."""
    import onnx

    size = path.stat().st_size
    graph = onnx.load(str(path), load_external_data=False).graph
    weights = sum(int(np.prod(each.dims)) for each in graph.initializer)
    return {"bits_per_weight": 8 * size / max(1, weights), "bytes": size, "levels": None}
