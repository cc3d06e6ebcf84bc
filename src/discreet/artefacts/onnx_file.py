"""ONNX: exported, read back by ONNX Runtime and compared before the file appears; no paths of this machine in it."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Num
from discreet.artefacts._errors import ArtefactError
from discreet.artefacts._file import write

__all__ = ["OnnxFile", "OnnxModel", "load_onnx", "save_onnx"]


@dataclass(frozen=True)
class OnnxFile:
    """What was written.

    Attributes:
        bytes: Size of the file; zeros take as much as other weights.
        difference: Largest difference of an output between ONNX Runtime and PyTorch on the given inputs.
        largest: Largest magnitude of an output.
        rows: Inputs compared.
        opset: Version of the operators.
    """

    bytes: int
    difference: float
    largest: float
    rows: int
    opset: int


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A model in ONNX Runtime, on one thread.

    Attributes:
        session: The runtime's own object.
    """

    session: Any

    def __call__(self, x: Num[Tensor, " rows *rest"] | np.ndarray) -> Num[np.ndarray, " rows *out"]:
        """Raw outputs, those of the first output if there are several."""
        return self.session.run(None, {self.session.get_inputs()[0].name: np.asarray(x)})[0]


def save_onnx(
    path: str | Path, module: nn.Module, x: Num[Tensor, " rows *rest"], *, tolerance: float = 1e-3
) -> OnnxFile:
    """Export a module in eval mode, with a free number of rows, and compare what ONNX Runtime makes of the file.

    Args:
        path: Where; the file appears only if its outputs agree.
        module: Takes one tensor and returns one; stays as it is.
        x: Inputs to compare on, at least 2 rows.
        tolerance: Largest difference allowed, relative to the largest output.

    Raises:
        ArtefactError: PyTorch cannot export the module, the outputs disagree, or the file cannot be written.
        ModuleNotFoundError: onnx, onnxscript or onnxruntime is not installed (the extra ``onnx``).
    """
    if len(x) < 2:
        raise ArtefactError(f"x: expected at least 2 rows to compare on, got {len(x)}")
    still = copy.deepcopy(module).eval()
    proto = _exported(still, x)
    data = proto.SerializeToString(deterministic=True)
    model = load_onnx(data)
    with torch.no_grad():
        expected = still(x).numpy()
    # one row and all of them: the number of rows must not be part of the graph
    difference = max(_difference(model, x[:rows], expected[:rows]) for rows in (1, len(x)))
    largest = float(np.abs(expected).max())
    if not difference <= tolerance * max(largest, 1e-6):
        raise ArtefactError(
            f"module: outputs of ONNX Runtime differ from PyTorch's by up to {difference:.3g}, allowed is"
            f" {tolerance:g} of the largest output ({largest:.3g}); nothing was written"
        )
    write(path, data)
    return OnnxFile(len(data), difference, largest, len(x), proto.opset_import[0].version)


def load_onnx(source: str | Path | bytes) -> OnnxModel:
    """A model from an ONNX file or its bytes, on one thread of the processor.

    Raises:
        ArtefactError: ONNX Runtime cannot read it.
        ModuleNotFoundError: onnxruntime is not installed.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    given = source if isinstance(source, bytes) else str(source)
    try:
        return OnnxModel(onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"]))
    except Exception as error:  # its errors share no class but this
        where = "the file" if isinstance(source, bytes) else source
        raise ArtefactError(f"{where}: ONNX Runtime cannot read it: {str(error).splitlines()[0]}") from error


def _exported(module: nn.Module, x: Tensor) -> Any:
    import onnx  # noqa: F401  (torch asks for it late and in other words)
    import onnxscript  # noqa: F401

    with _quiet():
        try:
            program = torch.onnx.export(
                module,
                (x[:2],),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("rows")},),
                input_names=["x"],
                output_names=["outputs"],
                verbose=False,
            )
        except Exception as error:
            reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
            raise ArtefactError(f"module: PyTorch cannot export it to ONNX: {reason}") from error
    if program is None:
        raise ArtefactError("module: PyTorch cannot export it to ONNX")
    proto = program.model_proto
    _forget(proto)
    return proto


def _forget(proto: Any) -> None:
    """Remove what the exporter notes of source files: paths of this machine, in no use to a reader."""
    proto.ClearField("metadata_props")
    for graph in (proto.graph, *proto.functions):
        graph.ClearField("metadata_props")
        graph.ClearField("doc_string")
        for group in ("node", "initializer", "value_info", "input", "output"):
            for each in () if graph is not proto.graph and group != "node" else getattr(graph, group):
                each.ClearField("metadata_props")
                each.ClearField("doc_string")


def _difference(model: OnnxModel, x: Tensor, expected: np.ndarray) -> float:
    try:
        found = model(x)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ArtefactError(f"module: ONNX Runtime cannot run it on {len(x)} rows: {reason}") from error
    if found.shape != expected.shape:
        raise ArtefactError(
            f"module: expected outputs of shape {list(expected.shape)}, ONNX Runtime gave {list(found.shape)}"
        )
    return float(np.abs(found.astype(np.float64) - expected).max())


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks about itself."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
